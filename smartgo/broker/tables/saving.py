"""
Saving of tables: soon after a change, never without one.

A table tells its L{Saving} of every change. The state is taken (C{snapshot}) when a save begins, so any number of
changes costs one save; one save runs at a time; an unchanged table has no timer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.errors import ServiceNotAvailable
from smartgo.tablefile import TableFile

RETRY = 5.0
"""Seconds until a failed save is tried again."""


class Saving:
    """
    Write one table's state to its file, C{delay} seconds after the first unsaved change.

    @ivar generation: how often the table has changed; pass it to L{wait}.
    @ivar saved: the generation that the file is known to hold.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        file: TableFile | None,
        snapshot: Callable[[], Any],
        delay: float,
        what: str,
    ) -> None:
        """
        @param file: where the table is kept; C{None}: nowhere, and every change counts as saved.
        @param snapshot: returns the state to be saved; what it returns must not be changed afterwards.
        @param delay: seconds from a change to the save that holds it; 0: at once.
        @param what: what the table is called in the log and in a remark, such as C{topic table}.
        """
        self._clock = clock
        self._file = file
        self._snapshot = snapshot
        self._delay = delay
        self._what = what
        self._timer: IDelayedCall | None = None
        self._running = False
        self._stopped = False
        self._waiting: list[tuple[int, Deferred[None]]] = []
        self.generation = 0
        self.saved = 0

    def changed(self) -> None:
        """Note a change; it is saved C{delay} seconds from now at the latest, unless the disk refuses."""
        self.generation += 1
        if self._file is None:
            self.saved = self.generation
        elif not self._running and not self._stopped:
            if self._delay <= 0:
                self._begin()
            elif self._timer is None:
                self._timer = self._clock.callLater(self._delay, self._begin)

    def wait(self, generation: int) -> Deferred[None] | None:
        """
        Wait until the file holds this generation; C{None}: it does.

        @raise ServiceNotAvailable: through the Deferred: the save failed. It will be tried again.
        """
        if generation <= self.saved:
            return None
        waiter: Deferred[None] = Deferred()
        self._waiting.append((generation, waiter))
        return waiter

    def save(self) -> Deferred[None]:
        """
        Save now what is not saved; fires when the file holds the table as it is at this call.

        @raise ServiceNotAvailable: through the Deferred: the save failed.
        """
        waiter = self.wait(self.generation)
        if waiter is None:
            return succeed(None)
        if not self._running:
            self._begin()
        return waiter

    def stop(self) -> Deferred[None]:
        """Set no more timers and save what is not saved; fires and fails as L{save}. Later changes are not saved."""
        self._stopped = True
        self._cancel()
        return self.save()

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()

    def _begin(self) -> None:
        self._cancel()
        assert self._file is not None  # noqa: S101  changed() and wait() see to it
        self._running = True
        self._file.save(self._snapshot()).addCallbacks(
            self._done, self._failed, callbackArgs=(self.generation,), errbackArgs=(self.generation,)
        )

    def _done(self, _: object, generation: int) -> None:
        self._running = False
        self.saved = generation
        self._release(generation, None)
        self._go_on(self._delay)

    def _failed(self, failure: Failure, generation: int) -> None:
        self._running = False
        self._log.failure(
            "the {what} was not saved; trying again in {seconds} s", failure, what=self._what, seconds=RETRY
        )
        self._release(generation, ServiceNotAvailable(f"the {self._what} could not be saved"))
        self._go_on(RETRY)

    def _go_on(self, delay: float) -> None:
        if self.saved == self.generation or self._running:
            return
        if self._waiting or delay <= 0:
            self._begin()
        elif not self._stopped and self._timer is None:
            self._timer = self._clock.callLater(delay, self._begin)

    def _release(self, generation: int, error: ServiceNotAvailable | None) -> None:
        ready = [waiter for wanted, waiter in self._waiting if wanted <= generation]
        self._waiting = [one for one in self._waiting if one[0] > generation]
        for waiter in ready:
            if error is None:
                waiter.callback(None)
            else:
                waiter.errback(error)
