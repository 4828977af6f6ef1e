"""The results of a comparison: samples by row, broker and round, their ratios, and the goals held against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..firsttouch import FirstTouch
from ..noise import cautions
from ..results import read
from ..spread import Spread, ratios
from .rows import Quantity, RatioGoal


class Pace(msgspec.Struct, frozen=True):
    """The number and length of the rounds."""

    rounds: int = 3
    seconds: float = 8.0
    """Length of the window of one of Apache's producers."""
    warm_up: float = 5.0
    """Seconds of a producer from its first message to its window."""
    load_seconds: float = 3.0
    """Length of the window of a load of the generator."""
    first_warm_up: float | None = None
    """Seconds of load on a broker that has just started; C{None}: 15 for a JVM, 2 for ours."""
    backlog: int = 1_000_000
    """Messages that a consumer finds."""


class Sample(msgspec.Struct, frozen=True):
    """One round of one row on one broker."""

    row: str
    target: str
    round: int
    figures: dict[Quantity, float]
    failed: int = 0
    """Messages refused or lost, by the client's count."""
    foreign_cores: float = 0.0
    """Processors that were busy with neither this broker nor its client."""


class Verdict(msgspec.Struct, frozen=True):
    """A goal beside the ratios of all rounds; C{got} is C{None} where they were not measured."""

    goal: RatioGoal
    target: str
    got: Spread | None

    @property
    def met(self) -> bool:
        """Tell whether the median keeps within the goal."""
        return self.got is not None and self.goal.met_by(self.got.median)


class Comparison(msgspec.Struct):
    """Everything one run found, with the facts needed to read it."""

    started: str
    machine: Mapping[str, Any]
    targets: list[Mapping[str, Any]]
    reference: str
    """The name of the broker that the others are divided by."""
    options: Pace
    first_touch: FirstTouch | None = None
    warmed_bytes: int = 0
    """Memory that was touched and given back before each round, the same for all brokers."""
    samples: list[Sample] = []
    verdicts: list[Verdict] = []
    failures: list[str] = []
    took_s: float = 0.0

    @property
    def names(self) -> list[str]:
        """The names of the brokers, in the order given."""
        return [str(each["name"]) for each in self.targets]

    @property
    def rows(self) -> list[str]:
        """The names of the rows that have samples, in the order measured."""
        return list(dict.fromkeys(each.row for each in self.samples))

    def of(self, row: str, target: str) -> list[Sample]:
        """Return the samples of a row on a broker in the order of their rounds."""
        found = [each for each in self.samples if (each.row, each.target) == (row, target)]
        return sorted(found, key=lambda each: each.round)

    def figures(self, row: str, target: str, quantity: Quantity) -> dict[int, float]:
        """Return a quantity by round."""
        return {each.round: each.figures[quantity] for each in self.of(row, target) if quantity in each.figures}

    def spread(self, row: str, target: str, quantity: Quantity) -> Spread | None:
        """Return a quantity over all rounds; C{None} where it was not measured."""
        found = self.figures(row, target, quantity)
        return Spread.of(found.values()) if found else None

    def ratio(self, row: str, target: str, quantity: Quantity) -> Spread | None:
        """Divide a broker's quantity by the reference's, each round by the same round."""
        ours, theirs = self.figures(row, target, quantity), self.figures(row, self.reference, quantity)
        both = sorted(ours.keys() & theirs.keys())
        return ratios((ours[number] for number in both), (theirs[number] for number in both))

    def main_share(self, row: str, target: str) -> float | None:
        """Return the part of a broker's CPU time that its main thread spent, over all rounds."""
        main, total = (sum(self.figures(row, target, each).values()) for each in ("main_us", "cpu_us"))
        return main / total if total else None

    def foreign_cores(self, row: str) -> float:
        """Return the processors that others kept busy in the middle sample of a row."""
        return Spread.of(each.foreign_cores for each in self.samples if each.row == row).median

    def judge(self, goals: Iterable[RatioGoal], target: str, rows: Sequence[str]) -> None:
        """Hold one broker against the goals of the rows that were to run."""
        self.verdicts += [
            Verdict(goal, target, self.ratio(goal.row, target, goal.quantity)) for goal in goals if goal.row in rows
        ]

    def cautions(self) -> list[str]:
        """Return sentences that say why these figures should not be quoted; empty if they may be."""
        return cautions(((row, self.foreign_cores(row)) for row in self.rows), self.options.rounds)


def load(path: Path) -> Comparison:
    """
    Read the results that a run wrote.

    @raise BenchmarkError: the file is none of a comparison.
    """
    return read(path, Comparison, "comparison")
