"""
TLS on the remoting port: 1.2 or newer, sniffed by the first byte, clients verify whom they talk to.

Certificates and keys are PEM files. A private key that others may read is refused (reliability X9). Everything is read
when these classes are made and by C{reload}; a reload that fails changes nothing, one that succeeds is for the
handshakes from then on.

Source of the modes and of the names of the settings: C{remoting/netty/TlsSystemConfig.java}.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL.crypto import X509, PKey
from OpenSSL.SSL import Error as OpenSSLError
from service_identity import VerificationError
from twisted.internet.interfaces import IHandshakeListener, IProtocol
from twisted.internet.ssl import (
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

if TYPE_CHECKING:
    from smartgo.remoting.protocol import RemotingProtocol

_FORBIDDEN_MODE: Final = 0o027  # group may read (as distributions' ssl-cert groups do), others nothing
_NAMES_KEPT: Final = 256


class Mode(StrEnum):
    """What a listener accepts (C{tls.server.mode})."""

    DISABLED = "disabled"
    PERMISSIVE = "permissive"
    ENFORCING = "enforcing"


class ClientCertificates(StrEnum):
    """What a listener asks of its clients (C{tls.server.need.client.auth})."""

    NONE = "none"
    OPTIONAL = "optional"
    REQUIRE = "require"


class PlainRefused(FramingError):
    """A client that does not speak TLS where it must."""


class HandshakeFailed(FramingError):
    """TLS could not be agreed on, or the other side is not who it must be."""


class _Factory(TLSMemoryBIOFactory):
    """TLS without a buffer of its own: what comes to be written was collected before."""

    protocol = TLSMemoryBIOProtocol


@implementer(IProtocol, IHandshakeListener)
class _Inside:
    """What TLS believes to be the protocol it protects."""

    def __init__(self, protocol: RemotingProtocol) -> None:
        self._protocol = protocol
        self.factory = None
        self.dataReceived = protocol.plain_received

    def logPrefix(self) -> str:
        """Name of the protocol in old-style logs."""
        return "remoting"

    def makeConnection(self, transport: object) -> None:
        """Never called: the protocol had its transport before."""

    def connectionMade(self) -> None:
        """Never called either."""

    def handshakeCompleted(self) -> None:
        """The peer is verified as far as it must be."""
        self._protocol.secured()

    def connectionLost(self, reason: Failure) -> None:
        """TLS is over, and so is the transport."""
        self._protocol.lost(reason)


def wrap(factory: TLSMemoryBIOFactory, protocol: RemotingProtocol) -> TLSMemoryBIOProtocol:
    """
    Return a layer of TLS for a protocol that is connected already.

    It is a protocol for the transport (C{makeConnection} starts the handshake) and a transport for the protocol.
    Twisted's C{startTLS} does the same, but on its own transports alone and with timers of the global reactor.
    """
    return TLSMemoryBIOProtocol(factory, _Inside(protocol), False)


def readable(reason: Failure) -> Failure:
    """Return the reason of a connection's end, in words where TLS gave an error queue or a list of mismatches."""
    error = reason.value
    if isinstance(error, OpenSSLError):
        return Failure(HandshakeFailed(f"TLS: {_plain(error)}"))
    if isinstance(error, VerificationError):
        asked = ", ".join(str(one.mismatched_id) for one in error.errors)
        return Failure(HandshakeFailed(f"TLS: the certificate is not for the host that was dialled ({asked})"))
    return reason


class ServerTLS:
    """
    What a listener needs to speak TLS.

    @ivar mode: see L{Mode}.
    """

    def __init__(
        self,
        env: IEnvironment,
        certificate: str,
        key: str,
        password: str | None = None,
        mode: Mode = Mode.PERMISSIVE,
        trust: str | None = None,
        clients: ClientCertificates = ClientCertificates.NONE,
    ) -> None:
        """
        @param certificate: path of our certificate, followed by intermediate ones if there are any.
        @param key: path of its private key.
        @param password: what the key is encrypted with.
        @param trust: path of the authorities that clients' certificates must come from.
        @raise SettingError: a file is missing, unreadable, too readable, or does not fit the others.
        """
        if clients is not ClientCertificates.NONE and trust is None:
            raise SettingError("client certificates are asked for, and no authority is trusted")
        self.mode = mode
        self._env = env
        self._certificate = certificate
        self._key = key
        self._password = password
        self._trust = trust
        self._clients = clients
        self._factory = self._load()

    def reload(self) -> None:
        """Read the files again (SIGHUP). @raise SettingError: they are wrong; what was read before stays in use."""
        self._factory = self._load()

    def factory(self, name: str = "") -> TLSMemoryBIOFactory:
        """What makes the layers of new connections."""
        return self._factory

    def _load(self) -> TLSMemoryBIOFactory:
        files = self._env.files
        own, *chain = read_certificates(files, self._certificate)
        asked: dict[str, Any] = {}
        if self._clients is not ClientCertificates.NONE and self._trust is not None:
            asked = {
                "verify": True,
                "caCerts": read_certificates(files, self._trust),
                "requireCertificate": self._clients is ClientCertificates.REQUIRE,
            }
        options = CertificateOptions(
            privateKey=read_key(files, self._key, self._password),
            certificate=own,
            extraCertChain=chain,
            raiseMinimumTo=TLSVersion.TLSv1_2,
            **asked,
        )
        try:
            options.getContext()
        except OpenSSLError as error:
            raise SettingError(f"{self._certificate} and {self._key} do not fit together ({_plain(error)})") from None
        return _Factory(options, False, None, self._env.clock)  # type: ignore[arg-type]


class ClientTLS:
    """What a client needs to speak TLS: whom it trusts, and who it is where it is asked."""

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
        """What makes the layers of new connections to a host, whose certificate must have this name or address."""
        name = self._name or name
        factory = self._factories.get(name)
        if factory is None:
            if len(self._factories) >= _NAMES_KEPT:
                self._factories.clear()
            options = optionsForClientTLS(name, trustRoot=self._root, extraCertificateOptions=self._options)
            factory = self._factories[name] = _Factory(options, True, None, self._env.clock)  # type: ignore[arg-type]
        return factory

    def _read(self) -> None:
        files = self._env.files
        root: Any  # an IOpenSSLTrustRoot, which is private
        if self._trust is None:
            root = platformTrust()
        else:
            root = trustRootFromCertificates([Certificate(one) for one in read_certificates(files, self._trust)])
        options: dict[str, Any] = {"raiseMinimumTo": TLSVersion.TLSv1_2}
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
