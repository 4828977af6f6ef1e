"""How long a client may take nothing of an answer that goes on."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.interfaces import IDelayedCall

from smartgo.env.interfaces import IClock


def _nobody() -> None:
    """Where nobody is to be told."""


class StallTimer:
    """A timer that runs while a client is stuck."""

    def __init__(self, clock: IClock, seconds: float, lost: Callable[[], object]) -> None:
        """
        @param lost: called when the client was stuck for so many seconds.
        """
        self._clock = clock
        self._seconds = seconds
        self._lost = lost
        self._timer: IDelayedCall | None = None

    def begin(self) -> None:
        """The client does not keep up; harmless where that is known."""
        if self._timer is None:
            self._timer = self._clock.callLater(self._seconds, self._lose)

    def end(self) -> None:
        """It does again, or is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Never wait again, and keep nothing that leads back to who waited."""
        self.end()
        self._lost = _nobody

    def _lose(self) -> None:
        self._timer = None
        self._lost()
