"""A timer that serves many deadlines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.interfaces import IDelayedCall, IReactorTime

NEVER: Final = float("inf")
STANDSTILL: Final = 3.0
"""Seconds; a timer that fires this much too late tells that the process stood still."""

_LEAST: Final = 0.001  # seconds from look to look: a sum of floating point numbers may fall short of what was due


def _never() -> float:
    return NEVER


def _nothing(now: float) -> None:
    pass


class Alarm:
    """
    Calls back when the earliest of several deadlines has come.

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
        """Set the timer. Where it is set already this costs nothing, and what is due before that waits for it."""
        if self._timer is None:
            self._arm(self._due())

    def set_by(self, at: float) -> None:
        """Set the timer to this time, unless it is set to an earlier one."""
        if self._timer is not None:
            if at >= self._at:
                return
            self._timer.cancel()
            self._timer = None
        self._arm(at)

    def stop(self) -> None:
        """Cancel the timer, until L{set} is called."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def end(self) -> None:
        """Stop for good, and keep nothing that leads back to the owner: it is to be freed at once."""
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
        if now - self._at > STANDSTILL:
            self._arm(now)
            return
        self._look(now)
        self.set_by(max(self._due(), now + _LEAST))
