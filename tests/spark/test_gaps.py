"""Tests of L{smartgo.spark.gaps}: no byte of a log is missing in silence."""

from __future__ import annotations

import os
import shutil
from typing import Any
from unittest.mock import patch as patched

import pyarrow as pa
from pyspark.errors import PySparkException

from smartgo.errors import StoreError
from smartgo.schema.consumequeue import Unit
from smartgo.schema.message import NewMessage
from smartgo.schema.record import encode_blank
from smartgo.spark import files, job
from smartgo.spark.columns import MESSAGES, QUEUES
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import DataLost, LogGap
from smartgo.spark.options import parse
from smartgo.spark.storefollower import StoreFollower
from smartgo.spark.stores import find_stores
from smartgo.spark.tables import plan_table, read_part
from tests.spark.logs import LogWriter, patch, rows, write
from tests.spark.session import SparkTestCase
from tests.spark.test_job import run
from tests.spark.test_reader import Case

SIZE = 1 << 14


class GapTests(Case):
    """A store of five files, in which something is done to one."""

    def setUp(self) -> None:
        """Write it."""
        super().setUp()
        self.writer = LogWriter(self.root, file_size=SIZE)
        while self.writer.begin < 4 * SIZE or self.writer.at < 4 * SIZE + 3000:
            self.writer.add(NewMessage("T", 0, bytes(500), b""))
        self.writer.close()
        os.truncate(self.log(4 * SIZE), SIZE)  # brokers make files at their full length
        self.all = [offset for offset, _ in self.writer.written]

    def left(self, begin: int, end: int) -> list[int]:
        """The offsets of the records that lie outside a part of the log."""
        return [offset for offset in self.all if not begin <= offset < end]

    def refused(self, **options: Any) -> str:
        """Read, and return what the error says."""
        return str(self.assertRaises(DataLost, self.offsets, **options))

    def check(self, begin: int, end: int, *words: str, **options: Any) -> None:
        """Fail unless a batch read refuses, names what is missing, and gives the rest on request."""
        said = self.refused(**options)
        for word in (f"{end - begin} B between offsets {begin} and {end}", *words):
            self.assertIn(word, said)
        self.assertEqual(self.offsets(failOnDataLoss=False, **options), self.left(begin, end))
        self.assertIn((begin, end - begin), self.damage(**options))
        self.assertIn("left out", self.warnings[0])

    def check_stream(self) -> None:
        """Fail unless a stream over the store ends with an error."""
        following = StoreFollower(parse({"path": self.root}))
        begin = following.initial()
        self.assertRaises(DataLost, lambda: following.ranges(begin, following.settled()))

    def test_whole(self) -> None:
        """Nothing is missing from a log as a broker leaves it, with a file that was made ahead, full or empty."""
        self.assertEqual(self.damage(), [])
        for size in (0, SIZE):
            with open(self.log(5 * SIZE), "wb") as file:
                file.truncate(size)
            self.assertEqual((self.offsets(), self.damage()), (self.all, []))

    def test_missing(self) -> None:
        """A file that is gone from the middle is reported, for a read by queues too; the oldest may be gone."""
        os.remove(self.log(2 * SIZE))
        self.check(2 * SIZE, 3 * SIZE, "the file is missing")
        self.check_stream()
        self.assertIn("missing", self.refused(subscribe="T"))
        os.remove(self.log(0))
        os.remove(self.log(SIZE))
        self.assertEqual(self.offsets(), self.left(0, 3 * SIZE))

    def test_several_missing(self) -> None:
        """Files that are gone side by side are one gap."""
        os.remove(self.log(2 * SIZE))
        os.remove(self.log(SIZE))
        self.check(SIZE, 3 * SIZE)
        self.check_stream()

    def test_emptied(self) -> None:
        """A file of no bytes before others is reported: the first, or one in the middle."""
        for number in (0, 2):
            with open(self.log(number * SIZE), "r+b") as file:
                whole = file.read()
                file.truncate(0)
                self.check(number * SIZE, (number + 1) * SIZE, "ends after 0 B")
                self.check_stream()
                file.seek(0)
                file.write(whole)
        self.assertEqual(self.damage(), [])

    def test_shortened(self) -> None:
        """A file that ends at a record's boundary before the next file begins is reported."""
        inside = [offset for offset in self.all if SIZE <= offset < 2 * SIZE]
        cut = inside[len(inside) // 2]
        os.truncate(self.log(SIZE), cut - SIZE)
        self.check(cut, 2 * SIZE, "ends after")
        self.check_stream()

    def test_newest_emptied(self) -> None:
        """The queues tell that the newest file held records: emptied, or gone."""
        end = self.writer.at
        os.truncate(self.log(4 * SIZE), 0)
        self.check(4 * SIZE, end, f"the consume queues name records up to {end}")
        os.remove(self.log(4 * SIZE))
        self.check(4 * SIZE, end, "the file is missing")

    def test_newest_shorter(self) -> None:
        """A newest file that is shorter than the others, and lacks nothing that is known, is told of, and no error."""
        os.truncate(self.log(4 * SIZE), self.writer.at - 4 * SIZE)
        self.assertEqual(self.offsets(), self.all)
        self.assertEqual(self.damage(), [(self.writer.at, 5 * SIZE - self.writer.at)])

    def test_asked_for(self) -> None:
        """What is missing where nobody asked for it is no error: by offsets and by times."""
        os.remove(self.log(2 * SIZE))
        self.assertEqual(self.offsets(endingOffsets=SIZE), self.left(SIZE, 5 * SIZE))
        self.assertEqual(self.offsets(startingOffsets=3 * SIZE), self.left(0, 3 * SIZE))
        self.refused(startingOffsets=SIZE, endingOffsets=3 * SIZE)
        found = rows(self.root, columns=["physical_offset", "store_timestamp"], failOnDataLoss=False)
        times = {row["physical_offset"]: round(row["store_timestamp"].timestamp() * 1000) for row in found}
        early = times[self.left(SIZE, 5 * SIZE)[-1]]
        late = times[self.left(0, 3 * SIZE)[0]]
        with patched("smartgo.spark.partitions.CLOCK_SLACK_MS", 0):
            self.assertEqual(self.offsets(endingTimestamp=early), self.left(SIZE, 5 * SIZE)[:-1])
            self.assertEqual(self.offsets(startingTimestamp=late + 1), self.left(0, 3 * SIZE)[1:])
            self.refused(startingTimestamp=early)

    def test_removed_while_reading(self) -> None:
        """A file that is removed between plan and task is reported in the same words, not by a traceback."""
        options = parse({"path": self.root})
        parts = plan_table(find_stores([self.root]), options, Conditions())
        os.remove(self.log(0))
        columns = MESSAGES
        error = self.assertRaises(StoreError, list, read_part(parts[0], columns, options, Conditions()))
        self.assertIn("it was removed after the read was planned", str(error))
        lenient = parse({"path": self.root, "failOnDataLoss": "false"})
        self.assertEqual(list(read_part(parts[0], columns, lenient, Conditions())), [])
        self.assertIn("was removed", self.warnings[-1])

    def test_stream_goes_on(self) -> None:
        """With failOnDataLoss=false a stream goes on, and says what it passed over."""
        os.remove(self.log(2 * SIZE))
        following = StoreFollower(parse({"path": self.root, "failOnDataLoss": "false"}))
        begin = following.initial()
        parts = following.ranges(begin, following.settled())
        (gap,) = [part for part in parts if isinstance(part, LogGap)]
        self.assertEqual((gap.begin, gap.end), (2 * SIZE, 3 * SIZE))
        self.assertIn("the next file begins at", self.warnings[-1])
        self.assertIn("; going on with what there is", self.warnings[-1])

    def test_stream_end(self) -> None:
        """A stream misses what the queues name and the log does not hold: torn, zeroed, or the newest file gone."""
        last = self.all[-1]
        inside = [offset for offset in self.all if offset >= 4 * SIZE]
        for begin, expected in ((last, self.all[:-1]), (inside[0], self.left(4 * SIZE, 5 * SIZE))):
            patch(self.log(4 * SIZE), begin - 4 * SIZE, bytes(5 * SIZE - begin))
            self.check_lost_end(begin, expected)
        os.remove(self.log(4 * SIZE))
        self.check_lost_end(4 * SIZE, self.left(4 * SIZE, 5 * SIZE))
        following = StoreFollower(parse({"path": self.root, "useConsumeQueue": "false"}))
        self.assertEqual(following.latest(following.initial(), None), {self.root: 4 * SIZE})

    def check_lost_end(self, end: int, expected: list[int]) -> None:
        """Fail unless a stream says that the log ends too early, or gives what is left."""
        following = StoreFollower(parse({"path": self.root}))
        error = self.assertRaises(DataLost, following.latest, following.initial(), None)
        self.assertIn(f"the consume queues name records up to {self.writer.at}", str(error))
        self.assertEqual(self.streamed(), expected)
        self.assertIn(f"the log ends at physical offset {end}", " ".join(self.warnings))

    def streamed(self) -> list[int]:
        """The offsets that a stream gives that goes on whatever is missing."""
        options = parse({"path": self.root, "failOnDataLoss": "false", "failOnCorrupt": "false"})
        following = StoreFollower(options)
        following.stop_at_the_end()
        begin = following.initial()
        columns = pa.schema([MESSAGES.field("physical_offset")])
        parts = following.ranges(begin, following.latest(begin, None))
        batches = [batch for part in parts for batch in read_part(part, columns, options, Conditions())]
        return [offset for batch in batches for offset in batch.column(0).to_pylist()]

    def test_stream_behind_zeros(self) -> None:
        """Where the newest file begins with zeros, a stream goes on with the records behind these."""
        inside = [offset for offset in self.all if offset >= 4 * SIZE]
        patch(self.log(4 * SIZE), 0, bytes(inside[2] - 4 * SIZE))
        self.assertEqual(self.streamed(), self.left(4 * SIZE, inside[2]))

    def test_stream_behind_holes(self) -> None:
        """So it does behind holes of zeros in the newest file, where no queue tells how far the log went."""
        shutil.rmtree(os.path.join(self.root, "consumequeue"))
        inside = [offset for offset in self.all if offset >= 4 * SIZE]
        for first, last in ((inside[1], inside[2]), (inside[3], inside[4])):
            patch(self.log(4 * SIZE), first - 4 * SIZE, bytes(last - first))
        expected = [one for one in self.all if one not in (inside[1], inside[3])]
        self.assertEqual(self.streamed(), expected)
        self.assertEqual(self.offsets(failOnCorrupt=False), expected)

    def test_listed_meanwhile(self) -> None:
        """A file that retention removes while files are listed is none of them."""
        size = files.size

        def removed(path: str) -> int:
            if path == self.log(0) and os.path.exists(path):
                os.remove(path)
            return size(path)

        with patched.object(files, "size", removed):
            self.assertEqual(self.offsets(), self.left(0, SIZE))

    def test_queue_removed_while_reading(self) -> None:
        """A queue's file that retention removes while a topic is read costs time, not rows."""
        with patched("smartgo.spark.reader.locate", side_effect=FileNotFoundError):
            self.assertEqual(self.offsets(subscribe="T"), self.all)

    def test_live(self) -> None:
        """A file that a broker makes while the read is planned is not missed."""
        listing = files.names
        new = LogWriter(self.root, file_size=SIZE, begin=5 * SIZE)

        def late(path: str) -> list[str]:
            if path.endswith("commitlog") and not os.path.exists(self.log(5 * SIZE)):
                with open(self.log(4 * SIZE), "r+b") as newest:
                    newest.seek(self.writer.at - 4 * SIZE)
                    newest.write(encode_blank(5 * SIZE - self.writer.at))
                new.add(NewMessage("U", 0, bytes(10), b""))
                new.close()
            return listing(path)

        with patched.object(files, "names", late):
            self.assertEqual(self.offsets(), [*self.all, 5 * SIZE])


class QueueTableTests(Case):
    """A queue of several files, in which something is done to one."""

    def setUp(self) -> None:
        """Write them: 5 files of 10 units, of which 47 are used."""
        super().setUp()
        self.directory = os.path.join(self.root, "consumequeue", "T", "0")
        for number in range(5):
            units = [Unit(100 * (10 * number + one), 100, 7).pack() for one in range(7 if number == 4 else 10)]
            write(self.file(number), b"".join(units).ljust(200, b"\0"))

    def file(self, number: int) -> str:
        """Path of a file."""
        return os.path.join(self.directory, f"{200 * number:020d}")

    def check(self, begin: int, end: int, reason: str) -> None:
        """Fail unless a read refuses, and reports the missing units and reads the others on request."""
        options: dict[str, Any] = {"table": "consumequeue", "columnNameOfCorruptRecord": "_bad"}
        error = self.assertRaises(DataLost, rows, self.root, **options)
        self.assertIn(f"{20 * (end - begin)} B between offsets {20 * begin} and {20 * end}", str(error))
        found = rows(self.root, failOnDataLoss=False, **options)
        left = [row["queue_offset"] for row in found if not row["_bad"]]
        self.assertEqual(left, [one for one in range(47) if not begin <= one < end])
        (told,) = [row for row in found if row["_bad"]]
        self.assertEqual((told["topic"], told["queue_id"], told["queue_offset"]), ("T", 0, begin))
        self.assertEqual((told["_bad"]["offset"], told["_bad"]["length"]), (20 * begin, 20 * (end - begin)))
        self.assertIn(reason, told["_bad"]["reason"])

    def test_missing(self) -> None:
        """A file gone from the middle is reported, the oldest may be gone."""
        os.remove(self.file(2))
        self.check(20, 30, "the file is missing")
        os.remove(self.file(1))
        os.remove(self.file(0))
        found = rows(self.root, table="consumequeue")
        self.assertEqual([row["queue_offset"] for row in found], list(range(30, 47)))

    def test_emptied(self) -> None:
        """So is one that was emptied or shortened."""
        os.truncate(self.file(0), 60)
        self.check(3, 10, "ends after 60 B")
        os.truncate(self.file(0), 0)
        self.check(0, 10, "ends after 0 B")

    def test_zeroed(self) -> None:
        """So are units of zeros before used ones, in the file or in the next."""
        for begin, end in ((41, 43), (40, 42), (12, 15), (17, 20), (10, 20)):
            with open(self.file(begin // 10), "rb") as file:
                whole = file.read()
            patch(self.file(begin // 10), begin % 10 * 20, bytes(20 * (end - begin)))
            self.check(begin, end, "the units are empty")
            write(self.file(begin // 10), whole)
        self.assertEqual(len(rows(self.root, table="consumequeue")), 47)

    def test_removed_while_reading(self) -> None:
        """A file that is removed between plan and task is one sentence, or the units that are left."""
        options = parse({"path": self.root, "table": "consumequeue"})
        (part,) = plan_table(find_stores([self.root]), options, Conditions())
        os.remove(self.file(0))
        error = self.assertRaises(DataLost, list, read_part(part, QUEUES, options, Conditions()))
        self.assertIn("it was removed after the read was planned", str(error))
        lenient = parse({"path": self.root, "table": "consumequeue", "failOnDataLoss": "false"})
        found = [row for batch in read_part(part, QUEUES, lenient, Conditions()) for row in batch.to_pylist()]
        self.assertEqual([row["queue_offset"] for row in found], list(range(10, 47)))


class SparkGapTests(SparkTestCase):
    """Spark's results where a file is gone from the middle of a log."""

    def setUp(self) -> None:
        """Write a store of three files, and remove the second."""
        super().setUp()
        self.patch(job, "check_java", lambda: None)
        self.top = os.path.abspath(self.mktemp())
        self.root = os.path.join(self.top, "store")
        writer = LogWriter(self.root, file_size=SIZE)
        while writer.at < 2 * SIZE + 3000:
            writer.add(NewMessage("T", 0, bytes(500), b""))
        writer.close()
        os.truncate(os.path.join(self.root, "commitlog", f"{2 * SIZE:020d}"), SIZE)
        os.remove(os.path.join(self.root, "commitlog", f"{SIZE:020d}"))

    def test_batch(self) -> None:
        """A count fails and names the file."""
        frame = self.spark.read.format("smartgo").load(self.root)
        error = self.assertRaises(PySparkException, frame.count)
        self.assertIn(f"{SIZE:020d} are missing (the file is missing, the next file begins at {2 * SIZE})", str(error))

    def test_stream(self) -> None:
        """A query fails and says how much is missing."""
        query = (
            self.spark.readStream.format("smartgo").load(self.root).writeStream.format("noop")
            .option("checkpointLocation", os.path.join(self.top, "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        error = self.assertRaises(PySparkException, query.awaitTermination, 120)
        self.assertIn(f"{SIZE} B between physical offsets", str(error))
        self.assertIn("are missing", str(error))

    def test_left(self) -> None:
        """With failOnDataLoss=false a count has the rows that are left, with the same rows for any columns."""
        options = {"failOnDataLoss": "false", "columnNameOfCorruptRecord": "damage"}
        frame = self.spark.read.format("smartgo").options(**options).load(self.root)
        whole = frame.where("damage is null").count()
        self.assertGreater(whole, 10)
        (row,) = frame.where("damage is not null").select("damage.*").toArrow().to_pylist()
        self.assertEqual((row["offset"], row["length"]), (SIZE, SIZE))
        narrow = self.spark.read.format("smartgo").options(failOnDataLoss="false").schema("topic string")
        self.assertEqual(narrow.load(self.root).count(), whole)
        stream = (
            self.spark.readStream.format("smartgo").options(**options).load(self.root).writeStream.format("parquet")
            .option("checkpointLocation", os.path.join(self.top, "checkpoint")).trigger(availableNow=True)
            .start(os.path.join(self.top, "rows"))
        )  # fmt: skip
        self.assertTrue(stream.awaitTermination(120))
        rows = self.spark.read.parquet(os.path.join(self.top, "rows"))
        self.assertEqual(rows.where("damage is null").count(), whole)
        self.assertEqual(rows.where("damage is not null").select("damage.*").toArrow().to_pylist(), [row])

    def test_job(self) -> None:
        """The job says that a place is damaged, lists it, and ends with status 1 where it was to check."""
        out = os.path.join(self.top, "report")
        status, said = run(self.root, "--out", out, "--check")
        self.assertEqual(status, job.FAILED, said)
        self.assertIn(f"1 damaged places, {SIZE} B, are not in the figures", said)
        (row,) = self.spark.read.parquet(os.path.join(out, "corrupt")).toArrow().to_pylist()
        self.assertEqual((row["offset"], row["length"]), (SIZE, SIZE))
        self.assertIn("the file is missing", row["reason"])
