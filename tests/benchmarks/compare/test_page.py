"""Tests for L{benchmarks.compare.page} and L{benchmarks.compare.plots}."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

from click.testing import CliRunner
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from benchmarks.checkouts import ROOT
from benchmarks.cli import main
from benchmarks.compare import page, plots
from benchmarks.compare.rows import GOALS
from benchmarks.errors import BenchmarkError
from benchmarks.results import write
from benchmarks.resultspage import END, begin

from .samples import comparison

SVG = "{http://www.w3.org/2000/svg}"


def written_page(results: str) -> Path:
    """Write a page that holds some results; return its folder."""
    folder = Path(tempfile.mkdtemp(dir="."))
    (folder / page.PAGE).write_text(f"Speed\n\n{begin(page.COMMAND)}\n{results}\n\n{END}\nMore\n", "utf-8")
    return folder


class PageTests(SynchronousTestCase):
    """The page's tables."""

    def text(self) -> str:
        made = comparison()
        made.judge(GOALS, "core", ("producer-16", "start", "consumer"))
        return page.text(made)

    def cells(self) -> dict[str, list[list[str]]]:
        """Return the lines of each table by the beginning of its title."""
        found: dict[str, list[list[str]]] = {}
        for line in self.text().splitlines():
            if line.startswith(".. list-table:: "):
                lines = found[line.removeprefix(".. list-table:: ").partition(",")[0]] = []
            elif line.startswith("   * - "):
                lines.append([line[7:]])
            elif line.startswith("     - "):
                lines[-1].append(line[7:])
        return found

    def test_ratios(self) -> None:
        """CPU and rates are medians with their bounds; one round is one figure, what is missing is empty."""
        self.assertEqual(
            self.cells()["CPU time a message and rate"],
            [
                ["row", "CPU a message, core", "CPU a message, pure", "messages/s, core", "messages/s, pure"],
                ["producer-16", "0.25 (0.20 to 0.30)", "0.75", "2.55 (2.50 to 2.60)", "1.00"],
            ],
        )

    def test_columns(self) -> None:
        """A column that no row has a figure for is left out, and a table without rows too."""
        cells = self.cells()
        heads = cells["Memory after the load"][0]
        self.assertIn("seconds until ready, core", heads)
        self.assertNotIn("seconds until ready, pure", heads)
        self.assertNotIn("Latency", cells)

    def test_shares(self) -> None:
        """The main thread's part is given in percent."""
        self.assertEqual(
            self.cells()["Part of the broker's CPU time that its main thread spent"],
            [["row", "core", "pure"], ["producer-16", "50%", "97%"]],
        )

    def test_goals(self) -> None:
        """Each goal has its ratio and the word met or missed."""
        self.assertEqual(
            [(line[0], line[2], line[4]) for line in self.cells()["Goals of core"][1:]],
            [
                ("producer-16", "≥ 2.5", "met"),
                ("producer-16", "≤ 0.2", "missed"),
                ("consumer", "≥ 1.3", ""),
                ("consumer", "≤ 0.4", ""),
                ("start", "≤ 0.25", "met"),
            ],
        )

    def test_facts(self) -> None:
        """Machine, rounds, versions, the price of memory, and what to beware of are told."""
        text = self.text()
        for piece in (
            "2026-11-23",
            "2 rounds, 0 minutes",
            "Fast, 2 processors, 8 GiB",
            "Python 3.11.2",
            "``core`` (abc)",
        ):
            self.assertIn(piece, text)
        self.assertIn("2.50 µs of CPU at first, 0.25 µs", text)
        self.assertIn("**Fewer than three rounds: a first impression.**", text)

    def test_failures(self) -> None:
        """What went wrong is told word for word, the first line of each failure."""
        made = comparison()
        self.assertNotIn("What went wrong", page.text(made))
        made.failures = ["consumer on core broke off: `*x_:\n   more", "core: killed"]
        told = "What went wrong::\n\n    consumer on core broke off: `*x_:\n    core: killed\n\n"
        self.assertIn(told, page.text(made))

    def test_images(self) -> None:
        """The charts stand where C{plots} writes them."""
        found = [line.rpartition(" ")[2] for line in self.text().splitlines() if line.startswith(".. image::")]
        self.assertEqual(found, [f"images/{name}" for name in plots.CHARTS])


class PlotTests(SynchronousTestCase):
    """The charts."""

    def setUp(self) -> None:
        if importlib.util.find_spec("matplotlib") is None:
            raise SkipTest("matplotlib is not installed")

    def test_charts(self) -> None:
        """There is a picture for CPU and one for rates, without scripts, the same each time."""
        folder = Path(self.mktemp())
        paths = plots.draw(comparison(), folder)
        self.assertEqual([path.name for path in paths], list(plots.CHARTS))
        first = [path.read_bytes() for path in paths]
        for content in first:
            tree = ElementTree.fromstring(content)
            self.assertEqual(tree.tag, f"{SVG}svg")
            self.assertEqual(list(tree.iter(f"{SVG}script")), [])
            self.assertIn(b"producer-16", content)
        self.assertEqual([path.read_bytes() for path in plots.draw(comparison(), folder)], first)

    def test_command(self) -> None:
        """The command puts the results between their lines of the page, again and again, and draws the charts."""
        folder = written_page("old")
        write(comparison(), folder / "speed.json")
        for _ in range(2):
            result = CliRunner().invoke(main, ["compare-page", str(folder / "speed.json"), str(folder)])
            self.assertEqual(result.exit_code, 0, result.output)
            wanted = f"Speed\n\n{begin(page.COMMAND)}\n{page.text(comparison())}\n{END}\nMore\n"
            self.assertEqual((folder / page.PAGE).read_text("utf-8"), wanted)
        self.assertEqual({path.name for path in (folder / "images").iterdir()}, set(plots.CHARTS))


class RefusedTests(SynchronousTestCase):
    """What cannot be drawn is said in a sentence."""

    def test_no_matplotlib(self) -> None:
        """Without matplotlib it is told what to install, and nothing is written."""
        folder = written_page("old")
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            error = self.assertRaises(BenchmarkError, page.write, comparison(), folder)
        self.assertIn("pip install matplotlib", str(error))
        self.assertEqual([path.name for path in folder.iterdir()], [page.PAGE])
        self.assertIn("old", (folder / page.PAGE).read_text("utf-8"))

    def test_no_place(self) -> None:
        """A page that is not there, or has lost a line around its results, is told of and not changed."""
        self.assertRaises(BenchmarkError, page.write, comparison(), Path(self.mktemp()))
        for lost in (begin(page.COMMAND), END):
            path = written_page("old") / page.PAGE
            path.write_text(left := path.read_text("utf-8").replace(lost, ""), "utf-8")
            error = self.assertRaises(BenchmarkError, page.write, comparison(), path.parent)
            self.assertIn("between which", str(error))
            self.assertEqual(path.read_text("utf-8"), left)

    def test_this_page(self) -> None:
        """The page of the documentation has a place for results."""
        known = (ROOT / "docs" / page.PAGE).read_text("utf-8")
        self.assertTrue(0 < known.find(begin(page.COMMAND)) < known.find(END))

    def test_not_figures(self) -> None:
        """A file that is no comparison is refused."""
        path = Path(self.mktemp())
        path.write_text("{}")
        result = CliRunner().invoke(main, ["compare-page", str(path)])
        self.assertEqual(result.exit_code, 1)
        self.assertIn("holds no comparison", result.output.replace("\n", " "))
