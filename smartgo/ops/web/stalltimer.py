"""A timer for clients that stop reading an open answer."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall

from smartgo.env.interfaces import IClock


def _nobody() -> None:
    """Do nothing, in place of a dropped callback."""


class StallTimer:
    """Runs while a client does not read."""

    def __init__(self, clock: IClock, seconds: float, lost: Callable[[], object]) -> None:
        """
        @param lost: called when the client was stuck for so many seconds.
        """
        self._clock = clock
        self._seconds = seconds
        self._lost = lost
        self._timer: IDelayedCall | None = None

    def begin(self) -> None:
        """Start the timer, unless it runs: the client stopped reading."""
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._lose)

    def end(self) -> None:
        """Stop the timer: the client reads again, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Stop for good and drop the callback, so that no reference cycle remains."""
        self.end()
        self._lost = _nobody

    def _lose(self) -> None:
        self._timer = None
        self._lost()
