"""
The costs of connections: memory of each, the CPU of idle ones, what they cost those that send, and a reconnect storm.

Two brokers run: one with all the clients, one without. In neighbouring windows 64 connections send to the one or the
other, so that what disturbs one disturbs both.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import proc, runner
from ..control import Control
from ..errors import BenchmarkError
from ..generator import Load
from ..runner import Pace, Say
from ..spread import Spread, ratios
from ..targets import Started
from .crowd import QUEUES, TOPIC, Crowd, Kind
from .process import Held, held, start, stop

SIZES = (100, 1_000, 10_000)
SENDERS = Load("send", ("scale-sends",), 8, 64, 1, 128)

_TIMEOUT = 300.0
_ROOM = 1000
"""Connections that are allowed beside those of the clients."""


class Stage(msgspec.Struct):
    """The figures with so many connections."""

    connections: int
    kind: Kind
    before: Held
    accept_s: float
    """From the first dial until the last client's first heart-beat was answered."""
    accept_cpu_s: float
    """CPU of the broker in that time."""
    after: Held
    idle_cores: float
    """Share of a processor with all clients idle."""
    answers: float
    """Answers a second in that time."""
    beside: list[float] = []
    """CPU µs a message of the senders beside the clients."""
    alone: list[float] = []
    """The same on the broker without clients."""
    alone_ready_s: float = 0.0
    """The start of a broker without clients until it answered."""
    storm_s: float = 0.0
    """From the broker's start until all clients are connected and answered again."""
    storm_cpu_s: float = 0.0
    """CPU of the broker until then."""
    lost: int = 0
    """Connections that ended while the broker ran."""

    @property
    def ratio(self) -> Spread | None:
        """CPU a message beside the clients divided by that without them."""
        return ratios(self.beside, self.alone)

    @property
    def bytes_each(self) -> float:
        """Anonymous memory of a connection."""
        return (self.after.anonymous - self.before.anonymous) / self.connections


class Outcome(msgspec.Struct):
    """The result of a run."""

    stages: list[Stage] = []
    complaints: list[str] = []


def settings_for(connections: int) -> tuple[str, ...]:
    """Return the settings of a broker with so many connections."""
    return (f"maxConnections={connections + _ROOM}",)


def run(
    targets: tuple[Started, Started],
    binary: Path,
    sizes: Sequence[int],
    kinds: Sequence[Kind],
    pace: Pace,
    idle_seconds: float,
    say: Say,
) -> Outcome:
    """
    Measure each kind of client at each size.

    @param targets: the broker with the clients, and the one without; not started.
    """
    outcome = Outcome()
    crowded, empty = targets
    try:
        empty.start()
        crowded.start_registry()
        for kind in kinds:
            for size in sizes:
                outcome.stages.append(_stage(crowded, empty, binary, size, kind, pace, idle_seconds, say))
    except (BenchmarkError, OSError) as error:
        outcome.complaints.append(f"broke off: {error}")
    finally:
        for target in targets:
            target.stop()
            outcome.complaints += target.complaints
    return outcome


def _stage(
    crowded: Started,
    empty: Started,
    binary: Path,
    size: int,
    kind: Kind,
    pace: Pace,
    idle_seconds: float,
    say: Say,
) -> Stage:
    about = f"{size:,} connections, {kind}"
    crowd = Crowd(crowded.address, size, kind)
    crowded.start_broker()
    for target in (crowded, empty):
        with Control(target.address) as control:
            control.create_topic(SENDERS.topics[0], SENDERS.queues)
            control.create_topic(TOPIC, QUEUES)
        runner.drive(binary, target, SENDERS, 0.0, target.warm_up)
    try:
        before, cpu = held(crowded.pid), proc.read_cpu(crowded.pid)
        say(f"{about}: connecting")
        accept = crowd.connect(_TIMEOUT)
        stage = Stage(size, kind, before, accept, proc.read_cpu(crowded.pid) - cpu, held(crowded.pid), 0.0, 0.0)
        with crowd.kept():
            say(f"{about}: idle for {idle_seconds:.0f} s")
            stage.idle_cores, stage.answers = _idle(crowded, crowd, idle_seconds)
            stage.after = held(crowded.pid)
            for number in range(pace.rounds):
                windows = [(crowded, stage.beside), (empty, stage.alone)]
                for target, found in windows[:: -1 if number % 2 else 1]:
                    say(f"{about}: round {number + 1} of {pace.rounds}")
                    found.append(runner.drive(binary, target, SENDERS, pace.warm_up, pace.seconds).server_cpu_us)
        stage.lost = crowd.lost
        say(f"{about}: restart")
        _storm(crowded, crowd, stage)
        return stage
    finally:
        crowd.close()
        crowded.stop_broker()


def _idle(target: Started, crowd: Crowd, seconds: float) -> tuple[float, float]:
    began, cpu, answers = time.monotonic(), proc.read_cpu(target.pid), crowd.answers
    time.sleep(seconds)
    spent = time.monotonic() - began
    return (proc.read_cpu(target.pid) - cpu) / spent, (crowd.answers - answers) / spent


def _storm(target: Started, crowd: Crowd, stage: Stage) -> None:
    """Stop the broker, start it alone for comparison, then once more with all clients dialling."""
    stop(target)
    stage.alone_ready_s = start(target, "clean").ready_s
    stop(target)
    problems: list[BenchmarkError] = []

    def connect() -> None:
        try:
            crowd.connect(_TIMEOUT)
        except BenchmarkError as error:
            problems.append(error)

    dialling = threading.Thread(target=connect)
    dialling.start()
    began = time.monotonic()
    try:
        target.start_broker(_TIMEOUT)
    finally:
        dialling.join()
    if problems:
        raise problems[0]
    stage.storm_s = time.monotonic() - began
    stage.storm_cpu_s = proc.read_cpu(target.pid)
