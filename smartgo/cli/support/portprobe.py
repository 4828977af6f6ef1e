"""What answers at a port that does not speak our protocol."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IAddress, ITransport
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.schema.address import parse_address

CONNECT: Final = 3.0  # seconds
ANSWER: Final = 2.0

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""What an HTTP/2 client says first (RFC 9113, 3.4), with empty SETTINGS; an HTTP/1 server takes it for a request."""
_SETTINGS: Final = 4  # a frame's type
_ENOUGH: Final = 9  # bytes of a frame's head


class Answer(StrEnum):
    """What a port does."""

    REFUSED = "refuses connections"
    HTTP2 = "speaks HTTP/2, as gRPC does"
    HTTP1 = "speaks HTTP"
    TLS = "speaks TLS"
    CLOSED = "takes a connection and closes it"
    SILENT = "takes a connection and says nothing"
    OTHER = "speaks some other protocol"


class _Listener(Protocol):
    """Says the preface, and hears the first bytes."""

    transport: ITransport

    def __init__(self) -> None:
        self.heard: Deferred[bytes] = Deferred()
        self._data = b""

    def connectionMade(self) -> None:
        """Speak."""
        self.transport.write(_PREFACE)

    def dataReceived(self, data: bytes) -> None:
        """Hear."""
        self._data += data
        if len(self._data) >= _ENOUGH:
            self.tell()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """There will be no more."""
        self.tell()

    def tell(self) -> None:
        """Say what was heard, once."""
        if not self.heard.called:
            self.heard.callback(self._data)


class _Dial(Factory):
    noisy = False

    def __init__(self, made: _Listener) -> None:
        self._made = made

    def buildProtocol(self, addr: IAddress | None) -> _Listener:
        """The one."""
        return self._made


async def probe(env: IEnvironment, address: str) -> Answer:
    """Return what answers at C{host:port}. @raise ValueError: that is no address."""
    host, port = parse_address(address)
    listener = _Listener()
    try:
        await env.network.connect(host, port, _Dial(listener), CONNECT)
    except Exception:  # whatever way there is not to connect
        return Answer.REFUSED
    closed = False

    def silent(_: Any, __: float) -> bytes:
        nonlocal closed
        closed = True
        return b""

    data = await listener.heard.addTimeout(ANSWER, env.clock, onTimeoutCancel=silent)
    listener.transport.loseConnection()
    if not data:
        return Answer.SILENT if closed else Answer.CLOSED
    return _judged(data)


def _judged(data: bytes) -> Answer:
    if data.startswith(b"HTTP/1."):
        return Answer.HTTP1
    if len(data) >= _ENOUGH and data[3] == _SETTINGS and data[5:9] == bytes(4):
        return Answer.HTTP2
    if data[:1] == b"\x15" and data[1:2] == b"\x03":
        return Answer.TLS
    return Answer.OTHER
