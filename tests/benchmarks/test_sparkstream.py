"""Reading the sink of the Spark stream benchmark, and drawing its lag; Spark itself is not needed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
from twisted.trial.unittest import SynchronousTestCase

from benchmarks import sparkstream
from benchmarks.lagplot import Lag, svg

BEGAN = 1_000_000.0


class SinkTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A sink as Spark leaves it."""
        self.out = Path(os.path.abspath(self.mktemp()))
        (self.out / "_spark_metadata").mkdir(parents=True)
        self.entries: list[str] = []

    def batch(self, number: int, at: float, rows: list[tuple[int, int, float]]) -> None:
        """A micro-batch of rows (queue, offset, stored), committed at a time; every third sums up those before."""
        path = self.out / f"part-{number}.parquet"
        queues, offsets, stored = zip(*rows, strict=True)
        times = pa.array([round((BEGAN + one) * 1e6) for one in stored], pa.timestamp("us", "UTC"))
        pq.write_table(
            pa.table({"queue_id": list(queues), "queue_offset": list(offsets), "store_timestamp": times}), path
        )
        entry = json.dumps({"path": f"file://{path}", "action": "add"})
        self.entries.append(entry)
        compact = number % 3 == 2
        log = self.out / "_spark_metadata" / (f"{number}.compact" if compact else str(number))
        log.write_text("\n".join(["v1", *(self.entries if compact else [entry])]))
        os.utime(log, (BEGAN + at, BEGAN + at))

    def test_read(self) -> None:
        """Every file the log names counts once, and no other; a lag is that of the micro-batch that brought it."""
        self.batch(0, 2.0, [(0, 0, 1.0), (1, 0, 1.5)])
        self.batch(1, 5.0, [(0, 1, 3.0)])
        self.batch(2, 9.0, [(0, 2, 8.0), (0, 3, 8.5), (0, 3, 8.7)])
        (self.out / "part-left-over.parquet").write_bytes(b"not in the log")
        found, lags = sparkstream._read(self.out, BEGAN)
        self.assertEqual(found, {0: [0, 1, 2, 3, 3], 1: [0]})
        self.assertEqual([(lag.at, lag.rows) for lag in lags], [(2.0, 2), (5.0, 1), (9.0, 3)])
        self.assertEqual([round(lag.oldest, 3) for lag in lags], [1.0, 2.0, 1.0])
        self.assertEqual(sparkstream._row_count(self.out), 6)

    def test_outcome(self) -> None:
        """An outcome is exact when all that was sent is there once; lags of a restart can be left out."""
        lags = [Lag(1, 0.5, 1.0, 5), Lag(6, 2.0, 40.0, 5), Lag(9, 0.5, 2.0, 5)]
        outcome = sparkstream.Outcome("b", 5, 10, 15, 15, 0, 0, 0, [(5, 7)], lags)
        self.assertTrue(outcome.exact)
        self.assertEqual((outcome.quantile(1.0), outcome.quantile(1.0, restarts=False)), (40.0, 2.0))
        for wrong in ({"rows": 14}, {"missing": 1}, {"twice": 1}):
            told = sparkstream.Outcome("b", 5, 10, 15, 15, 0, 0, 0, [(5, 7)], lags)
            for name, value in wrong.items():
                setattr(told, name, value)
            self.assertFalse(told.exact, wrong)
        self.assertIn("15 messages acknowledged", sparkstream.told(outcome))

    def test_plot(self) -> None:
        """The picture is well-formed, and has a point for each micro-batch."""
        lags = [Lag(at, 0.4 + at % 7, 1 + at % 7, 5) for at in range(0, 300, 3)]
        tree = ElementTree.fromstring(svg("Lag", lags, [(150, "killed")]))
        lines = [one for one in tree if one.tag.endswith("polyline")]
        self.assertEqual([len(line.attrib["points"].split()) for line in lines], [100, 100])
        self.assertIn("killed", [one.text for one in tree])
