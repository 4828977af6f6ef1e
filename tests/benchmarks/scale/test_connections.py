"""Tests for L{benchmarks.scale.connections} and L{benchmarks.scale.connectionsreport}: no broker."""

from __future__ import annotations

import io

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.scale.connections import Outcome, Stage, settings_for
from benchmarks.scale.connectionsreport import table
from benchmarks.scale.process import Held


class ConnectionsTests(SynchronousTestCase):
    """What is told."""

    def test_table(self) -> None:
        """Each kind of client has a table, with the memory of a connection and the ratio of the senders."""
        before, after = Held(40 << 20, 0, 30, 300), Held((40 << 20) + 100 * 4096, 0, 130, 300)
        stage = Stage(100, "beat", before, 0.5, 0.02, after, 0.03, 60.0, [12.0, 11.0], [10.0, 10.0], 1.0, 2.0, 1.5, 3)
        other = Stage(100, "poll", before, 0.5, 0.02, after, 0.03, 0.0)
        outcome = Outcome([stage, other])
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(table(outcome, "beat"))
        text = console.export_text()
        lines = {line.split("│")[1].strip(): line for line in text.splitlines() if "│" in line}
        for name, cell in {
            "connections/s until all are answered": "200.0",
            "µs CPU a connection, first heart-beat included": "200.0",
            "KiB anonymous a connection": "4.00",
            "idle: % of a core": "3.00",
            "idle: µs CPU an answer": "500.0",
            "64 senders beside: µs CPU a message": "11.50",
            "ratio of these, median": "1.15",
            "restart, all reconnect: s until all are answered": "2.00",
            "connections lost": "3.00",
        }.items():
            self.assertEqual(lines[name].split("│")[2].strip(), cell)
        console.print(table(outcome, "poll"))
        self.assertIn("a pull that waits", console.export_text())

    def test_settings(self) -> None:
        """The broker's limit leaves room for others than the clients."""
        self.assertEqual(settings_for(10_000), ("maxConnections=11000",))
