"""Limits on requests, and on failed logins, by address."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_ADDRESSES: Final = 4096  # remembered

FAILURES: Final = 5
"""Wrong tokens, codes or sessions of one address in a minute; after these it gets 429 (reliability X10)."""
FAILURE_SECONDS: Final = 60.0
BURST_SECONDS: Final = 5.0
"""Requests that were not made are saved up for so long."""


class Allowance:
    """
    A bucket for each address that drips full: C{rate} a second, C{most} at once. Sans I/O; bounded.
    """

    def __init__(self, seconds: Callable[[], float], rate: float, most: float) -> None:
        """
        @param seconds: the monotonic clock.
        """
        self._seconds = seconds
        self._rate = rate
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # level, when

    def wait(self, address: str) -> float:
        """Return how many seconds this address must wait; 0 if it need not."""
        level = self._level(address)
        return 0.0 if level >= 1 else (1 - level) / self._rate

    def take(self, address: str) -> None:
        """Count one request."""
        level = self._level(address)
        self._buckets[address] = (max(0.0, level - 1), self._seconds())
        self._buckets.move_to_end(address)
        if len(self._buckets) > _ADDRESSES:
            self._buckets.popitem(last=False)

    def _level(self, address: str) -> float:
        found = self._buckets.get(address)
        if found is None:
            return self._most
        level, when = found
        return min(self._most, level + (self._seconds() - when) * self._rate)
