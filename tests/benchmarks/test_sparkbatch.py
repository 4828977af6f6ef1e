"""Tests of the Spark benchmark's parts that need no Spark: its stores, its figures, its goals."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks import sparktree
from benchmarks.sparkbatch import Dataset, Decoded, Outcome, Query, decode_all
from benchmarks.sparkdata import write_store
from benchmarks.sparkreport import verdicts
from tests.spark.logs import rows


class StoreTests(SynchronousTestCase):
    def test_store(self) -> None:
        """A store that is written can be read: every record valid, every unit leading to its record."""
        for bodies in ("json", "random"):
            written = write_store(Path(self.mktemp()), 300_000, 128, 100_000, bodies)
            found = rows(str(written.root))
            self.assertEqual((len(found), sum(row["size"] for row in found)), (written.rows, written.log_bytes))
            self.assertTrue(all(row["crc_ok"] and row["key"] and row["unique_id"] and row["tags"] for row in found))
            self.assertEqual(len({row["body"] for row in found}), written.rows)
            units = rows(str(written.root), table="consumequeue")
            names = ("topic", "queue_id", "queue_offset", "physical_offset", "size")
            self.assertEqual({tuple(row[name] for name in names) for row in units},
                             {tuple(row[name] for name in names) for row in found})  # fmt: skip

    def test_decoding(self) -> None:
        """The reader alone is measured by several sets of columns, and reads every row."""
        written = write_store(Path(self.mktemp()), 200_000, 128, 1 << 20)
        found = decode_all(written, runs=1)
        self.assertEqual({one.rows for one in found}, {written.rows})
        self.assertTrue(all(one.rows_per_second > 0 for one in found))


class FigureTests(SynchronousTestCase):
    def test_verdicts(self) -> None:
        """Goals are held against the ratio of neighbouring rounds and the reader's own rates."""
        queries = [
            Query("parquet: scan", 10, [1.0], [2.0, 4.0]),
            Query("smartgo: scan, 24 columns, checksums verified", 10, [1.0], [2.0, 5.2]),
        ]
        decoded = [Decoded("all", 3_000_000, 10**9, 2.5), Decoded("23", 3_000_000, 10**9, 1.5)]
        outcome = Outcome("", {}, {}, [Dataset(128, 1, 10, 10, 10, decoded, queries)])
        self.assertEqual([one.met for one in verdicts(outcome)], [True, False, True])
        outcome.datasets[0].queries[1].cpu[1] = 6.0
        self.assertEqual(next(one.got for one in verdicts(outcome)), "1.25")

    def test_tree(self) -> None:
        """The CPU time of a tree holds that of this process; processes that are gone count nothing."""
        before = sparktree.cpu(os.getpid())
        while sparktree.cpu(os.getpid()) - before < 0.02:
            sum(range(10_000))
        self.assertIn(os.getpid(), sparktree.members(os.getpid()))
