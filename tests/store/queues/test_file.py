"""Tests of L{smartgo.store.queues.file}."""

from __future__ import annotations

import errno
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import ServiceNotAvailable
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.schema.delay import DEFAULT_LEVELS, DelayLevels
from smartgo.store.mappedfile import OpenMappings
from smartgo.store.queues.file import ConsumeQueue, ConsumeQueues, round_up
from tests.fakes import FakeEnvironment

LEVELS = DelayLevels.parse(DEFAULT_LEVELS)


def unit(number: int) -> Unit:
    """Some unit."""
    return Unit(1000 + number * 100, 100, number % 7)


class QueueTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.files = FakeEnvironment().files
        self.mappings = OpenMappings(self.files, 4)
        self.queues = ConsumeQueues(self.files, "/cq", 199, self.mappings, LEVELS)
        self.queue = self.queues.create("T", 3)

    def add(self, queue: ConsumeQueue, count: int) -> None:
        """Write units as a store does."""
        begin = queue.next_offset
        if begin + count > queue.reserved:
            queue.extend(count)
        queue.next_offset += count
        queue.write(b"".join(unit(number).pack() for number in range(begin, begin + count)), count)


class WriteTests(QueueTestCase):
    def test_file_size(self) -> None:
        """A queue file's length is rounded up to whole units."""
        self.assertEqual([round_up(size) for size in (1, 20, 21, 6_000_000)], [20, 20, 40, 6_000_000])
        self.assertEqual(self.queues.file_size, 200)

    def test_no_file_before_the_first(self) -> None:
        """A queue without a message has no file; the first makes one of full length (L19)."""
        self.assertFalse(self.files.exists("/cq"))
        self.add(self.queue, 1)
        self.assertEqual(self.files.size("/cq/T/3/" + "0" * 20), 200)

    def test_any_cut(self) -> None:
        """However the units come in runs, they are read back, over all files."""
        random = Random(2)
        while self.queue.visible < 200:
            self.add(self.queue, random.choice((1, 2, 3, 10, 11, 35)))
        total = self.queue.visible
        self.assertEqual(self.queue.units(0, total), [unit(number) for number in range(total)])
        for begin in range(0, total, 7):
            for count in (0, 1, 9, 10, 25):
                expected = [unit(number) for number in range(begin, min(begin + count, total))]
                self.assertEqual(self.queue.units(begin, count), expected)
        self.assertEqual(self.queue.units(total, 5), [])
        self.assertLessEqual(len(self.files.mappings), 4)

    def test_view(self) -> None:
        """A view ends with its file, and there is none where there is no file."""
        self.add(self.queue, 12)
        view = self.queue.view(8, 10)
        assert view is not None
        self.assertEqual(len(view), 2 * UNIT_SIZE)
        self.assertIsNone(self.queue.view(20, 1))
        self.assertIsNone(self.queue.unit(20))

    def test_reserves_in_steps(self) -> None:
        """Blocks are reserved 64 KiB at a time, before the unit that needs them, also where it spans two steps."""
        queues = ConsumeQueues(self.files, "/big", 200_000, self.mappings, LEVELS)
        queue = queues.create("T", 0)
        ranges: list[tuple[int, int]] = []
        for number in range(10_000):
            self.add(queue, 1)
            ranges = self.files.mappings[-1].reserved
            self.assertGreaterEqual(ranges[-1][1], (number + 1) * UNIT_SIZE)
            self.assertLess(ranges[-1][1], (number + 1) * UNIT_SIZE + 65_536 + UNIT_SIZE)
        self.assertEqual(len(ranges), 4)

    def test_disk_full(self) -> None:
        """Without room for units nothing changes, a new file is taken back, and with room it goes on."""
        self.add(self.queue, 10)
        for free in (0, -1):
            self.files.free = free
            error = self.assertRaises(ServiceNotAvailable, self.queue.extend, 1)
            self.assertIn("topic T, queue 3", str(error))
            self.assertEqual(len(self.files.list("/cq/T/3")), 1)
        self.files.free = 1 << 20
        self.files.fail["/cq/T/3/00000000000000000200"] = errno.EACCES
        self.assertRaises(ServiceNotAvailable, self.queue.extend, 1)
        self.files.fail.clear()
        self.add(self.queue, 5)
        self.assertEqual(self.queue.units(9, 5), [unit(number) for number in range(9, 14)])

    def test_dirty(self) -> None:
        """Each file written to is noted, so that it can be synced."""
        self.add(self.queue, 5)
        self.assertEqual([file.base for file in self.queues.dirty], [0])
        self.queues.dirty.clear()
        self.add(self.queue, 17)
        self.assertEqual([file.base for file in self.queues.dirty], [0, 200, 400])

    def test_mapping_taken_away(self) -> None:
        """A queue whose file was unmapped, as others were used, goes on."""
        self.add(self.queue, 5)
        others = [self.queues.create("T", number) for number in range(10, 20)]
        for other in others:
            self.add(other, 1)
        self.assertIsNone(self.queue.files.files[0].view)
        self.add(self.queue, 2)
        self.assertEqual(len(self.queue.units(0, 99)), 7)


class BeginTests(QueueTestCase):
    def test_prefill(self) -> None:
        """A queue may begin in the middle: its first file is filled up to there, and is named for its own start."""
        for offset in (1, 9, 10, 11, 25, 1000):
            queue = self.queues.create("P", offset)
            queue.begin_at(offset)
            self.add(queue, 3)
            self.assertEqual((queue.minimum, queue.visible), (offset, offset + 3))
            self.assertEqual(queue.files.begin, offset // 10 * 200)
            raw = queue.view(offset // 10 * 10, offset % 10)
            self.assertEqual(bytes(raw or b""), PREFILL.pack() * (offset % 10))
            self.assertEqual(queue.units(0, 99), [unit(offset), unit(offset + 1), unit(offset + 2)])

    def test_cut(self) -> None:
        """A queue cut anywhere has zeros from there on, and goes on there."""
        for offset in range(0, 35, 3):
            queue = self.queues.create("C", offset)
            self.add(queue, 35)
            queue.cut(offset)
            self.assertEqual((queue.visible, queue.next_offset), (offset, offset))
            for file in queue.files.files:
                begin = min(max(0, offset * UNIT_SIZE - file.base), file.size)
                self.assertFalse(any(self.mappings.view(file)[begin:]))
            self.add(queue, 2)
            self.assertEqual(queue.units(0, 99), [unit(number) for number in range(offset + 2)])

    def test_discard(self) -> None:
        """A queue whose files are removed is empty and can begin again."""
        self.add(self.queue, 35)
        self.queues.discard_files(self.queue)
        self.assertEqual(self.files.list("/cq/T/3"), [])
        self.assertEqual((self.queue.visible, self.queues.dirty), (0, {}))
        self.add(self.queue, 1)
        self.assertEqual(self.queue.units(0, 9), [unit(0)])
