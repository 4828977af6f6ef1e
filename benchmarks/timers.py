"""
Timed messages in a store on real files: C{python -m benchmarks.timers --help}.

C{day} lets messages arrive and come due over a virtual day, and kills the process again and again, as far as files are
concerned: the store is left as it is, mapped pages, half-written checkpoint and all, and another one is opened over the
same files. C{memory} lets millions wait. Both use the store and the delivery of the broker, with a clock that jumps
from one timer to the next, so what they measure is what comes, when, and how much memory it takes; not latency.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import click
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.task import Clock

from smartgo.broker.stages.timerdelivery import TimerDelivery
from smartgo.env.disk import RealFiles, RealMapping
from smartgo.schema.message import NewMessage
from smartgo.schema.timers import wheel_ms
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.interfaces import Appended
from smartgo.store.opening import open_store
from smartgo.store.settings import StoreSettings

from . import proc

T = TypeVar("T")

_PROPERTIES = b"UNIQ_KEY\1%032X\2TIMER_DELIVER_MS\1%d\2TIMER_OUT_MS\1%d\2REAL_TOPIC\1Timed\2REAL_QID\1%d"
DAY_MS = 86_400_000
EPOCH_MS = 1_700_000_000_000
HOST = b"\x7f\0\0\1\0\0\x2a\x9f"


class VirtualClock(Clock):
    """Time that moves from one timer to the next."""

    def wall_ms(self) -> int:
        """The wall clock."""
        return EPOCH_MS + int(self.seconds() * 1000 + 1e-6)

    def utc_offset(self) -> float:
        """Of Greenwich."""
        return 0.0

    def run_until(self, end: float) -> None:
        """Let time pass, timer by timer."""
        while self.calls and self.calls[0].getTime() <= end:
            self.advance(max(0.0, self.calls[0].getTime() - self.seconds()))
        self.advance(max(0.0, end - self.seconds()))


class OneThread:
    """Lanes whose work is done at once."""

    def run(self, lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Do it."""
        return maybeDeferred(function, *args)


class _NoLock:
    """A lock that nobody else wants: the process that had it was killed, as far as files are concerned."""

    def release(self) -> None:
        """Give it back."""


class _Unsynced(RealMapping):
    """A file that is never synced: a kill does not lose what was written."""

    def sync(self) -> None:
        """Leave it to the system."""


class DyingFiles(RealFiles):
    """
    The real disk, for one process that plays several.

    @ivar left: changes of files that still succeed; the one after them is half done, and those after that are not.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left = 1 << 62

    def lock_directory(self, path: str) -> Any:
        """Take it."""
        return _NoLock()

    def map(self, path: str, writable: bool = True, scattered: bool = False) -> RealMapping:
        """Map a file."""
        return _Unsynced(path, writable, scattered)

    def sync_directory(self, path: str) -> None:
        """Leave it to the system: a kill does not lose what was written."""

    def _change(self) -> bool:
        """Count a change; return whether it is the one in which the process dies."""
        self.left -= 1
        if self.left < -1:
            raise OSError(errno.EIO, "the process is dead")
        return self.left == -1

    def append(self, path: str, data: bytes) -> None:
        """Add to the end, half of it at the last."""
        dies = self._change()
        super().append(path, data[: len(data) // 2] if dies else data)
        if dies:
            raise OSError(errno.EIO, "the process dies")

    def replace(self, path: str, data: bytes, backup: bool = True) -> None:
        """Replace a file; at the last there is a part of a temporary one alone."""
        if self._change():
            super().append(path + ".tmp", data[: len(data) // 2])
            raise OSError(errno.EIO, "the process dies")
        super().replace(path, data, backup)

    def remove(self, path: str) -> None:
        """Unlink a file."""
        if self._change():
            raise OSError(errno.EIO, "the process dies")
        super().remove(path)


class Machine:
    """One life of a process: its own timers, over the same files."""

    def __init__(self, begin: float) -> None:
        """@param begin: of the clock, in seconds."""
        self.clock = VirtualClock()
        self.clock.advance(begin)
        self.threads = OneThread()
        self.files = DyingFiles()
        self.network = self.random = None
        self.host = self

    def buggify(self, name: str) -> bool:
        """Take no rare path."""
        return False

    memory = 1 << 34

    def open_file_limit(self) -> int:
        """Many."""
        return 100_000


class Life:
    """A store that is open, and its delivery."""

    def __init__(self, root: str, begin: float, delivered: Callable[[int, int], None]) -> None:
        """@param delivered: told the number of each message, and how many ms after its time it came."""
        machine: Any = Machine(begin)
        self.machine = machine
        self.clock = machine.clock
        self._told = delivered
        opened: list[Any] = []
        settings = StoreSettings(timers=True, log_file_size=256 << 20, flush_interval=0.5, disk_free_minimum=1 << 20)
        open_store(machine, root, settings).addCallback(opened.append)
        self.store = opened[0]
        assert self.store.timers is not None
        self.timers = self.store.timers
        self.delivery = TimerDelivery(self.clock, self.store, self.timers, self._delivered)
        self.delivery.start()

    def _delivered(self, message: NewMessage, appended: Appended) -> None:
        number, due_ms = bytes(message.body).split()
        self._told(int(number), self.clock.wall_ms() - int(due_ms))

    def send(self, numbers: range, due: Callable[[int], int]) -> None:
        """Append messages in one run."""
        for number in numbers:
            due_ms = due(number)
            # As broker.stages.timed writes them, by a template: here the store is to be busy.
            properties = _PROPERTIES % (number, due_ms, wheel_ms(due_ms), number % 8)
            body = b"%d %d" % (number, due_ms)
            self.store.append((NewMessage(TIMER_TOPIC, 0, body, properties, born_ms=1, store_host=HOST),))
        self.store.end_run()


@click.group()
def main() -> None:
    """Timed messages in a store on real files."""


@main.command()
@click.option("--count", default=1_000_000, show_default=True, help="Messages.")
@click.option("--kills", default=20, show_default=True, help="Kills over the day.")
@click.option("--down", default=5.0, show_default=True, help="Seconds from a kill to the next start.")
@click.option("--seed", default=1, show_default=True)
def day(count: int, kills: int, down: float, seed: int) -> None:
    """Let messages wait over a virtual day with kills, and count what became of each."""
    random = Random(seed)
    root = tempfile.mkdtemp(prefix="timers")
    came: Counter[int] = Counter()
    late: list[int] = []

    def delivered(number: int, late_ms: int) -> None:
        came[number] += 1
        late.append(late_ms)

    try:
        due: dict[int, int] = {}
        stops = sorted(random.uniform(0, 86_400) for _ in range(kills))
        life = Life(root, 0.0, delivered)
        begun = time.perf_counter()
        per_second = count / 80_000
        sent = 0
        starts = []
        dying = -1  # a process that dies is replaced at that second at the latest
        for second in range(0, 86_400, 5):
            if sent < count and second < 80_000:
                end = min(count, int((second + 5) * per_second))
                now_ms = life.clock.wall_ms()
                latest = EPOCH_MS + DAY_MS - 60_000
                due.update((number, random.randint(now_ms + 1, max(now_ms + 2, latest))) for number in range(sent, end))
                life.send(range(sent, end), due.__getitem__)
                sent = end
            life.clock.run_until(second + 5)
            if stops and stops[0] <= second + 5 and dying < 0:
                del stops[0]
                life.machine.files.left = random.randrange(8)
                dying = second + 90
            if dying >= 0 and (life.machine.files.left < 0 or second >= dying):
                dying = -1
                before = time.perf_counter()
                life = Life(root, life.clock.seconds() + down, delivered)
                starts.append(time.perf_counter() - before)
        life.clock.run_until(max(86_400, life.clock.seconds()) + 60)
        late.sort()
        print(f"sent {sent}, kills {kills}, {time.perf_counter() - begun:.0f} s in all")
        print(f"lost {sum(1 for number in range(sent) if not came[number])}")
        print(f"twice {sum(1 for times in came.values() if times > 1)}")
        print(f"early {sum(1 for one in late if one < 0)}")
        picked = {share: late[int(len(late) * share)] for share in (0.5, 0.99, 0.999)}
        print(f"late in ms: p50 {picked[0.5]} p99 {picked[0.99]} p99.9 {picked[0.999]} max {late[-1]} (down {down} s)")
        print(f"starts after kills in s: max {max(starts, default=0):.2f}; left waiting {life.timers.count}")
    finally:
        shutil.rmtree(root)


@main.command()
@click.option("--count", default=10_000_000, show_default=True, help="Messages.")
@click.option("--span", default=40 * 86_400, show_default=True, help="Seconds over which they are due.")
@click.option("--deliver", default=200_000, show_default=True, help="How many of them are delivered at the end.")
@click.option("--rebuild/--no-rebuild", default=True, help="Make the timer log anew, too.")
def memory(count: int, span: int, deliver: int, rebuild: bool) -> None:
    """Let messages wait, and print the anonymous memory of the process."""
    random = Random(1)
    root = tempfile.mkdtemp(prefix="timers")
    came: Counter[int] = Counter()
    try:
        life = Life(root, 0.0, lambda number, late_ms: came.update((number,)))
        before = _anonymous()
        begun = time.perf_counter()
        step = 1000
        highest = 0
        for sent in range(0, count, step):
            life.send(range(sent, sent + step), lambda _: EPOCH_MS + 600_000 + random.randrange(span * 1000))
            life.clock.run_until(life.clock.seconds() + 0.05)
            if sent % 100_000 == 0:
                highest = max(highest, _anonymous())
        took = time.perf_counter() - begun
        print(f"{life.timers.count} wait: {count / took:.0f} a second; anonymous memory before {before >> 20} MiB,")
        print(f"highest meanwhile {highest >> 20} MiB, now {_anonymous() >> 20} MiB")
        begun = time.perf_counter()
        life.clock.run_until(600 + span * deliver / count)
        took = max(0.001, time.perf_counter() - begun)
        print(f"delivered {len(came)} in {took:.1f} s, {len(came) / took:.0f} a second; {_anonymous() >> 20} MiB")
        waiting = life.timers.count
        begun = time.perf_counter()
        after = Life(root, life.clock.seconds(), lambda number, late_ms: came.update((number,)))
        print(f"start after a kill {time.perf_counter() - begun:.1f} s; {after.timers.count} of {waiting} wait")
        if rebuild:
            shutil.rmtree(f"{root}/timer")
            begun = time.perf_counter()
            again = Life(root, life.clock.seconds(), lambda number, late_ms: came.update((number,)))
            took = time.perf_counter() - begun
            print(f"made anew in {took:.1f} s; {again.timers.count} of {waiting} wait; {_anonymous() >> 20} MiB")
        print(f"twice {sum(1 for times in came.values() if times > 1)}")
    finally:
        shutil.rmtree(root)


def _anonymous() -> int:
    """Return the anonymous memory of this process, in bytes."""
    return proc.read_memory(os.getpid()).anonymous


if __name__ == "__main__":
    main()
