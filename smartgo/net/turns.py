"""
The order of work in one turn of the reactor: which answers leave at its end, whose waiting requests come next.

 - once a reactor turn: links that something was put into outside their own reading write it out
 - links with more requests than one turn may take stand in a queue, and get some processed each, round and round
 - where many links are read in each turn, their answers leave together at its end
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

FRAMES_A_TURN: Final = 64
"""Requests of one link that are processed before it is another one's turn."""

_CHANGES: Final = 8  # so many reads of another peer each, or so many turns of one alone, change how answers leave
_LONG: Final = 512  # frames; after so many what waits for the end of the turn leaves before it
_SERVED: Final = 256  # frames that had to wait which are processed in one turn, of all links together


class WokenLink(Protocol):
    """A link with something to do at the end of this turn."""

    def flush(self) -> None:
        """Write what was put; the rest can wait for the end of the turn."""

    def turn(self) -> None:
        """Do what waited for the end of the turn."""


class Backlogged(Protocol):
    """A link with requests that wait for their turn."""

    def more(self) -> int:
        """Process some of them; return how many."""

    def flush(self) -> None:
        """Write the answers."""


class TurnScheduler:
    """
    The turns of all links of a process.

    @ivar began_at: when a peer was last read, or a queue of requests last served.
    @ivar begun: what is to be called, once for many requests, before any answer leaves.
    @ivar together: whether answers wait for the end of the turn, because many links are read in each.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self.began_at = clock.seconds()
        self.begun: list[Callable[[], None]] = []
        self.together = False
        self._reader: object = None  # who was read last
        self._reads = 0  # how often running it was another than before; while together, by one alone in its turn
        self._taken = 0  # frames, since the last answers left
        self._woken: list[WokenLink] = []
        self._end_of_turn: IDelayedCall | None = None
        self._backlog: deque[Backlogged] = deque()

    def wake(self, who: WokenLink) -> None:
        """Call C{who.turn()} once, at the end of this reactor turn; the caller asks once a turn."""
        if self._end_of_turn is None:
            self._end_of_turn = self._clock.callLater(0, self._turn)
        self._woken.append(who)

    def sleep(self, who: WokenLink) -> None:
        """Undo L{wake}. Harmless if it was not called."""
        if who in self._woken:
            self._woken.remove(who)
            self._perhaps_no_turn()

    def queue(self, who: Backlogged) -> None:
        """Call C{who.more()} once, when it is its turn; the caller asks once."""
        if self._end_of_turn is None:
            self._end_of_turn = self._clock.callLater(0, self._turn)
        self._backlog.append(who)

    def leave_queue(self, who: Backlogged) -> None:
        """Undo L{queue}."""
        self._backlog.remove(who)
        self._perhaps_no_turn()

    def forget_reader(self, who: object) -> None:
        """Keep no reference to a link that is gone."""
        if who is self._reader:
            self._reader = None

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
        Process requests that wait, some of each link, round and round; the answers leave together.

        What is read in the next turn comes before those that wait on: a client that sends a request now and then does
        not stand behind thousands of another's.
        """
        left = _SERVED
        served: list[Backlogged] = []
        for _ in range(len(self._backlog)):
            self.began_at = self._clock.seconds()
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
            self._end_of_turn = self._clock.callLater(0, self._turn)

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
        """Tell the processors that no requests are left for now, so that their answers may leave."""
        self._taken = 0
        ended = self.begun[:]
        self.begun.clear()  # whoever is in the middle of a run has the same list
        for end in ended:
            try:
                end()
            except Exception:
                self._log.failure("ending a run of requests failed")
