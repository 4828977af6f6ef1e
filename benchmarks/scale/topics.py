"""
The costs of topics: memory, files, mappings and descriptors, starts, registrations, routes, and sends to all of them.

One store grows from each size to the next. Every queue of every topic gets messages, so that each has its files. In
neighbouring windows the load sends to one topic, or to all in turn.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import generator, proc, runner
from ..control import GET_ROUTEINFO_BY_TOPIC, Control
from ..errors import BenchmarkError
from ..generator import Load
from ..runner import Pace, Say
from ..spread import Spread, ratios
from ..targets import Started
from .process import Held, Start, held, start, stop
from .storefiles import Disk, check_room, disk_of

SIZES = (200, 2_000, 20_000)
QUEUES = 4
PREFIX = "scale"

_TOPIC_LIST = 18
_ALL_TOPICS = 21
_SINGLY = 100
"""Topics of each size that are created one by one."""
_LIST = 1000
"""Topics of one list."""
_CONNECTIONS = 16
_OUTSTANDING = 8
_ROUTES = 500
_TIMEOUT = 300.0
_DISK_EACH = 80_000
"""Bytes of disk that a queue takes at most with few messages."""


class Cost(msgspec.Struct, frozen=True):
    """Time, and CPU of broker and registry, for so many things."""

    count: int
    seconds: float
    broker_s: float
    registry_s: float


class Stage(msgspec.Struct):
    """The figures with so many topics."""

    topics: int
    queues: int
    """Of each topic."""
    before: Held
    """Before the first topic."""
    create: Cost
    """Of each of the last hundred topics; the others are created in lists."""
    first_sends: Cost
    """Of one message in each queue, which makes the files of those that are new."""
    after: Held
    """With one message in each queue."""
    disk: Disk
    table_bytes: int
    """Length of the table of topics that a registration carries."""
    idle: Cost
    """Broker and registry at rest, for a little more than the period of registrations."""
    routes: Cost
    """Route queries, one after another."""
    starts: list[Start] = []
    known_s: float = 0.0
    """From the broker's start until a new registry knows the last topic."""
    spread: list[float] = []
    """CPU µs a message, all topics in turn."""
    one: list[float] = []
    """The same, one topic."""

    @property
    def ratio(self) -> Spread | None:
        """CPU a message with all topics in turn divided by that with one."""
        return ratios(self.spread, self.one)


class Outcome(msgspec.Struct):
    """The result of a run."""

    stages: list[Stage] = []
    complaints: list[str] = []


def name_of(number: int) -> str:
    """Return the name of a topic, as the load generator makes it."""
    return f"{PREFIX}-{number}"


def _config(number: int, queues: int) -> dict[str, object]:
    name = name_of(number)
    return {"topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6, "topicSysFlag": 0}


class Topics:
    """Gives a broker topics and measures it."""

    def __init__(
        self, target: Started, binary: Path, queues: int, pace: Pace, idle_seconds: float, floor: float, say: Say
    ) -> None:
        """
        @param queues: of each topic.
        @param floor: bytes that must stay free on the disk.
        """
        self._target = target
        self._binary = binary
        self._queues = queues
        self._pace = pace
        self._idle_seconds = idle_seconds
        self._floor = floor
        self._say = say
        self._made = 0
        self.outcome = Outcome()

    def run(self, sizes: Sequence[int]) -> Outcome:
        """Measure at each size, smallest first; where it breaks off, the complaints say why."""
        target = self._target
        try:
            target.start()
            before = held(target.pid)
            for size in sizes:
                check_room(target.work, (size - self._made) * self._queues * _DISK_EACH, self._floor)
                stage = self._stage(size, before)
                self.outcome.stages.append(stage)
                self._windows(stage)
                self._restarts(stage)
        except (BenchmarkError, OSError) as error:
            self.outcome.complaints.append(f"broke off: {error}")
        finally:
            target.stop()
            self.outcome.complaints += target.complaints
        return self.outcome

    def _stage(self, size: int, before: Held) -> Stage:
        self._say(f"{size:,} topics: creating them")
        create = self._create(size)
        self._say(f"{size:,} topics: a message in each queue")
        clock = self._clock()
        line = generator.command(
            self._binary, self._load(size), self._target.address, self._target.pid, count=size * self._queues
        )
        outcome = generator.run([*line, "--timeout", "60"], _TIMEOUT * 4)
        if outcome.bad_codes:
            raise BenchmarkError(f"{size:,} topics: sends were refused: {outcome.remarks}")
        first_sends = self._since(clock, outcome.total_messages)
        with Control(self._target.address, _TIMEOUT) as control:
            table = len(control.demand(_ALL_TOPICS).body)
        after, disk = held(self._target.pid), disk_of(self._target.work / "store")
        self._say(f"{size:,} topics: idle for {self._idle_seconds:.0f} s")
        clock = self._clock()
        time.sleep(self._idle_seconds)
        idle = self._since(clock, 1)
        routes = self._ask_routes(size)
        return Stage(size, self._queues, before, create, first_sends, after, disk, table, idle, routes)

    def _create(self, size: int) -> Cost:
        """Create all but some of the topics in lists, and the last ones singly; return the cost of these."""
        singly = max(self._made, size - _SINGLY)
        with Control(self._target.address, _TIMEOUT) as control:
            for first in range(self._made, singly, _LIST):
                topics = [_config(number, self._queues) for number in range(first, min(first + _LIST, singly))]
                control.demand(_TOPIC_LIST, body=msgspec.json.encode({"topicConfigList": topics}))
            if singly > self._made:
                self._made = singly
                self._wait_for_route()
            clock = self._clock()
            for number in range(singly, size):
                control.create_topic(name_of(number), self._queues)
        self._made = size
        self._wait_for_route()
        return self._since(clock, max(1, size - singly))

    def _wait_for_route(self) -> None:
        """Wait until the registry knows the last topic."""
        assert self._target.registry is not None
        deadline = time.monotonic() + _TIMEOUT
        while time.monotonic() < deadline:
            with Control(self._target.registry, 60.0) as control:
                if control.has_route(name_of(self._made - 1)):
                    return
            time.sleep(0.02)
        raise BenchmarkError(f"the registry does not know topic {name_of(self._made - 1)} after {_TIMEOUT:.0f} s")

    def _ask_routes(self, size: int) -> Cost:
        assert self._target.registry is not None
        clock, step = self._clock(), max(1, size // _ROUTES)
        asked = 0
        with Control(self._target.registry, 60.0) as control:
            for number in range(0, size, step):
                control.demand(GET_ROUTEINFO_BY_TOPIC, {"topic": name_of(number)})
                asked += 1
        return self._since(clock, asked)

    def _windows(self, stage: Stage) -> None:
        for number in range(self._pace.rounds):
            windows = [(self._load(1), stage.one), (self._load(stage.topics), stage.spread)]
            for load, found in windows[:: -1 if number % 2 else 1]:
                self._say(f"{stage.topics:,} topics: round {number + 1} of {self._pace.rounds}, {load.spread} in turn")
                pace = self._pace
                found.append(runner.drive(self._binary, self._target, load, pace.warm_up, pace.seconds).server_cpu_us)

    def _restarts(self, stage: Stage) -> None:
        target = self._target
        self._say(f"{stage.topics:,} topics: restart after a kill")
        target.kill_broker()
        stage.starts.append(start(target, "killed"))
        self._say(f"{stage.topics:,} topics: restart after a clean stop, with a new registry")
        seconds = stop(target)
        target.stop()
        target.start_registry()
        began = time.monotonic()
        stage.starts.append(start(target, "clean", seconds))
        self._wait_for_route()
        stage.known_s = time.monotonic() - began

    def _load(self, topics: int) -> Load:
        return Load("send", (PREFIX,), self._queues, _CONNECTIONS, _OUTSTANDING, 128, spread=topics)

    def _clock(self) -> tuple[float, float, float]:
        return time.monotonic(), proc.read_cpu(self._target.pid), proc.read_cpu(self._target.registry_pid)

    def _since(self, clock: tuple[float, float, float], count: int) -> Cost:
        seconds, broker, registry = (now - then for now, then in zip(self._clock(), clock, strict=True))
        return Cost(count, seconds, broker, registry)
