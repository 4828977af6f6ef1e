"""Tests of L{benchmarks.indexing}."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.indexing import measure, table


class IndexingTests(SynchronousTestCase):
    """The cost of the index."""

    def test_cases(self) -> None:
        """Every case is measured, with numpy and without, and leaves no file; the goals stand beside theirs."""
        folder = Path(self.mktemp())
        folder.mkdir()
        costs = list(measure(folder, 1, 128))
        self.assertEqual(len({one[:5] for one in costs}), 20)
        for one in costs:
            self.assertGreater(one.total, 0)
            self.assertLess(one.total, 1e6)
        self.assertEqual(os.listdir(folder), [])
        console = Console(width=150, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
        self.addCleanup(console.file.close)
        console.print(table(costs))
        rows = [line for line in console.export_text().splitlines() if "1024 │" in line]
        self.assertEqual(sum(line.rstrip(" │").endswith(("  1", "  3")) for line in rows), 6)
