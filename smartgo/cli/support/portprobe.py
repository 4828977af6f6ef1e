"""Finds out what protocol a port speaks that does not speak ours."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import Protocol
from twisted.python.failure import Failure

from smartgo.cli.support.fixedprotocol import FixedProtocolFactory
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.address import parse_address

CONNECT: Final = 3.0  # seconds
ANSWER: Final = 2.0

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")
"""What an HTTP/2 client says first (RFC 9113, 3.4), with empty SETTINGS; an HTTP/1 server takes it for a request."""
_SETTINGS: Final = 4  # a frame's type
_ENOUGH: Final = 9  # bytes of a frame's head


class PortReply(StrEnum):
    """The reply of a port to a probe."""

    REFUSED = "refuses connections"
    HTTP2 = "speaks HTTP/2, as gRPC does"
    HTTP1 = "speaks HTTP"
    TLS = "speaks TLS"
    CLOSED = "accepts a connection and closes it"
    SILENT = "accepts a connection and sends nothing"
    OTHER = "speaks another protocol"


class _PortProbe(Protocol):
    """Sends the HTTP/2 preface and collects the first bytes of the reply."""

    transport: ITransport

    def __init__(self) -> None:
        self.heard: Deferred[bytes] = Deferred()
        self._data = b""

    def connectionMade(self) -> None:
        """Send the preface."""
        self.transport.write(_PREFACE)

    def dataReceived(self, data: bytes) -> None:
        """Collect bytes until there are enough to judge."""
        self._data += data
        if len(self._data) >= _ENOUGH:
            self.tell()

    def connectionLost(self, reason: Failure | None = None) -> None:
        """Report what was received."""
        self.tell()

    def tell(self) -> None:
        """Fire C{heard} with the received bytes, once."""
        if not self.heard.called:
            self.heard.callback(self._data)


async def probe(env: IEnvironment, address: str) -> PortReply:
    """Connect to C{host:port} and return how it replies. @raise ValueError: the address is not valid."""
    host, port = parse_address(address)
    listener = _PortProbe()
    try:
        await env.network.connect(host, port, FixedProtocolFactory(listener), CONNECT)
    except Exception:  # any failure to connect
        return PortReply.REFUSED
    closed = False

    def silent(_: Any, __: float) -> bytes:
        nonlocal closed
        closed = True
        return b""

    data = await listener.heard.addTimeout(ANSWER, env.clock, onTimeoutCancel=silent)
    listener.transport.loseConnection()
    if not data:
        return PortReply.SILENT if closed else PortReply.CLOSED
    return _judged(data)


def _judged(data: bytes) -> PortReply:
    if data.startswith(b"HTTP/1."):
        return PortReply.HTTP1
    if len(data) >= _ENOUGH and data[3] == _SETTINGS and data[5:9] == bytes(4):
        return PortReply.HTTP2
    if data[:1] == b"\x15" and data[1:2] == b"\x03":
        return PortReply.TLS
    return PortReply.OTHER
