"""
Periodic work for all links of a process together, so that no link needs a timer of its own.

 - once a reactor turn: see L{smartgo.net.turns}
 - once a second: members whose time has come apply the deadlines that are due (limits L8 to L13)
 - when the earliest deadline of a call comes: calls that brought no answer fail

A timer that fires late means that this process stood still (stopped, swapped out, busy): what the peers sent
meanwhile lies unread in the sockets. Both judges then wait for one more turn, in which it is read, before they call
anybody idle or late. Whoever has made promises for a time is told before any of it is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from smartgo.env.interfaces import IPoller
from smartgo.net.alarm import NEVER, STANDSTILL, Alarm
from smartgo.net.hub import Hub
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.net.slowturns import LIMIT, SlowTurns
from smartgo.net.turns import TurnScheduler
from smartgo.observer import ObserverList

INTERVAL: Final = 1.0  # seconds between two sweeps


class Member(Protocol):
    """A link, or whoever else has deadlines that need not be met to the moment."""

    @property
    def check_at(self) -> float:
        """
        The time at which L{check} is due next, in seconds of the clock; any earlier value asks for the next sweep.
        """

    def check(self, now: float) -> None:
        """Apply the deadlines that are due; C{check_at} is the next one afterwards."""


class Asker(Protocol):
    """The calls of one connection, or whatever else has deadlines that are to be met to the moment."""

    def expire(self, now: float) -> float:
        """Fail what waited too long; return the earliest deadline that is left, infinity for none."""


def _no_poller(ready: Callable[[], None]) -> None:
    """Return nothing: each transport reads for itself."""


class Sweeper:
    """
    The shared timers of a process's links; servers and clients are given the same one.

    @ivar clock: the clock that all times here are of.
    @ivar budget: the memory that peers may make the process keep.
    @ivar turns: whose turn it is.
    @ivar hub: reads the links that only wait for requests.
    @ivar slow: what held the reactor up.
    @ivar peer_warnings: rate-limited warnings about peers.
    @ivar stamp: a time not before now and at most two intervals ahead, cheap to read: what is stamped with it is
        never thought older than it is.
    @ivar overdue: when a sweep that has not come yet means that this process stood still; who reads from a peer later
        than that calls L{stood_still} before anything else.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        budget: MemoryBudget,
        slow: SlowTurns | None = None,
        poller: Callable[[Callable[[], None]], IPoller | None] = _no_poller,
    ) -> None:
        """@param poller: see L{INetwork.poller<smartgo.env.interfaces.INetwork.poller>}; by default there is none."""
        self.clock = clock
        self.budget = budget
        self.turns = TurnScheduler(clock)
        self.slow = SlowTurns(clock) if slow is None else slow
        self.hub = Hub(poller, self)
        self.peer_warnings = RateLimitedLog(clock)
        self.stamp = clock.seconds() + INTERVAL
        self.overdue = NEVER
        self._members: dict[Member, None] = {}
        self._sweep: IDelayedCall | None = None
        self._sweep_due = 0.0
        self._standstills: ObserverList[[float]] = ObserverList("a standstill of the process")
        self._askers: dict[Asker, None] = {}
        self._nearest = NEVER
        self._deadlines = Alarm(clock, lambda: self._nearest, self._expire)

    # -- once a second -------------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """Check this one too, from now on."""
        self._members[member] = None
        if self._sweep is None:
            now = self.clock.seconds()
            self.stamp = now + INTERVAL
            self.overdue = now + INTERVAL + STANDSTILL
            self._sweep_due = now + INTERVAL
            self._sweep = self.clock.callLater(INTERVAL, self._check_members)

    def leave(self, member: Member) -> None:
        """Check this one no more. Harmless when it was not checked."""
        self._members.pop(member, None)
        if not self._members and self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
            self.overdue = NEVER

    def when_stood_still(self, listener: Callable[[float], object]) -> None:
        """
        Call C{listener(seconds)} after each standstill while there are links, before what came meanwhile is read.

        @param listener: is given how long it was, up to a second more.
        """
        self._standstills.add(listener)

    def stood_still(self, now: float) -> None:
        """Report a standstill to the members: nothing was done since some time before C{overdue}."""
        seconds = now - self.overdue + STANDSTILL + INTERVAL
        self.overdue = now + INTERVAL + STANDSTILL
        self._standstills.tell(seconds)

    def note_runs(self, began: float, frames: int) -> None:
        """Count requests that were taken in runs since C{began}, where they held the reactor up for long."""
        seconds = self.clock.seconds() - began
        if seconds >= LIMIT and (seconds := min(seconds, self.slow.since(began))) >= LIMIT:
            self.slow.note("requests taken in runs", seconds, f"{frames} of them")

    def _check_members(self) -> None:
        now = self.clock.seconds()
        if now > self.overdue:
            self.stood_still(now)
        self.overdue = now + INTERVAL + STANDSTILL
        self.stamp = now + INTERVAL
        if now - self._sweep_due > STANDSTILL:
            self._sweep_due = now
            self._sweep = self.clock.callLater(0, self._check_members)
            return
        self._sweep_due = now + INTERVAL
        self._sweep = self.clock.callLater(INTERVAL, self._check_members)
        for member in [member for member in self._members if member.check_at <= now]:
            try:
                member.check(now)
            except Exception:
                self._log.failure("checking the deadlines of {member} failed", member=member)

    # -- deadlines -----------------------------------------------------------------------------------------

    def expect(self, asker: Asker, deadline: float) -> None:
        """Call C{asker.expire()} when this time has come."""
        self._askers[asker] = None
        self._deadlines.set_by(deadline)

    def no_more(self, asker: Asker) -> None:
        """Forget an asker that waits for nothing any longer."""
        self._askers.pop(asker, None)
        if not self._askers:
            self._deadlines.stop()

    def _expire(self, now: float) -> None:
        self._nearest = nearest = NEVER
        for asker in list(self._askers):
            try:
                left = asker.expire(now)
            except Exception:
                self._log.failure("expiring the calls of {asker} failed", asker=asker)
                left = NEVER
            if left == NEVER:
                self._askers.pop(asker, None)
            else:
                nearest = min(nearest, left)
        self._nearest = nearest
