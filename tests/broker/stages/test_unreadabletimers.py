"""Timed messages whose records the disk cannot read: they stop no other, and none is given up too early."""

from __future__ import annotations

import errno
from collections.abc import Callable

from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import NewMessage
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.verifiedlog import LANE as READ_LANE
from tests.broker.stages.test_timerdelivery import NOW, Timers, timed
from tests.fakes import FakeEnvironment
from tests.store.stores import ROOT, StoreTestCase, killed


class BadDisk:
    """Places of the log that a disk in memory cannot read, for reads through files; counts those reads."""

    def __init__(self, case: SynchronousTestCase, env: FakeEnvironment) -> None:
        """Stand before the files of a machine."""
        self.bad: dict[int, int] = {}  # physical offset -> errno
        self.reads: list[int] = []  # physical offsets read
        self._read_at = env.files.read_at
        case.patch(env.files, "read_at", self.read_at)

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Part of a file. @raise OSError: it has a place that cannot be read."""
        if "/commitlog/" in path:
            begin = int(path[-20:]) + offset
            self.reads.append(begin)
            for at, error in self.bad.items():
                if begin <= at < begin + size:
                    raise OSError(error, "fault set by the test", path)
        return self._read_at(path, offset, size)


class UnreadableTests(StoreTestCase):
    """One store."""

    def setUp(self) -> None:
        """Begin."""
        self.env = FakeEnvironment()
        self.env.clock.wall_offset_ms = NOW
        self.timers = Timers(self, self.env)

    def tearDown(self) -> None:
        """Nothing is left."""
        self.timers.stop()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.env.files.mappings, [])

    def again(self, env: FakeEnvironment) -> Timers:
        """The same store in another process."""
        env.clock.wall_offset_ms = self.env.clock.wall_offset_ms
        self.env = env
        self.timers = Timers(self, env)
        return self.timers

    def restarted(self, *messages: NewMessage) -> tuple[BadDisk, list[int]]:
        """Send, and start in another process; return its disk, and the physical offsets of the messages."""
        offsets = [self.timers.store.append((one,)).offset for one in messages]
        self.timers.store.end_run()
        self.env.clock.advance(0)
        self.timers.stop()
        after = killed(self.env)
        disk = BadDisk(self, after)
        self.again(after)
        return disk, offsets

    def test_one_lost(self) -> None:
        """One record that the disk cannot read for good stops no other, and is given up after a minute."""
        disk, offsets = self.restarted(*[timed(NOW + 20_000 + number, str(number)) for number in range(10)])
        disk.bad[offsets[0] + 10] = errno.EIO
        with capturedLogs() as logs:
            self.timers.advance(25)
            self.assertEqual(self.timers.bodies(), list("123456789"))
            self.assertEqual(self.timers.timers.count, 1)
            self.assertEqual([one for one in logs if one["log_level"] is LogLevel.error], [])
            self.timers.advance(70)
        self.assertEqual(self.timers.timers.count, 0)
        errors = [one for one in logs if one["log_level"] is LogLevel.error]
        self.assertEqual([one["offset"] for one in errors], [offsets[0]] * 2)
        self.assertEqual(self.timers.bodies(), list("123456789"))

    def test_for_a_while(self) -> None:
        """What can be read again is delivered then, once, also where it waits aside when the broker stops."""
        disk, offsets = self.restarted(*[timed(NOW + 20_000 + number, str(number)) for number in range(3)])
        disk.bad = dict.fromkeys(offsets, errno.EIO)
        self.timers.advance(50)
        self.assertEqual((self.timers.bodies(), self.timers.timers.count), ([], 3))
        disk.bad = {offsets[2]: errno.EIO}
        self.timers.advance(11)
        self.assertEqual(self.timers.bodies(), ["0", "1"])
        self.timers.stop()
        self.again(killed(self.env)).advance(5)
        self.assertEqual(self.timers.bodies(), ["2"])

    def test_no_descriptors(self) -> None:
        """An error that says nothing about the record never makes it count as lost."""
        disk, offsets = self.restarted(*[timed(NOW + 20_000 + number, str(number)) for number in range(3)])
        disk.bad = dict.fromkeys(offsets, errno.EMFILE)
        self.timers.advance(300, 0.5)
        self.assertEqual((self.timers.bodies(), self.timers.timers.count), ([], 3))
        disk.bad = {}
        self.timers.advance(11)
        self.assertEqual(self.timers.bodies(), list("012"))

    def test_recall(self) -> None:
        """A message waits for the recall of its second that cannot be read."""
        due = NOW + 20_900
        disk, offsets = self.restarted(timed(due, "a"), timed(due, "x", TIMER_DEL_UNIQKEY="a"), timed(due, "b"))
        disk.bad[offsets[1]] = errno.EIO
        self.timers.advance(25)
        self.assertEqual(self.timers.bodies(), [])
        disk.bad = {}
        self.timers.advance(11)
        self.assertEqual((self.timers.bodies(), self.timers.delivery.recalled), (["b"], 1))

    def test_message_of_recall(self) -> None:
        """A recall waits for the message of its second that cannot be read."""
        due = NOW + 20_900
        disk, offsets = self.restarted(timed(due, "a"), timed(due, "x", TIMER_DEL_UNIQKEY="a"))
        disk.bad[offsets[0]] = errno.EIO
        self.timers.advance(25)
        disk.bad = {}
        self.timers.advance(11)
        self.assertEqual((self.timers.bodies(), self.timers.delivery.recalled), ([], 1))

    def test_through_files(self) -> None:
        """What another process wrote is read through the file, in a thread; what this one wrote, from memory."""
        disk, offsets = self.restarted(timed(NOW + 20_000, "old"))
        self.timers.send(timed(NOW + 25_000, "new"))
        disk.reads.clear()
        self.env.threads.held.add(READ_LANE)
        self.timers.advance(21)
        self.assertEqual(self.timers.bodies(), [])
        self.env.threads.held.clear()
        self.env.threads.release(READ_LANE)
        self.assertEqual((self.timers.bodies(), disk.reads), (["old"], offsets))
        self.timers.advance(10)
        self.assertEqual((self.timers.bodies(), disk.reads), (["old", "new"], offsets))

    def test_mapping_fails(self) -> None:
        """Where a log file cannot be mapped while messages are taken from it, each is taken once, later."""
        store = self.timers.store
        entries = [store.append((timed(NOW + 20_000 + number, str(number)),)).offset for number in range(5)]
        store.end_run()
        log = self.timers.timers._source.log
        slice_of: Callable[[int, int], memoryview] = log.slice
        failing = [entries[2]]

        def sliced(offset: int, size: int) -> memoryview:
            if offset in failing:
                raise OSError(errno.EMFILE, "Too many open files")
            return slice_of(offset, size)

        self.patch(log, "slice", sliced)
        self.env.clock.advance(0)
        self.assertEqual(self.timers.timers.count, 0)
        failing.clear()
        self.timers.advance(25)
        self.assertEqual(self.timers.bodies(), list("01234"))

    def test_start(self) -> None:
        """Places of the log that the disk cannot read hold up the timer log for a minute; others come."""
        self.timers.send(*[timed(NOW + 1000 * number, str(number), filler="x" * 12_000) for number in range(1, 61)])
        self.timers.advance(10.5)
        first = self.timers.bodies()
        copies = [one.physical_offset for one in self.read_all(self.timers.store, "T", 2)]
        waiting = [one.physical_offset for one in self.read_all(self.timers.store, TIMER_TOPIC, 0)]
        self.timers.stop()
        after = killed(self.env)
        for path in [one for one in after.files.files if one.startswith(f"{ROOT}/timer/")]:
            del after.files.files[path]
        disk = BadDisk(self, after)
        after.threads.held.add("timers")
        timers = self.again(after)
        disk.bad = dict.fromkeys((copies[3] + 6000, waiting[20] + 6000), errno.EIO)
        after.threads.held.clear()
        after.threads.release("timers")
        timers.advance(30)
        self.assertFalse(timers.timers.ready)
        timers.advance(60)
        self.assertTrue(timers.timers.ready)
        expected = [str(number) for number in range(1, 61) if number != 21]
        self.assertEqual(sorted(first + timers.bodies(), key=int), expected)
