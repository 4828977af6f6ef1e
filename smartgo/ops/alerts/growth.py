"""The growth of counters within a window of time, and the trend of a series."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

_SAMPLES: Final = 60


class Growth:
    """
    Growth of many counters within a window of time, as Prometheus' C{increase} has it: one that begins anew (its
    process was started again) counts from 0. What is kept of a counter is bounded.
    """

    def __init__(self, window: float) -> None:
        """@param window: seconds."""
        self._window = window
        self._samples: dict[str, deque[tuple[float, float]]] = {}
        self._sums: dict[str, tuple[float, float]] = {}  # the last value, and all growth so far
        self._keys: set[str] | None = None  # those that the last look saw

    def look(self, values: Mapping[str, float | None], at: float) -> dict[str, float | None]:
        """
        Take the values of all counters that there are, C{None} for an unknown one; return how much each grew.

        What the first look sees grew by nothing; a counter that the look before did not see began at 0 since.
        """
        new = set() if self._keys is None else values.keys() - self._keys
        self._keys = set(values)
        for key in self._sums.keys() - values.keys():
            del self._sums[key], self._samples[key]
        return {
            key: None if value is None else self.add(key, at, value, 0.0 if key in new else value)
            for key, value in values.items()
        }

    def begin_anew(self) -> None:
        """Forget everything: the next measurement counts as the first."""
        self._keys = None
        self._sums.clear()
        self._samples.clear()

    def add(self, key: str, at: float, value: float, first: float) -> float:
        """
        Take a value; return by how much it grew in the window that ends now.

        @param at: seconds of a clock that is not set back.
        @param first: what it was before, where nothing is known of it.
        """
        last, total = self._sums.get(key, (first, 0.0))
        total += value - last if value >= last else value
        self._sums[key] = value, total
        samples = self._samples.setdefault(key, deque([(at, 0.0)]))
        if len(samples) < 2 or at - samples[-1][0] >= self._window / _SAMPLES:
            samples.append((at, total))
        while len(samples) > 1 and samples[1][0] <= at - self._window:
            samples.popleft()
        return total - samples[0][1]


def led_to(at: Sequence[float], values: Sequence[float], when: float) -> float | None:
    """
    Return where the straight line through points, by least squares, is at a time; C{None} where there are too few.

    @param at: times in any unit, C{when} in the same.
    """
    count = len(at)
    if count < 2:
        return None
    middle, mean = sum(at) / count, sum(values) / count
    spread = sum((one - middle) ** 2 for one in at)
    if not spread:
        return None
    slope = sum((one - middle) * (value - mean) for one, value in zip(at, values, strict=True)) / spread
    return mean + slope * (when - middle)
