"""Streams inside Spark: exactly once into files across a kill, limits, an end, loss."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.datasource import InputPartition
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.message import NewMessage
from smartgo.schema.recordscan import scan
from smartgo.spark.columns import MESSAGES
from smartgo.spark.gaps import DataLost
from smartgo.spark.options import parse
from smartgo.spark.stream import StreamReader
from smartgo.spark.versions import HAS_READ_LIMITS, ReadAllAvailable, ReadMaxBytes
from tests import golden_store
from tests.spark.logs import V4, LogWriter
from tests.spark.session import SparkTestCase
from tests.spark.test_storefollower import DiskLog

SCHEMA = "store string, physical_offset bigint, topic string, body binary"


class ReaderTests(SynchronousTestCase):
    """The methods that Spark calls, called without Spark."""

    def setUp(self) -> None:
        """A store."""
        self.log = DiskLog(os.path.join(os.path.abspath(self.mktemp()), "store"))
        for _ in range(50):
            self.log.append()

    def reader(self, **options: str) -> StreamReader:
        """A reader of a few columns."""
        given = parse({"path": self.log.root, **options})
        return StreamReader(pa.schema([MESSAGES.field(name) for name in ("physical_offset", "body")]), given)

    def offsets(self, reader: StreamReader, parts: Sequence[InputPartition]) -> list[int]:
        """The offsets in some partitions, which travel to workers first."""
        parts = pickle.loads(pickle.dumps(parts))
        batches = [batch for part in parts for batch in reader.read(part)]
        return [offset for batch in batches for offset in batch.column(0).to_pylist()]

    def test_batches(self) -> None:
        """Micro-batches of the size asked for hold every record once; the progress tells how far the log goes."""
        reader = self.reader(maxBytesPerTrigger="1500")
        limit = reader.getDefaultReadLimit()
        self.assertEqual(limit, ReadMaxBytes(1500))
        reader.prepareForTriggerAvailableNow()
        offset, found = reader.initialOffset(), []
        while (end := reader.latestOffset(offset, limit)) != offset:
            found.append(self.offsets(reader, reader.partitions(offset, end)))
            offset = end
        self.assertEqual([at for batch in found for at in batch], _starts(self.log))
        self.assertGreater(len(found), 5)
        self.assertEqual(reader.reportLatestOffset(), offset)
        self.assertEqual(self.reader().getDefaultReadLimit(), ReadAllAvailable())

    def test_queues(self) -> None:
        """Where a stream begins in single queues, what lies before is left out, whatever the ConsumeQueues tell."""
        reader = self.reader(startingOffsets='{"T": {"0": 30}}')
        reader.prepareForTriggerAvailableNow()
        start = reader.initialOffset()
        found = self.offsets(reader, reader.partitions(start, reader.latestOffset(start, ReadAllAvailable())))
        self.assertEqual(found, [at for at in _starts(self.log) if at // 100 >= 30])

    def test_subscriptions(self) -> None:
        """A stream of some topics and queues gives out these alone, and its offsets go on past all others."""
        root = os.path.join(os.path.dirname(self.log.root), "golden")
        messages = golden_store.unpack("store-a", root)["messages"]
        orders = [one for one in messages if one["topic"] == "Order"]
        for options, expected in (
            ({"subscribe": "Order"}, orders),
            ({"subscribePattern": "Ord.*"}, orders),
            ({"subscribe": "Order", "queues": "1"}, [one for one in orders if one["queueId"] == 1]),
            ({"subscribePattern": "nothing"}, []),
        ):
            reader = self.reader(path=root, **options)
            reader.prepareForTriggerAvailableNow()
            start = reader.initialOffset()
            end = reader.latestOffset(start, ReadAllAvailable())
            (reached,) = end.values()
            self.assertGreaterEqual(reached, messages[-1]["physicalOffset"] + messages[-1]["storeSize"])
            found = self.offsets(reader, reader.partitions(start, end))
            self.assertEqual(found, [one["physicalOffset"] for one in expected], str(options))

    def test_removed(self) -> None:
        """A file that goes away between planning and reading is an error, or is passed over."""
        for fails in (True, False):
            reader = self.reader(failOnDataLoss=str(fails).lower())
            start = reader.initialOffset()
            reader.prepareForTriggerAvailableNow()
            parts = reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))
            self.log.remove(min(self.log.files))
            if fails:
                self.assertIn("was removed", str(self.assertRaises(DataLost, self.offsets, reader, parts)))
            else:
                self.assertEqual(self.offsets(reader, parts), _starts(self.log))


class StreamTests(SparkTestCase):
    def setUp(self) -> None:
        """A store, a sink and a checkpoint."""
        super().setUp()
        top = os.path.abspath(self.mktemp())
        self.log = DiskLog(os.path.join(top, "store"))
        self.sink = os.path.join(top, "sink")
        self.checkpoint = os.path.join(top, "checkpoint")

    def read(self, path: str | None = None, **options: str) -> Any:
        """A stream over the store."""
        return self.spark.readStream.format("smartgo").schema(SCHEMA).options(**options).load(path or self.log.root)

    def run_to_the_end(self, frame: Any) -> Any:
        """Put all there is into the sink; return how the query went."""
        query = (
            frame.writeStream.format("parquet")
            .option("checkpointLocation", self.checkpoint)
            .trigger(availableNow=True)
            .start(self.sink)
        )
        query.awaitTermination()
        return query

    def failure(self, frame: Any) -> str:
        """Return the error that ends a query."""
        return str(self.assertRaises(PySparkException, self.run_to_the_end, frame))

    def found(self) -> list[int]:
        """The physical offsets in the sink."""
        return sorted(row.physical_offset for row in self.spark.read.parquet(self.sink).collect())

    def starts(self) -> list[int]:
        """Return the places where the records of the store start."""
        return _starts(self.log)

    def test_exactly_once(self) -> None:
        """
        A query that is started again on its checkpoint goes on where it was, and one that broke off in the middle of a
        micro-batch does it again; every record lies in the sink once.
        """
        for _ in range(40):
            self.log.append(b"a" * 300)
        limit = {"maxBytesPerTrigger": "5000"} if HAS_READ_LIMITS else {}
        first = self.run_to_the_end(self.read(**limit))
        self.assertGreater(len(first.recentProgress), 2 if HAS_READ_LIMITS else 0)
        self.assertEqual(self.found(), self.starts())
        for _ in range(30):
            self.log.append(b"b" * 300)
        self.run_to_the_end(self.read())
        # As if the process had been killed when the files of the last micro-batch were written, but not noted as done:
        commits = os.path.join(self.checkpoint, "commits")
        last = max(int(name) for name in os.listdir(commits) if name.isdigit())
        os.unlink(os.path.join(commits, str(last)))
        os.unlink(os.path.join(commits, f".{last}.crc"))
        self.log.append(b"c")
        self.run_to_the_end(self.read())
        if not HAS_READ_LIMITS:  # Spark 4.1 ends after the micro-batch that it had to do again
            self.run_to_the_end(self.read())
        self.assertEqual(self.found(), self.starts())

    def test_golden(self) -> None:
        """A stream over two stores of a real broker gives out every message of each."""
        expected = []
        for name in golden_store.NAMES:
            root = os.path.join(os.path.dirname(self.log.root), "golden", name)
            manifest = golden_store.unpack(name, root)
            expected += [(root, one["physicalOffset"]) for one in manifest["messages"]]
        self.run_to_the_end(self.read(os.path.join(os.path.dirname(root), "*")))
        rows = self.spark.read.parquet(self.sink).collect()
        self.assertEqual(sorted((row.store, row.physical_offset) for row in rows), sorted(expected))

    def test_lost(self) -> None:
        """A log that was cut below what was read ends the query with an error, or the query goes on at its new end."""
        for _ in range(10):
            self.log.append()
        self.run_to_the_end(self.read())
        self.log.cut(self.log.ends[5])
        error = self.failure(self.read())
        self.assertIn("the log ends at physical offset", error)
        self.assertIn("failOnDataLoss", error)
        cut = self.log.position
        self.run_to_the_end(self.read(failOnDataLoss="false"))
        self.log.append()
        self.run_to_the_end(self.read())
        self.assertEqual(self.found().count(cut), 2)  # the one that was cut off, and the one written in its place

    def test_copy(self) -> None:
        """A query goes on with a slave's copy of the log at another path, and every record lies in the sink once."""
        root = self.log.root
        writer = LogWriter(root, file_size=4096)
        for _ in range(30):
            writer.add(NewMessage("T", 0, bytes(100), b"", store_host=V4))
        writer.close()
        self.run_to_the_end(self.read())
        for _ in range(30):
            writer.add(NewMessage("T", 0, bytes(100), b"", store_host=V4))
        writer.close()
        copy = os.path.join(os.path.dirname(root), "slave")
        shutil.copytree(root, copy)
        shutil.rmtree(root)
        self.run_to_the_end(self.read(copy))
        self.assertEqual(self.found(), [offset for offset, _ in writer.written])

    def test_refused(self) -> None:
        """What a stream cannot follow is refused when the query starts, in a sentence."""
        error = self.failure(self.read(endingOffsets="500"))
        self.assertIn("a stream has no end", error)
        self.log.append()
        writer = LogWriter(self.log.root, file_size=4096)
        writer.add(NewMessage("T", 0, b"", b""))
        writer.close()
        error = self.failure(self.read(startingOffsets='{"nosuch": {"0": 10}}'))
        self.assertIn("topic nosuch is not subscribed to, and no store has it", error)


def _starts(log: DiskLog) -> list[int]:
    """Return the places where the records of a log start."""
    return [
        message.physical_offset for base, data in sorted(log.files.items()) for message in scan(bytes(data), 0, base)
    ]
