"""Tests of the Spark benchmark's parts that need no Spark: its stores, its figures, its goals."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks import sparktree
from benchmarks.sparkbatch import Dataset, Decoded, Outcome, Query, decode_all
from benchmarks.sparkdata import lengthen, write_store
from benchmarks.sparkmemory import Measured, is_flat
from benchmarks.sparkreport import memory_table, verdicts
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

    def test_longer(self) -> None:
        """A store that is made longer by copies of its file has their records, each at its own place."""
        written = write_store(Path(self.mktemp()), 99_999, 128, 100_000)
        lengthen(written, 100_000, 3)
        found = rows(str(written.root))
        self.assertEqual(len(found), 3 * written.rows)
        self.assertEqual([row["body"] for row in found], 3 * [row["body"] for row in found[: written.rows]])

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
            Query("smartgo: scan, 24 columns, checksums verified", 10, [1.0], [2.0, 4.4]),
        ]
        decoded = [Decoded("all", 3_000_000, 10**9, 0.8), Decoded("23", 3_000_000, 10**9, 0.7)]
        outcome = Outcome("", {}, {}, [Dataset(128, 1, 10, 10, 10, decoded, queries)])
        self.assertEqual([one.met for one in verdicts(outcome)], [True, False, True])
        outcome.datasets[0].queries[1].cpu[1] = 4.8
        self.assertEqual(next(one.got for one in verdicts(outcome)), "1.10 (1.00-1.20)")

    def test_tree(self) -> None:
        """The CPU time of a tree holds that of this process; processes that are gone count nothing."""
        before = sparktree.cpu(os.getpid())
        while sparktree.cpu(os.getpid()) - before < 0.02:
            sum(range(10_000))
        self.assertIn(os.getpid(), sparktree.members(os.getpid()))

    def test_memory(self) -> None:
        """Memory is flat where no process has a higher peak with the largest store than a fifth above the smallest."""
        small = Measured(1, 100, 1000, 50)
        self.assertTrue(is_flat([small, Measured(8, 119, 1100, 50)]))
        for name in ("workers", "java", "python"):
            grown = Measured(8, 100, 1000, 50)
            setattr(grown, name, 2000)
            self.assertFalse(is_flat([small, grown]))
        self.assertIn("119", str(list(memory_table([Measured(8, 119_000_000, 1, 1)]).columns[1].cells)))

    def test_peaks(self) -> None:
        """The memory of this process is seen, and it runs neither Java nor a worker of Spark's."""
        peaks = sparktree.Peaks()
        peaks.look(os.getpid())
        self.assertGreater(peaks.root, 1 << 20)
        self.assertEqual((peaks.workers, peaks.anonymous), (0, 0))
