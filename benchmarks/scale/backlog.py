"""
The costs of a backlog of small messages, at growing sizes of the same store.

At each size: what storing cost since the size before, disk, memory, the time until the broker serves after a kill -9
and after a clean stop, and pulls at the head, in the middle and at the tail of the backlog, first with the page cache
dropped, then again. Messages are stored in batches; without properties they have no key, so the index stays empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from .. import generator
from ..control import Control
from ..errors import BenchmarkError
from ..generator import Load
from ..runner import Say
from ..targets import Started
from .process import Held, Start, held, start, stop
from .storefiles import Disk, check_room, disk_of, evict

TOPIC = "scale"
QUEUES = 8
SIZES = (1_000_000, 10_000_000, 100_000_000)
PLACES = ("head", "middle", "tail")

_BATCH = 200
_STEP = 10_000_000
_PULLED = 2_000_000
"""Messages of one measured pull at most; at most a quarter of the backlog, so that the places do not overlap."""
_STEP_TIMEOUT = 3600.0
_FIRST_GUESS = 400.0
"""Bytes a message takes on disk, before it is known."""


class Fill(msgspec.Struct, frozen=True):
    """The cost of storing the messages that came since the size before."""

    messages: int
    seconds: float
    cpu_us: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


class Pull(msgspec.Struct, frozen=True):
    """Pulls at one place of the backlog."""

    place: str
    cold: bool
    messages: int
    answers: int
    seconds: float
    cpu_us: float

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


class Stage(msgspec.Struct, frozen=True):
    """The figures at one size."""

    messages: int
    fill: Fill
    disk: Disk
    held: Held
    starts: list[Start]
    pulls: list[Pull]


class Outcome(msgspec.Struct):
    """The result of a run."""

    size: int
    """Bytes of a body."""
    keys: bool
    """Whether each message has a key that the broker indexes."""
    stages: list[Stage] = []
    complaints: list[str] = []


class Backlog:
    """Grows the backlog of one broker and measures it."""

    def __init__(self, target: Started, binary: Path, size: int, keys: bool, floor: float, say: Say) -> None:
        """
        @param floor: bytes that must stay free on the disk.
        """
        self._target = target
        self._binary = binary
        self._load = Load("batch", (TOPIC,), QUEUES, 4, 4, size, _BATCH, bare=not keys)
        self._floor = floor
        self._say = say
        self._store = target.work / "store"
        self._stored = 0
        self.outcome = Outcome(size, keys)

    def run(self, sizes: Sequence[int]) -> Outcome:
        """
        Measure at each size, smallest first; start and stop the broker.

        Where it breaks off, as the broker does not come up, or lost a message, or the disk has no room, the complaints
        say why, and the sizes before are there.
        """
        try:
            self._target.start()
            with Control(self._target.address) as control:
                control.create_topic(TOPIC, QUEUES)
            for size in sorted(sizes):
                self.outcome.stages.append(self._stage(size))
        except (BenchmarkError, OSError) as error:
            self.outcome.complaints.append(f"broke off: {error}")
        finally:
            self._target.stop()
            self.outcome.complaints += self._target.complaints
        return self.outcome

    def _stage(self, size: int) -> Stage:
        fill = self._fill(size)
        after = held(self._target.pid)
        starts = self._restarts(size)
        pulls = [self._pull(place, cold) for cold in (True, False) for place in PLACES]
        return Stage(size, fill, disk_of(self._store), after, starts, pulls)

    def _fill(self, size: int) -> Fill:
        began, seconds, cpu = self._stored, 0.0, 0.0
        while self._stored < size:
            count = min(_STEP, size - self._stored)
            each = disk_of(self._store).total / self._stored if self._stored else _FIRST_GUESS
            check_room(self._store, count * each, self._floor)
            self._say(f"storing message {self._stored:,} and the next {count:,} of {size:,}")
            outcome = self._drive(self._load, count)
            if outcome.total_messages < count:
                raise BenchmarkError(f"only {outcome.total_messages} of {count} were stored: {outcome.bad_codes}")
            self._stored += outcome.total_messages
            seconds += outcome.seconds
            cpu += outcome.server_user_s + outcome.server_system_s
        count = self._stored - began
        return Fill(count, seconds, cpu / count * 1e6)

    def _restarts(self, size: int) -> list[Start]:
        target = self._target
        self._say(f"{size:,}: restart after a kill")
        target.kill_broker()
        starts = [start(target, "killed")]
        self._check()
        self._say(f"{size:,}: restart after a clean stop")
        seconds = stop(target)
        starts.append(start(target, "clean", seconds))
        self._check()
        seconds = stop(target)
        evict(self._store)
        starts.append(start(target, "clean, cold", seconds))
        self._check()
        return starts

    def _check(self) -> None:
        with Control(self._target.address, 60.0) as control:
            found = control.stored(TOPIC, QUEUES)
        if found != self._stored:
            raise BenchmarkError(f"{self._target.name} has {found:,} of {self._stored:,} messages")

    def _pull(self, place: str, cold: bool) -> Pull:
        self._say(f"{self._stored:,}: pulls at the {place}")
        count = pulled(self._stored)
        load = Load("pull", (TOPIC,), QUEUES, QUEUES, 1, 1, 32, begin=begin_of(place, self._stored))
        outcome = self._drive(load, count)
        return Pull(place, cold, outcome.messages, outcome.answers, outcome.seconds, outcome.server_cpu_us)

    def _drive(self, load: Load, count: int) -> generator.Outcome:
        line = generator.command(self._binary, load, self._target.address, self._target.pid, count=count)
        return generator.run([*line, "--timeout", "60"], _STEP_TIMEOUT)


def pulled(stored: int) -> int:
    """Return how many messages one measured pull reads of so many."""
    return min(_PULLED, stored // 4)


def begin_of(place: str, stored: int) -> int:
    """
    Return the offset in each queue at which the pulls of a place begin.

    At the tail a quarter more than is read lies ahead, as not all connections are equally fast.
    """
    queue, count = stored // QUEUES, pulled(stored) // QUEUES
    return {"head": 0, "middle": (queue - count) // 2, "tail": queue - count * 5 // 4}[place]
