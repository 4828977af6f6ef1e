"""Tests for L{benchmarks.scale.topics} and L{benchmarks.scale.topicsreport}: arithmetic and tables, no broker."""

from __future__ import annotations

import io

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.scale.process import Held, Start
from benchmarks.scale.storefiles import Disk
from benchmarks.scale.topics import Cost, Outcome, Stage, name_of
from benchmarks.scale.topicsreport import table


class TopicsTests(SynchronousTestCase):
    """What is told."""

    def stage(self, topics: int, spread: float) -> Stage:
        """Return a stage of figures that are easy to see."""
        held = Held(40 << 20, 0, 30, 300)
        return Stage(
            topics,
            4,
            held,
            Cost(topics, 2.0, 1.0, 0.5),
            Cost(topics * 4, 1.0, 0.4, 0.0),
            Held((40 << 20) + topics * 2048, 0, 40, 400),
            Disk(0, topics * 4 * 65536, 0, 0, topics * 4),
            topics * 150,
            Cost(1, 10.0, 0.1, 0.2),
            Cost(100, 1.0, 0.0, 0.01),
            [Start("clean", 2.0, 1.0, held, 0.5)],
            2.5,
            [spread, spread],
            [10.0, 10.0],
        )

    def test_table(self) -> None:
        """Costs are told for a topic, a queue and a message, with the ratio of many topics to one."""
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(table(Outcome([self.stage(100, 12.0), self.stage(400, 30.0)])))
        lines = {line.split("│")[1].strip(): line for line in console.export_text().splitlines() if "│" in line}
        for name, cells in {
            "create: ms a topic": ("20.00", "5.00", "0.25"),
            "first sends: ms CPU a queue": ("1.00", "0.25", "0.25"),
            "KiB anonymous a topic": ("2.00", "2.00", "1.00"),
            "disk: KiB a queue": ("64.00", "64.00", "1.00"),
            "registration: bytes a topic": ("150.0", "150.0", "1.00"),
            "idle: registry, % of a core": ("2.00", "2.00", "1.00"),
            "route query: registry, µs CPU": ("100.0", "100.0", "1.00"),
            "start, clean: s until ready": ("2.00", "2.00", "1.00"),
            "start, killed: s until ready": ("", "", ""),
            "ratio of these, median": ("1.20", "3.00", "2.50"),
        }.items():
            self.assertEqual(tuple(cell.strip() for cell in lines[name].split("│")[2:5]), cells)

    def test_nothing(self) -> None:
        """A run without a size has a table without columns."""
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(table(Outcome()))
        self.assertIn("Topics", console.export_text())

    def test_names(self) -> None:
        """Names are those that the load generator makes."""
        self.assertEqual(name_of(7), "scale-7")
