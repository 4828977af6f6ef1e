"""
Scaling by processes on one machine: the rate of several brokers compared with that of one.

A broker's Python runs on one processor; its other threads (flushing, making files ready) run beside it. So one broker
left alone takes somewhat more than one processor, and several have that much less to share; pinned, each has one
processor for all of it, and what is compared is as many processors as brokers with one.

All brokers run the whole time, each with a store of its own. In neighbouring windows one of them is under load, or all
are, each by a load generator of its own; who is the one changes from round to round.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
from rich.table import Table

from . import generator, proc, runner
from .errors import BenchmarkError
from .report import spread
from .runner import Pace, Say
from .scenarios import LOADS, Scenario
from .spread import Spread, ratios
from .targets import Bench, Ours, Started

GOAL = 1.7
"""Two brokers on two processors, by one."""
SCENARIOS = tuple(each.name for each in LOADS if each.load.mode in ("send", "batch") and "1x1" not in each.name)
USUAL = ("send-128", "send-1k")


class Pinned(Ours):
    """smartgo whose broker, with all its threads, keeps to one processor."""

    processor = 0

    def broker_command(self, settings: Path) -> list[str]:
        """Return the broker's command, tied."""
        return ["taskset", "--cpu-list", str(self.processor), *super().broker_command(settings)]


class Window(msgspec.Struct, frozen=True):
    """One measured window: what each load found, and how many cores were busy with neither brokers nor loads."""

    outcomes: list[generator.Outcome]
    foreign_cores: float

    @property
    def rate(self) -> float:
        """Messages a second of all together."""
        return sum(each.rate for each in self.outcomes)

    @property
    def cpu_us(self) -> float:
        """CPU of the brokers a message."""
        messages = sum(each.messages for each in self.outcomes)
        return sum(each.server_user_s + each.server_system_s for each in self.outcomes) / messages * 1e6

    @property
    def broker_cores(self) -> float:
        """Processors that the brokers kept busy."""
        return sum((each.server_user_s + each.server_system_s) / each.seconds for each in self.outcomes)

    @property
    def load_cores(self) -> float:
        """Processors that the load generators kept busy."""
        return sum(each.generator_cpu_s / each.seconds for each in self.outcomes)


class Scaled(msgspec.Struct):
    """One scenario: windows of one broker, windows of all, in pairs."""

    scenario: str
    brokers: int
    one: list[Window] = []
    all: list[Window] = []
    error: str | None = None

    @property
    def ratio(self) -> Spread | None:
        """The rate of several brokers divided by that of one, round by round."""
        return ratios((each.rate for each in self.all), (each.rate for each in self.one))

    @property
    def clean(self) -> bool:
        """Tell whether every answer was a success."""
        return self.error is None and not any(
            each.bad_codes for window in (*self.one, *self.all) for each in window.outcomes
        )

    @property
    def met(self) -> bool:
        """Tell whether the ratio met the goal, without errors."""
        return self.clean and self.ratio is not None and self.ratio.median >= GOAL


class Outcome(msgspec.Struct):
    """The result of a run."""

    processors: int
    brokers: int
    pinned: bool
    scenarios: list[Scaled] = []
    complaints: list[str] = []

    @property
    def met(self) -> bool:
        """Tell whether every scenario met the goal, and the brokers stopped cleanly."""
        return bool(self.scenarios) and all(each.met for each in self.scenarios) and not self.complaints


def brokers_of(bench: Bench, count: int, pinned: bool) -> list[Started]:
    """
    Make brokers, not started.

    @raise BenchmarkError: they are to be pinned, and there are fewer processors.
    """
    first = bench.one_of_ours(Pinned if pinned else Ours)
    found: list[Started] = [first, *(first.another() for _ in range(count - 1))]
    processors = sorted(os.sched_getaffinity(0))
    if pinned and len(processors) < count:
        raise BenchmarkError(f"{count} brokers cannot be pinned to {len(processors)} processors")
    for target, processor in zip(found, processors, strict=False):
        if isinstance(target, Pinned):
            target.processor = processor
    return found


def run(targets: Sequence[Started], binary: Path, scenarios: Iterable[Scenario], pace: Pace, say: Say) -> Outcome:
    """
    Start the brokers and measure.

    @raise BenchmarkError: one does not come up.
    """
    brokers = len(targets)
    outcome = Outcome(os.cpu_count() or 1, brokers, isinstance(targets[0], Pinned))
    started: list[Started] = []
    try:
        for number, target in enumerate(targets, 1):
            say(f"starting broker {number} of {brokers}")
            started.append(target)
            target.start()
        for scenario in scenarios:
            outcome.scenarios.append(scaled := Scaled(scenario.name, brokers))
            try:
                _measure(binary, targets, scenario, pace, scaled, say)
            except BenchmarkError as error:
                scaled.error = str(error)
    finally:
        for target in reversed(started):
            target.stop()
            outcome.complaints += target.complaints
    return outcome


def _measure(
    binary: Path, targets: Sequence[Started], scenario: Scenario, pace: Pace, scaled: Scaled, say: Say
) -> None:
    say(f"{scenario.name}: warming up")
    for target in targets:
        runner.prepare(binary, target, scenario)
        runner.drive(binary, target, scenario.load, 0.0, target.warm_up)
    for number in range(pace.rounds):
        alone = [targets[number % len(targets)]]
        windows = [(alone, scaled.one), (targets, scaled.all)]
        for busy, found in windows[:: -1 if number % 2 else 1]:
            say(f"{scenario.name}: round {number + 1} of {pace.rounds}, {len(busy)} under load")
            found.append(_window(binary, busy, scenario, pace))


def _window(binary: Path, targets: Sequence[Started], scenario: Scenario, pace: Pace) -> Window:
    """Put each target under load at once."""
    machine, own = proc.read_machine_cpu(), _own(targets)
    with ThreadPoolExecutor(len(targets)) as threads:
        running = [
            threads.submit(runner.drive, binary, target, scenario.load, pace.warm_up, pace.seconds)
            for target in targets
        ]
        outcomes = [each.result() for each in running]
    foreign = proc.read_machine_cpu() - machine - (_own(targets) - own)
    return Window(outcomes, max(0.0, foreign) / (pace.warm_up + pace.seconds))


def _own(targets: Sequence[Started]) -> float:
    return proc.own_cpu() + sum(proc.read_cpu(target.pid) for target in targets)


def table(outcome: Outcome) -> Table:
    """Lay out what was found."""
    where = (
        f"each tied to one of {outcome.processors} processors"
        if outcome.pinned
        else f"on {outcome.processors} processors"
    )
    found = Table(title=f"{outcome.brokers} brokers by one, {where}; asked {GOAL:g}", title_justify="left")
    found.add_column("scenario")
    for title in ("under\nload", "messages/s\nmin med max", "µs a\nmessage", "cores,\nbrokers", "cores,\nload"):
        found.add_column(title, justify="right")
    found.add_column("others\ncores", justify="right")
    found.add_column("ratio\nmin med max", justify="right")
    for each in outcome.scenarios:
        found.add_section()
        if not each.all:
            found.add_row(each.scenario, *[""] * 6, "[red]broke off[/red]")
            continue
        found.add_row(each.scenario, *_cells(1, each.one), "")
        found.add_row("", *_cells(each.brokers, each.all), spread(each.ratio, 2))
    return found


def _cells(brokers: int, windows: Sequence[Window]) -> list[str]:
    def median(figures: Iterable[float], digits: int) -> str:
        return f"{Spread.of(figures).median:.{digits}f}"

    return [
        str(brokers),
        spread(Spread.of(each.rate for each in windows), 0),
        median((each.cpu_us for each in windows), 1),
        median((each.broker_cores for each in windows), 2),
        median((each.load_cores for each in windows), 2),
        median((each.foreign_cores for each in windows), 2),
    ]


def sentences(outcome: Outcome) -> list[str]:
    """Return sentences about what the table does not show."""
    said = [f"{each.scenario} broke off: {each.error}" for each in outcome.scenarios if each.error]
    for each in outcome.scenarios:
        if each.error is None and not each.clean:
            said.append(f"{each.scenario}: errors were answered")
        if each.ratio is not None:
            verdict = "met" if each.met else "missed"
            said.append(f"{each.scenario}: asked {GOAL:g}, got {each.ratio.median:.2f}: {verdict}")
    return said + outcome.complaints
