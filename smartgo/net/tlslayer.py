"""
The one place that knows how Twisted's TLS layer ends, so that a connection that is gone is freed at once.

Twisted notes why TLS ended as a C{Failure} made where the error was caught. Its traceback refers to the frames of all
callers, one of which refers to the failure: a circle around layer, transport and protocol, made at each end without a
C{close_notify} and at each certificate that is refused. Only the garbage collector would find it. The traceback says
nothing about the peer, so it is dropped.

One method that is overridden here is private to Twisted. Where a release has it no more the override is never called;
C{tests/remoting/test_lifetime.py} then fails.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import connectionDone
from twisted.protocols.tls import TLSMemoryBIOProtocol
from twisted.python.failure import Failure


class TLSLayer(TLSMemoryBIOProtocol):
    """TLS between a transport and a protocol, which leaves nothing in memory when it ends."""

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """End the layer; a producer that is still registered would keep layer and protocol alive."""
        if self.connected:
            self.unregisterProducer()
        super().connectionLost(reason)

    def failVerification(self, reason: Failure) -> Any:
        """End because the peer is not who it must be."""
        result: Any = super().failVerification(reason)
        reason.cleanFailure()
        return result

    def _tlsShutdownFinished(self, reason: Failure | None) -> None:
        """End because TLS has ended."""
        super()._tlsShutdownFinished(reason)
        if reason is not None:
            reason.cleanFailure()
