"""An authority and a server certificate for 127.0.0.1, made anew for each test run, and the clients' TLS settings."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Certificates:
    """
    Paths of PEM files and of a client's settings.

    @ivar authority: the certificate that clients trust.
    @ivar certificate: the server's.
    @ivar key: its private key, PKCS 8, readable by its owner only.
    @ivar client: a C{tls.properties} for the official client: trust the authority alone and check the server by it.
    @ivar stranger: the same, trusting another authority.
    @ivar identity: as C{client}, with a certificate of the authority for the common name C{orders-client}.
    """

    authority: str
    certificate: str
    key: str
    client: str
    stranger: str
    identity: str

    @classmethod
    def make(cls, folder: str) -> Certificates:
        """Make all of it in C{folder}."""
        os.makedirs(folder, exist_ok=True)
        authority_key = ec.generate_private_key(ec.SECP256R1())
        authority = _certificate("interop authority", authority_key, None, authority_key)
        other_key = ec.generate_private_key(ec.SECP256R1())
        other = _certificate("another authority", other_key, None, other_key)
        server_key = ec.generate_private_key(ec.SECP256R1())
        server = _certificate("localhost", server_key, authority, authority_key)

        def write(name: str, data: bytes) -> str:
            path = os.path.join(folder, name)
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(data)
            return path

        pem = serialization.Encoding.PEM
        own_key = ec.generate_private_key(ec.SECP256R1())
        own = write("own.pem", _certificate("orders-client", own_key, authority, authority_key).public_bytes(pem))
        private, own_private = (
            one.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
            for one in (server_key, own_key)
        )  # netty reads no other form
        more = f"tls.client.certPath={own}\ntls.client.keyPath={write('own.key', own_private)}\n"
        trusted = write("authority.pem", authority.public_bytes(pem))
        untrusted = write("another.pem", other.public_bytes(pem))
        settings = "tls.test.mode.enable=false\ntls.client.authServer=true\ntls.client.trustCertPath={}\n"
        return cls(
            authority=trusted,
            certificate=write("server.pem", server.public_bytes(pem)),
            key=write("server.key", private),
            client=write("client.properties", settings.format(trusted).encode()),
            stranger=write("stranger.properties", settings.format(untrusted).encode()),
            identity=write("identity.properties", (settings.format(trusted) + more).encode()),
        )


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if issuer is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())
