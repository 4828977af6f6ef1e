"""Tests of L{smartgo.schema.recordscan}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import NewMessage
from smartgo.schema.record import (
    MAGIC_V2,
    SMARTGO_BLANK_MAGIC,
    SMARTGO_MAGIC,
    encode,
    encode_blank,
    start_struct,
)
from smartgo.schema.recordscan import Stop, find_record, read_piece, scan
from tests import golden_store
from tests.schema.test_record import as_v2, random_message, spec_message


class ScanTests(SynchronousTestCase):
    base = 5_000_000

    def log(self, count: int) -> tuple[bytes, list[int]]:
        """Some records back to back, and where each begins."""
        random = Random(8)
        raw, starts = b"", []
        for _ in range(count):
            starts.append(len(raw))
            raw += encode(random_message(random), 0, self.base + len(raw), 1 + random.getrandbits(40))
        return raw, starts

    def test_endings(self) -> None:
        """A scan tells the blank, the unwritten, the broken and the end of the data apart."""
        raw, starts = self.log(5)
        for tail, stop in (
            (b"", Stop.END),
            (bytes(7), Stop.END),
            (bytes(8), Stop.EMPTY),
            (encode_blank(8), Stop.BLANK),
            (start_struct.pack(8, SMARTGO_BLANK_MAGIC), Stop.BLANK),
            (b"\0\0\0\1" + bytes(100), Stop.BAD),
            (raw[:-1], Stop.BAD),
        ):
            found = scan(memoryview(raw + tail), 0, self.base)
            self.assertIsNone(found.stop)
            self.assertEqual([message.physical_offset - self.base for message in found], starts)
            self.assertEqual((found.end, found.stop), (len(raw), stop))
            self.assertEqual(bool(found.reason), stop is Stop.BAD)

    def test_resume(self) -> None:
        """A scan can be left and gone on with, and begin anywhere a record does."""
        raw, starts = self.log(6)
        found = scan(raw, starts[1], self.base)
        for message in found:
            if message.physical_offset == self.base + starts[3]:
                break
        self.assertEqual((found.end, found.stop), (starts[4], None))
        self.assertEqual([message.physical_offset - self.base for message in found], starts[4:])

    def test_stale(self) -> None:
        """A whole record that lies where it does not belong ends the scan: it was left by an earlier writer."""
        raw, _ = self.log(2)
        stale = encode(spec_message(), 0, 1, 1)
        found = scan(raw + stale, 0, self.base)
        self.assertEqual(len(list(found)), 2)
        self.assertEqual((found.stop, found.end), (Stop.BAD, len(raw)))

    def test_body_broken(self) -> None:
        """A record whose body is broken ends the scan, unless CRCs are not asked for."""
        broken = bytearray(encode(spec_message(), 0, 0, 1))
        broken[88] ^= 1
        self.assertEqual(list(scan(bytes(broken), 0, 0)), [])
        self.assertEqual(len(list(scan(bytes(broken), 0, 0, verify_crc=False))), 1)

    def test_find(self) -> None:
        """The next valid record is found from any position, also inside of a body that holds a record."""
        inner = encode(spec_message(), 0, 7, 1)
        raw = encode(NewMessage("T", 0, inner * 3, b""), 0, self.base, 1)
        second = len(raw)
        raw += encode(spec_message(), 0, self.base + second, 1) + bytes(50)
        self.assertEqual(find_record(memoryview(raw), 0, self.base), 0)
        for begin in range(1, second + 1):
            self.assertEqual(find_record(raw, begin, self.base), second)
        self.assertIsNone(find_record(raw, second + 1, self.base))
        self.assertEqual(find_record(raw, 1, self.base, second + 1), second)
        self.assertIsNone(find_record(raw, 1, self.base, second))

    def test_find_dialects(self) -> None:
        """Records of every magic are found."""
        for magic in (MAGIC_V2, SMARTGO_MAGIC):
            raw = encode(spec_message(), 0, self.base + 9, 1)
            raw = as_v2(raw) if magic == MAGIC_V2 else start_struct.pack(len(raw), magic) + raw[8:]
            self.assertEqual(find_record(b"\xda\xa3\x20..... "[:9] + raw, 0, self.base), 9)


class PieceTests(SynchronousTestCase):
    """Reads of a piece of a log file."""

    def test_longer_record(self) -> None:
        """A record that is longer than the piece is read whole, if it fits into the room; all else is one piece."""
        base = 7_000_000
        record = encode(NewMessage("T", 0, b"x" * 500, b""), 0, base, 1)
        raw = record + encode_blank(600)
        asked: list[tuple[int, int]] = []

        def read(offset: int, size: int) -> bytes:
            asked.append((offset, size))
            return raw[offset - base : offset - base + size]

        for size, room, length in (
            (100, len(raw), len(record)),
            (100, len(record), len(record)),
            (100, len(record) - 1, 100),
            (4, len(raw), 4),
            (len(record), len(raw), len(record)),
            (10_000, len(raw), len(raw)),
        ):
            self.assertEqual(read_piece(read, base, size, room), raw[:length], (size, room))
        self.assertEqual(read_piece(read, base + len(record), 6, 600), raw[len(record) :][:6])
        self.assertEqual(len(asked), 9)


class GoldenTests(SynchronousTestCase):
    def test_scan(self) -> None:
        """Both real logs are walked whole: every CRC, size and offset holds, and the ends are where they should be."""
        for name in golden_store.NAMES:
            store = golden_store.read(name)
            expected = {int(each["file"]): each for each in store.manifest["commitLogFiles"]}
            for base, data in store.logs():
                found = scan(memoryview(data), 0, base)
                self.assertEqual(len(list(found)), expected[base].get("messages", 0))
                self.assertEqual(found.end, expected[base].get("endOfRecords", 0))
                if "blankAt" in expected[base]:
                    self.assertEqual(found.stop, Stop.BLANK)
                    room, _ = start_struct.unpack_from(data, found.end)
                    self.assertEqual((found.end, room), (expected[base]["blankAt"], expected[base]["blankSize"]))
                    self.assertEqual(room, len(data) - found.end)
                    self.assertEqual(data[found.end : found.end + 8], encode_blank(room))
                else:
                    self.assertEqual(found.stop, Stop.EMPTY)
