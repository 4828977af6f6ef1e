"""A reactor of our own on an asyncio event loop that runs already."""

from __future__ import annotations

import asyncio

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.defer import Deferred


class LoopReactor(AsyncioSelectorReactor):
    """
    A reactor on the running asyncio loop, which it neither starts nor stops. It is never installed.

    It works beside an installed reactor, even beside one on the same loop, and beside others of its kind.
    """

    def __init__(self) -> None:
        """
        Start without signal handlers: these belong to the program.

        @raise RuntimeError: no asyncio loop runs in this thread.
        """
        super().__init__(asyncio.get_running_loop())
        self.startRunning(installSignalHandlers=False)

    def crash(self) -> None:
        """End the reactor as the last step of a stop, and leave the loop running."""
        super(AsyncioSelectorReactor, self).crash()

    def end(self) -> Deferred[None]:
        """Stop the reactor; fires when its threads have ended and its sockets and timers are gone."""
        ended: Deferred[None] = Deferred()
        self.addSystemEventTrigger("after", "shutdown", self._close, ended)
        self.stop()
        return ended

    def _close(self, ended: Deferred[None]) -> None:
        for call in self.getDelayedCalls():
            call.cancel()
        waker = self.waker
        if waker is not None:
            self.removeReader(waker)
            waker.connectionLost(None)
        ended.callback(None)
