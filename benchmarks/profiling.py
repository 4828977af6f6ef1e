"""A profile of smartgo's broker in one scenario."""

from __future__ import annotations

import os
import pstats
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from rich.table import Table

from . import runner
from .errors import BenchmarkError
from .generator import Outcome
from .scenarios import Scenario
from .targets import Ours

Method = Literal["sample", "cprofile"]


class Samples(msgspec.Struct):
    """
    The samples that L{benchmarks.sampled} writes.

    @ivar functions: file, name, first line, samples in itself, samples in it or below.
    @ivar lines: file, line, samples.
    """

    samples: int
    functions: list[tuple[str, str, int, int, int]]
    lines: list[tuple[str, int, int]]


class Cost(msgspec.Struct, frozen=True):
    """One function or line: microseconds a message in itself and with what it calls, and calls a message if counted."""

    place: str
    name: str
    own_us: float
    below_us: float | None = None
    calls: float | None = None


def profile(
    binary: Path, target: Ours, scenario: Scenario, method: Method, warm_up: float, seconds: float
) -> tuple[Outcome, Path]:
    """
    Run our broker under a profiler and put the scenario's load on it.

    @param target: not started; it is started with the profiler inside, and stopped.
    @return: what the load generator saw, and the file the profiler wrote.
    """
    output = target.work / "profile"
    target.bootstrap = ("-m", "benchmarks.sampled", method, str(output))
    try:
        target.start()
        runner.prepare(binary, target, scenario)
        runner.drive(binary, target, scenario.load, 0.0, warm_up)
        pid = target.pid
        os.kill(pid, signal.SIGUSR2)
        outcome = runner.drive(binary, target, scenario.load, 0.0, seconds)
        os.kill(pid, signal.SIGUSR2)
    finally:
        target.stop()
    if not output.exists():
        raise BenchmarkError(" ".join(["the profiler wrote nothing:", *target.complaints]))
    return outcome, output


def sampled(samples: Samples, cpu_us: float) -> tuple[list[Cost], list[Cost]]:
    """
    Turn samples into costs, the dearest first: by function, and by line.

    @param cpu_us: the process's CPU microseconds a message; all samples together stand for that much.
    @raise BenchmarkError: there are no samples.
    """
    if not samples.samples:
        raise BenchmarkError("no samples: the broker used no CPU time")
    share = cpu_us / samples.samples
    functions = [
        Cost(f"{_short(file)}:{line}", name, own * share, below * share)
        for file, name, line, own, below in samples.functions
    ]
    lines = [Cost(f"{_short(file)}:{line}", "", own * share) for file, line, own in samples.lines]
    return sorted(functions, key=_own, reverse=True), sorted(lines, key=_own, reverse=True)


def counted(stats: Mapping[tuple[str, int, str], tuple[Any, ...]], messages: int) -> list[Cost]:
    """Turn cProfile's table into costs, the dearest first."""
    if not messages:
        raise BenchmarkError("no messages were handled under the profiler")
    costs = []
    for (file, line, name), (_primitive, calls, own, below, *_callers) in stats.items():
        place = "" if file == "~" else f"{_short(file)}:{line}"
        costs.append(Cost(place, name, own * 1e6 / messages, below * 1e6 / messages, calls / messages))
    return sorted(costs, key=_own, reverse=True)


def read(method: Method, output: Path, outcome: Outcome) -> tuple[list[Cost], list[Cost]]:
    """Read what the profiler wrote: costs by function, and by line where it knows lines."""
    if method == "sample":
        return sampled(msgspec.json.decode(output.read_bytes(), type=Samples), outcome.server_cpu_us)
    stats = cast(Any, pstats.Stats(str(output))).stats
    return counted(stats, outcome.messages), []


def table(title: str, costs: list[Cost], count: int) -> Table:
    """Lay out the first C{count} costs."""
    made = Table(title=title, title_justify="left")
    made.add_column("own µs", justify="right")
    shown = costs[:count]
    below = any(cost.below_us is not None for cost in shown)
    calls = any(cost.calls is not None for cost in shown)
    if below:
        made.add_column("with calls µs", justify="right")
    if calls:
        made.add_column("calls", justify="right")
    made.add_column("where")
    for cost in shown:
        row = [f"{cost.own_us:.3f}"]
        if below:
            row.append(f"{cost.below_us or 0:.3f}")
        if calls:
            row.append(f"{cost.calls or 0:.3f}")
        made.add_row(*row, f"{cost.place} [bold]{cost.name.replace('[', chr(92) + '[')}[/bold]")
    return made


def _own(cost: Cost) -> float:
    return cost.own_us


def _short(file: str) -> str:
    """Cut what every path begins with: the checkout, the library folders."""
    for mark in ("/site-packages/", "/lib/python3."):
        before, found, after = file.rpartition(mark)
        if found and before:
            return after.partition("/")[2] if mark.endswith(".") else after
    root = str(Path(__file__).resolve().parent.parent) + "/"
    return file.removeprefix(root)
