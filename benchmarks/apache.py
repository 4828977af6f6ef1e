"""
Apache's own benchmark programs against several brokers in turn.

Their Producer and Consumer are closed loops of Java threads; what they print is the rate. The CPU time of the broker a
message comes from the kernel, the messages from the broker's own queue ends, over the same seconds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from . import apacheoutput, proc, runner
from .apacheoutput import Line
from .control import Control
from .errors import BenchmarkError
from .generator import Load
from .jars import RocketMQ
from .processes import Child
from .runner import Say, drive, fill
from .spread import Spread, ratios
from .targets import Target

Program = Literal["producer", "batch", "consumer"]

TOPIC = "BenchApache"
BACKLOG_TOPIC = "BenchApacheBacklog"
QUEUES = 16
BODY = 1024
_TICK = 0.1
_START_PATIENCE = 60.0
"""Seconds until a producer's first message."""


class Pace(msgspec.Struct, frozen=True):
    """The number and length of the rounds."""

    rounds: int = 3
    seconds: float = 20.0
    """Length of a producer's measured window; the rates it prints are read from two seconds more than their window."""
    warm_up: float = 10.0
    """Seconds of a producer from its first message to its window."""
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
    """
    Messages a second: printed by the producer, or by the broker's queue ends where the window is too short for that; of
    the consumer, between a tenth and nine tenths of the backlog.
    """
    cpu_us: float
    """The broker's CPU microseconds a message."""
    messages: int
    failed: int
    counted_rate: float
    """Messages a second by the broker's queue ends; of the consumer, the best window it printed."""
    main_us: float = 0.0
    """The part of C{cpu_us} that the main thread of the broker spent."""
    client_us: float = 0.0
    """The program's own CPU microseconds a message."""
    foreign_cores: float = 0.0
    """Processors that were busy with neither broker nor program."""


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


class Costs(TypedDict):
    """The figures of L{Measured} that come from two L{Reading}s."""

    cpu_us: float
    main_us: float
    client_us: float
    foreign_cores: float
    messages: int


class Reading(msgspec.Struct, frozen=True):
    """The CPU time used until one moment, C{at} seconds since the epoch."""

    at: float
    broker: proc.Cpu
    client: float
    busy: tuple[float, float]

    @classmethod
    def of(cls, target: Target, child: Child) -> Reading:
        """
        Read the clocks of a broker, of the program that loads it, and of the machine.

        @raise BenchmarkError: one of the two is gone.
        """
        broker, client = proc.read_threads(target.pid), proc.read_cpu(child.pid)
        return cls(time.time(), broker, client, proc.busy(target.pid, child.pid))

    def costs(self, earlier: Reading, messages: int) -> Costs:
        """Return what a message cost since an earlier reading."""
        broker = self.broker.since(earlier.broker)
        return {
            "cpu_us": broker.total * 1e6 / messages,
            "main_us": broker.main * 1e6 / messages,
            "client_us": (self.client - earlier.client) * 1e6 / messages,
            "foreign_cores": proc.foreign_cores(earlier.busy, self.busy, self.at - earlier.at),
            "messages": messages,
        }


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
            self.prepare_producers(target, target.warm_up)
        for count in threads:
            for number, target in self._turns():
                self._say(f"producer, {count} threads: {target.name}, round {number} of {self._pace.rounds}")
                yield self.produce(target, count)

    def consumers(self, threads: int) -> Runs:
        """Yield the consumer runs, each by a new group from the beginning of the same backlog."""
        for target in self._targets:
            self.prepare_consumers(target, target.warm_up)
        for number, target in self._turns():
            self._say(f"consumer, {threads} threads: {target.name}, round {number} of {self._pace.rounds}")
            yield self.consume(target, threads)

    def prepare_producers(self, target: Target, warm_up: float) -> None:
        """
        Create the producers' topic, and send to it for some seconds.

        @raise BenchmarkError: the broker will not have it.
        """
        runner.create_topic(target, TOPIC, QUEUES)
        self._warm(target, Load("send", (TOPIC,), QUEUES, 16, 1, BODY, binary=True), warm_up)

    def prepare_consumers(self, target: Target, warm_up: float) -> None:
        """
        Store the consumers' backlog, and pull from it for some seconds.

        @raise BenchmarkError: the broker will not have it.
        """
        self._say(f"consumer: storing {self._pace.backlog} messages on {target.name}")
        runner.create_topic(target, BACKLOG_TOPIC, QUEUES)
        with Control(target.address) as control:
            missing = self._pace.backlog - control.stored(BACKLOG_TOPIC, QUEUES)
        if missing > 0:
            fill(self._binary, target, Load("batch", (BACKLOG_TOPIC,), QUEUES, 4, 2, BODY, 64), missing)
        self._warm(target, Load("pull", (BACKLOG_TOPIC,), QUEUES, 16, 1, BODY, 32, binary=True), warm_up)

    def _warm(self, target: Target, load: Load, seconds: float) -> None:
        """Load a broker before its first run: a JVM compiles for seconds, and that time is not a message's."""
        self._say(f"warming {target.name} up")
        drive(self._binary, target, load, 0.0, seconds)

    def _turns(self) -> Iterator[tuple[int, Target]]:
        for number in range(self._pace.rounds):
            for target in self._targets[:: -1 if number % 2 else 1]:
                yield number + 1, target

    def _start(self, program: str, target: Target, *options: str) -> Child:
        self._runs += 1
        assert target.registry is not None  # __init__ saw to it
        command = [*self._rocketmq.benchmark(program, self._work, target.registry), *options, "-ri", "1000"]
        command += ["-n", target.registry]  # BatchProducer goes by this option alone
        return Child(command, self._work / f"{self._runs:03}-{program.lower()}.out", folder=self._work)

    def produce(self, target: Target, threads: int, batch: int = 1) -> Measured:
        """
        Run the producer once, or the BatchProducer where a request is to hold several messages.

        @raise BenchmarkError: the program ended, or the broker stored nothing.
        """
        options = ("-t", TOPIC, "-w", str(threads), "-s", str(BODY))
        if batch > 1:
            child = self._start("BatchProducer", target, *options, "-b", str(batch))
        else:
            child = self._start("Producer", target, *options)
        try:
            with Control(target.address) as control:
                earlier = control.stored(TOPIC, QUEUES)
                _wait_while(child, lambda: control.stored(TOPIC, QUEUES) > earlier, _START_PATIENCE)
                _sleep_while(child, self._pace.warm_up)
                before, stored = Reading.of(target, child), control.stored(TOPIC, QUEUES)
                _sleep_while(child, self._pace.seconds)
                after, messages = Reading.of(target, child), control.stored(TOPIC, QUEUES) - stored
        finally:
            child.stop()
        lines = _lines(child)
        if messages <= 0:
            raise BenchmarkError(f"the producer sent no message to {target.name}:{child.last_lines()}")
        within = [line.rate for line in lines if line.at - apacheoutput.WINDOW >= before.at - 1]
        counted = messages / (after.at - before.at)
        rate = Spread.of(within).median if within else counted
        failed = lines[-1].failed if lines else 0
        program: Program = "batch" if batch > 1 else "producer"
        return Measured(
            program, threads, target.name, rate, failed=failed, counted_rate=counted, **after.costs(before, messages)
        )

    def consume(self, target: Target, threads: int) -> Measured:
        """
        Run the consumer once, as a new group, from the beginning of the backlog to its end.

        @raise BenchmarkError: the program ended, or did not come to the end in time.
        """
        group = f"BenchApacheConsumer{self._runs}"
        with Control(target.address) as control:
            total = control.stored(BACKLOG_TOPIC, QUEUES)
            control.commit(group, BACKLOG_TOPIC, [0] * QUEUES)
        child = self._start("Consumer", target, "-t", BACKLOG_TOPIC, "-w", str(threads), "-g", group)
        watch = [Reading.of(target, child)]
        try:

            def finished() -> bool:
                watch.append(Reading.of(target, child))
                return apacheoutput.drained(_lines(child))

            _wait_while(child, finished, self._pace.patience)
        finally:
            child.stop()
        lines = _lines(child)
        course = apacheoutput.progress(lines, total)
        end = apacheoutput.end_of(course, total)
        after = next((reading for reading in watch if reading.at >= end), watch[-1])
        best = max(line.rate for line in lines)
        rate = apacheoutput.steady_rate(course, total) or best
        failed = lines[-1].failed
        return Measured(
            "consumer", threads, target.name, rate, failed=failed, counted_rate=best, **after.costs(watch[0], total)
        )


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
            raise BenchmarkError(f"the program did not get there in {patience:.0f} s:{child.last_lines()}")
        _sleep_while(child, _TICK)
