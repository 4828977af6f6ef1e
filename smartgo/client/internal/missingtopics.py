"""Repeated looks for topics that consumers want and that no registry knows yet (docs/spec/client#timers)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.env.interfaces import IClock, IRandom
from smartgo.errors import CallFailed, PeerRefused

LOOK: Final = 2.0
"""Seconds between two looks, at most; half of that at least."""
SOON: Final = 0.05
"""Seconds to the first look after a send that is about to create a topic; twice as many to each further one."""
LOOK_SELDOM: Final = 30.0
"""Seconds that the pauses become at most, where looks take long."""
_SHARE: Final = 10  # a pause is this many times as long as the look before it


class MissingTopics:
    """
    Looks for topics until they are there: all that are missing in one round, one after another.

    A round that takes long, for many topics or because of a registry that does not answer, is followed by a longer
    pause, so that clients do not burden registries.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        random: IRandom,
        missing: Callable[[], list[str]],
        ask: Callable[[str], Deferred[object]],
    ) -> None:
        """
        @param missing: returns the topics that are still missing.
        @param ask: looks a topic up, and takes note of what it finds; may fail with L{CallFailed}.
        """
        self._clock = clock
        self._random = random
        self._missing = missing
        self._ask = ask
        self._pause = LOOK  # seconds to the next round
        self._next: IDelayedCall | None = None
        self._looking = False
        self._stopped = False

    def look(self, within: float = LOOK) -> None:
        """Ask for the missing topics within C{within} seconds, and repeat that until none is missing."""
        if self._stopped:
            return
        self._pause = min(self._pause, within)
        if self._looking:
            return
        if self._next is not None:
            if self._next.getTime() <= self._clock.seconds() + self._pause:
                return
            self._next.cancel()
        self._plan()

    def stop(self) -> None:
        """End the looks."""
        self._stopped = True
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _plan(self) -> None:
        self._next = self._clock.callLater(self._pause * (0.5 + self._random.fraction() / 2), self._begin)

    def _begin(self) -> None:
        self._next = None
        self._looking = True
        begun = self._clock.seconds()
        self._pause = min(2 * self._pause, LOOK)
        Deferred.fromCoroutine(self._round()).addErrback(self._broke).addCallback(self._ended, begun)

    def _broke(self, failure: Failure) -> None:
        self._log.failure("topics that are missing could not be looked up", failure)

    def _ended(self, _: None, begun: float) -> None:
        self._looking = False
        if self._stopped:
            return
        if self._missing():
            self._pause = min(LOOK_SELDOM, max(self._pause, _SHARE * (self._clock.seconds() - begun)))
            self._plan()
        else:
            self._pause = LOOK

    async def _round(self) -> None:
        for topic in self._missing():
            try:
                await self._ask(topic)
            except PeerRefused:
                continue  # it is still missing, or it may not be read: the refresh of routes logs that
            except CallFailed:
                return
