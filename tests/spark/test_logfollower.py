"""The end of a log, seen from outside while it is written."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import NewMessage
from smartgo.schema.record import BLANK_SIZE, encode, encode_blank
from smartgo.schema.recordscan import scan
from smartgo.spark import logfollower as tail_module
from smartgo.spark.logfollower import LogFollower, begins_record, next_record, share
from smartgo.spark.stores import NamedFile
from tests import golden_store

SIZE = 4096


class Log:
    """
    A log as a broker writes it, files of C{size} bytes.

    @ivar ends: physical offset after each record, and after each blank.
    """

    def __init__(self, size: int = SIZE) -> None:
        self.size = size
        self.files: dict[int, bytearray] = {}
        self.position = 0
        self.clock = 1000
        self.ends: list[int] = []
        self.peeked = 0

    def record(self, body: bytes = b"x" * 100, position: int | None = None) -> bytes:
        """The bytes of a record at a position; the next by default."""
        self.clock += 1
        at = self.position if position is None else position
        return encode(NewMessage("T", 0, body, b"A\x01b"), at // 100, at, self.clock)

    def append(self, body: bytes = b"x" * 100) -> None:
        """Store a message; roll to the next file where it does not fit."""
        raw = self.record(body)
        room = self.size - self.position % self.size
        if len(raw) + BLANK_SIZE > room:
            self.write(self.position, encode_blank(room))
            self.position += room
            self.ends.append(self.position)
            raw = self.record(body)
        self.write(self.position, raw)
        self.position += len(raw)
        self.ends.append(self.position)

    def write(self, position: int, data: bytes) -> None:
        """Write at a physical offset."""
        base = position // self.size * self.size
        file = self.files.setdefault(base, bytearray(self.size))
        file[position - base : position - base + len(data)] = data

    def listed(self) -> list[NamedFile]:
        """The files."""
        return [NamedFile(str(base), base, len(self.files[base])) for base in sorted(self.files)]

    def peek(self, path: str, at: int, size: int) -> bytes:
        """Read a piece."""
        if int(path) not in self.files:
            raise FileNotFoundError(path)
        self.peeked += 1
        return bytes(self.files[int(path)][at : at + size])


class TailTests(SynchronousTestCase):
    def setUp(self) -> None:
        """An empty log."""
        self.log = Log()
        self.tail = LogFollower(self.log.peek)

    def look(self) -> int:
        """Look once."""
        return self.tail.look(self.log.listed())

    def test_empty(self) -> None:
        """A log without files, or with files nothing was written to, ends where it begins."""
        self.assertEqual((self.look(), self.tail.minimum), (0, 0))
        self.log.files[8192] = bytearray(SIZE)
        self.assertEqual((self.look(), self.tail.minimum, self.tail.cut), (8192, 8192, 0))

    def test_one_behind(self) -> None:
        """The newest record counts when it was there at the look before, or when something lies behind it."""
        self.log.append()
        self.assertEqual(self.look(), 0)
        self.assertEqual(self.look(), self.log.ends[0])
        self.log.append()
        self.log.append()
        self.assertEqual(self.look(), self.log.ends[1])
        self.assertEqual(self.look(), self.log.ends[2])

    def test_many_files(self) -> None:
        """Whatever is stored between looks, the end is that of a record, rises, and comes to be that of the log."""
        random = Random(7)
        last = 0
        for _ in range(300):
            for _ in range(random.randrange(4)):
                self.log.append(b"y" * random.randrange(1, 900))
            end = self.look()
            self.assertIn(end, {0, *self.log.ends, *self.log.files})
            self.assertGreaterEqual(end, last)
            last = end
        self.look()
        self.assertEqual((self.look(), self.tail.cut), (self.log.position, 0))
        self.assertGreater(len(self.log.files), 20)

    def test_closed(self) -> None:
        """A file that was closed counts to its end, before the next is written to; one made ahead does not count."""
        while len(self.log.files) < 2:
            self.log.append()
        self.log.files[SIZE] = bytearray(SIZE)
        self.assertEqual(self.look(), SIZE)
        self.log.files[2 * SIZE] = bytearray(SIZE)
        self.assertEqual(self.look(), SIZE)

    def test_every_order_of_bytes(self) -> None:
        """While a record's bytes come in, in any order, nothing but the records before it counts."""
        self.log.append()
        self.log.append()
        self.look()
        self.assertEqual(self.look(), self.log.ends[1])
        raw = self.log.record(b"z" * 300)
        random = Random(3)
        pieces = [(at, raw[at : at + 16]) for at in range(0, len(raw), 16)]
        for order in (pieces, pieces[::-1], random.sample(pieces, len(pieces))):
            self.log.write(self.log.position, bytes(len(raw)))
            tail = LogFollower(self.log.peek)
            tail.settle(self.log.listed)
            for at, piece in order:
                self.assertEqual(tail.look(self.log.listed()), self.log.ends[1])
                self.log.write(self.log.position + at, piece)
            tail.look(self.log.listed())
            self.assertEqual(tail.look(self.log.listed()), self.log.position + len(raw))

    def test_every_cut(self) -> None:
        """A record that a crash cut short never counts, however often it is looked at."""
        self.log.append()
        raw = self.log.record()
        for cut in range(len(raw) - 1):
            self.log.write(self.log.position, raw[:cut] + bytes(len(raw) - cut))
            tail = LogFollower(self.log.peek)
            self.assertEqual([tail.look(self.log.listed()) for _ in range(4)][1:], [self.log.ends[0]] * 3, cut)

    def test_nul(self) -> None:
        """Properties that hold a NUL are torn ones, unless something was stored behind them."""
        message = NewMessage("T", 0, b"x", b"A\x01\x00")
        self.log.append()
        raw = encode(message, 1, self.log.position, 5000)
        self.log.write(self.log.position, raw)
        self.assertEqual(self.tail.settle(self.log.listed), self.log.ends[0])
        self.log.clock = 6000
        self.log.position += len(raw)
        self.log.append()
        self.assertEqual(self.tail.settle(self.log.listed), self.log.position)

    def test_damage(self) -> None:
        """A damaged record is passed over once it was bad twice and valid records follow; they are then told of."""
        for _ in range(10):
            self.log.append()
        self.log.files[0][self.log.ends[3] + 95] ^= 1
        self.assertEqual([self.look(), self.look()], [self.log.ends[2], self.log.ends[8]])
        self.assertEqual(self.look(), self.log.ends[9])

    def test_damaged_start(self) -> None:
        """A newest file whose first record is damaged is the newest all the same."""
        while len(self.log.files) < 2 or self.log.position < SIZE + 1000:
            self.log.append()
        self.log.files[SIZE][4] ^= 1
        self.assertEqual(self.tail.settle(self.log.listed), self.log.position)

    def test_settle(self) -> None:
        """Settling finds the end of a copy, past all damage in it."""
        for _ in range(15):
            self.log.append()
        for damaged in (2, 5, 6, 11):
            self.log.files[0][self.log.ends[damaged] + 95] ^= 1
        self.assertEqual(self.tail.settle(self.log.listed), self.log.position)

    def test_left_overs(self) -> None:
        """Records that a broker cut off, and that lie behind newer ones, do not count."""
        for _ in range(6):
            self.log.append()
        old = bytes(self.log.files[0])
        self.log.position = self.log.ends[2]
        self.log.append(b"z" * 55)  # over the fourth; the fifth and sixth are left over
        self.assertEqual(bytes(self.log.files[0][self.log.ends[4] :]), old[self.log.ends[4] :])
        self.assertEqual(self.tail.settle(self.log.listed), self.log.position)
        self.log.append(b"z" * 20)
        self.assertEqual(self.tail.settle(self.log.listed), self.log.position)

    def test_cut(self) -> None:
        """A log that was cut, or written anew, behind what was seen is found out, and its end is the new one."""
        for _ in range(6):
            self.log.append()
        self.tail.settle(self.log.listed)
        whole = self.log.position
        self.log.files[0][self.log.ends[2] :] = bytes(SIZE - self.log.ends[2])
        self.assertEqual((self.tail.settle(self.log.listed), self.tail.cut), (self.log.ends[2], 1))
        self.log.position = self.log.ends[2]
        for _ in range(8):
            self.log.append(b"w" * 77)
        self.assertGreater(self.log.position, whole)
        self.assertEqual((self.tail.settle(self.log.listed), self.tail.cut), (self.log.position, 1))
        del self.log.files[0]
        self.assertEqual((self.look(), self.tail.cut), (0, 2))

    def test_cut_between(self) -> None:
        """That the log was cut is found out even where it has grown past what was seen by then."""
        for _ in range(6):
            self.log.append()
        self.tail.settle(self.log.listed)
        self.log.position = self.log.ends[3]
        self.log.files[0][self.log.position :] = bytes(SIZE - self.log.position)
        for _ in range(6):
            self.log.append(b"w" * 77)
        self.assertEqual((self.tail.settle(self.log.listed), self.tail.cut), (self.log.position, 1))

    def test_removed(self) -> None:
        """Old files that are removed in due course move the beginning and nothing else."""
        while len(self.log.files) < 3:
            self.log.append()
        self.tail.settle(self.log.listed)
        del self.log.files[0]
        self.assertEqual((self.look(), self.tail.minimum, self.tail.cut), (self.log.position, SIZE, 0))
        self.log.append()
        self.tail.settle(self.log.listed)
        del self.log.files[SIZE]
        self.assertEqual((self.look(), self.tail.minimum, self.tail.cut), (self.log.position, 2 * SIZE, 0))

    def test_quiet(self) -> None:
        """While nothing is written a look reads no more than a few heads."""
        for _ in range(10):
            self.log.append()
        self.tail.settle(self.log.listed)
        self.log.peeked = 0
        self.look()
        self.assertLessEqual(self.log.peeked, 3)

    def test_old(self) -> None:
        """Of much that was written before the first look only the last pieces are checked; the end is the same."""
        log = Log(1 << 16)
        for _ in range(400):
            log.append()
        checked: list[int] = []
        self.patch(tail_module, "_CHUNK", 1024)
        self.patch(tail_module, "Scan", self._counted(checked))
        tail = LogFollower(log.peek)
        self.assertEqual(tail.settle(log.listed), log.position)
        self.assertLess(sum(checked), 5000)

    def _counted(self, checked: list[int]) -> object:
        def made(view: bytes, begin: int, base: int, limit: int) -> object:
            checked.append(len(view))
            return scan(view, begin, base, limit=limit)

        return made

    def test_golden(self) -> None:
        """Stores of a real broker, one of them stopped by force, end where their own records do."""
        for name in golden_store.NAMES:
            logs = dict(golden_store.read(name).logs())
            files = [NamedFile(str(base), base, len(data)) for base, data in sorted(logs.items())]
            last = max(base for base, data in logs.items() if data[:BLANK_SIZE] != bytes(BLANK_SIZE))
            walked = scan(logs[last], 0, last)
            self.assertTrue(list(walked))
            tail = LogFollower(lambda path, at, size, logs=logs: logs[int(path)][at : at + size])  # type: ignore[misc]
            self.assertEqual(tail.settle(lambda files=files: files), last + walked.end)  # type: ignore[misc]


class PlaceTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Three files."""
        self.log = Log()
        while len(self.log.files) < 3:
            self.log.append()

    def test_begins(self) -> None:
        """Records, blanks and files begin at the places told, and nowhere else."""
        files = self.log.listed()
        right = {0, *self.log.ends[:-1]}
        found = {at for at in range(self.log.position) if begins_record(files, at, self.log.peek)}
        self.assertEqual(found, right)
        self.assertFalse(begins_record(files[1:], 0, self.log.peek))

    def test_next(self) -> None:
        """From any place the next record is found, or a blank; nothing behind the end."""
        files = self.log.listed()
        end = self.log.ends[-2]
        starts = [0, *self.log.ends]
        for at in range(0, end, 7):
            for begin in (0, max(one for one in starts if one <= at)):
                found = next_record(files, begin, at, end, self.log.peek)
                self.assertEqual(found, next(one for one in starts if one >= at), at)
        self.assertEqual(next_record(files, 0, 10, 20, self.log.peek), 20)

    def test_next_damaged(self) -> None:
        """
        From a damaged place on it is the next file, and records in the room behind a blank do not count: a micro-batch
        that began in a damaged region could not tell of what is left of it.
        """
        files = self.log.listed()
        blank = max(one for one in self.log.ends if one < SIZE)
        self.log.files[0][blank + BLANK_SIZE : blank + BLANK_SIZE + 150] = self.log.record(
            b"x" * 29, blank + BLANK_SIZE
        )
        for at in (blank + 1, blank + BLANK_SIZE, SIZE - 1):
            self.assertEqual(next_record(files, 0, at, 2 * SIZE, self.log.peek), SIZE)
        self.log.files[0][self.log.ends[2] + 4] ^= 1
        self.assertEqual(next_record(files, 0, self.log.ends[1], 2 * SIZE, self.log.peek), self.log.ends[1])
        self.assertEqual(next_record(files, 0, self.log.ends[2], 2 * SIZE, self.log.peek), SIZE)
        self.assertEqual(next_record(files, 0, self.log.ends[2] + 1, 2 * SIZE, self.log.peek), SIZE)

    def test_share(self) -> None:
        """A limit is shared by what waits; whatever waits goes on, and nothing goes past its end."""
        begins = {"a": 0, "b": 100, "c": 50, "d": 9}
        ends = {"a": 900, "b": 200, "c": 50, "d": 3}
        self.assertEqual(share(begins, ends, None), ends)
        self.assertEqual(share(begins, ends, 1000), ends)
        self.assertEqual(share(begins, ends, 500), {"a": 450, "b": 150, "c": 50, "d": 3})
        self.assertEqual(share(begins, ends, 1), {"a": 1, "b": 101, "c": 50, "d": 3})
