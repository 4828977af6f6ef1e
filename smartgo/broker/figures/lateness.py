"""A histogram of how long after their time messages were delivered."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

STEPS_MS: Final = (10, 50, 100, 500, 1000, 5000, 10_000, 60_000)
"""Upper ends of the steps, in milliseconds; what is later is in a step of its own."""


class Lateness:
    """
    A histogram of lateness.

    @ivar counts: how many messages fell into each of L{STEPS_MS}, and above.
    @ivar total_ms: the sum.
    @ivar highest_ms: the highest.
    """

    def __init__(self) -> None:
        self.counts = [0] * (len(STEPS_MS) + 1)
        self.total_ms = 0
        self.highest_ms = 0

    @property
    def count(self) -> int:
        """The number of messages that were delivered."""
        return sum(self.counts)

    def add(self, late_ms: int) -> None:
        """Count one message."""
        self.counts[bisect_left(STEPS_MS, late_ms)] += 1
        self.total_ms += late_ms
        self.highest_ms = max(self.highest_ms, late_ms)
