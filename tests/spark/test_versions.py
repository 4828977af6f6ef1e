"""Tests of L{smartgo.spark.versions}: what Spark 4.1 is given, on whichever version the tests run."""

from __future__ import annotations

import os
import pickle
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType, TimestampType
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.spark import readlimits, versions
from smartgo.spark.columns import MESSAGES
from smartgo.spark.gaps import DataLost
from smartgo.spark.options import parse
from smartgo.spark.stream import StreamReader
from smartgo.spark.versions import WithoutLimits, arrow_schema, stream_reader
from tests.spark.test_storefollower import DiskLog


class WithoutLimitsTests(SynchronousTestCase):
    """Streams on a Spark that does not say where a micro-batch begins."""

    def setUp(self) -> None:
        """A store."""
        self.log = DiskLog(os.path.join(os.path.abspath(self.mktemp()), "store"))
        for _ in range(20):
            self.log.append()

    def making(self, **options: str) -> partial[StreamReader]:
        """What makes a reader of one column."""
        given = parse({"path": self.log.root, **options})
        return partial(StreamReader, pa.schema([MESSAGES.field("physical_offset")]), given)

    def reader(self, **options: str) -> Any:
        """The reader, after a journey to a worker."""
        return pickle.loads(pickle.dumps(WithoutLimits(self.making(**options))))

    def rows(self, reader: Any, start: dict[str, Any], end: dict[str, Any]) -> int:
        """How many rows a micro-batch has."""
        return sum(batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part))

    def test_batches(self) -> None:
        """A micro-batch takes all there is, the newest message too; the next one what came since."""
        reader = self.reader()
        start = reader.initialOffset()
        end = reader.latestOffset()
        self.assertEqual(self.rows(reader, start, end), 20)
        reader.commit(end)
        self.assertEqual(reader.latestOffset(), end)
        self.log.append()
        later = reader.latestOffset()
        self.assertEqual(self.rows(reader, end, later), 1)
        reader.stop()

    def test_restarted(self) -> None:
        """A query that goes on from its checkpoint reads what came since."""
        end = self.reader().latestOffset()
        for _ in range(3):
            self.log.append()
        again = self.reader()
        self.assertEqual(self.rows(again, end, again.latestOffset()), 3)

    def test_lost(self) -> None:
        """A log that was cut below what was read is noticed at the first micro-batch after a restart."""
        end = self.reader().latestOffset()
        self.log.cut(self.log.ends[5])
        self.log.append(b"x" * 50)
        again = self.reader()
        error = self.assertRaises(DataLost, self.rows, again, end, again.latestOffset())
        self.assertIn("failOnDataLoss", str(error))
        lenient = self.reader(failOnDataLoss="false")
        latest = lenient.latestOffset()
        self.assertEqual(self.rows(lenient, end, latest), 0)
        self.log.append()
        self.assertEqual(self.rows(lenient, latest, lenient.latestOffset()), 1)

    def test_limits(self) -> None:
        """A limit for micro-batches is refused, by a sentence that names the version it needs."""
        error = self.assertRaises(SettingError, WithoutLimits, self.making(maxBytesPerTrigger="1m"))
        self.assertIn("need Spark 4.2 or newer", str(error))


class SchemaTests(SynchronousTestCase):
    def test_utc(self) -> None:
        """Timestamps are in UTC, whatever the version."""
        schema = StructType([StructField("a", StringType()), StructField("b", TimestampType())])
        found = arrow_schema(schema)
        self.assertEqual(found.field("b").type, pa.timestamp("us", "UTC"))

    def test_stand_ins(self) -> None:
        """What stands in for Spark's limits where it has none compares, and has the names that Spark gives."""
        if versions.HAS_READ_LIMITS:
            self.assertEqual(vars(versions.ReadMaxBytes(5)), vars(readlimits.ReadMaxBytes(5)))
            self.assertEqual(vars(versions.ReadMaxRows(5)), vars(readlimits.ReadMaxRows(5)))
        self.assertEqual(readlimits.ReadMaxBytes(5), readlimits.ReadMaxBytes(5))
        self.assertNotEqual(readlimits.ReadMaxBytes(5), readlimits.ReadAllAvailable())

    def test_reader(self) -> None:
        """A Spark that knows limits gets the reader itself; another one the reader behind L{WithoutLimits}."""

        class Reader(StreamReader):
            def __init__(self) -> None:
                pass

            def getDefaultReadLimit(self) -> Any:
                return versions.ReadAllAvailable()

        self.patch(versions, "HAS_READ_LIMITS", True)
        self.assertIsInstance(stream_reader(Reader), Reader)
        self.patch(versions, "HAS_READ_LIMITS", False)
        self.assertIsInstance(stream_reader(Reader), WithoutLimits)
