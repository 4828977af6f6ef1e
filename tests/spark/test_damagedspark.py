"""
Randomly damaged stores through Spark itself: a batch read, a stream and the job over all of them at once.

Forty stores where C{SMARTGO_DAMAGE} asks for many (see L{tests.spark.test_damage}), else six.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from random import Random
from typing import Any

from pyspark.errors import PySparkException

from smartgo.spark import job
from tests.spark.damagedstores import DamagedStore, Row, make_store, parse_log
from tests.spark.session import SparkTestCase
from tests.spark.test_damage import COUNT, TELLING, messages, uncovered
from tests.spark.test_job import run

STORES = 40 if COUNT >= 1000 else 6
SCHEMA = (
    "store string, physical_offset bigint, size int, topic string, queue_id int, queue_offset bigint, flag int,"
    " sys_flag int, reconsume_times int, body binary,"
    " _bad struct<file: string, offset: bigint, length: bigint, reason: string>"
)


class DamagedSparkTests(SparkTestCase):
    """All that a user can run over stores in which much is missing."""

    def setUp(self) -> None:
        """Write stores, each with at least one damage that costs a message."""
        super().setUp()
        self.patch(job, "check_java", lambda: None)
        self.top = os.path.abspath(self.mktemp())
        self.stores: dict[str, DamagedStore] = {}
        self.expected: dict[str, list[Row]] = {}
        seed = 0
        while len(self.stores) < STORES:
            root = os.path.join(self.top, f"store-{seed}")
            store = make_store(root, Random(seed))
            rows = parse_log(store.log)
            if rows and store.lost(rows):
                self.stores[root], self.expected[root] = store, rows
            seed += 1
        self.paths = json.dumps(list(self.stores))

    def check(self, found: list[dict[str, Any]], tails: bool) -> None:
        """
        Fail unless every store has the rows of the other parser, and all that is missing of it is reported.

        @param tails: what is missing at the end of the log is to be among it.
        """
        for root, expected in self.expected.items():
            rows = [row for row in found if row["store"] == root]
            store = self.stores[root]
            self.assertEqual(sorted(messages(rows)), sorted(expected), store.damages)
            last = expected[-1].physical_offset
            lost = [one for one in store.lost(expected) if tails or one[0] < last]
            self.assertEqual(uncovered(lost, rows), [], store.damages)

    def test_batch(self) -> None:
        """A batch read has every row that is left, and reports every gap; by default it fails for each store."""
        frame = self.spark.read.format("smartgo").schema(SCHEMA).options(paths=self.paths, **TELLING).load()
        self.check(frame.toArrow().to_pylist(), tails=True)
        for root, store in list(self.stores.items())[:6]:
            strict = self.spark.read.format("smartgo").load(root)
            error = self.assertRaises(PySparkException, strict.count)
            self.assertTrue("failOnDataLoss" in str(error) or "failOnCorrupt" in str(error), store.damages)

    def test_stream(self) -> None:
        """A stream has the same rows, and reports every gap before the end of a log."""
        out = os.path.join(self.top, "rows")
        query = (
            self.spark.readStream.format("smartgo").schema(SCHEMA)
            .options(paths=self.paths, maxBytesPerTrigger="200k", **TELLING).load().writeStream.format("parquet")
            .option("checkpointLocation", os.path.join(self.top, "checkpoint")).trigger(availableNow=True).start(out)
        )  # fmt: skip
        self.assertTrue(query.awaitTermination(300))
        self.check(self.spark.read.schema(SCHEMA).parquet(out).toArrow().to_pylist(), tails=False)

    def test_job(self) -> None:
        """The job counts the same rows, lists every gap, and ends with status 1 where it was to check."""
        out = os.path.join(self.top, "report")
        status, said = run(*self.stores, "--out", out, "--check")
        self.assertEqual(status, job.FAILED, said)
        self.assertIn("damaged places", said)
        counts = self.spark.read.parquet(os.path.join(out, "by_store")).toArrow().to_pylist()
        self.assertEqual(
            {row["store"]: row["messages"] for row in counts},
            Counter({root: len(rows) for root, rows in self.expected.items()}),
        )
        gaps = self.spark.read.parquet(os.path.join(out, "corrupt")).toArrow().to_pylist()
        for root, store in self.stores.items():
            told = [{"_bad": row} for row in gaps if row["store"] == root]
            self.assertEqual(uncovered(store.lost(self.expected[root]), told), [], store.damages)
