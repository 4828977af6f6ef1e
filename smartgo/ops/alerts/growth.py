"""How much something that only ever grows has grown in the last while, and where a line through points leads."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
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

    def add(self, key: str, at: float, value: float) -> float:
        """
        Take a value; return by how much it grew in the window that ends now. The first one grew by nothing.

        @param at: seconds of a clock that is not set back.
        """
        last, total = self._sums.get(key, (value, 0.0))
        total += value - last if value >= last else value
        self._sums[key] = value, total
        samples = self._samples.setdefault(key, deque())
        if len(samples) < 2 or at - samples[-1][0] >= self._window / _SAMPLES:
            samples.append((at, total))
        while len(samples) > 1 and samples[1][0] <= at - self._window:
            samples.popleft()
        return total - samples[0][1]

    def keep(self, keys: set[str]) -> None:
        """Forget all others."""
        for key in set(self._sums) - keys:
            del self._sums[key], self._samples[key]


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
