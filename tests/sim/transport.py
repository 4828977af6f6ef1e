"""One end of a simulated connection: Twisted's TCP transport, with the kernel's buffer behind it."""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionAborted, ConnectionDone, ConnectionLost
from twisted.internet.interfaces import IConsumer, IPushProducer, ITCPTransport
from twisted.python.failure import Failure
from zope.interface import implementer

from tests.sim.kernel import Kernel, Life, Timer


class Wires(Protocol):
    """What an end asks of the network."""

    kernel: Kernel
    chance: random.Random
    short: float
    capacity: int

    def passes(self, here: str, there: str) -> bool:
        """Tell whether bytes pass from one host to another now."""

    def travel(self, here: str, there: str) -> float:
        """Draw how long bytes travel."""

    def portion(self, here: str, there: str, size: int) -> int:
        """Return how many of the bytes that wait arrive at once."""

    def broke(self, end: End) -> bool:
        """Break a connection in place of a delivery, if chance has it so; return whether it did."""

    def forget(self, end: End) -> None:
        """Drop an end that is over."""


@implementer(ITCPTransport, IConsumer, IPushProducer)
class End:
    """
    One end of a connection, and the bytes on their way from it to the other.

    @ivar other: the other end.
    @ivar number: of the connection; both ends have the same.
    @ivar dialled: this end dialled.
    @ivar connected: nothing has ended it here.
    @ivar disconnecting: it will end once all is sent.
    @ivar disconnected: it has ended here.
    @ivar stalled_until: virtual time before which nothing from here arrives.
    """

    TLS = False
    bufferSize = 65536
    SEND_LIMIT = 131072

    other: End

    def __init__(
        self,
        wires: Wires,
        life: Life,
        protocol: Any,
        addresses: tuple[IPv4Address, IPv4Address],
        number: int,
        dialled: bool,
    ) -> None:
        """@param addresses: ours, and the other end's."""
        self._wires = wires
        self._kernel = wires.kernel
        self.life = life
        self.protocol = protocol
        self._ours, self._theirs = addresses
        self._here, self._there = (address.host for address in addresses)
        self.number = number
        self.dialled = dialled
        self.connected = True
        self.disconnecting = False
        self.disconnected = False
        self.stalled_until = 0.0
        self._opened = not dialled
        self._reading = self._opened
        self._producer: Any = None
        self._streaming = False
        self._paused = False
        self._buffer = bytearray()  # Twisted's
        self._sent = bytearray()  # the kernel's, and the wire's
        self._ended: type[Exception] | None = None  # how the other end will hear that this one has ended
        self._arrival: Timer | None = None
        self._writing: Timer | None = None

    # -- the transport -----------------------------------------------------------------------------------------

    def getPeer(self) -> IPv4Address:
        """Return the other end's address."""
        return self._theirs

    def getHost(self) -> IPv4Address:
        """Return our address."""
        return self._ours

    def write(self, data: bytes) -> None:
        """Send, after what waits."""
        if not self.connected or not data:
            return
        self._buffer += data
        if self._producer is not None and self._streaming and len(self._buffer) > self.bufferSize:
            self._paused = True
            self._producer.pauseProducing()
        self._start_writing()

    def writeSequence(self, iovec: Iterable[bytes]) -> None:
        """Send pieces."""
        self.write(b"".join(iovec))

    def writeSomeData(self, data: bytes) -> int:
        """Hand bytes to the kernel; return how many it took."""
        if not self.connected:
            return 0
        return self._offer(data)

    def getHandle(self) -> End:
        """Return what has C{sendmsg}: the socket."""
        return self

    def sendmsg(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Hand pieces to the kernel; return how many bytes it took."""
        return self._offer(b"".join(buffers)) if self.connected else 0

    def loseConnection(self) -> None:
        """End it when all is sent."""
        if self.connected and not self.disconnecting:
            self._reading = False
            self.disconnecting = True
            self._start_writing()

    def abortConnection(self) -> None:
        """End it at once; what waits is lost."""
        if self.disconnected or not self.connected:
            return
        self.disconnecting = True
        self._reading = False
        self._buffer.clear()
        self._kernel.later(0, self._lose, ConnectionAborted, life=self.life)

    def loseWriteConnection(self) -> None:
        """End it when all is sent: no protocol here wants half of it."""
        self.loseConnection()

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Ask this one for more when all was sent."""
        if self._producer is not None:
            raise RuntimeError("there is a producer already")
        if self.disconnected:
            producer.stopProducing()
            return
        self._producer = producer
        self._streaming = streaming
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        """Ask it no more."""
        self._producer = None
        if self.connected and self.disconnecting:
            self._start_writing()

    def pauseProducing(self) -> None:
        """Read nothing for now."""
        self._reading = False

    def resumeProducing(self) -> None:
        """Read on."""
        if self.connected and not self.disconnecting and self._opened:
            self._reading = True
            self.other.schedule()

    def stopProducing(self) -> None:
        """End it."""
        self.loseConnection()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """Nothing to do: small writes are not kept back."""

    def getTcpNoDelay(self) -> bool:
        """Return whether small writes leave at once."""
        return True

    def setTcpKeepAlive(self, enabled: bool) -> None:
        """Nothing to do: keep-alive takes hours by default."""

    def getTcpKeepAlive(self) -> bool:
        """Return no."""
        return False

    # -- sending -----------------------------------------------------------------------------------------------

    def _offer(self, data: bytes | bytearray) -> int:
        """Let the kernel take bytes; return how many."""
        wires, sent = self._wires, self._sent
        size = taken = len(data)
        room = wires.capacity - len(sent)
        if taken > room:
            taken = room
        if taken > 1 and wires.short and wires.chance.random() < wires.short:
            taken = wires.chance.randrange(1, taken)
        if taken <= 0:
            return 0
        sent += data if taken == size else data[:taken]
        if self._arrival is None:
            self.schedule()
        return taken

    def _start_writing(self) -> None:
        if self._writing is None:
            self._writing = self._kernel.later(0, self._write, life=self.life)

    def _write(self) -> None:
        """Hand the kernel what waits; then ask for more, or end."""
        self._writing = None
        if not self.connected:
            return
        if self._buffer:
            taken = self._offer(self._buffer)
            del self._buffer[:taken]
            if self._buffer:
                return  # until some of it was delivered
        if self._producer is not None and (not self._streaming or self._paused):
            self._paused = False
            self._producer.resumeProducing()
        elif self.disconnecting and self._producer is None and not self._buffer:
            self._lose(ConnectionDone)

    def schedule(self) -> None:
        """Let what waits on its way arrive."""
        if self._arrival is None and (self._sent or self._ended is not None):
            self._arrival = self._kernel.later(self._wires.travel(self._here, self._there), self._arrive)

    def _arrive(self) -> None:
        self._arrival = None
        other, now = self.other, self._kernel.now
        if self.stalled_until > now or other.life.paused_until > now:
            until = max(self.stalled_until, other.life.paused_until)
            self._arrival = self._kernel.later(until - now, self._arrive)
            return
        if not self._wires.passes(self._here, self._there):
            return  # the network wakes us
        if not other.connected:
            self._answer_reset()
        elif self._sent:
            if other._reading:
                self._deliver()
        elif self._ended is not None and other._opened:  # else its L{open} schedules this again
            ended = self._ended
            self._drop()
            other._hear(ended)

    def _deliver(self) -> None:
        wires, other = self._wires, self.other
        if wires.broke(self):
            return
        sent = self._sent
        waits = len(sent)
        size = wires.portion(self._here, self._there, waits)
        if size == waits:
            data = bytes(sent)
            sent.clear()
        else:
            data = bytes(sent[:size])
            del sent[:size]
        self._kernel.trace_text(f"{self.number} {'>' if self.dialled else '<'} {size} {zlib.crc32(data)}")
        self.schedule()
        if self._buffer:
            self._start_writing()
        if other.life.alive:
            other.protocol.dataReceived(data)

    def _answer_reset(self) -> None:
        """Nobody reads at the other end: its kernel says so, if what we sent comes there."""
        self._sent.clear()
        self._drop()
        if self.connected:
            travel = self._wires.travel(self._there, self._here)
            self._kernel.later(travel, self._hear, ConnectionLost, life=self.life)

    # -- the end -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """The attempt to connect has succeeded: begin."""
        self._opened = self._reading = True
        self.protocol.makeConnection(self)
        self.other.schedule()

    def abandon(self) -> None:
        """The attempt to connect was given up: the server's end hears that it is over."""
        self.connected = False
        self.disconnected = True
        self._end(ConnectionDone)

    def reset(self) -> None:
        """Break this end: its protocol hears of it, and what it sent is lost."""
        if self.connected:
            self._sent.clear()
            self._lose(ConnectionLost, tell=False)

    def die(self, power: bool, keeps: bool) -> None:
        """
        End with the process.

        @param power: nothing is sent any more.
        @param keeps: what the kernel had taken arrives before the end.
        """
        self._buffer.clear()
        if self.connected:
            self.connected = self.disconnecting = False
            self.disconnected = True
            if power or not keeps:
                self._sent.clear()
            if power:
                self._drop()
            else:
                self._end(ConnectionDone if keeps else ConnectionLost)

    def _hear(self, kind: type[Exception]) -> None:
        """Learn that the other end is over."""
        if self.connected and self.life.alive:
            self._lose(kind)

    def _lose(self, kind: type[Exception], tell: bool = True) -> None:
        """
        End here.

        @param tell: let the other end hear of it when what was sent has arrived.
        """
        if not self.connected:
            return
        self.connected = self.disconnecting = False
        self.disconnected = True
        self._buffer.clear()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.stopProducing()
        if tell:
            self._end(ConnectionDone if kind is ConnectionDone else ConnectionLost)
        if self._opened and self.life.alive:
            self._kernel.trace("lost", self.number, ">" if self.dialled else "<", kind.__name__)
            self.protocol.connectionLost(Failure(kind()))

    def _end(self, kind: type[Exception]) -> None:
        if kind is not ConnectionDone:
            self._sent.clear()
        self._ended = kind
        self.schedule()

    def _drop(self) -> None:
        """Forget this end: there is nothing more to send."""
        if not self.connected:
            self._ended = None
            self._wires.forget(self)
