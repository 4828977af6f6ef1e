"""Figures of a broker's process as its runtime information (28) tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smartgo.schema import refusalkind

_COUNTS: Final = (
    ("putFailures", "putMessageFailedTimes"),
    ("damagedRegions", "damagedRegions"),
    ("reactorStalls", "reactorStalls"),
    ("accessFilesRefused", "accessFilesRefused"),
)
"""Figures of a process, and the rows of the runtime information with them."""


def counts_of(told: Mapping[str, str]) -> dict[str, float]:
    """Return figures of a broker's process that alerts judge."""
    counts = {figure: number_of(told, name) for figure, name in _COUNTS if name in told}
    for figure in ("damagedRegions", "accessFilesRefused"):  # told only where there are some
        counts.setdefault(figure, 0.0)
    counts["storeRefuses"] = float(refusalkind.WORDS in told)
    return counts


def number_of(told: Mapping[str, str], name: str) -> float:
    """Return a number of a table; 0 where it is missing or no number."""
    try:
        return float(told.get(name, "0"))
    except ValueError:
        return 0.0
