"""
The way out of one connection: what the transport does not take now waits here, counted.

Twisted's transports buffer without bound and do not tell how much. So no more than a slice is handed over at a time;
the transport says when it needs the next one, by the producer interfaces, and the rest is ours to count (L13).

There are two ways to write:

 - I{direct}, for plain TCP: straight into the socket while nothing waits. It saves the trip through the transport's
   buffers and the reactor's writers, 3 to 5 us of about 29 where one request is in flight. That the buffers are empty
   is known without looking into them: every byte of the connection passes here, and once the socket takes less than
   it is given, all goes through the transport until that has asked for more and there is none (a pull producer).
 - I{buffered}, for all others (TLS, memory): as a push producer that is paused and resumed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer

SLICE: Final = 256 * 1024  # bytes handed to a transport at a time


def takes_direct(transport: object) -> bool:
    """
    Tell whether L{write_now} may be used on this transport: a TCP socket of Twisted's, with nothing around it.

    A TLS transport passes unknown attributes on to the socket below it, so its class is asked, not the object.
    """
    kind = type(transport)
    return hasattr(kind, "writeSomeData") and hasattr(kind, "setTcpNoDelay") and not getattr(transport, "TLS", False)


def write_now(transport: Any, data: bytes) -> int:
    """
    Offer bytes to the socket of a transport whose buffers are empty; return how many it took.

    A lost connection takes none: the transport finds out by itself when it is given the rest.
    """
    sent = transport.writeSomeData(data)
    return sent if type(sent) is int else 0


def gather_now(transport: Any, pieces: Sequence[bytes | memoryview]) -> int:
    """Write pieces of bytes as L{write_now} does: the kernel gathers them, which spares a copy."""
    try:
        sent: int = transport.getHandle().sendmsg(pieces)
    except OSError:  # it takes none now, or is lost
        return 0
    return sent


def _nobody() -> None:
    """Do nothing: nobody waits for the bytes to leave."""


@implementer(IPushProducer)
class SendBuffer:
    """
    Bytes on their way to one peer.

    @ivar unsent: how many bytes wait here or were handed over and are not known to have left; while the transport
        keeps up this is C{0}, whatever little it has in its own buffers.
    @ivar opened: whether there has been a transport; what is written before that waits.
    """

    __slots__ = (
        "_clogged", "_direct", "_finished", "_finishing", "_handed", "_moved", "_queue", "_slice", "_transport",
        "opened", "unsent",
    )  # fmt: skip

    def __init__(self, moved: Callable[[], None], slice_size: int = SLICE) -> None:
        """
        @param moved: called whenever C{unsent} has become less.
        @param slice_size: bytes handed to the transport at a time.
        """
        self._moved = moved
        self._slice = slice_size
        self._transport: Any = None
        self._direct = False
        self._queue: deque[memoryview] = deque()
        self._handed = 0
        self._clogged = True  # until there is a transport
        self._finishing = False
        self._finished = False
        self.opened = False
        self.unsent = 0

    def open(self, transport: Any) -> None:
        """Begin; nothing may be written to this transport but by us."""
        self._transport = transport
        self.opened = True
        self._clogged = False
        self._direct = takes_direct(transport)
        if not self._direct:
            transport.registerProducer(self, True)
        if self._queue:
            early = b"".join(self._queue)
            self._queue.clear()
            self.unsent = 0
            self.write(early)

    def write(self, data: bytes) -> None:
        """Send, or keep to be sent."""
        if self._direct and not self._clogged:
            sent = write_now(self._transport, data)
            if sent < len(data):
                self.clog(data, sent)
        elif not self._finished:
            self._queue.append(memoryview(data))
            self.unsent += len(data)
            if not self._clogged:
                self._pour()

    def write_pieces(self, pieces: Sequence[bytes | memoryview], size: int) -> None:
        """Send what is in a few large pieces, C{size} bytes of them, or keep it to be sent."""
        if self._direct and not self._clogged:
            sent = gather_now(self._transport, pieces)
            if sent < size:
                self.clog(b"".join(pieces), sent)
        else:
            self.write(b"".join(pieces))

    @property
    def direct(self) -> bool:
        """Tell whether bytes go straight into a socket."""
        return self._direct

    def clog(self, data: bytes, sent: int) -> None:
        """Continue through the transport: the socket accepted no more than C{sent} bytes of these."""
        self._queue.append(memoryview(data)[sent:])
        self.unsent = len(data) - sent
        self._clogged = True
        self._transport.registerProducer(self, False)  # asks for the first slice at once

    def finish(self) -> None:
        """Send what waits, then end the connection."""
        if self._finishing or self._finished:
            return
        self._finishing = True
        if not self._queue and not (self._direct and self._clogged):
            self._end()

    # -- the transport's calls -----------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Hand over nothing more: the transport has enough."""
        self._clogged = True

    def resumeProducing(self) -> None:
        """Hand over the next slice: the transport has sent all it was given."""
        if self._finished:
            return
        self.unsent -= self._handed
        self._handed = 0
        if self._direct:
            self._next_slice()
        else:
            self._clogged = False
            self._pour()
        self._moved()

    def stopProducing(self) -> None:
        """Send no more: the connection is gone, or is being cut. Nothing is kept that leads back to it."""
        self._finished = True
        self._direct = False
        self._queue.clear()
        self.unsent = 0
        self._transport = None
        self._moved = _nobody

    # -- slices --------------------------------------------------------------------------------------------

    def _next_slice(self) -> None:
        """Pull: hand over one slice, or be direct again."""
        if self._queue:
            self._hand_over()
            return
        self._clogged = False
        self._transport.unregisterProducer()
        if self._finishing:
            self._end()

    def _pour(self) -> None:
        """Push: hand over slices until the transport has enough."""
        while self._queue and not self._clogged:
            self._hand_over()
        if not self._clogged:
            self.unsent = 0
            self._handed = 0
        if self._finishing and not self._queue:
            self._end()

    def _hand_over(self) -> None:
        queue = self._queue
        first = queue.popleft()
        limit = self._slice
        if len(first) > limit:
            queue.appendleft(first[limit:])
            piece = bytes(first[:limit])
        else:
            pieces = [first]
            size = len(first)
            while queue and size + len(queue[0]) <= limit:
                size += len(queue[0])
                pieces.append(queue.popleft())
            piece = b"".join(pieces)
        self._handed += len(piece)
        self._transport.write(piece)

    def _end(self) -> None:
        self._finished = True
        if not self._direct:
            self._transport.unregisterProducer()
        self._direct = False
        self._transport.loseConnection()
