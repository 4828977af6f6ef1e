"""Certificates and keys, and what is agreed on in a handshake."""

from __future__ import annotations

import ssl
import warnings
from collections.abc import Sequence
from typing import Any

from OpenSSL import SSL
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.net.tls import ClientCertificates, ClientTLS, KeyFiles, ServerTLS, read_certificates, read_key, wrap
from tests.fakes import FakeEnvironment
from tests.remoting.certificates import Authority, place

AUTHORITY = Authority()


class Case(SynchronousTestCase):
    """A world with certificates in it."""

    kind = "EC"

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.trust = place(self.env.files, "/ca.pem", AUTHORITY.pem)
        certificate, key = AUTHORITY.issue("localhost", "127.0.0.1", kind=self.kind)
        self.certificate = place(self.env.files, "/server.pem", certificate)
        self.key = place(self.env.files, "/server.key", key)

    def server_tls(self, **options: Any) -> ServerTLS:
        """For a server with the certificate made above."""
        return ServerTLS(self.env, KeyFiles(self.certificate, self.key), **options)


class FileTests(Case):
    """Certificates and keys."""

    def test_good(self) -> None:
        """A certificate, a chain, a key and an encrypted key are read."""
        place(self.env.files, "/chain.pem", AUTHORITY.issue("a")[0] + AUTHORITY.pem)
        self.assertEqual(len(read_certificates(self.env.files, "/chain.pem")), 2)
        place(self.env.files, "/locked.key", AUTHORITY.issue("a", password="geheim")[1])
        self.assertEqual(read_key(self.env.files, "/locked.key", "geheim").bits(), 256)
        self.assertIsInstance(self.server_tls(), ServerTLS)

    def test_readable_by_others(self) -> None:
        """A private key that others may read or change is refused, in one sentence that names it (reliability X9)."""
        for mode, good in (
            (0o600, True), (0o400, True), (0o640, True), (0o644, False), (0o660, False), (0o604, False), (0o602, False),
        ):  # fmt: skip
            self.env.files.modes[self.key] = mode
            if good:
                self.server_tls()
            else:
                self.assertIn(self.key, str(self.assertRaises(SettingError, self.server_tls)))

    def test_wrong_files(self) -> None:
        """Missing files, other content, wrong passwords and keys of other certificates are settings errors."""
        place(self.env.files, "/rubbish", b"rubbish")
        place(self.env.files, "/other.key", AUTHORITY.issue("a")[1])
        place(self.env.files, "/locked.key", AUTHORITY.issue("a", password="geheim")[1])
        for certificate, key, password in (
            ("/missing", self.key, None), (self.certificate, "/missing", None), ("/rubbish", self.key, None),
            (self.certificate, "/rubbish", None), (self.certificate, "/other.key", None),
            (self.certificate, "/locked.key", None), (self.certificate, "/locked.key", "wrong"),
            (self.certificate, self.key, "needless"),
        ):  # fmt: skip
            self.assertRaises(SettingError, ServerTLS, self.env, KeyFiles(certificate, key, password))
            self.assertRaises(
                SettingError, ClientTLS, self.env, trust=self.trust, certificate=certificate, key=key, password=password
            )

    def test_password_unsaid(self) -> None:
        """What is said of a key that cannot be read names its file, and not the password that was tried."""
        place(self.env.files, "/locked.key", AUTHORITY.issue("a", password="geheim")[1])
        for key, password in (("/locked.key", "wrong-word"), (self.key, "wrong-word"), ("/ca.pem", "wrong-word")):
            said = str(self.assertRaises(SettingError, read_key, self.env.files, key, password))
            self.assertIn(key, said)
            self.assertNotIn("wrong-word", said)

    def test_half_settings(self) -> None:
        """A client certificate without key, or asking clients without trusting anybody, is refused."""
        self.assertRaises(SettingError, ClientTLS, self.env, certificate=self.certificate)
        self.assertRaises(SettingError, ClientTLS, self.env, key=self.key)
        self.assertRaises(SettingError, self.server_tls, clients=ClientCertificates.REQUIRE)
        self.assertRaises(SettingError, ClientTLS, self.env, trust="/missing")


class Served:
    """The protocol that is protected at the server's end."""

    def __init__(self) -> None:
        self.data = b""
        self.ready = False
        self.reason: Failure | None = None

    def layer(self, factory: TLSMemoryBIOFactory) -> TLSMemoryBIOProtocol:
        """Protect it."""
        return wrap(factory, self.received, self.secured, self.lost)

    def received(self, data: bytes) -> None:
        """Keep it."""
        self.data += data

    def secured(self) -> None:
        """Note it."""
        self.ready = True

    def lost(self, reason: Failure) -> None:
        """Note it."""
        self.reason = reason


class Wire(StringTransport):
    """A transport in memory."""

    def abortConnection(self) -> None:
        """Note it."""
        self.disconnecting = True


def shake(factory: TLSMemoryBIOFactory, context: ssl.SSLContext) -> tuple[ssl.SSLObject, Served]:
    """
    Let a client of Python's own shake hands with a server of ours, and say hello.

    @raise ssl.SSLError: they do not agree.
    """
    served = Served()
    wire = Wire()
    layer = served.layer(factory)
    layer.makeConnection(wire)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    for _ in range(10):
        try:
            client.do_handshake()
            break
        except ssl.SSLWantReadError:
            layer.dataReceived(outgoing.read())
            incoming.write(wire.value())
            wire.clear()
    client.write(b"hello")
    layer.dataReceived(outgoing.read())
    return client, served


def client_context(version: ssl.TLSVersion | None = None, ciphers: str = "", offer: Sequence[str] = ()) -> Any:
    """Return how a client of Python's own connects: by this version alone, with these ciphers and this ALPN."""
    context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old versions are what is tried
        if version is not None:
            context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    if offer:
        context.set_alpn_protocols(offer)
    return context


class AgreementTests(Case):
    """Agreements with a server whose key is good for RSA key exchange, too."""

    kind = "RSA"

    def test_forward_secrecy(self) -> None:
        """TLS 1.3, and TLS 1.2 by ephemeral Diffie-Hellman with an AEAD cipher, whatever else the client can."""
        factory = self.server_tls().factory()
        for version, ciphers in (
            (None, ""),
            (ssl.TLSVersion.TLSv1_3, ""),
            (ssl.TLSVersion.TLSv1_2, ""),
            (ssl.TLSVersion.TLSv1_2, "ALL"),
            (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-GCM-SHA256"),  # which Java 8 has
            (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-CHACHA20-POLY1305"),
        ):
            client, served = shake(factory, client_context(version, ciphers))
            self.assertTrue(served.ready)
            self.assertEqual(served.data, b"hello")
            name, protocol, _ = client.cipher() or ("", "", 0)
            if protocol == "TLSv1.2":
                self.assertRegex(name, "^ECDHE-RSA-(AES(128|256)-GCM-SHA(256|384)|CHACHA20-POLY1305)$")
            else:
                self.assertEqual(protocol, "TLSv1.3")

    def test_without_forward_secrecy(self) -> None:
        """RSA key exchange, CBC, ciphers without encryption or a certificate, and TLS 1.1 and older are refused."""
        factory = self.server_tls().factory()
        for version, ciphers in (
            (ssl.TLSVersion.TLSv1_2, "kRSA"),
            (ssl.TLSVersion.TLSv1_2, "AES128-SHA"),
            (ssl.TLSVersion.TLSv1_2, "AES128-GCM-SHA256"),
            (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES128-SHA256"),
            (ssl.TLSVersion.TLSv1_2, "ECDHE-RSA-AES256-SHA"),
            (ssl.TLSVersion.TLSv1_2, "DHE"),
            (ssl.TLSVersion.TLSv1_2, "NULL"),
            (ssl.TLSVersion.TLSv1_2, "aNULL"),
            (ssl.TLSVersion.TLSv1_1, "ALL"),
            (ssl.TLSVersion.TLSv1, "ALL"),
        ):
            context = client_context(version, ciphers)
            error = self.assertRaises(ssl.SSLError, shake, factory, context)
            said = "handshake failure" if version is ssl.TLSVersion.TLSv1_2 else "protocol version"
            self.assertIn(f"alert {said}", str(error).lower(), (version, ciphers))

    def test_client_offers(self) -> None:
        """What we offer as a client has forward secrecy, too, and is TLS 1.2 or newer."""
        layer: Any = Served().layer(ClientTLS(self.env, trust=self.trust).factory("localhost"))
        wire = Wire()
        layer.makeConnection(wire)
        names = [name for name in layer.getHandle().get_cipher_list() if not name.startswith("TLS_")]
        self.assertTrue(names)
        for name in names:
            self.assertRegex(name, "^ECDHE-(RSA|ECDSA)-.*(GCM-SHA(256|384)|CHACHA20-POLY1305)$")
        for version, good in ((ssl.TLSVersion.TLSv1_1, False), (ssl.TLSVersion.TLSv1_2, True)):
            server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                server.minimum_version = ssl.TLSVersion.TLSv1
                server.maximum_version = version
            server.set_ciphers("ALL:@SECLEVEL=0")
            incoming = ssl.MemoryBIO()
            incoming.write(wire.value())
            accepting = server.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
            error = self.assertRaises(ssl.SSLError, accepting.do_handshake)  # there is no certificate
            self.assertEqual("unsupported protocol" not in str(error).lower(), good, error)

    def test_no_tickets(self) -> None:
        """No session can be resumed: the key of its tickets would read all of them for as long as the process lives."""
        factory = self.server_tls().factory()
        client, _ = shake(factory, client_context(ssl.TLSVersion.TLSv1_2))
        self.assertFalse(client.session is not None and client.session.has_ticket)

    def test_protocols(self) -> None:
        """Of the protocols that a client offers by ALPN ours is chosen; where there is none the client is let in."""
        for ours, offered, chosen in (
            ((b"http/1.1",), (), None),
            ((b"http/1.1",), ("http/1.1",), "http/1.1"),
            ((b"http/1.1",), ("h2", "http/1.1"), "http/1.1"),
            ((b"http/1.1",), ("h2",), None),
            ((), ("h2", "http/1.1"), None),
            ((), ("http/1.1",), None),
        ):
            factory = self.server_tls(protocols=ours).factory()
            client, served = shake(factory, client_context(offer=offered))
            self.assertEqual(client.selected_alpn_protocol(), chosen, (ours, offered))
            self.assertEqual(served.data, b"hello")

    def test_context_stays(self) -> None:
        """All connections of a server have one context, which nothing changes once there is one."""
        factory = self.server_tls().factory()
        layers: list[Any] = [Served().layer(factory) for _ in range(2)]
        for layer in layers:
            layer.makeConnection(Wire())
        first, second = (layer.getHandle() for layer in layers)
        self.assertIsInstance(first, SSL.Connection)
        self.assertIs(first.get_context(), second.get_context())
