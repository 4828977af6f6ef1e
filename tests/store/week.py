"""
A week of a store under load on a real disk, with faked clock and file times: C{python -m tests.store.week}.

Time runs faster, so that the week takes C{--minutes}: the wall clock, the timers and the file times that the store
sees. The disk is ext4 of C{--disk} MiB in a file, which root alone can mount. Producers fill it C{--turnover} times in
the week, with a wave a day; one group keeps up, another reads half of what comes.

Every virtual hour the use of the disk and the memory, descriptors and mappings of this process are measured. The week
fails if the disk passes 85 %, a send is refused, the group that keeps up misses a message, or memory, descriptors or
mappings still grow after the third day.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from typing import Final

from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react

from smartgo.env.real import RealEnvironment
from smartgo.errors import ServiceNotAvailable
from smartgo.schema.index import Geometry
from smartgo.store.interfaces import ReadLimit, ReadStatus
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.retention import RetentionRules
from smartgo.store.settings import StoreSettings
from tests.store.fastclock import MIB, FastEnvironment, are_flat, process_figures, say, small_disk
from tests.store.stores import message, records

WEEK: Final = 7 * 86_400
BODY: Final = b"." * 4000


class Group:
    """A consumer group; C{got} is how many messages it read, C{missed} how many it was moved past."""

    def __init__(self, store: OpenStore, share: float) -> None:
        self._store = store
        self._share = share
        self.offset = self.got = self.missed = 0

    async def read(self, end: int) -> None:
        """Read up to its share of what there is."""
        while self.offset < end and self.got < end * self._share:
            result = await self._store.read_cold("T", 0, self.offset, ReadLimit(32, MIB), None)
            if result.status is ReadStatus.OFFSET_TOO_SMALL:
                self.missed += result.next_offset - self.offset
            elif result.status is ReadStatus.FOUND:
                numbers = [one.queue_offset for one in records(result)]
                if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                    raise AssertionError(f"asked for {self.offset}, got {numbers}")
                self.missed += numbers[0] - self.offset  # those that are being removed are passed
                self.got += len(numbers)
            elif result.status is not ReadStatus.MESSAGE_WAS_REMOVING:
                return
            self.offset = result.next_offset


class Week:
    """One run; C{rows} has (hour, use of the disk, memory, descriptors, mappings)."""

    def __init__(self, options: argparse.Namespace, root: str) -> None:
        self.env = FastEnvironment(RealEnvironment(_reactor), WEEK / (options.minutes * 60))
        self._options = options
        self._root = root
        self.refused = self.sent = 0
        self.rows: list[tuple[int, float, int, int, int]] = []

    def used(self) -> float:
        """The share of the disk in use."""
        total, free = self.env.real.files.usage(self._root)
        return 1 - free / total

    async def open(self) -> OpenStore:
        """A store whose timers are as often as a real one's, in real time."""
        factor = self.env.clock.factor
        settings = StoreSettings(
            log_file_size=self._options.disk * MIB // 64,
            queue_file_size=6000,
            flush_interval=0.2 * factor,
            checkpoint_interval=0.2 * factor,
            retry_interval=0.5 * factor,
            sync_flush_timeout=30 * factor,
            disk_free_minimum=0,
            index=True,
            index_geometry=Geometry(1000, 4000),
            retention=RetentionRules(free_minimum=0, interval=10.0, file_pause=0.1, queue_file_pause=0.1),
        )
        return await open_store(self.env, os.path.join(self._root, "store"), settings)  # type: ignore[arg-type]

    async def run(self) -> bool:
        """Run the week; return whether all was well."""
        store = await self.open()
        quick, slow = Group(store, 1.0), Group(store, 0.5)
        clock, most, hour = self.env.clock, 0.0, 0
        total = self._options.turnover * self._options.disk * MIB / (len(BODY) + 160)  # messages of the week
        while clock.passed < WEEK:
            passed = clock.passed
            wave = 1 - 0.8 * math.sin(2 * math.pi * passed / 86_400) * 86_400 / (2 * math.pi * max(passed, 86_400))
            due = int(total * passed / WEEK * wave)
            for _ in range(min(64, due - self.sent)):
                try:
                    store.append([message(body=b"%d" % self.sent + BODY, properties=b"KEYS\x01k%d" % self.sent)])
                except ServiceNotAvailable:
                    self.refused += 1
                    break
                self.sent += 1
            store.end_run()
            await deferLater(_reactor, 0.002, lambda: None)
            end = store.bounds("T", 0)[1]
            await quick.read(end)
            await slow.read(end)
            most = max(most, self.used())
            if clock.passed >= hour * 3600:
                self.rows.append((hour, self.used(), *process_figures()))
                if hour % 12 == 0:
                    first = store.log_bounds()[0]
                    say(
                        f"day {hour / 24:.1f}: disk {self.used():.1%} (most {most:.1%}), log from"
                        f" {first / MIB:.0f} MiB,"
                        f" {self.rows[-1][2]} KiB, {self.rows[-1][3]} descriptors, {self.rows[-1][4]} mappings,"
                        f" sent {self.sent}, quick {quick.got}, slow {slow.got} + {slow.missed} removed"
                    )
                hour += 1
        reasons = {reason.value: count for reason, count in store.cleaner.removed.by_reason.items()}
        await quick.read(self.sent)
        await store.close()
        flat = are_flat(self.rows)
        well = most <= 0.85 and not self.refused and quick.got == self.sent and not quick.missed and flat
        say(
            f"{'well' if well else 'NOT WELL'}: most of the disk {most:.2%}, refused {self.refused}, removed {reasons},"
            f" quick {quick.got} of {self.sent}, slow {slow.got} read and {slow.missed} removed, flat {flat}"
        )
        return well


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=60.0, help="real minutes that the week takes")
    parser.add_argument("--disk", type=int, default=512, help="MiB of the disk")
    parser.add_argument("--turnover", type=float, default=6.0, help="how often the week fills the disk")
    options = parser.parse_args()
    with small_disk(options.disk) as root:
        week = Week(options, root)
        results: list[bool] = []

        async def run(_: object) -> None:
            try:
                results.append(await week.run())
            finally:
                await week.env.threads.stop()

        try:
            react(lambda reactor: Deferred.fromCoroutine(run(reactor)))
        except SystemExit as ended:
            if ended.code:
                raise
        sys.exit(0 if results == [True] else 1)


if __name__ == "__main__":
    main()
