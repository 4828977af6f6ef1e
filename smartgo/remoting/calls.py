"""Requests of ours on one connection: asking, telling, and what waits until the connection is ready."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger

from smartgo.errors import CallFailed, CallTimedOut, NotConnected
from smartgo.net.counts import Counts
from smartgo.net.limits import Limits
from smartgo.net.sweeper import Sweeper
from smartgo.remoting.pending import Call, PendingCalls
from smartgo.schema.command import ONE_WAY, Command, encode


class Line(Protocol):
    """The connection that calls are sent over."""

    address: str
    dialled: bool
    chunks: int
    counts: Counts

    @property
    def open(self) -> bool:
        """Tell whether frames can be sent, now or once the connection is ready."""

    @property
    def ready(self) -> bool:
        """Tell whether frames may be put; until then they wait with the calls."""

    @property
    def unsent(self) -> int:
        """The number of bytes waiting to be sent."""

    def put(self, data: bytes) -> int:
        """Send an encoded frame with the next write."""

    def abort(self) -> None:
        """End the connection at once."""


class _Ended:
    """
    Stands in for a connection that is gone, so that its calls do not keep it in memory.

    Whoever still has the calls is told that the connection has ended.
    """

    open = False
    ready = False
    unsent = 0

    def __init__(self, line: Line) -> None:
        self.address = line.address
        self.dialled = line.dialled
        self.chunks = line.chunks
        self.counts = line.counts

    def put(self, data: bytes) -> int:
        """Drop a frame: there is nowhere to send it."""
        return 0

    def abort(self) -> None:
        """Do nothing: it has ended."""


class _Early(NamedTuple):
    """A frame for a connection that is not ready yet: of a call, by its opaque, or of a notice that was to be sent."""

    frame: bytes
    opaque: int
    sent: Deferred[None] | None


class Calls:
    """
    The requests of ours on one connection.

    @ivar ending: what became of the connection, once it has ended.
    """

    _log = Logger()

    __slots__ = ("_counts", "_early", "_limits", "_line", "_pending", "_sweeper", "ending")

    def __init__(self, line: Line, sweeper: Sweeper, limits: Limits) -> None:
        self._line: Line = line
        self._sweeper = sweeper
        self._counts = line.counts
        self._limits = limits
        self._pending: PendingCalls[Deferred[Command]] = PendingCalls()
        self._early: list[_Early] = []
        self.ending = ""

    def __len__(self) -> int:
        return len(self._pending)

    def ask(self, command: Command, timeout: float) -> Deferred[Command]:
        """
        Send a request and fire with the response, whatever its code. Cancelling drops the response when it comes.

        The time runs from now, also where the connection is still being made.
        """
        line, pending, limits = self._line, self._pending, self._limits
        if not line.open:
            return fail(self._ended())
        if len(pending) >= limits.calls:
            return fail(CallFailed(f"{len(pending)} calls to {line.address} are waiting for answers"))
        if line.unsent > limits.unsent_close // 2:
            return fail(CallFailed(f"{line.unsent} B to {line.address} are unsent"))
        command.opaque = opaque = pending.next_opaque()
        frame = encode(command)
        waiter: Deferred[Command] = Deferred(pending.forget)
        deadline = self._sweeper.clock.seconds() + timeout
        pending.add(opaque, Call(waiter, command.code, deadline, timeout, line.chunks))
        self._sweeper.expect(self, deadline)
        if self._line.ready:
            line.put(frame)
        else:
            self._early.append(_Early(frame, opaque, None))
        return waiter

    def send(self, command: Command) -> Deferred[None] | None:
        """
        Send a request that wants no answer.

        @return: C{None} where it was given to the transport; while the connection is being made, a Deferred that
            fires with that or fails with L{NotConnected}.
        @raise NotConnected: the connection has ended.
        """
        if not self._line.open:
            raise self._ended()
        command.flag |= ONE_WAY
        command.opaque = self._pending.next_opaque()
        frame = encode(command)
        if self._line.ready:
            self._line.put(frame)
            return None
        sent: Deferred[None] = Deferred()
        self._early.append(_Early(frame, command.opaque, sent))
        return sent

    def begin(self) -> None:
        """Send what waited until the connection is ready, but for calls that nobody waits for any more."""
        early, self._early = self._early, []
        for frame, opaque, sent in early:
            if sent is not None:
                self._line.put(frame)
                sent.callback(None)
            elif opaque in self._pending:
                self._line.put(frame)

    def answered(self, answer: Command) -> None:
        """Take an answer; one that nobody waits for is dropped."""
        waiter = self._pending.take(answer.opaque)
        if waiter is None:
            self._counts.unasked += 1
        else:
            waiter.callback(answer)

    def expire(self, now: float) -> float:
        """Fail the calls whose time is up; return the earliest deadline left."""
        line = self._line
        late = self._pending.expire(now)
        if (
            line.dialled
            and line.open
            and any(call.heard == line.chunks and call.timeout >= self._limits.silence for call in late)
        ):
            # Not a byte since the question: the network may have gone without a word, and would not be missed for
            # as long as we keep asking. The next call dials anew.
            self._log.info("{peer} is silent; closing", peer=line.address)
            line.abort()
        for call in late:
            call.waiter.errback(CallTimedOut(f"request {call.code} to {line.address}", call.timeout))
        return self._pending.earliest

    def end(self, ending: str) -> None:
        """Fail everything that waits: the connection is gone."""
        self.ending = ending
        self._line = _Ended(self._line)
        self._sweeper.no_more(self)
        early, self._early = self._early, []
        for call in self._pending.drain():
            call.waiter.errback(self._ended())
        for one in early:
            if one.sent is not None:
                one.sent.errback(self._ended())

    def _ended(self) -> NotConnected:
        return NotConnected(self.ending or f"the connection to {self._line.address} has ended")
