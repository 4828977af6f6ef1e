"""The sends that wait until a slave has their part of the log."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime

from smartgo.net.alarm import NEVER, Alarm
from smartgo.store.interfaces import PutStatus


class _Waiter(NamedTuple):
    end: int
    deadline: float
    told: Deferred[PutStatus]


class Confirmations:
    """Sends that wait for a slave, oldest first: with it their places in the log and their deadlines only grow."""

    def __init__(self, clock: IReactorTime, timeout: float) -> None:
        """
        @param timeout: how long each waits, in seconds.
        """
        self._clock = clock
        self._timeout = timeout
        self._waiters: deque[_Waiter] = deque()
        self._alarm = Alarm(clock, self._due, self._expire)

    def wait(self, end: int) -> Deferred[PutStatus]:
        """Fire with OK when a slave has the log up to physical offset C{end}, with FLUSH_SLAVE_TIMEOUT if none has."""
        told: Deferred[PutStatus] = Deferred()
        self._waiters.append(_Waiter(end, self._clock.seconds() + self._timeout, told))
        self._alarm.set()
        return told

    def reached(self, begin: int, end: int) -> None:
        """Confirm the sends between two physical offsets, which a slave has now; those before C{begin} wait on."""
        waiters = self._waiters
        before: list[_Waiter] = []
        while waiters and waiters[0].end <= begin:
            before.append(waiters.popleft())
        has: list[_Waiter] = []
        while waiters and waiters[0].end <= end:
            has.append(waiters.popleft())
        waiters.extendleft(reversed(before))
        for waiter in has:
            _tell(waiter, PutStatus.OK)

    def stop(self) -> None:
        """End every waiting send as timed out."""
        self._alarm.stop()
        while self._waiters:
            _tell(self._waiters.popleft(), PutStatus.FLUSH_SLAVE_TIMEOUT)
        self._alarm.stop()

    def _due(self) -> float:
        return self._waiters[0].deadline if self._waiters else NEVER

    def _expire(self, now: float) -> None:
        waiters = self._waiters
        while waiters and waiters[0].deadline <= now:
            _tell(waiters.popleft(), PutStatus.FLUSH_SLAVE_TIMEOUT)


def _tell(waiter: _Waiter, status: PutStatus) -> None:
    if not waiter.told.called:  # a caller may have cancelled it
        waiter.told.callback(status)
