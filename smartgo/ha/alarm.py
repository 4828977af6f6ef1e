"""One timer for many things that have their time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

NEVER: Final = float("inf")
_LATE: Final = 3.0  # seconds; a timer that comes this much too late tells of a standstill
_LEAST: Final = 0.001  # seconds from look to look: a sum of floating point numbers may fall short of what was due


def _never() -> float:
    return NEVER


def _nothing(now: float) -> None:
    pass


class Alarm:
    """
    Looks at things when the earliest of them is due.

    A timer that fires late means that this process stood still (stopped, swapped out): what the other end said
    meanwhile lies unread in the socket. One more turn passes then, in which it is read, before anybody is judged.
    """

    def __init__(self, clock: IReactorTime, due: Callable[[], float], look: Callable[[float], None]) -> None:
        """
        @param due: tells when C{look} is due at the earliest, in seconds of the clock; L{NEVER} for not at all.
        @param look: called with the present time; C{due} is later afterwards.
        """
        self._clock = clock
        self._due = due
        self._look = look
        self._timer: IDelayedCall | None = None
        self._at = 0.0

    def set(self) -> None:
        """Look when it is due. Where that is set already it costs nothing, and what is due before that waits for it."""
        if self._timer is None:
            self._arm(self._due())

    def stop(self) -> None:
        """Look no more, until L{set} is called."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Look never again, and keep nothing that leads back to the owner: it is to be freed at once."""
        self.stop()
        self._due = _never
        self._look = _nothing

    def _arm(self, at: float) -> None:
        if at < NEVER:
            self._at = at
            self._timer = self._clock.callLater(max(0.0, at - self._clock.seconds()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = self._clock.seconds()
        if now - self._at > _LATE:
            self._arm(now)
            return
        self._look(now)
        if self._timer is None:
            self._arm(max(self._due(), now + _LEAST))
