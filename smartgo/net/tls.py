"""
TLS for all ports: 1.2 or newer with forward secrecy, sniffed by the first byte, clients verify whom they talk to.

TLS 1.2 is limited to ephemeral Diffie-Hellman on elliptic curves with an AEAD cipher; all suites of TLS 1.3 are such.
Whatever protocols a client offers by ALPN, the handshake goes on: one of ours is chosen where there is one in common,
and no answer is given otherwise, as from a server that does not know ALPN.

Certificates and keys are PEM files. A private key that others may read is refused (reliability X9). Everything is read
when these classes are made and by C{reload}; a reload that fails changes nothing, one that succeeds is for the
handshakes from then on.

Source of the modes and of the names of the settings: C{remoting/netty/TlsSystemConfig.java}.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from OpenSSL.crypto import X509, PKey
from OpenSSL.SSL import Error as OpenSSLError
from service_identity import VerificationError
from twisted.internet.interfaces import (
    IHandshakeListener,
    IOpenSSLClientConnectionCreator,
    IOpenSSLServerConnectionCreator,
    IProtocol,
)
from twisted.internet.ssl import (
    AcceptableCiphers,
    Certificate,
    CertificateOptions,
    TLSVersion,
    optionsForClientTLS,
    platformTrust,
    trustRootFromCertificates,
)
from twisted.protocols.tls import TLSMemoryBIOFactory, TLSMemoryBIOProtocol
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment, IFiles
from smartgo.errors import FramingError, SettingError
from smartgo.net.tlslayer import TLSLayer

CLIENT_HELLO: Final = 0x16
"""The first byte of TLS. No plain protocol of ours begins with it."""
CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""What TLS 1.2 may use, in the words of OpenSSL; TLS 1.3 has suites of its own, all of them good."""

_SESSION_ID_SIZE: Final = 16
_FORBIDDEN_MODE: Final = 0o027  # group may read (as distributions' ssl-cert groups do), others nothing
_NAMES_KEPT: Final = 256
_MEANINGS: Final = {
    "wrong version number": "the other side does not speak TLS here",
    "http request": "the other side speaks plain HTTP",
    "tlsv13 alert certificate required": "the other side wants a client certificate",
}
"""What OpenSSL's sentences mean to those who do not know the protocol."""


class Mode(StrEnum):
    """The kinds of connections that a listener accepts (C{tls.server.mode})."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientCertificates(StrEnum):
    """The client certificates that a listener asks for (C{tls.server.need.client.auth})."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class PlainRefused(FramingError):
    """A client that does not speak TLS where it must."""


class TLSRefused(FramingError):
    """A client that speaks TLS where there is none."""


class HandshakeFailed(FramingError):
    """TLS could not be agreed on, or the other side is not who it must be."""


class _Factory(TLSMemoryBIOFactory):
    """TLS without a buffer of its own: what comes to be written was collected before."""

    protocol = TLSLayer


@implementer(IProtocol, IHandshakeListener)
class _Inside:
    """The protocol that TLS is given as the one to protect."""

    def __init__(
        self, received: Callable[[bytes], None], secured: Callable[[], object], lost: Callable[[Failure], object]
    ) -> None:
        self.factory = None
        self.dataReceived = received
        self._secured = secured
        self._lost = lost

    def logPrefix(self) -> str:
        """Name of the protocol in old-style logs."""
        return "TLS"

    def makeConnection(self, transport: object) -> None:
        """Never called: the protocol had its transport before."""

    def connectionMade(self) -> None:
        """Do nothing; it is never called either."""

    def handshakeCompleted(self) -> None:
        """The peer is verified as far as it must be."""
        self._secured()

    def connectionLost(self, reason: Failure) -> None:
        """TLS is over, and so is the transport."""
        self._lost(reason)


def wrap(
    factory: TLSMemoryBIOFactory,
    received: Callable[[bytes], None],
    secured: Callable[[], object],
    lost: Callable[[Failure], object],
) -> TLSLayer:
    """
    Return a layer of TLS for a protocol that is connected already.

    It is a protocol for the transport (C{makeConnection} starts the handshake) and a transport for the protocol.
    Twisted's C{startTLS} does the same, but on its own transports alone and with timers of the global reactor.

    @param received: is given what was deciphered.
    @param secured: called when the handshake has succeeded: the peer is verified as far as it must be.
    @param lost: is told why TLS is over, and so is the transport.
    """
    return TLSLayer(factory, _Inside(received, secured, lost), False)


def readable(reason: Failure) -> Failure:
    """Return the reason of a connection's end, in words where TLS gave an error queue or a list of mismatches."""
    error = reason.value
    if isinstance(error, OpenSSLError):
        why = _plain(error)
        return Failure(HandshakeFailed(f"TLS: {_MEANINGS.get(why, why)}"))
    if isinstance(error, VerificationError):
        asked = ", ".join(str(one.mismatched_id) for one in error.errors)
        return Failure(HandshakeFailed(f"TLS: the certificate is not for the host that was dialled ({asked})"))
    return reason


@implementer(IOpenSSLServerConnectionCreator)
class _Accepting:
    """Makes the server's side of TLS connections, all from one context that nobody changes any more."""

    def __init__(self, context: SSL.Context) -> None:
        self._context = context

    def serverConnectionForTLS(self, protocol: TLSMemoryBIOProtocol) -> SSL.Connection:
        """Make the server's side of one connection."""
        return SSL.Connection(self._context, None)


class KeyFiles(NamedTuple):
    """The files by which a listener proves who it is."""

    certificate: str
    """Path of the certificate, followed by intermediate ones if there are any."""
    key: str
    """Path of its private key."""
    password: str | None = None
    """What the key is encrypted with."""


class ServerTLS:
    """
    The TLS of a listener.

    @ivar mode: see L{Mode}.
    """

    def __init__(
        self,
        env: IEnvironment,
        own: KeyFiles,
        mode: Mode = Mode.PERMISSIVE,
        trust: str | None = None,
        clients: ClientCertificates = ClientCertificates.NONE,
        protocols: Sequence[bytes] = (),
    ) -> None:
        """
        @param own: the files of our certificate.
        @param trust: path of the authorities that clients' certificates must come from.
        @param protocols: what to choose of the protocols that a client offers by ALPN, the best first.
        @raise SettingError: a file is missing, unreadable, too readable, or does not fit the others.
        """
        if clients is not ClientCertificates.NONE and trust is None:
            raise SettingError("client certificates are required, but no authority is trusted")
        self.mode = mode
        self._env = env
        self._own = own
        self._trust = trust
        self._clients = clients
        self._protocols = protocols
        self._factory = self._load()

    def reload(self) -> None:
        """Read the files again (SIGHUP). @raise SettingError: they are wrong; what was read before stays in use."""
        self._factory = self._load()

    def factory(self, name: str = "") -> TLSMemoryBIOFactory:
        """Return what makes the layers of new connections."""
        return self._factory

    def _load(self) -> TLSMemoryBIOFactory:
        files = self._env.files
        own, *chain = read_certificates(files, self._own.certificate)
        context = SSL.Context(SSL.TLS_METHOD)
        context.set_min_proto_version(SSL.TLS1_2_VERSION)
        # A key of tickets would live as long as the process, and with it one could read what was recorded.
        context.set_options(SSL.OP_NO_COMPRESSION | SSL.OP_CIPHER_SERVER_PREFERENCE | SSL.OP_NO_TICKET)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_session_id(self._env.random.token(_SESSION_ID_SIZE))
        context.set_mode(SSL.MODE_RELEASE_BUFFERS)
        context.set_alpn_select_callback(_chosen_of(self._protocols))
        if self._clients is not ClientCertificates.NONE and self._trust is not None:
            store = context.get_cert_store()
            for authority in read_certificates(files, self._trust):
                store.add_cert(authority)
            required = SSL.VERIFY_FAIL_IF_NO_PEER_CERT if self._clients is ClientCertificates.REQUIRE else 0
            context.set_verify(SSL.VERIFY_PEER | required)
        try:
            context.use_certificate(own)
            for one in chain:
                context.add_extra_chain_cert(one)
            context.use_privatekey(read_key(files, self._own.key, self._own.password))
            context.check_privatekey()
        except OpenSSLError as error:
            own_files = f"{self._own.certificate} and {self._own.key}"
            raise SettingError(f"{own_files} do not fit together ({_plain(error)})") from None
        context.set_cipher_list(CIPHERS.encode())  # the last: it makes a connection, and the context is fixed then
        return _Factory(_Accepting(context), False, None, self._env.clock)  # type: ignore[arg-type]


def _chosen_of(protocols: Sequence[bytes]) -> Callable[[SSL.Connection, list[bytes]], Any]:
    """Return what chooses among the protocols that a client offers by ALPN."""

    def choose(_: SSL.Connection, offered: list[bytes]) -> Any:
        return next((one for one in protocols if one in offered), SSL.NO_OVERLAPPING_PROTOCOLS)

    return choose


class ClientTLS:
    """The TLS of a client: the authorities that it trusts, and its own certificate if it has one."""

    def __init__(
        self,
        env: IEnvironment,
        trust: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
        password: str | None = None,
        name: str | None = None,
    ) -> None:
        """
        @param trust: path of the authorities that servers' certificates must come from; C{None}: the system's.
        @param certificate: path of our own certificate, for servers that ask.
        @param key: path of its private key.
        @param password: what the key is encrypted with.
        @param name: the host name or IP address that certificates must have, instead of the one dialled.
        @raise SettingError: a file is missing, unreadable, too readable, or does not fit the others.
        """
        if (certificate is None) != (key is None):
            raise SettingError("a client certificate needs its key, and the key its certificate")
        self._env = env
        self._trust = trust
        self._certificate = certificate
        self._key = key
        self._password = password
        self._name = name
        self._factories: dict[str, TLSMemoryBIOFactory] = {}
        self._read()

    def reload(self) -> None:
        """Read the files again. @raise SettingError: they are wrong; what was read before stays in use."""
        self._read()
        self._factories.clear()

    def factory(self, name: str) -> TLSMemoryBIOFactory:
        """Return what makes the layers of connections to a host, whose certificate must have this name or address."""
        name = self._name or name
        factory = self._factories.get(name)
        if factory is None:
            if len(self._factories) >= _NAMES_KEPT:
                self._factories.clear()
            creator = self.creator(name)
            factory = self._factories[name] = _Factory(creator, True, None, self._env.clock)  # type: ignore[arg-type]
        return factory

    def creator(self, name: str) -> IOpenSSLClientConnectionCreator:
        """Return what makes our side of connections to a host, for protocols that bring their own layer of TLS."""
        creator: IOpenSSLClientConnectionCreator = optionsForClientTLS(
            self._name or name, trustRoot=self._root, extraCertificateOptions=self._options
        )
        return creator

    def _read(self) -> None:
        files = self._env.files
        root: Any  # an IOpenSSLTrustRoot, which is private
        if self._trust is None:
            root = platformTrust()
        else:
            root = trustRootFromCertificates([Certificate(one) for one in read_certificates(files, self._trust)])
        options: dict[str, Any] = {
            "raiseMinimumTo": TLSVersion.TLSv1_2,
            "acceptableCiphers": AcceptableCiphers.fromOpenSSLCipherString(CIPHERS),
        }
        if self._certificate is not None and self._key is not None:
            own, *chain = read_certificates(files, self._certificate)
            options |= {
                "privateKey": read_key(files, self._key, self._password),
                "certificate": own,
                "extraCertChain": chain,
            }
            try:
                CertificateOptions(**options).getContext()
            except OpenSSLError as error:
                raise SettingError(
                    f"{self._certificate} and {self._key} do not fit together ({_plain(error)})"
                ) from None
        self._root = root
        self._options = options


def read_certificates(files: IFiles, path: str) -> list[X509]:
    """
    Return the certificates of a PEM file, in order; one at least.

    @raise SettingError: there is no such file, or no certificate in it.
    """
    try:
        return [X509.from_cryptography(one) for one in x509.load_pem_x509_certificates(_read(files, path))]
    except ValueError as error:
        raise SettingError(f"{path} holds no certificate ({error})") from None


def read_key(files: IFiles, path: str, password: str | None = None) -> PKey:
    """
    Return the private key of a PEM file.

    @raise SettingError: there is no such file, others may read it, it holds no key, or the password is wrong.
    """
    data = _read(files, path)
    mode = files.mode(path)
    if mode & _FORBIDDEN_MODE:
        raise SettingError(f"the private key {path} may be read or changed by others (mode {mode:04o}); chmod 600 it")
    try:
        key: Any = load_pem_private_key(data, None if password is None else password.encode())
        return PKey.from_cryptography_key(key)
    except (ValueError, TypeError) as error:
        raise SettingError(f"{path} holds no private key that can be read ({error})") from None


def _read(files: IFiles, path: str) -> bytes:
    try:
        return files.read(path)
    except OSError as error:
        raise SettingError(f"cannot read {path}: {error.strerror or error}") from None


def _plain(error: OpenSSLError) -> str:
    """Return the last sentence of OpenSSL's error queue."""
    queue = error.args[0] if error.args else ()
    return str(queue[-1][-1]) if queue else "no reason given"
