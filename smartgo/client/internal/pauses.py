"""Pauses of coroutines that can all be ended at once."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall

from smartgo.env.interfaces import IClock


class Pauses:
    """
    The pauses of a group of coroutines; none is left after L{end}.

    @ivar ended: pauses end at once from now on: a loop that pauses must not go on.
    """

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._timers: dict[Deferred[None], IDelayedCall] = {}
        self.ended = False

    def of(self, seconds: float) -> Deferred[None]:
        """Fire after a number of seconds, or when all pauses are ended. The Deferred can be cancelled."""
        pause: Deferred[None] = Deferred(self._cancel)
        if self.ended:
            pause.callback(None)
        else:
            self._timers[pause] = self._clock.callLater(seconds, self._over, pause)
        return pause

    def end(self) -> None:
        """End all pauses, including future ones."""
        self.ended = True
        for pause, timer in list(self._timers.items()):
            timer.cancel()
            self._over(pause)

    def _over(self, pause: Deferred[None]) -> None:
        if self._timers.pop(pause, None) is not None:
            pause.callback(None)

    def _cancel(self, pause: Deferred[None]) -> None:
        timer = self._timers.pop(pause, None)
        if timer is not None:
            timer.cancel()
