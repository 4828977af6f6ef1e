"""Tests for L{benchmarks.clients.page}."""

from __future__ import annotations

import tempfile
from pathlib import Path

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.checkouts import ROOT
from benchmarks.cli import main
from benchmarks.clients import page
from benchmarks.errors import BenchmarkError
from benchmarks.results import write
from benchmarks.resultspage import END

from .samples import client_costs


class PageTests(SynchronousTestCase):
    """The page's tables."""

    def cells(self) -> dict[str, list[list[str]]]:
        """Return the lines of each table by the beginning of its title."""
        found: dict[str, list[list[str]]] = {}
        for line in page.text(client_costs()).splitlines():
            if line.startswith(".. list-table:: "):
                lines = found[line.removeprefix(".. list-table:: ").partition(":")[0]] = []
            elif line.startswith("   * - "):
                lines.append([line[7:]])
            elif line.startswith("     - "):
                lines[-1].append(line[7:])
        return found

    def test_ratios(self) -> None:
        """CPU time is given by the reference, median with its bounds; one round is one figure."""
        self.assertEqual(
            self.cells()["CPU a message, by java"],
            [
                ["row", "twisted on smartgo", "twisted on rocketmq 4.9.7", "aiokafka on kafka 3.9.1"],
                ["pipelined-1k", "1.50 (1.00 to 2.00)", "2.00 (1.00 to 3.00)", "3.00 (2.00 to 4.00)"],
                ["one-by-one-1k", "1.00", "", ""],
            ],
        )

    def test_by_kafka(self) -> None:
        """A second table has the CPU time of the clients on the first broker by that of Kafka's client."""
        self.assertEqual(
            self.cells()["CPU a message, by aiokafka on Kafka"],
            [
                ["row", "twisted on smartgo", "java on smartgo"],
                ["pipelined-1k", "0.50 (0.50 to 0.50)", "0.38 (0.25 to 0.50)"],
            ],
        )

    def test_no_times(self) -> None:
        """Nothing but ratios is said: no table has a time or a rate of this machine."""
        self.assertNotIn("65.00", page.text(client_costs()))

    def test_written(self) -> None:
        """The command replaces what stands between the two lines, in the real page too."""
        folder = Path(tempfile.mkdtemp(dir="."))
        (folder / page.PAGE).write_text((ROOT / "docs" / page.PAGE).read_text("utf-8"), "utf-8")
        figures = folder / "figures.json"
        write(client_costs(), figures)
        for _ in range(2):
            result = CliRunner().invoke(main, ["clients-page", str(figures), str(folder)])
            self.assertEqual(result.exit_code, 0, result.output)
        written = (folder / page.PAGE).read_text("utf-8")
        self.assertEqual(written.count("twisted on smartgo"), page.text(client_costs()).count("twisted on smartgo"))
        self.assertTrue(written.endswith(END))

    def test_lost_place(self) -> None:
        """A page without the two lines is left alone."""
        folder = Path(tempfile.mkdtemp(dir="."))
        self.assertIn("client-cost.rst", str(self.assertRaises(BenchmarkError, page.write, client_costs(), folder)))
        (folder / page.PAGE).write_text("Something\n")
        self.assertIn("has lost a line", str(self.assertRaises(BenchmarkError, page.write, client_costs(), folder)))
