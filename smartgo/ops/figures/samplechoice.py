"""Choose which of many groups or topics are sampled: the most active, and those that somebody opened last."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

WANTED: Final = 64
"""Names that somebody opened last, which are sampled whatever their activity."""
FADE: Final = 0.98
"""Of its weight that a name keeps from sample to sample, so that a short pause does not end its chart."""


class SampleChoice:
    """
    Chooses up to a number of names by their weight; of equal weight the first ones.

    Sans I/O. The order of a call: L{know}, L{chosen} and L{probed}, then L{weigh} for each that was measured.
    """

    def __init__(self, limit: int, probed: int = 0) -> None:
        """
        @param limit: names that are chosen.
        @param probed: names beyond them that L{probed} gives at a time.
        """
        self._limit = limit
        self._probed = probed
        self._names: list[str] = []
        self._weights: dict[str, float] = {}
        self._wanted: OrderedDict[str, None] = OrderedDict()
        self._turn = 0

    def want(self, name: str) -> None:
        """Choose a name that exists before others, until many later ones were wanted."""
        self._wanted[name] = None
        self._wanted.move_to_end(name)
        if len(self._wanted) > min(WANTED, self._limit):
            self._wanted.popitem(last=False)

    def know(self, names: Iterable[str]) -> None:
        """Take the names that exist now, the more important first, and let all weights fade."""
        self._names = list(names)
        weights = self._weights
        self._weights = {name: weights[name] * FADE for name in self._names if name in weights}

    def weigh(self, name: str, weight: float) -> None:
        """Take how active a name is: the messages of a minute, and those that wait."""
        self._weights[name] = max(weight, self._weights.get(name, 0.0))

    def chosen(self) -> set[str]:
        """Return the names to sample."""
        if len(self._names) <= self._limit:
            return set(self._names)
        ranked = sorted(self._names, key=lambda name: (name not in self._wanted, -self._weights.get(name, 0.0)))
        return set(ranked[: self._limit])

    def probed(self) -> list[str]:
        """Return some of the other names: those whose turn it is."""
        chosen = self.chosen()
        others = [name for name in self._names if name not in chosen]
        if len(others) <= self._probed:
            return others
        begin = self._turn % len(others)
        self._turn = begin + self._probed
        return [*others, *others][begin : begin + self._probed]
