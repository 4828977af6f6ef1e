"""
What is done for all connections of a process together, so that none needs a timer of its own.

 - once a reactor turn: connections that something was put into outside their own reading write it out
 - once a second: whoever's time has come looks at what he may have missed (limits L8 to L13)
 - when the earliest deadline of a call comes: calls that brought no answer fail

A timer that fires late means that this process stood still (stopped, swapped out, busy): what the peers sent
meanwhile lies unread in the sockets. Both judges then wait for one more turn, in which it is read, before they call
anybody idle or late. Whoever has made promises for a time is told before any of it is answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from smartgo.net.counts import Counts
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.net.slowturns import SlowTurns

INTERVAL: Final = 1.0  # seconds between two looks
_NEVER: Final = float("inf")
_CHANGES: Final = 8  # so many reads of another peer each, or so many turns of one alone, change how answers leave
_LONG: Final = 512  # frames; after so many what waits for the end of the turn leaves before it
_SERVED: Final = 256  # frames that had to wait which are processed in one turn, of all connections together
_LATE: Final = 3.0  # seconds; a timer that comes this much too late tells of a standstill


class Member(Protocol):
    """Who is looked at."""

    @property
    def check_at(self) -> float:
        """When L{check} is due next, in seconds of the clock; any earlier value asks for the next look."""

    def check(self, now: float) -> None:
        """Look at what time may have brought, after which C{check_at} is another."""


class Woken(Protocol):
    """Who has something to do at the end of this turn."""

    def flush(self) -> None:
        """Write what was put; the rest can wait for the end of the turn."""

    def turn(self) -> None:
        """Do it."""


class Backlogged(Protocol):
    """Who has requests that wait for their turn."""

    def more(self) -> int:
        """Process some of them; return how many."""

    def flush(self) -> None:
        """Write the answers."""


class Run(Protocol):
    """A processor that was given requests and has not heard yet that there are no more for now."""

    def run_ended(self) -> None:
        """Hear it."""


class Asker(Protocol):
    """Who waits for answers."""

    def expire(self, now: float) -> float:
        """Fail what waited too long; return the earliest deadline that is left, infinity for none."""


class Sweeper:
    """
    The shared timers of a process's connections; servers and clients are given the same one.

    @ivar clock: the clock that all times here are of.
    @ivar budget: the memory that peers may make the process keep.
    @ivar slow: what held the reactor up.
    @ivar now: when a peer was last read, or a queue of requests last served.
    @ivar complaints: rationed warnings about peers.
    @ivar counts: what happened since the start.
    @ivar stamp: a time not before now and at most two intervals ahead, cheap to read: what is stamped with it is
        never thought older than it is.
    @ivar begun: processors whose run of requests is to be ended before any answer leaves.
    @ivar together: whether answers wait for the end of the turn, because many connections are read in each.
    @ivar overdue: when a look that has not come yet means that this process stood still; who reads from a peer later
        than that calls L{stood_still} before anything else.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime, budget: MemoryBudget, slow: SlowTurns | None = None) -> None:
        self.clock = clock
        self.budget = budget
        self.slow = SlowTurns(clock) if slow is None else slow
        self.now = clock.seconds()
        self.complaints = RateLimitedLog(clock)
        self.counts = Counts()
        self.stamp = clock.seconds() + INTERVAL
        self._members: dict[Member, None] = {}
        self._looks: IDelayedCall | None = None
        self._look_due = 0.0
        self._look_waits = False
        self.overdue = _NEVER
        self._sleepers: list[Callable[[float], object]] = []
        self.begun: list[Run] = []
        self.together = False
        self._reader: object = None  # who was read last
        self._reads = 0  # how often running it was another than before; while together, by one alone in its turn
        self._taken = 0  # frames, since the last answers left
        self._woken: list[Woken] = []
        self._end_of_turn: IDelayedCall | None = None
        self._backlog: deque[Backlogged] = deque()
        self._askers: dict[Asker, None] = {}
        self._deadline: IDelayedCall | None = None
        self._deadline_due = 0.0

    # -- once a second -------------------------------------------------------------------------------------

    def join(self, member: Member) -> None:
        """Look at this one too, from now on."""
        self._members[member] = None
        if self._looks is None:
            now = self.clock.seconds()
            self.stamp = now + INTERVAL
            self.overdue = now + INTERVAL + _LATE
            self._look_due = now + INTERVAL
            self._looks = self.clock.callLater(INTERVAL, self._look)

    def leave(self, member: Member) -> None:
        """Look no more. Harmless when it was not looked at."""
        self._members.pop(member, None)
        if member is self._reader:
            self._reader = None
        if not self._members and self._looks is not None:
            self._looks.cancel()
            self._looks = None
            self.overdue = _NEVER

    def when_stood_still(self, listener: Callable[[float], object]) -> None:
        """
        Call C{listener(seconds)} after each standstill while there are connections, before what came meanwhile is read.

        @param listener: is given how long it was, up to a second more.
        """
        self._sleepers.append(listener)

    def stood_still(self, now: float) -> None:
        """Nothing was done since some time before C{overdue}."""
        seconds = now - self.overdue + _LATE + INTERVAL
        self.overdue = now + INTERVAL + _LATE
        for listener in self._sleepers:
            try:
                listener(seconds)
            except Exception:
                self._log.failure("telling of a standstill of {seconds:.3f} s failed", seconds=seconds)

    def _look(self) -> None:
        now = self.clock.seconds()
        if now > self.overdue:
            self.stood_still(now)
        self.overdue = now + INTERVAL + _LATE
        self.stamp = now + INTERVAL
        if now - self._look_due > _LATE:
            self._look_due = now
            self._looks = self.clock.callLater(0, self._look)
            return
        self._look_due = now + INTERVAL
        self._looks = self.clock.callLater(INTERVAL, self._look)
        for member in [member for member in self._members if member.check_at <= now]:
            try:
                member.check(now)
            except Exception:
                self._log.failure("looking at {member} failed", member=member)

    # -- once a turn ---------------------------------------------------------------------------------------

    def wake(self, who: Woken) -> None:
        """Call C{who.turn()} once, at the end of this reactor turn; the caller asks once a turn."""
        if self._end_of_turn is None:
            self._end_of_turn = self.clock.callLater(0, self._turn)
        self._woken.append(who)

    def sleep(self, who: Woken) -> None:
        """This one has nothing to do at the end of the turn after all. Harmless when it had not."""
        if who in self._woken:
            self._woken.remove(who)
            self._perhaps_no_turn()

    def queue(self, who: Backlogged) -> None:
        """Call C{who.more()} once, when it is its turn; the caller asks once."""
        if self._end_of_turn is None:
            self._end_of_turn = self.clock.callLater(0, self._turn)
        self._backlog.append(who)

    def leave_queue(self, who: Backlogged) -> None:
        """This one has no requests any more."""
        self._backlog.remove(who)
        self._perhaps_no_turn()

    def _perhaps_no_turn(self) -> None:
        if not self._woken and not self._backlog and not self.begun and self._end_of_turn is not None:
            self._end_of_turn.cancel()
            self._end_of_turn = None

    def _turn(self) -> None:
        self._end_of_turn = None
        if self.begun:
            self.end_runs()
        woken, self._woken = self._woken, []
        if self.together:
            self._reads = 0 if len(woken) > 1 else self._reads + 1
            if self._reads >= _CHANGES:
                self.together = False
                self._reads = 0
        for who in woken:
            try:
                who.turn()
            except Exception:
                self._log.failure("the turn of {who} failed", who=who)
        if self._backlog:
            self._serve()

    def _serve(self) -> None:
        """
        Process requests that wait, some of each connection, round and round; the answers leave together.

        What is read in the next turn comes before those that wait on: a client that sends a request now and then does
        not stand behind thousands of another's.
        """
        left = _SERVED
        served: list[Backlogged] = []
        for _ in range(len(self._backlog)):
            self.now = self.clock.seconds()
            if left <= 0 or not self._backlog:
                break
            who = self._backlog.popleft()
            served.append(who)
            try:
                left -= max(1, who.more())
            except Exception:
                self._log.failure("the requests of {who} failed", who=who)
        if self.begun:
            self.end_runs()
        for who in served:
            who.flush()
        if self._backlog and self._end_of_turn is None:
            self._end_of_turn = self.clock.callLater(0, self._turn)

    def read(self, who: object, frames: int) -> None:
        """
        Note whose frames were answered, and how many; decide whether answers go out together.

        To send wakes the receiver, and is dear where it sleeps. So when many peers are read in one turn, their answers
        leave one after another at its end, when the first of them are awake; and the processors end one run instead of
        many. A peer alone is answered at once.
        """
        if self.together:
            self._taken += frames
            if self._taken >= _LONG:
                self.end_runs()
                for one in self._woken:
                    one.flush()
        elif who is self._reader:
            self._reads = 0
        else:
            self._reader = who
            self._reads += 1
            if self._reads >= _CHANGES:
                self.together = True
                self._reads = 0

    def end_runs(self) -> None:
        """Tell the processors that there are no more requests for now; what they answered may leave then."""
        self._taken = 0
        ended = self.begun[:]
        self.begun.clear()  # whoever is in the middle of a run has the same list
        for run in ended:
            try:
                run.run_ended()
            except Exception:
                self._log.failure("ending a run of requests failed")

    # -- deadlines -----------------------------------------------------------------------------------------

    def expect(self, asker: Asker, deadline: float) -> None:
        """Call C{asker.expire()} when this time has come."""
        self._askers[asker] = None
        self._expect_at(deadline)

    def no_more(self, asker: Asker) -> None:
        """This one waits for nothing any longer."""
        self._askers.pop(asker, None)
        if not self._askers and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _expect_at(self, deadline: float) -> None:
        if self._deadline is None:
            self._set_deadline(deadline)
        elif deadline < self._deadline_due:
            self._deadline.cancel()
            self._set_deadline(deadline)

    def _set_deadline(self, deadline: float) -> None:
        self._deadline_due = deadline
        self._deadline = self.clock.callLater(max(0.0, deadline - self.clock.seconds()), self._expire)

    def _expire(self) -> None:
        self._deadline = None
        now = self.clock.seconds()
        if now - self._deadline_due > _LATE:
            self._set_deadline(now)
            return
        nearest = _NEVER
        for asker in list(self._askers):
            try:
                left = asker.expire(now)
            except Exception:
                self._log.failure("expiring the calls of {asker} failed", asker=asker)
                left = _NEVER
            if left == _NEVER:
                self._askers.pop(asker, None)
            else:
                nearest = min(nearest, left)
        if nearest < _NEVER:
            self._expect_at(nearest)
