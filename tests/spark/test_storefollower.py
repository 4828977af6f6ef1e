"""A stream over logs on disk, without Spark: what micro-batches are, across restarts, cuts and removals."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadRecord, SettingError
from smartgo.schema.record import BLANK_SIZE, decode
from smartgo.spark.gaps import DataLost, LogGap
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import ReadOptions, parse
from smartgo.spark.storefollower import StoreFollower, check_stream
from tests import golden_store
from tests.spark.test_logfollower import SIZE, Log


class DiskLog(Log):
    """A log whose files are those of a store directory."""

    def __init__(self, root: str) -> None:
        super().__init__()
        self.root = root
        os.makedirs(os.path.join(root, "commitlog"))

    def path(self, base: int) -> str:
        """A file."""
        return os.path.join(self.root, "commitlog", f"{base:020d}")

    def write(self, position: int, data: bytes) -> None:
        """Write to the disk as well."""
        super().write(position, data)
        base = position // self.size * self.size
        if not os.path.exists(self.path(base)):
            with open(self.path(base), "wb") as file:
                file.truncate(self.size)
        with open(self.path(base), "r+b") as file:
            file.seek(position - base)
            file.write(data)

    def cut(self, position: int) -> None:
        """End at a position, as a broker does that starts after a crash."""
        for base in [base for base in self.files if base >= position]:
            del self.files[base]
            os.unlink(self.path(base))
        self.write(position, bytes(-position % self.size))
        self.position = position

    def remove(self, base: int) -> None:
        """Remove a file, as retention does."""
        del self.files[base]
        os.unlink(self.path(base))


def offsets(ranges: Iterable[LogRange | LogGap]) -> list[tuple[str, int]]:
    """The records that start in some ranges: store and physical offset."""
    found = []
    for part in ranges:
        assert isinstance(part, LogRange)
        with open(part.path, "rb") as file:
            data = file.read()
        at = part.begin - part.base
        while at < part.end - part.base:
            try:
                message = decode(data, at)
            except BadRecord:
                if part.is_aligned:
                    break
                at += 1
                continue
            if message.physical_offset == part.base + at:
                found.append((part.store, part.base + at))
                at += message.size
            else:
                at += 1
    return found


class FollowingTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Two stores."""
        top = os.path.abspath(self.mktemp())
        self.a, self.b = (os.path.join(top, name) for name in "ab")
        self.logs = [DiskLog(root) for root in (self.a, self.b)]

    def options(self, **options: str) -> ReadOptions:
        """Options for both stores; files are cut into small ranges."""
        return replace(parse({"path": os.path.join(os.path.dirname(self.a), "*"), **options}), partition_bytes=1000)

    def following(self, **options: str) -> StoreFollower:
        """A stream, as a query that starts has it."""
        return StoreFollower(self.options(**options))

    def expected(self) -> list[tuple[str, int]]:
        """All records of both stores."""
        found = []
        for log in self.logs:
            starts = [0, *log.ends[:-1]]
            found += [
                (log.root, at)
                for at, end in zip(starts, log.ends, strict=True)
                if end % SIZE or end - at == log.size or decode_or_none(log, at)
            ]
        return sorted(found)

    def test_every_record_once(self) -> None:
        """
        However records come, limits fall and queries start anew, every record is in one micro-batch, in order; and the
        same two offsets have the same records when they are asked for again later.
        """
        random = Random(11)
        offset = self.following().initial()
        self.assertEqual(offset, {self.a: 0, self.b: 0})
        found: list[tuple[str, int]] = []
        again = []
        query = self.following()
        for _ in range(250):
            for log in self.logs:
                for _ in range(random.randrange(3)):
                    log.append(b"y" * random.randrange(1, 900))
            if random.random() < 0.1:
                query = self.following()
            end = query.latest(offset, random.choice([None, 1, 500, 3000]))
            batch = offsets(query.ranges(offset, end))
            again.append((offset, end, batch))
            found += batch
            offset = end
        for _ in range(2):
            end = query.latest(offset, None)
            found += offsets(query.ranges(offset, end))
            offset = end
        self.assertEqual(sorted(found), self.expected())
        self.assertEqual(len(found), len(set(found)))
        for begin, end, batch in random.sample(again, 50):
            self.assertEqual(offsets(self.following().ranges(begin, end)), batch)

    def test_limit(self) -> None:
        """A micro-batch has about as many bytes as asked for, and goes on wherever something waits."""
        for log in self.logs:
            for _ in range(100):
                log.append()
        query = self.following()
        start = query.initial()
        query.settled()
        end = query.latest(start, 2000)
        sizes = {root: end[root] - start[root] for root in end}
        self.assertTrue(all(0 < size < 1400 for size in sizes.values()), sizes)
        self.assertTrue(2000 <= sum(sizes.values()) < 2500, sizes)

    def test_starting(self) -> None:
        """A stream starts at the beginning, at the end, or at an offset; of all stores or of one."""
        for log in self.logs:
            for _ in range(5):
                log.append()
        ends = {log.root: log.position for log in self.logs}
        place = self.logs[0].ends[2]
        self.assertEqual(self.following(startingOffsets="latest").initial(), ends)
        self.assertEqual(self.following(startingOffsets=str(place)).initial(), {self.a: place, self.b: place})
        by_store = f'{{"{self.a}": {place}}}'
        self.assertEqual(self.following(startingOffsets=by_store).initial(), {self.a: place, self.b: 0})
        elsewhere = self.following(startingOffsets=f'{{"{self.a}x": {place}}}')
        self.assertIn("is not one of the stores", str(self.assertRaises(SettingError, elsewhere.initial)))
        error = self.assertRaises(SettingError, self.following(startingOffsets="999999").initial)
        self.assertIn("999999", str(error))

    def test_new_store(self) -> None:
        """A store that comes to match the path while a query runs is read from its beginning."""
        query = self.following()
        start = query.initial()
        third = DiskLog(os.path.join(os.path.dirname(self.a), "c"))
        third.append()
        query.settled()
        end = query.latest(start, None)
        self.assertEqual(end, {self.a: 0, self.b: 0, third.root: third.position})
        self.assertEqual(offsets(query.ranges(start, end)), [(third.root, 0)])

    def test_no_meaning(self) -> None:
        """Options that only a batch read can follow are refused."""
        check_stream(self.options(startingOffsets='{"T": {"0": 5}}'))
        for wrong in (
            {"endingOffsets": "500"},
            {"endingTimestamp": "2026-01-01"},
            {"table": "index"},
            {"startingOffsets": '{"T": {"0": -1}}'},
        ):
            self.assertRaises(SettingError, check_stream, self.options(**wrong))

    # -- loss ------------------------------------------------------------------------------------------------

    def filled(self) -> dict[str, int]:
        """Put records into both stores, four files of them; return where they end."""
        for log in self.logs:
            while len(log.files) < 4:
                log.append()
        return self.following().settled()

    def lost(self, start: dict[str, int], *words: str) -> dict[str, int]:
        """See that a query that starts at an offset ends with an error; return how far it goes if it may go on."""
        error = self.assertRaises(DataLost, self.following().latest, start, None)
        for word in (*words, "failOnDataLoss"):
            self.assertIn(word, str(error))
        return self.following(failOnDataLoss="false").latest(start, None)

    def test_cut(self) -> None:
        """A saved offset behind the end of a log that was cut is an error, or the stream goes on at that end."""
        ends = self.filled()
        self.logs[0].cut(self.logs[0].ends[-3])
        found = self.lost(ends, self.a, str(ends[self.a]), str(self.logs[0].position))
        self.assertEqual(found, {self.a: self.logs[0].position, self.b: ends[self.b]})
        self.assertEqual(self.following(failOnDataLoss="false").ranges(ends, found), [])

    def test_cut_and_grown(self) -> None:
        """So is a saved offset in the middle of a record, where a log was cut and has grown again."""
        ends = self.filled()
        self.logs[0].cut(self.logs[0].ends[-4])
        for _ in range(4):
            self.logs[0].append(b"w" * 77)
        self.assertGreater(self.logs[0].position, ends[self.a])
        self.lost(ends, self.a, f"no message begins at physical offset {ends[self.a]}")
        query = self.following()
        query.stop_at_the_end()
        self.assertRaises(DataLost, query.latest, ends, None)

    def test_cut_while_running(self) -> None:
        """A query that runs finds out as well."""
        ends = self.filled()
        query = self.following()
        self.assertEqual(query.latest(ends, None), ends)
        self.logs[0].cut(self.logs[0].ends[-4])
        for _ in range(4):
            self.logs[0].append(b"w" * 77)
        self.assertRaises(DataLost, query.latest, ends, None)

    def test_removed(self) -> None:
        """Files that retention removed before they were read are an error, or are passed over."""
        ends = self.filled()
        start = {self.a: 100, self.b: ends[self.b]}
        self.logs[0].remove(0)
        self.assertEqual(self.lost(start, self.a, "100", str(SIZE)), ends)
        error = self.assertRaises(DataLost, self.following().ranges, start, ends)
        self.assertIn(f"{SIZE - 100} B", str(error))
        kept = self.following(failOnDataLoss="false").ranges(start, ends)
        self.assertEqual([(part.begin, part.end) for part in kept if isinstance(part, LogGap)], [(100, SIZE)])
        self.assertEqual(min(part.begin for part in kept if isinstance(part, LogRange)), SIZE)

    def test_removed_in_due_course(self) -> None:
        """Files that were read may go."""
        ends = self.filled()
        self.logs[0].remove(0)
        self.logs[0].append()
        self.assertGreaterEqual(self.following().latest(ends, None)[self.a], ends[self.a])

    def test_store_gone(self) -> None:
        """A store that is not there any more is an error, or its place is kept in case it comes back."""
        ends = self.filled()
        shutil.rmtree(self.a)
        self.assertEqual(self.lost(ends, self.a), ends)

    # -- the end ---------------------------------------------------------------------------------------------

    def test_available_now(self) -> None:
        """A query that reads what there is and then ends goes no further than the logs went when it began."""
        self.filled()
        query = self.following()
        query.stop_at_the_end()
        target = query.settled()
        for log in self.logs:
            log.append()
        offset = query.initial()
        for _ in range(100):
            end = query.latest(offset, 1000)
            if end == offset:
                break
            offset = end
        self.assertEqual(offset, target)

    def test_golden(self) -> None:
        """Of copies of a real broker's stores a stream has every record, and then ends."""
        for name in golden_store.NAMES:
            root = os.path.abspath(self.mktemp())
            manifest = golden_store.unpack(name, root)
            query = StoreFollower(parse({"path": root}))
            query.stop_at_the_end()
            offset, found = query.initial(), []
            while (end := query.latest(offset, 100_000)) != offset:
                found += offsets(query.ranges(offset, end))
                offset = end
            self.assertEqual([at for _, at in found], [one["physicalOffset"] for one in manifest["messages"]])


def decode_or_none(log: Log, at: int) -> bool:
    """Tell whether a record starts at a place, not a blank."""
    base = at // log.size * log.size
    try:
        return decode(bytes(log.files[base]), at - base).size >= BLANK_SIZE
    except BadRecord:
        return False
