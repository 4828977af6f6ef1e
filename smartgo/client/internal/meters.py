"""Rates and times of a consumer's topics, for tools (307)."""

from __future__ import annotations

from typing import Final

from smartgo.env.interfaces import IClock
from smartgo.schema.bodies import ConsumeStatus

WINDOW: Final = 60.0
"""Seconds; figures are of the last whole window, or of the first while it lasts."""


class Meter:
    """A counter of events and their durations."""

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._begin = clock.seconds()
        self._count = 0
        self._sum = 0.0
        self._last: tuple[int, float] | None = None

    def add(self, count: int, seconds: float = 0.0) -> None:
        """
        Count events.

        @param seconds: how long they took, together.
        """
        self._turn()
        self._count += count
        self._sum += seconds

    def _turn(self) -> float:
        """Begin a new window if the current one has ended; return the age of the current window, in seconds."""
        age = self._clock.seconds() - self._begin
        if age >= WINDOW:
            self._last = (self._count, self._sum) if age < 2 * WINDOW else (0, 0.0)
            self._begin += age // WINDOW * WINDOW
            self._count, self._sum = 0, 0.0
            age %= WINDOW
        return age

    @property
    def per_second(self) -> float:
        """Return the events per second."""
        age = self._turn()
        if self._last is not None:
            return self._last[0] / WINDOW
        return self._count / age if age else 0.0

    @property
    def average_ms(self) -> float:
        """Return the average duration of an event, in ms."""
        self._turn()
        count, total = self._last if self._last is not None else (self._count, self._sum)
        return total * 1000 / count if count else 0.0


class TopicMeters:
    """
    The meters of one topic.

    @ivar pulls: of pulls that brought messages, by message; C{done} and C{failed}: of messages given to the listener.
    @ivar failures: messages that failed since the start.
    """

    def __init__(self, clock: IClock) -> None:
        self.pulls = Meter(clock)
        self.done = Meter(clock)
        self.failed = Meter(clock)
        self.failures = 0

    def consumed(self, count: int, seconds: float, success: bool) -> None:
        """
        Count a listener call that ended.

        @param count: its messages.
        @param seconds: how long it took.
        """
        if success:
            self.done.add(count, seconds)
        else:
            self.failed.add(count, seconds)
            self.failures += count

    def status(self) -> ConsumeStatus:
        """Return the figures in the form that tools read."""
        return ConsumeStatus(
            pull_rt=self.pulls.average_ms,
            pull_tps=self.pulls.per_second,
            consume_rt=self.done.average_ms,
            consume_ok_tps=self.done.per_second,
            consume_failed_tps=self.failed.per_second,
            consume_failed_msgs=self.failures,
        )
