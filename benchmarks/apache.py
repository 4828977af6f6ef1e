"""
Apache's own benchmark programs against several brokers in turn.

Their Producer and Consumer are closed loops of Java threads; what they print is the rate. The CPU time of the broker a
message comes from the kernel, the messages from the broker's own queue ends, over the same seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from . import apacheoutput, proc
from .apacheoutput import Line
from .control import Control
from .errors import BenchmarkError
from .generator import Load
from .jars import RocketMQ
from .processes import Child
from .runner import Say, drive, fill
from .spread import Spread, ratios
from .targets import Target

Program = Literal["producer", "consumer"]

TOPIC = "BenchApache"
BACKLOG_TOPIC = "BenchApacheBacklog"
QUEUES = 16
BODY = 1024
_TICK = 0.1


class Pace(msgspec.Struct, frozen=True):
    """The number and length of the rounds."""

    rounds: int = 3
    seconds: float = 20.0
    """Length of a producer's measured window; at least L{apacheoutput.WINDOW}."""
    warm_up: float = 10.0
    """Seconds of a producer before its window."""
    backlog: int = 2_000_000
    """Messages a consumer finds."""
    patience: float = 600.0
    """Seconds a consumer may take."""


class Measured(msgspec.Struct, frozen=True):
    """One run of one program against one broker."""

    program: Program
    threads: int
    target: str
    rate: float
    """Messages a second: printed by the producer; of the consumer, between a tenth and nine tenths of the backlog."""
    cpu_us: float
    """The broker's CPU microseconds a message."""
    messages: int
    failed: int
    counted_rate: float
    """Messages a second by the broker's queue ends; of the consumer, the best window it printed."""


Runs = Iterator[Measured]


class Goal(msgspec.Struct, frozen=True):
    """The median ratio to the real broker: the rate at least, or the CPU a message at most."""

    program: Program
    threads: tuple[int, ...]
    """Thread counts it was set for; empty: any."""
    rate_at_least: float | None = None
    cpu_at_most: float | None = None


GOALS = (
    Goal("producer", (), rate_at_least=1.0),
    Goal("producer", (16, 64), cpu_at_most=0.6),
    Goal("consumer", (), rate_at_least=1.0),
    Goal("consumer", (), cpu_at_most=0.8),
)


class Ratio(msgspec.Struct, frozen=True):
    """One broker against the reference: rates and CPU a message divided, round by round."""

    program: Program
    threads: int
    target: str
    rate: Spread | None
    cpu: Spread | None
    rate_goal: float | None
    cpu_goal: float | None

    @property
    def rate_met(self) -> bool | None:
        """Tell whether the goal for the rate is met; C{None} if there is no goal."""
        return None if self.rate_goal is None else self.rate is not None and self.rate.median >= self.rate_goal

    @property
    def cpu_met(self) -> bool | None:
        """Tell whether the goal for the CPU time is met; C{None} if there is no goal."""
        return None if self.cpu_goal is None else self.cpu is not None and self.cpu.median <= self.cpu_goal


class Results(msgspec.Struct):
    """The results of a run."""

    started: str
    machine: dict[str, Any]
    targets: list[Any]
    options: Pace
    measured: list[Measured] = []
    ratios: list[Ratio] = []
    failures: list[str] = []

    def of(self, program: Program, threads: int, target: str) -> list[Measured]:
        """Return the runs of a kind in the order of their rounds."""
        return [
            each for each in self.measured if (each.program, each.threads, each.target) == (program, threads, target)
        ]

    def collect(self, runs: Runs) -> None:
        """Take in runs as they come; one that fails ends the series, and what was measured until then stays."""
        try:
            for each in runs:
                self.measured.append(each)
                if each.failed:
                    kind = f"{each.program} with {each.threads} threads on {each.target}"
                    self.failures.append(f"{kind}: {each.failed} messages failed")
        except (BenchmarkError, OSError) as error:
            self.failures.append(str(error))

    def compare(self, target: str, reference: str) -> None:
        """Work out the ratios of a broker to the reference, and note the goals."""
        for program, threads in dict.fromkeys((each.program, each.threads) for each in self.measured):
            ours, theirs = self.of(program, threads, target), self.of(program, threads, reference)
            goals = [
                goal for goal in GOALS if goal.program == program and (not goal.threads or threads in goal.threads)
            ]
            self.ratios.append(
                Ratio(
                    program,
                    threads,
                    target,
                    ratios((each.rate for each in ours), (each.rate for each in theirs)),
                    ratios((each.cpu_us for each in ours), (each.cpu_us for each in theirs)),
                    next((goal.rate_at_least for goal in goals if goal.rate_at_least is not None), None),
                    next((goal.cpu_at_most for goal in goals if goal.cpu_at_most is not None), None),
                )
            )


class Apache:
    """Runs the programs against brokers that are up."""

    def __init__(
        self, rocketmq: RocketMQ, binary: Path, work: Path, targets: Sequence[Target], pace: Pace, say: Say
    ) -> None:
        """
        @param binary: the load generator; it stores the consumers' backlog.
        @param work: folder for what the programs print and log.
        @raise BenchmarkError: a target's registry is not known; the programs find the broker by it.
        """
        for target in targets:
            if target.registry is None:
                raise BenchmarkError(f"{target.name}: give registry=HOST:PORT, the programs find the broker by it")
        self._rocketmq = rocketmq
        self._binary = binary
        self._work = work
        self._targets = list(targets)
        self._pace = pace
        self._say = say
        self._runs = 0

    def producers(self, threads: Sequence[int]) -> Runs:
        """Yield the producer runs: for each number of threads, all rounds, the brokers in turn."""
        for target in self._targets:
            _create(target, TOPIC)
            self._warm(target, Load("send", (TOPIC,), QUEUES, 16, 1, BODY, binary=True))
        for count in threads:
            for number, target in self._turns():
                self._say(f"producer, {count} threads: {target.name}, round {number} of {self._pace.rounds}")
                yield self._produce(target, count)

    def consumers(self, threads: int) -> Runs:
        """Yield the consumer runs, each by a new group from the beginning of the same backlog."""
        for target in self._targets:
            self._say(f"consumer: storing {self._pace.backlog} messages on {target.name}")
            _create(target, BACKLOG_TOPIC)
            with Control(target.address) as control:
                missing = self._pace.backlog - control.stored(BACKLOG_TOPIC, QUEUES)
            if missing > 0:
                fill(self._binary, target, Load("batch", (BACKLOG_TOPIC,), QUEUES, 4, 2, BODY, 64), missing)
            self._warm(target, Load("pull", (BACKLOG_TOPIC,), QUEUES, 16, 1, BODY, 32, binary=True))
        for number, target in self._turns():
            self._say(f"consumer, {threads} threads: {target.name}, round {number} of {self._pace.rounds}")
            yield self._consume(target, threads)

    def _warm(self, target: Target, load: Load) -> None:
        """Load a broker before its first run: a JVM compiles for seconds, and that time is not a message's."""
        self._say(f"warming {target.name} up")
        drive(self._binary, target, load, 0.0, target.warm_up)

    def _turns(self) -> Iterator[tuple[int, Target]]:
        for number in range(self._pace.rounds):
            for target in self._targets[:: -1 if number % 2 else 1]:
                yield number + 1, target

    def _start(self, program: str, target: Target, *options: str) -> Child:
        self._runs += 1
        assert target.registry is not None  # __init__ saw to it
        command = [*self._rocketmq.benchmark(program, self._work, target.registry), *options, "-ri", "1000"]
        return Child(command, self._work / f"{self._runs:03}-{program.lower()}.out", folder=self._work)

    def _produce(self, target: Target, threads: int) -> Measured:
        child = self._start("Producer", target, "-t", TOPIC, "-w", str(threads), "-s", str(BODY))
        try:
            with Control(target.address) as control:
                _sleep_while(child, self._pace.warm_up)
                began, cpu, stored = time.time(), proc.read_cpu(target.pid), control.stored(TOPIC, QUEUES)
                _sleep_while(child, max(self._pace.seconds, apacheoutput.WINDOW + 2))
                spent = proc.read_cpu(target.pid) - cpu
                messages = control.stored(TOPIC, QUEUES) - stored
                took = time.time() - began
        finally:
            child.stop()
        lines = _lines(child)
        within = [line for line in lines if line.at - apacheoutput.WINDOW >= began - 1]
        if not within or messages <= 0:
            raise BenchmarkError(f"the producer sent no message to {target.name}:{child.last_lines()}")
        rate = Spread.of(line.rate for line in within).median
        cpu_us = spent * 1e6 / messages
        return Measured("producer", threads, target.name, rate, cpu_us, messages, lines[-1].failed, messages / took)

    def _consume(self, target: Target, threads: int) -> Measured:
        group = f"BenchApacheConsumer{self._runs}"
        with Control(target.address) as control:
            total = control.stored(BACKLOG_TOPIC, QUEUES)
            control.commit(group, BACKLOG_TOPIC, [0] * QUEUES)
        watch = [(time.time(), proc.read_cpu(target.pid))]
        child = self._start("Consumer", target, "-t", BACKLOG_TOPIC, "-w", str(threads), "-g", group)
        try:

            def finished() -> bool:
                watch.append((time.time(), proc.read_cpu(target.pid)))
                return apacheoutput.drained(_lines(child))

            _wait_while(child, finished, self._pace.patience)
        finally:
            child.stop()
        lines = _lines(child)
        course = apacheoutput.progress(lines, total)
        end = apacheoutput.end_of(course, total)
        spent = next((cpu for at, cpu in watch if at >= end), watch[-1][1]) - watch[0][1]
        best = max(line.rate for line in lines)
        rate = apacheoutput.steady_rate(course, total) or best
        return Measured("consumer", threads, target.name, rate, spent * 1e6 / total, total, lines[-1].failed, best)


def _create(target: Target, topic: str) -> None:
    """Create a topic and wait until the registry tells of it, as the programs ask there."""
    assert target.registry is not None
    with Control(target.address) as broker:
        broker.create_topic(topic, QUEUES)
    deadline = time.monotonic() + 40
    with Control(target.registry) as registry:
        while not registry.has_route(topic):
            if time.monotonic() > deadline:
                raise BenchmarkError(f"{target.name}: the registry learns nothing of topic {topic}")
            time.sleep(0.1)


def _lines(child: Child) -> list[Line]:
    return apacheoutput.parse(child.log.read_text(errors="replace"))


def _sleep_while(child: Child, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if not child.alive:
            raise BenchmarkError(f"the program ended:{child.last_lines()}")
        time.sleep(min(left, _TICK))


def _wait_while(child: Child, finished: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not finished():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"the consumer did not come to the end in {patience:.0f} s:{child.last_lines()}")
        _sleep_while(child, _TICK)
