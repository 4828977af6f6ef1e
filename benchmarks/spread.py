"""Several measurements of one thing: the least, the middle and the most."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

import msgspec


class Spread(msgspec.Struct, frozen=True):
    """Minimum, median and maximum of C{rounds} figures."""

    minimum: float
    median: float
    maximum: float
    rounds: int

    @classmethod
    def of(cls, figures: Iterable[float]) -> Spread:
        """
        Return the spread of some figures.

        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(minimum=1.0, median=2.0, maximum=3.0, rounds=3)

        @raise statistics.StatisticsError: there is none.
        """
        known = sorted(figures)
        median = float(statistics.median(known))
        return cls(float(known[0]), median, float(known[-1]), len(known))


def ratios(ours: Iterable[float], others: Iterable[float]) -> Spread | None:
    """
    Divide round by round, first by first: rounds were run in turn, so what disturbed one disturbed its neighbour.

    >>> ratios([1.0, 2.0], [2.0, 4.0])
    Spread(minimum=0.5, median=0.5, maximum=0.5, rounds=2)

    @return: C{None} where there is no pair with a divisor.
    """
    pairs = [mine / other for mine, other in zip(ours, others, strict=False) if other]
    return Spread.of(pairs) if pairs else None
