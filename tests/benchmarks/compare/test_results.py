"""Tests for L{benchmarks.compare.results} and L{benchmarks.compare.report}."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.compare import report
from benchmarks.compare.results import Verdict, load
from benchmarks.compare.rows import GOALS, NAMES, RatioGoal
from benchmarks.errors import BenchmarkError
from benchmarks.results import write
from benchmarks.spread import Spread

from .samples import comparison, sample

REFERENCE = "rocketmq 4.9.7"


class ComparisonTests(SynchronousTestCase):
    """Samples become medians, ratios and verdicts."""

    def test_ratio(self) -> None:
        """Ratios are taken round by round, by the number of the round."""
        made = comparison()
        self.assertEqual(made.ratio("producer-16", "core", "rate"), Spread(2.5, 2.55, 2.6, 2))
        self.assertEqual(made.ratio("producer-16", "core", "cpu_us"), Spread(0.2, 0.25, 0.3, 2))

    def test_missing_round(self) -> None:
        """A broker without its first round is divided by the second round of the reference."""
        made = comparison()
        self.assertEqual(made.ratio("producer-16", "pure", "rate"), Spread(1.0, 1.0, 1.0, 1))
        self.assertEqual(made.ratio("producer-16", "pure", "cpu_us"), Spread(0.75, 0.75, 0.75, 1))

    def test_not_measured(self) -> None:
        """A quantity or a row that was not measured has neither spread nor ratio."""
        made = comparison()
        self.assertIsNone(made.ratio("producer-16", "core", "p99_ms"))
        self.assertIsNone(made.ratio("start", "pure", "ready_s"))
        self.assertIsNone(made.spread("consumer", "core", "rate"))

    def test_main_share(self) -> None:
        """The share of the main thread is that of all rounds together."""
        made = comparison()
        self.assertEqual(made.main_share("producer-16", "core"), 0.5)
        self.assertEqual(made.main_share("producer-16", REFERENCE), 0.0)
        self.assertIsNone(made.main_share("start", "core"))

    def test_rows(self) -> None:
        """Rows come in the order measured, once each."""
        self.assertEqual(comparison().rows, ["start", "producer-16"])

    def test_verdicts(self) -> None:
        """Goals are held against medians of ratios, those of rows that were to run alone."""
        made = comparison()
        made.judge(GOALS, "core", ("start", "producer-16", "consumer"))
        found = [(each.goal.row, each.goal.quantity, each.met, each.got is None) for each in made.verdicts]
        self.assertEqual(
            found,
            [
                ("producer-16", "rate", True, False),
                ("producer-16", "cpu_us", False, False),
                ("consumer", "rate", False, True),
                ("consumer", "cpu_us", False, True),
                ("start", "ready_s", True, False),
            ],
        )

    def test_edges(self) -> None:
        """Exactly the goal is met, from either side."""
        least, most = RatioGoal("a", "rate", at_least=1.3), RatioGoal("a", "cpu_us", at_most=0.4)
        for goal, ratio, met in (
            (least, 1.3, True),
            (least, 1.29, False),
            (most, 0.4, True),
            (most, 0.41, False),
        ):
            verdict = Verdict(goal, "core", Spread.of([ratio]))
            self.assertEqual(verdict.met, met, (goal.words, ratio))
        self.assertEqual((least.words, most.words), ("≥ 1.3", "≤ 0.4"))

    def test_goals_have_rows(self) -> None:
        """Every goal belongs to a row, and has one bound; rows have names of their own."""
        self.assertLessEqual({goal.row for goal in GOALS}, set(NAMES))
        self.assertEqual(len(NAMES), len(set(NAMES)))
        for goal in GOALS:
            self.assertNotEqual(goal.at_least is None, goal.at_most is None, goal)

    def test_cautions(self) -> None:
        """A machine busy with something else and too few rounds are told of."""
        made = comparison()
        self.assertEqual(made.cautions(), ["Fewer than three rounds: a first impression."])
        made.options = msgspec.structs.replace(made.options, rounds=3)
        self.assertEqual(made.cautions(), [])
        made.samples += [sample("consumer", "core", 1, foreign=0.9, rate=1.0)]
        self.assertIn("busy during consumer:", made.cautions()[0])

    def test_written(self) -> None:
        """What is written is read again."""
        made = comparison()
        made.judge(GOALS, "core", NAMES)
        path = Path(self.mktemp()) / "compare.json"
        write(made, path)
        self.assertEqual(msgspec.to_builtins(load(path)), msgspec.to_builtins(made))

    def test_not_a_comparison(self) -> None:
        """A file of another kind is refused with its name."""
        path = Path(self.mktemp())
        path.write_text('{"started": "now"}')
        error = self.assertRaises(BenchmarkError, load, path)
        self.assertIn(str(path), str(error))


class ReportTests(SynchronousTestCase):
    """The tables for people."""

    def test_tables(self) -> None:
        """Figures, ratios, verdicts, failures and the first touch of memory are there, whatever was left out."""
        made = comparison()
        made.judge(GOALS, "core", ("start", "producer-16", "consumer"))
        made.failures = ["consumer on core broke off: the program ended"]
        console = Console(width=150, file=io.StringIO())
        report.show(made, console)
        assert isinstance(console.file, io.StringIO)
        text = console.file.getvalue()
        for piece in (
            "2.50 2.55 2.60",
            "0.20 0.25 0.30",
            "≥ 2.5",
            "met",
            "missed",
            "not measured",
            "0.12",  # ready
            "broke off",
            "2.50 µs of CPU a KiB",
            "Fewer than three rounds",
        ):
            self.assertIn(piece, text)
        self.assertNotIn("…", text)
