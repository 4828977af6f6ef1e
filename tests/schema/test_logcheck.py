"""Tests of L{smartgo.schema.logcheck}."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema import logcheck
from smartgo.schema.logcheck import DamagedBytes, LogCheck, ReadLog, check_range, find_start
from smartgo.schema.message import NewMessage
from smartgo.schema.record import HEAD_SIZE, encode, encode_blank

BASE = 1 << 20
FILE_SIZE = 16384


def log_file(random: Random, fill: bool = True) -> tuple[bytearray, list[int]]:
    """A log file of random records and its blank; and where the records begin, as physical offsets."""
    data = bytearray()
    offsets: list[int] = []
    while True:
        body = random.randbytes(random.randrange(300))
        record = encode(NewMessage("T", 3, body, b"KEYS\x01k"), len(offsets), BASE + len(data), 1 + len(offsets))
        if len(data) + len(record) + 8 > FILE_SIZE:
            break
        offsets.append(BASE + len(data))
        data += record
        if not fill and len(offsets) == 20:
            return data, offsets
    data += encode_blank(FILE_SIZE - len(data))
    return data.ljust(FILE_SIZE, b"\0"), offsets


def reader(data: bytes | bytearray) -> ReadLog:
    """Return a reader of a log file at C{BASE}."""
    return lambda offset, size: bytes(data[offset - BASE : offset - BASE + size])


def walked(data: bytes | bytearray, begin: int = BASE, end: int | None = None) -> tuple[list[int], list[DamagedBytes]]:
    """The offsets of the valid records, and the damage."""
    stop = BASE + len(data)
    records, damage = [], []
    for one in LogCheck(reader(data), begin, stop if end is None else end, stop, BASE + FILE_SIZE):
        if isinstance(one, DamagedBytes):
            damage.append(one)
        else:
            records.append(one.physical_offset)
    return records, damage


class LogCheckTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.random = Random(5)
        self.patch(logcheck, "CHUNK", 1024)

    def test_whole(self) -> None:
        """A file without damage: every record, and the position is at its end."""
        data, offsets = log_file(self.random)
        check = LogCheck(reader(data), BASE, BASE + FILE_SIZE, BASE + FILE_SIZE, BASE + FILE_SIZE)
        self.assertEqual([one.physical_offset for one in check if not isinstance(one, DamagedBytes)], offsets)
        self.assertEqual(check.position, BASE + FILE_SIZE)

    def test_range(self) -> None:
        """Only what begins before the end of the range is given out."""
        data, offsets = log_file(self.random)
        self.assertEqual(walked(data, offsets[3], offsets[9]), (offsets[3:9], []))
        self.assertEqual(walked(data, offsets[3], offsets[9] + 1), (offsets[3:10], []))

    def test_every_bit_of_a_head(self) -> None:
        """A flipped bit in any byte of a record costs that record at most, and no other (F6)."""
        data, offsets = log_file(self.random)
        for number in (0, 7, len(offsets) - 1):
            begin = offsets[number]
            size = int.from_bytes(data[begin - BASE : begin - BASE + 4], "big")
            for at in range(size):
                changed = bytearray(data)
                changed[begin - BASE + at] ^= 1 << self.random.randrange(8)
                records, damage = walked(changed)
                lost = [one for one in offsets if one not in records]
                self.assertIn(lost, ([], [begin]), at)
                self.assertEqual([(one.offset, one.length) for one in damage], [(begin, size)] if lost else [], at)
                # Size, most of magic and CRC (two dialects differ in the rest of them), body with its length.
                if at < 7 or 8 < at < 12 or HEAD_SIZE - 4 <= at < size - 11:
                    self.assertEqual(lost, [begin], at)

    def test_names_the_record(self) -> None:
        """Where the head is intact the damaged record is known, also where several follow one another."""
        data, offsets = log_file(self.random)
        for number in (4, 5):
            data[offsets[number] - BASE + 8] ^= 1
        _, damage = walked(data)
        messages = [one.message for one in damage]
        self.assertEqual([one.offset for one in damage], offsets[4:6])
        self.assertEqual(
            [one and (one.topic, one.queue_id, one.queue_offset) for one in messages], [("T", 3, 4), ("T", 3, 5)]
        )
        self.assertEqual({one.reason for one in damage}, {"body CRC differs"})

    def test_overwritten(self) -> None:
        """A sector of anything: what follows it is found, in pieces of any size."""
        data, offsets = log_file(self.random)
        for begin in range(0, FILE_SIZE - 1024, 700):
            for filler in (bytes(512), self.random.randbytes(512)):
                changed = bytearray(data)
                changed[begin : begin + 512] = filler
                records, damage = walked(changed)
                untouched = [
                    one
                    for one, end in zip(offsets, [*offsets[1:], BASE + FILE_SIZE], strict=True)
                    if end <= BASE + begin or one >= BASE + begin + 512
                ]
                self.assertEqual(set(untouched) - set(records), set(), begin)
                self.assertTrue(all(one.end <= two.offset for one, two in pairwise(damage)))

    def test_blank(self) -> None:
        """A damaged blank is damage up to the file's end; damage before a blank ends there."""
        data, offsets = log_file(self.random)
        size = int.from_bytes(data[offsets[-1] - BASE : offsets[-1] - BASE + 4], "big")
        blank = offsets[-1] + size
        changed = bytearray(data)
        changed[blank - BASE + 1] ^= 4
        self.assertEqual([(one.offset, one.end) for one in walked(changed)[1]], [(blank, BASE + FILE_SIZE)])
        data[offsets[-1] - BASE + 1] ^= 1
        self.assertEqual([(one.offset, one.end) for one in walked(data)[1]], [(offsets[-1], blank)])

    def test_unwritten(self) -> None:
        """Behind the last record of a file that is not full nothing is written, which is no damage to a walk."""
        data, offsets = log_file(self.random, fill=False)
        end = len(data)
        data = data.ljust(FILE_SIZE, b"\0")
        check = LogCheck(reader(data), BASE, BASE + FILE_SIZE, BASE + FILE_SIZE, BASE + FILE_SIZE)
        self.assertEqual(len(list(check)), len(offsets))
        self.assertEqual((check.position, check.unwritten), (BASE + end, True))

    def test_long_record(self) -> None:
        """A record longer than what is read at once."""
        record = encode(NewMessage("T", 0, bytes(5000), b""), 0, BASE, 1)
        data = record + encode(NewMessage("T", 0, b"x", b""), 1, BASE + len(record), 1)
        self.assertEqual(walked(data), ([BASE, BASE + len(record)], []))


class CheckRangeTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.random = Random(6)
        self.patch(logcheck, "CHUNK", 1024)
        self.data, self.offsets = log_file(self.random)

    def check(self, begin: int, end: int, start: int | None = None) -> logcheck.CheckedRange:
        """Check a range of the file."""
        stop = BASE + FILE_SIZE
        return check_range(reader(self.data), BASE + begin, BASE + end, stop, stop, (BASE, start))

    def test_each_record_once(self) -> None:
        """Ranges side by side check each record once, each begins where the one before ended, known or not."""
        start: int | None = BASE
        count = 0
        for begin in range(0, FILE_SIZE, 2048):
            known = self.check(begin, begin + 2048, start)
            self.assertEqual(self.check(begin, begin + 2048), known)
            count += known.records
            start = known.next_start
            self.assertEqual(known.damage, [])
        self.assertEqual((count, start), (len(self.offsets), BASE + FILE_SIZE))

    def test_damage_is_in_every_range_that_it_touches(self) -> None:
        """Whatever is damaged, at the border of a range or over it, each range that it touches tells of it."""
        for number in range(len(self.offsets)):
            offset = self.offsets[number]
            self.data[offset - BASE + 8] ^= 1
            size = int.from_bytes(self.data[offset - BASE : offset - BASE + 4], "big")
            for begin in range(0, FILE_SIZE, 2048):
                found = self.check(begin, begin + 2048)
                touches = offset < BASE + begin + 2048 and offset + size > BASE + begin
                self.assertEqual([one.offset for one in found.damage], [offset] if touches else [], (number, begin))
            self.data[offset - BASE + 8] ^= 1

    def test_find_start(self) -> None:
        """The next record from any place, in bounds."""
        read = reader(self.data)
        stop = BASE + FILE_SIZE
        for at in range(0, self.offsets[-1] - BASE, 97):
            expected = min(one for one in self.offsets if one >= BASE + at)
            self.assertEqual(find_start(read, BASE + at, stop, stop, stop), expected)
            self.assertEqual(find_start(read, BASE + at, expected, stop, stop), None)
