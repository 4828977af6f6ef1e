"""Tests of L{smartgo.ha.doubt}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import LogsDiffer, LogTorn
from smartgo.ha.doubt import Doubt, is_torn
from smartgo.schema.record import encode, encode_blank
from tests.fakes import EPOCH_MS
from tests.ha.fakes import FakeLog
from tests.ha.torn import SECTOR, crossing, filled, torn
from tests.store.stores import message


def records(count: int) -> tuple[bytes, list[int]]:
    """A log, and where its records begin."""
    log, starts = b"", []
    for number in range(count):
        starts.append(len(log))
        log += encode(message(body=b"b" * (number * 97 % 700)), number, len(log), EPOCH_MS)
    return log, starts


def zeroed(data: bytes, begin: int, end: int) -> bytes:
    """With zeros in a range."""
    return data[:begin] + bytes(end - begin) + data[end:]


class DoubtTests(SynchronousTestCase):
    def compared(self, ours: bytes, theirs: bytes, begin: int = 0, size: int = 1 << 20) -> Doubt:
        """Compare our log with the master's, in pieces."""
        doubt = Doubt(FakeLog(ours), begin)
        while not doubt.done and doubt.position < len(theirs):
            self.assertEqual(doubt.take(memoryview(theirs)[doubt.position : doubt.position + size]) > 0, True)
        return doubt

    def test_equal(self) -> None:
        """However it is cut, a log that is as the master's is believed, and what follows is left to the log."""
        log, starts = records(12)
        for begin in (0, starts[1], starts[7], len(log)):
            for size in (1, 7, 100, 1 << 20):
                doubt = self.compared(log, log + b"more", begin, size)
                self.assertTrue(doubt.done)
                self.assertEqual(doubt.position, len(log))
        self.assertEqual(Doubt(FakeLog(log), 0).position, 1)  # 0 would mean that we have nothing

    def test_takes_no_more(self) -> None:
        """What lies behind our log is not compared."""
        log, starts = records(3)
        doubt = Doubt(FakeLog(log), starts[1])
        self.assertEqual(doubt.take(memoryview(log + b"more")[starts[1] :]), len(log) - starts[1])

    def test_any_other_byte(self) -> None:
        """A byte that is another, and no zero, is another history."""
        log, starts = records(4)
        for at in range(starts[1], len(log)):
            ours = log[:at] + bytes([log[at] ^ 0x55 or 0x56]) + log[at + 1 :]
            self.assertRaises(LogsDiffer, self.compared, ours, log, starts[1], 333)

    def test_torn(self) -> None:
        """A sector whose rewrite did not come makes a torn record; the master's is told, once all is compared."""
        for left in range(30, 88):
            log = filled(b"", left)
            start = len(log)
            record = crossing(log, left, number=1)
            log += record
            after = encode(message(body=b"after"), 2, len(log), EPOCH_MS)
            for flushed in range(28, left):
                ours = log[:start] + torn(record, flushed, left) + after
                if ours == log + after:
                    continue
                error = self.assertRaises(LogTorn, self.compared, ours, log + after, start, 50)
                self.assertEqual(error.records, {start: record})

    def test_torn_and_different(self) -> None:
        """Where another history follows what is torn, nothing is repaired."""
        log = filled(b"", 80)
        start = len(log)
        record = crossing(log, 80, number=1)
        log += record
        theirs, ours = (log + encode(message(body=body), 2, len(log), EPOCH_MS) for body in (b"theirs", b"ours!!"))
        ours = ours[:start] + torn(record, 66, 80) + ours[start + len(record) :]
        for size in (1 << 20, len(record), 7):
            self.assertRaises(LogsDiffer, self.compared, ours, theirs, start, size)

    def test_another_record(self) -> None:
        """A record of the same length that is another message is no torn one."""
        log, starts = records(3)
        random = Random(3)
        for _ in range(200):
            body = random.randbytes(97)
            other = encode(message(body=body, flag=random.randrange(3)), 1, starts[1], EPOCH_MS + random.randrange(5))
            ours = log[: starts[1]] + other + log[starts[2] :]
            self.assertRaises(LogsDiffer, self.compared, ours, log, starts[1])

    def test_blank(self) -> None:
        """A blank, and what fills the file behind it, is compared like a record."""
        log, starts = records(3)
        blank = encode_blank(5000)
        whole = log + blank + bytes(5000 - len(blank))
        self.assertTrue(self.compared(whole, whole, starts[1], 70).done)
        self.assertRaises(LogsDiffer, self.compared, whole[:-1] + b"x", whole, starts[1])


class TornTests(SynchronousTestCase):
    def test_is_torn(self) -> None:
        """In each sector that differs, ours is the beginning of theirs, then zeros; sectors are those of the file."""
        theirs = Random(1).randbytes(3 * SECTOR).replace(b"\0", b"\1")
        for offset in (0, 100, 511, 512, 1000):
            edge = -offset % SECTOR or SECTOR
            for begin in (0, 1, edge - 1, edge, edge + 7):
                end = begin + (SECTOR - (offset + begin) % SECTOR)
                self.assertTrue(is_torn(zeroed(theirs, begin, end), theirs, offset), (offset, begin))
                if begin < end - 1:
                    self.assertFalse(is_torn(zeroed(theirs, begin, end - 1), theirs, offset), (offset, begin))
        self.assertTrue(is_torn(theirs, theirs, 0))
