"""
Run the scenarios: the brokers side by side, round by round in turn, so that what disturbs one disturbs the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from . import generator, proc
from .control import Control
from .errors import BenchmarkError
from .generator import Load
from .results import Loaded, Quiet, Round, Starts
from .scenarios import IDLE, IDLE_CLIENTS, Scenario, backlog_load
from .targets import Target

Say = Callable[[str], None]

_MB = 1e6
_CLIENTS = 1000
_FILL_TIMEOUT = 1800.0
_SETTLE = 5.0
_ROUTE_TIMEOUT = 40.0


class Pace(msgspec.Struct, frozen=True):
    """The number and length of the rounds: seconds before and in a measured window, and rounds."""

    rounds: int = 5
    seconds: float = 3.0
    warm_up: float = 0.5
    first_warm_up: float | None = None
    """Seconds of load on each broker before its first round of a scenario; C{None}: what its kind needs."""


class Loads:
    """Runs load scenarios on brokers that are up."""

    def __init__(self, binary: Path, targets: Sequence[Target], pace: Pace, say: Say) -> None:
        """
        @param say: told what is being done now.
        """
        self._binary = binary
        self._targets = list(targets)
        self._pace = pace
        self._say = say

    def run(self, scenarios: Iterable[Scenario]) -> Iterator[Loaded]:
        """Yield the figures of each scenario on each broker as they are complete."""
        for scenario in scenarios:
            found = [Loaded(scenario.name, target.name) for target in self._targets]
            pairs = list(zip(self._targets, found, strict=True))
            for target, loaded in pairs:
                self._say(f"{scenario.name}: warming {target.name} up")
                self._attempt(self._prepare, target, scenario, loaded)
            for number in range(self._pace.rounds):
                # who goes first in a round goes last in the next
                for target, loaded in pairs[:: -1 if number % 2 else 1]:
                    self._say(f"{scenario.name}: {target.name}, round {number + 1} of {self._pace.rounds}")
                    self._attempt(self._round, target, scenario, loaded)
            for target, loaded in pairs:
                self._attempt(_weigh, target, scenario, loaded)
            yield from found

    def _attempt(
        self, step: Callable[[Target, Scenario, Loaded], None], target: Target, scenario: Scenario, loaded: Loaded
    ) -> None:
        """Take a step, unless an earlier one failed; a failure ends this scenario on this broker alone."""
        if loaded.error is None:
            try:
                step(target, scenario, loaded)
            except (BenchmarkError, OSError) as error:
                loaded.error = str(error)

    def _prepare(self, target: Target, scenario: Scenario, loaded: Loaded) -> None:
        prepare(self._binary, target, scenario)
        first = self._pace.first_warm_up
        seconds = target.warm_up if first is None else first
        if seconds > 0:
            drive(self._binary, target, scenario.load, 0.0, seconds)

    def _round(self, target: Target, scenario: Scenario, loaded: Loaded) -> None:
        loaded.rounds.append(measure(self._binary, target, scenario.load, self._pace))


def measure(binary: Path, target: Target, load: Load, pace: Pace) -> Round:
    """
    Take one measured window of a load.

    @raise LoadBrokeOff: it could not be kept up.
    """
    began, before = time.monotonic(), proc.busy(target.pid)
    outcome = drive(binary, target, load, pace.warm_up, pace.seconds)
    return Round(outcome, proc.foreign_cores(before, proc.busy(target.pid), time.monotonic() - began))


def prepare(binary: Path, target: Target, scenario: Scenario) -> None:
    """
    Create the scenario's topics, and fill them up to the backlog it needs.

    @raise BenchmarkError: the broker will not have it.
    """
    load = scenario.load
    with Control(target.address) as control:
        for topic in load.topics:
            control.create_topic(topic, load.queues)
        present = sum(control.stored(topic, load.queues) for topic in load.topics)
    missing = scenario.backlog - present
    if missing > 0:
        fill(binary, target, backlog_load(scenario), missing)


def create_topic(target: Target, topic: str, queues: int) -> None:
    """
    Create a topic and wait until the registry tells of it, as clients ask there.

    @raise BenchmarkError: the broker will not have it, the registry learns nothing of it, or is not known.
    """
    if target.registry is None:
        raise BenchmarkError(f"{target.name}: give registry=HOST:PORT, clients find the broker by it")
    with Control(target.address) as broker:
        broker.create_topic(topic, queues)
    deadline = time.monotonic() + _ROUTE_TIMEOUT
    with Control(target.registry) as registry:
        while not registry.has_route(topic):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{target.name}: the registry learns nothing of topic {topic}")
            time.sleep(0.1)


def fill(binary: Path, target: Target, load: Load, count: int) -> None:
    """
    Have the broker store C{count} messages or a few more.

    @raise BenchmarkError: it does not.
    """
    line = generator.command(binary, load, target.address, None, count=count)
    outcome = generator.run(line, _FILL_TIMEOUT)
    if outcome.total_messages < count:
        raise BenchmarkError(f"only {outcome.total_messages} of {count} messages were stored: {outcome.bad_codes}")


def drive(binary: Path, target: Target, load: Load, warm_up: float, seconds: float) -> generator.Outcome:
    """
    Put a load on a broker.

    @raise LoadBrokeOff: it could not be kept up.
    """
    line = generator.command(binary, load, target.address, target.pid, warm_up=warm_up, seconds=seconds)
    return generator.run(line, warm_up + seconds + 60)


def idle(target: Target, seconds: float, say: Say) -> Quiet:
    """Leave a broker alone after it has settled; return its CPU share and its memory at the end."""
    say(f"{IDLE}: {target.name} settles, then {seconds:.0f} s")
    time.sleep(_SETTLE)
    began, cpu = time.monotonic(), proc.read_cpu(target.pid)
    time.sleep(seconds)
    share = (proc.read_cpu(target.pid) - cpu) / (time.monotonic() - began)
    return _quiet(IDLE, target, seconds, share)


def idle_clients(binary: Path, target: Target, seconds: float, say: Say) -> Quiet:
    """
    Do so with C{1000} clients that only send heart-beats.

    @raise LoadBrokeOff: a connection was lost.
    """
    say(f"{IDLE_CLIENTS}: {target.name}, {seconds:.0f} s")
    load = Load("idle", connections=_CLIENTS)
    outcome = drive(binary, target, load, _SETTLE, seconds)
    share = (outcome.server_user_s + outcome.server_system_s) / outcome.seconds
    return _quiet(IDLE_CLIENTS, target, seconds, share)


def starts(target: Target, rounds: int, say: Say) -> Starts | None:
    """Start and end a second broker of the same kind; return how long each start took, C{None} where impossible."""
    other = target.another()
    if other is None:
        return None
    found = Starts(target.name, [])
    for number in range(rounds):
        say(f"start-up: {target.name}, start {number + 1} of {rounds}")
        try:
            found.seconds.append(other.start())
        finally:
            other.stop()
            target.complaints += other.complaints
            other.complaints.clear()
        other.clear()
    return found


def _weigh(target: Target, scenario: Scenario, loaded: Loaded) -> None:
    memory = proc.read_memory(target.pid)
    loaded.resident_mb = memory.resident / _MB
    loaded.anonymous_mb = memory.anonymous / _MB


def _quiet(scenario: str, target: Target, seconds: float, share: float) -> Quiet:
    memory = proc.read_memory(target.pid)
    return Quiet(scenario, target.name, seconds, share * 100, memory.anonymous / _MB, memory.resident / _MB)
