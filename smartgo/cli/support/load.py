"""Sends a stream of messages and measures latencies."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

from twisted.internet.defer import Deferred

from smartgo.cli.support.parallel import gather
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.session import ClusterSession, pause
from smartgo.client.producer import Producer
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed

ANSWERED_WITHIN: Final = 10.0
"""
Seconds a send may take: more than a broker waits for its disk (C{syncFlushTimeout}, 5 s) or a slave (C{slaveTimeout},
3 s) before it says that the message is stored, but not yet there.
"""
_STEP: Final = 100  # steps of a latency by a factor of e: about one percent each
_GIVEN_UP: Final = 100  # failures after which a load is ended that never had a success


async def producer_of(session: ClusterSession, group: str) -> Producer:
    """Return a started producer whose timeout is longer than brokers may take to answer."""
    producer = Producer(session.client, group, timeout=ANSWERED_WITHIN)
    await producer.start()
    return producer


class Latencies:
    """
    A histogram of durations, exact to about one percent, in bounded memory.

    @ivar count: the number of durations.
    """

    def __init__(self) -> None:
        self.count = 0
        self.longest = 0.0
        self._sum = 0.0
        self._steps: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.count += 1
        self._sum += seconds
        self.longest = max(self.longest, seconds)
        step = math.ceil(math.log(max(seconds, 1e-6)) * _STEP)
        self._steps[step] = self._steps.get(step, 0) + 1

    def within(self, share: float) -> float:
        """Return the quantile of this share, in seconds; 0 for an empty histogram."""
        wanted = math.ceil(self.count * share)
        seen = 0
        for step in sorted(self._steps):
            seen += self._steps[step]
            if seen >= wanted:
                return min(math.exp(step / _STEP), self.longest)
        return 0.0

    def figures(self) -> dict[str, float]:
        """Return mean, quantiles 0.5, 0.9, 0.99 and 0.999, and maximum, in ms."""
        mean = self._sum / self.count if self.count else 0.0
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}
        found = {"mean": mean, **{name: self.within(share) for name, share in shares.items()}, "max": self.longest}
        return {name: round(seconds * 1000, 3) for name, seconds in found.items()}


class SendLoad:
    """Sends a stream of messages and records the latency of each send."""

    def __init__(
        self,
        clock: IClock,
        send: Callable[[int], Coroutine[Deferred[Any], Any, int]],
        count: int | None,
        seconds: float | None,
        in_flight: int,
        rate: float | None,
        progress: ProgressLine,
    ) -> None:
        """
        @param send: called with the number of the send; returns how many messages it sent.
        """
        self._clock = clock
        self._send = send
        self._limit = count if count is not None or seconds is not None else 10_000
        self._seconds = seconds
        self._in_flight = in_flight
        self._rate = rate
        self._progress = progress
        self._number = 0
        self.sent = 0
        self.failures = 0
        self.failure: str | None = None
        self.latencies = Latencies()
        self.took = 0.0

    async def run(self) -> None:
        """Send until the count or the time is reached."""
        self._begin = self._clock.seconds()
        await gather(self._lane() for _ in range(self._in_flight))
        self.took = max(self._clock.seconds() - self._begin, 1e-6)

    async def _lane(self) -> None:
        clock = self._clock
        while self._limit is None or self._number < self._limit:
            number = self._number
            self._number += 1
            if self._rate is not None:
                await pause(clock, self._begin + number / self._rate - clock.seconds())
            began = clock.seconds()
            if self._seconds is not None and began - self._begin >= self._seconds:
                return
            try:
                count = await self._send(number)
            except CallFailed as error:
                self.failures += 1
                self.failure = self.failure or str(error)
                if self.failures >= _GIVEN_UP and not self.sent:
                    raise
                continue
            self.latencies.add(clock.seconds() - began)
            self.sent += count
            self._progress.advance(count)
