"""What the connections of masters and of slaves have in common."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from smartgo.net.tls import wrap

_LAST_WORDS: Final = 1.0  # seconds for what is unsent when a connection is closed in peace
_PENANCE: Final = 5.0  # seconds; a RocketMQ slave whose connection is closed is back within a millisecond


class ReplicationLink(Protocol):
    """
    One connection, with TLS on it or without.

    Subclasses take what comes, deciphered where there is TLS, in C{dataReceived}.

    @ivar open: whether there is one and nobody has ended it; nothing may be sent or taken otherwise.
    @ivar lost: fires when it is gone.
    """

    transport: Any

    def __init__(self, clock: IReactorTime) -> None:
        self.clock = clock
        self.open = False
        self.lost: Deferred[None] = Deferred()
        self._cut: IDelayedCall | None = None
        self._layer: Any = None  # TLS, once it is there

    def connectionMade(self) -> None:
        """Send at once what is written: it is a whole message, and somebody waits for it."""
        self.transport.setTcpNoDelay(True)
        self.open = True

    def secure(self, factory: TLSMemoryBIOFactory) -> None:
        """Put TLS between the transport and us; L{secured} is called when the handshake has succeeded."""
        layer = self._layer = wrap(factory, partial(type(self).dataReceived, self), self.secured, self.ended)
        self.dataReceived = layer.dataReceived  # type: ignore[method-assign]
        layer.makeConnection(self.transport)
        self.transport = layer

    def secured(self) -> None:
        """The peer is verified as far as it must be; it may be written to."""

    def write(self, data: bytes) -> None:
        """Send, where there is anything to send."""
        if data:
            self.transport.write(data)

    def close(self) -> None:
        """End it after what was written is sent, if that does not take long."""
        if self.open:
            self.open = False
            self.transport.unregisterProducer()
            self.transport.loseConnection()
            self._cut = self.clock.callLater(_LAST_WORDS, self._cut_off)

    def abort(self) -> None:
        """End it now."""
        if self.open:
            self.open = False
            self.transport.abortConnection()

    def hold(self) -> None:
        """Take and say nothing any more, and end it after a while."""
        if self.open:
            self.open = False
            self.transport.pauseProducing()
            self._cut = self.clock.callLater(_PENANCE, self._cut_off)

    def hurry(self) -> None:
        """End it now where L{hold} or L{close} would wait."""
        if self._cut is not None:
            self._cut.cancel()
            self._cut_off()

    def _cut_off(self) -> None:
        self._cut = None
        self.transport.abortConnection()

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """The transport is gone, and so is TLS on it."""
        layer, self._layer = self._layer, None
        vars(self).pop("dataReceived", None)
        if layer is not None:
            layer.connectionLost(reason)  # comes back to ended()
        else:
            self.ended(reason)

    def ended(self, reason: Failure) -> None:
        """
        Note that the connection is gone.

        @param reason: may be of TLS; L{smartgo.net.tls.readable} has words for it.
        """
        self.open = False
        if self._cut is not None:
            self._cut.cancel()
            self._cut = None
        self.lost.callback(None)
