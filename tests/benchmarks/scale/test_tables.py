"""Tests for L{benchmarks.scale.tables}."""

from __future__ import annotations

import io

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.scale.process import Held, Start
from benchmarks.scale.tables import Line, median, of_start, side_by_side


class TableTests(SynchronousTestCase):
    """Sizes side by side."""

    def shown(self, stages: list[float | None]) -> list[str]:
        """Return the cells of a table of one line."""
        lines: list[Line[float | None]] = [("figure", lambda stage: stage)]
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(side_by_side("title", ["size"] * len(stages), stages, lines))
        text = console.export_text()
        return [cell.strip() for cell in text.splitlines()[4].strip("│").split("│")]

    def test_ratio(self) -> None:
        """The last size is divided by the first."""
        self.assertEqual(self.shown([2.0, 300.0, 12000.0]), ["figure", "2.00", "300.0", "12,000", "6000.00"])

    def test_nothing(self) -> None:
        """A size without a figure has an empty cell, and there is no ratio to nothing or to zero."""
        self.assertEqual(self.shown([None, 1.0]), ["figure", "", "1.00", ""])
        self.assertEqual(self.shown([0.0, 1.0]), ["figure", "0", "1.00", ""])
        self.assertEqual(self.shown([1.0]), ["figure", "1.00", ""])

    def test_figures(self) -> None:
        """Medians and starts are found where there are any."""
        self.assertEqual((median([3.0, 1.0, 2.0]), median([])), (2.0, None))
        starts = [Start("killed", 2.0, 1.0, Held(1, 2, 3, 4))]
        self.assertEqual(of_start(starts, "killed", lambda start: start.ready_s), 2.0)
        self.assertIsNone(of_start(starts, "clean", lambda start: start.ready_s))
