"""The schedule of a sampler: one sample after another, with a pause that depends on how long the last one took."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed


class SamplingSchedule:
    """
    Runs one sampler. A sample that fails is logged, unless no broker answered; the next one comes all the same.

    @ivar stopped: no sample begins any more.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        what: str,
        sample: Callable[[], Coroutine[Deferred[Any], Any, None]],
        pause: Callable[[float], float],
    ) -> None:
        """
        @param what: what is sampled, for the log.
        @param sample: takes one sample.
        @param pause: returns the seconds until the next one, from those that the last one took.
        """
        self._clock = clock
        self._what = what
        self._sample = sample
        self._pause = pause
        self._call: IDelayedCall | None = None
        self._busy: Deferred[None] | None = None
        self.stopped = False

    def start(self, delay: float) -> None:
        """Begin the first sample after so many seconds."""
        self._call = self._clock.callLater(delay, self._tick)

    def hurry(self) -> None:
        """Begin the next sample now, unless one is under way."""
        if self._call is not None and not self.stopped:
            self._call.cancel()
            self.start(0.0)

    def stop(self) -> None:
        """Begin no more samples, and end the one that is under way."""
        self.stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._busy is not None:
            self._busy.cancel()

    def _tick(self) -> None:
        self._call = None
        began = self._clock.seconds()
        self._busy = Deferred.fromCoroutine(self._sample())
        self._busy.addErrback(self._failed).addCallback(self._done, began)

    def _failed(self, failure: Failure) -> None:
        if not self.stopped and not failure.check(CallFailed):
            self._log.failure("sampling {what} failed", failure, what=self._what)

    def _done(self, _: object, began: float) -> None:
        self._busy = None
        if not self.stopped:
            self.start(self._pause(self._clock.seconds() - began))
