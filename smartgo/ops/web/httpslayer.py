"""TLS below HTTP, which answers a client without TLS before it closes."""

from __future__ import annotations

from typing import Any, Final

from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure

from smartgo.net.tls import CLIENT_HELLO
from smartgo.net.tlslayer import TLSLayer
from smartgo.ops.web.problems import TITLES, Problem

DETAIL: Final = "this port speaks only HTTPS, and the request is plain HTTP: use https:// in the address"


class HttpsLayer(TLSLayer):
    """The TLS layer of one connection."""

    def dataReceived(self, data: bytes) -> None:
        """Check the first byte: go on with TLS, or answer in plain HTTP and close."""
        if data[0] == CLIENT_HELLO:
            self.dataReceived = super().dataReceived  # type: ignore[method-assign]
            self.dataReceived(data)
            return
        self.dataReceived = _discard  # type: ignore[method-assign]
        transport: Any = self.transport
        transport.write(_answer())
        transport.loseConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Free the connection."""
        vars(self).pop("dataReceived", None)
        super().connectionLost(reason)


def _discard(data: bytes) -> None:
    """Ignore further bytes."""


def _answer() -> bytes:
    body = Problem(400, DETAIL).body("")
    return b"".join(
        (
            b"HTTP/1.1 400 %s\r\n" % TITLES[400].encode(),
            b"Content-Type: application/problem+json\r\nContent-Length: %d\r\n" % len(body),
            b"Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body,
        )
    )
