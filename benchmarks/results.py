"""The results of a run: figures by scenario and broker, compared with the goals, and written as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from .errors import BenchmarkError
from .generator import Outcome
from .scenarios import Goal, Quantity
from .spread import Spread, ratios

_T = TypeVar("_T")


class Round(msgspec.Struct, frozen=True):
    """One load run: what the generator said, and how many cores were busy with neither it nor the broker."""

    outcome: Outcome
    foreign_cores: float


class Loaded(msgspec.Struct):
    """The rounds of one scenario on one broker; C{error} says why there are none, or no more."""

    scenario: str
    target: str
    rounds: list[Round] = []
    resident_mb: float = 0.0
    anonymous_mb: float = 0.0
    error: str | None = None

    def figures(self) -> list[float]:
        """Return the broker's CPU microseconds a message, round by round; rounds without a message are left out."""
        return [each.outcome.server_cpu_us for each in self.rounds if each.outcome.messages]

    def cpu(self) -> Spread | None:
        """Return the spread of L{figures}."""
        return Spread.of(figures) if (figures := self.figures()) else None

    def rate(self) -> Spread:
        """Return the spread of messages a second."""
        return Spread.of(each.outcome.rate for each in self.rounds)

    def bad_codes(self) -> dict[str, int]:
        """Add up how often codes but success were answered."""
        total: dict[str, int] = {}
        for each in self.rounds:
            for code, times in each.outcome.bad_codes.items():
                total[code] = total.get(code, 0) + times
        return total


class Quiet(msgspec.Struct):
    """A broker left alone for C{seconds}: its share of a core, and its memory at the end."""

    scenario: str
    target: str
    seconds: float
    percent: float
    anonymous_mb: float
    resident_mb: float


class Starts(msgspec.Struct):
    """Seconds from start to ready, start by start."""

    target: str
    seconds: list[float]


class Verdict(msgspec.Struct, frozen=True):
    """A goal beside what was got; C{got} is C{None} where it was not measured."""

    goal: Goal
    target: str
    got: float | None

    @property
    def met(self) -> bool:
        """Tell whether the figure was measured and meets the goal."""
        return self.got is not None and self.got <= self.goal.at_most


class Results(msgspec.Struct):
    """Everything one run found, with the facts needed to read it."""

    started: str
    machine: Mapping[str, Any]
    targets: list[Mapping[str, Any]]
    options: Mapping[str, Any]
    loads: list[Loaded] = []
    quiet: list[Quiet] = []
    starts: list[Starts] = []
    verdicts: list[Verdict] = []
    complaints: list[str] = []
    """What went wrong besides the figures, such as a broker that had to be killed."""

    def figure(self, target: str, scenario: str, quantity: Quantity) -> float | None:
        """Return the median of a quantity, C{None} where it was not measured."""
        if quantity == "cpu_us":
            spread = next(
                (each.cpu() for each in self.loads if (each.target, each.scenario) == (target, scenario)), None
            )
            return spread.median if spread else None
        if quantity == "ready_s":
            seconds = next((each.seconds for each in self.starts if each.target == target and each.seconds), None)
            return Spread.of(seconds).median if seconds else None
        found = next((each for each in self.quiet if (each.target, each.scenario) == (target, scenario)), None)
        if found is None:
            return None
        return found.anonymous_mb if quantity == "anonymous_mb" else found.percent

    def judge(self, goals: Iterable[Goal], target: str, scenarios: Sequence[str]) -> None:
        """Hold one broker against the goals of the scenarios that were to run."""
        self.verdicts += [
            Verdict(goal, target, self.figure(target, goal.scenario, goal.quantity))
            for goal in goals
            if goal.scenario in scenarios
        ]

    def cpu_ratio(self, target: str, reference: str, scenario: str) -> Spread | None:
        """Divide the target's CPU a message by the reference's, round by round."""
        by_target = {each.target: each.figures() for each in self.loads if each.scenario == scenario}
        return ratios(by_target.get(target, []), by_target.get(reference, []))

    def failures(self) -> list[str]:
        """Return sentences about what went wrong: runs that broke off, error codes answered, warnings in logs."""
        sentences = []
        for each in self.loads:
            if each.error:
                sentences.append(f"{each.scenario} on {each.target} broke off: {each.error}")
            if codes := each.bad_codes():
                told = ", ".join(f"code {code} {times} times" for code, times in sorted(codes.items()))
                sentences.append(f"{each.scenario} on {each.target}: {told}")
        return sentences + self.complaints


def write(results: object, path: Path) -> None:
    """Write the results, anything that msgspec encodes, as JSON to be kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=1) + b"\n")


def read(path: Path, kind: type[_T], what: str) -> _T:
    """
    Read results that L{write} wrote.

    @param what: what the file should hold, in words.
    @raise BenchmarkError: it holds something else.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except msgspec.DecodeError as error:
        raise BenchmarkError(f"{path} holds no {what}: {error}") from None
