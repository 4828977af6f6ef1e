"""Certificates for tests, made when needed."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from tests.fakes import FakeFiles

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Authority:
    """
    An authority that signs what it is asked to.

    @ivar pem: its certificate.
    """

    def __init__(self, name: str = "test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(self._name, self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(
        self, *names: str, password: str | None = None, kind: str = "EC", subject: x509.Name | None = None
    ) -> tuple[bytes, bytes]:
        """
        Return a certificate for DNS names, IP addresses or URIs, and its private key, both as PEM.

        @param kind: C{EC} or C{RSA}.
        @param subject: C{None}: the first name as common name.
        """
        key: Key = ec.generate_private_key(ec.SECP256R1()) if kind == "EC" else rsa.generate_private_key(65537, 2048)
        if subject is None:
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        builder = _builder(subject, self._name, key.public_key())
        if names:
            others = x509.SubjectAlternativeName([_general(name) for name in names])
            builder = builder.add_extension(others, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password.encode())
        return (
            certificate.public_bytes(serialization.Encoding.PEM),
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption),
        )


def _general(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _builder(subject: x509.Name, issuer: x509.Name, key: Any) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return x509.CertificateBuilder(
        issuer, subject, key, x509.random_serial_number(), now - timedelta(days=1), now + timedelta(days=1)
    )


def place(files: FakeFiles, path: str, data: bytes, mode: int = 0o600) -> str:
    """Put a file where the product finds it; return its path."""
    if files.exists(path):
        files.remove(path)
    files.create(path, data)
    files.modes[path] = mode
    return path
