"""Searches that wait until the index has come far enough, for some time."""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IClock

_LONGEST: Final = 2.0  # seconds that a search gives the index to catch up


class PositionWaiters:
    """The searches that wait for the index to reach a physical offset."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[int, Deferred[None]]] = []

    async def wait(self, position: int) -> None:
        """Return when L{reached} was called with that position or a later one, after some time, or at L{give_up}."""
        one: Deferred[None] = Deferred()
        entry = (position, one)
        self._waiting.append(entry)
        timer = self._clock.callLater(_LONGEST, self._too_late, entry)
        await one
        if timer.active():
            timer.cancel()

    def reached(self, position: int) -> None:
        """Resume the searches that wait for this position, or an earlier one."""
        if self._waiting:
            told = [one for one in self._waiting if one[0] <= position]
            self._waiting = [one for one in self._waiting if one[0] > position]
            for _, waiting in told:
                waiting.callback(None)

    def give_up(self) -> None:
        """Resume all searches."""
        waiting, self._waiting = self._waiting, []
        for _, one in waiting:
            one.callback(None)

    def _too_late(self, entry: tuple[int, Deferred[None]]) -> None:
        if entry in self._waiting:
            self._waiting.remove(entry)
            entry[1].callback(None)
