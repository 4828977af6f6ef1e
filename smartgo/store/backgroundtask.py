"""Work in a lane that nobody waits for: how it ends, and when all of it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.observer import Waiters

T = TypeVar("T")


class BackgroundTask:
    """
    The tasks that one part of the store runs in its lane, counted.

    @ivar failed: the last piece of work that ended failed; the owner may reset it before it tries again.
    """

    _log = Logger()

    def __init__(self, what: str) -> None:
        """
        @param what: whose work it is, for the log.
        """
        self._what = what
        self._warned = False
        self._running = 0
        self._idle: Waiters[None] = Waiters()
        self.failed = False

    def follow(self, work: Deferred[T], done: Callable[..., None], *args: Any) -> Deferred[None]:
        """
        Have C{done} called with the result of some work; fires when that is over, and never fails.

        A failure is told in the log, the first of several that follow one another alone.
        """
        self._running += 1
        finished = work.addCallback(self._succeeded).addCallback(done, *args).addErrback(self._not_done)
        return finished.addBoth(self._ran)

    async def idle(self) -> None:
        """Return when nothing runs."""
        while self._running:
            await self._idle.wait()

    def _succeeded(self, result: T) -> T:
        self.failed = self._warned = False
        return result

    def _not_done(self, failure: Failure) -> None:
        self.failed = True
        if failure.check(OSError) is None:
            self._log.failure("{what} failed", failure, what=self._what)
        elif not self._warned:
            self._log.warn("{what} failed and will be tried again: {error}", what=self._what, error=str(failure.value))
        self._warned = True

    def _ran(self, _: None) -> None:
        self._running -= 1
        if not self._running:
            self._idle.fire(None)
