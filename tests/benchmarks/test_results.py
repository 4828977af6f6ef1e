"""Tests for L{benchmarks.results}, L{benchmarks.report} and the ratios of L{benchmarks.apache}."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks import apache, apachereport, report
from benchmarks.errors import BenchmarkError
from benchmarks.generator import Latency, Outcome
from benchmarks.results import Loaded, Quiet, Results, Round, Starts, Verdict, write
from benchmarks.scenarios import GOALS, LOADS, NAMES, Goal


def outcome(cpu_us: float, messages: int = 1000, codes: dict[str, int] | None = None) -> Outcome:
    """Return a plausible outcome of a second's load."""
    latency = Latency(1.0, 2.0, 3.0, 4.0)
    known = codes or {"0": messages}
    return Outcome(
        "send", 1.0, messages, messages, 0, messages, 0, 9, 0.7, 0.1, latency, known, {}, None, 0.0, 0.0, cpu_us
    )


def loaded(scenario: str, target: str, *figures: float, foreign: float = 0.0) -> Loaded:
    """Return rounds with the given CPU microseconds a message."""
    return Loaded(scenario, target, [Round(outcome(figure), foreign) for figure in figures])


def results() -> Results:
    """Return what a small run of two brokers may have found."""
    made = Results("2026-11-21T12:00:00+00:00", {"processors": 2}, [], {})
    made.loads = [
        loaded("send-1k", "ours", 11.0, 13.0, 12.0),
        loaded("send-1k", "theirs", 22.0, 26.0, 48.0),
        Loaded("pull-1k", "ours", error="the broker closed a connection"),
    ]
    made.quiet = [Quiet("idle", "ours", 60.0, 0.3, 61.0, 80.0)]
    made.starts = [Starts("ours", [1.5, 1.0, 3.0])]
    return made


class ResultsTests(SynchronousTestCase):
    """Figures are held against goals and against each other."""

    def test_verdicts(self) -> None:
        """A goal is met when the median does not exceed it; what was not measured is not met."""
        made = results()
        made.judge(GOALS, "ours", ("send-1k", "pull-1k", "idle", "start-up"))
        found = {(each.goal.scenario, each.goal.quantity): (each.got, each.met) for each in made.verdicts}
        self.assertEqual(
            found,
            {
                ("send-1k", "cpu_us"): (12.0, True),
                ("pull-1k", "cpu_us"): (None, False),
                ("idle", "anonymous_mb"): (61.0, False),
                ("idle", "idle_percent"): (0.3, True),
                ("start-up", "ready_s"): (1.5, True),
            },
        )

    def test_ratio(self) -> None:
        """CPU is divided round by round, not median by median."""
        ratio = results().cpu_ratio("ours", "theirs", "send-1k")
        assert ratio is not None
        self.assertEqual((ratio.minimum, ratio.median, ratio.maximum), (0.25, 0.5, 0.5))
        self.assertIsNone(results().cpu_ratio("ours", "theirs", "pull-1k"))

    def test_failures(self) -> None:
        """A run that broke off and an error code answered are told, with how often."""
        made = results()
        made.loads[0].rounds.append(Round(outcome(1.0, codes={"0": 5, "2": 7}), 0.0))
        made.loads[0].rounds.append(Round(outcome(1.0, codes={"2": 1, "14": 2}), 0.0))
        made.complaints = ["ours: the broker had to be killed"]
        self.assertEqual(
            made.failures(),
            [
                "send-1k on ours: code 14 2 times, code 2 8 times",
                "pull-1k on ours broke off: the broker closed a connection",
                "ours: the broker had to be killed",
            ],
        )

    def test_no_messages(self) -> None:
        """A round in which nothing succeeded gives no figure; the kernel's 0 would look like the best of all."""
        lazy = Loaded("send-1k", "ours", [Round(outcome(0.0, messages=0, codes={"2": 9}), 0.0)])
        self.assertIsNone(lazy.cpu())

    def test_written(self) -> None:
        """What is written can be read again."""
        made = results()
        made.judge(GOALS, "ours", NAMES)
        path = Path(self.mktemp()) / "run.json"
        write(made, path)
        again = msgspec.json.decode(path.read_bytes(), type=Results)
        self.assertEqual(msgspec.to_builtins(again), msgspec.to_builtins(made))

    def test_goals_have_scenarios(self) -> None:
        """Every goal belongs to a scenario there is, and every load has its own topic."""
        self.assertLessEqual({goal.scenario for goal in GOALS}, set(NAMES))
        self.assertEqual(len({scenario.load.topics for scenario in LOADS}), len(LOADS))


class ReportTests(SynchronousTestCase):
    """The tables for people."""

    def shown(self, made: Results, reference: str | None) -> str:
        made.judge(GOALS, "ours", ("send-1k", "pull-1k", "idle"))
        console = Console(width=200, file=io.StringIO())
        report.show(made, console, reference)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    def test_tables(self) -> None:
        """Figures, ratios, verdicts and failures are there."""
        text = self.shown(results(), "theirs")
        for piece in (
            "11.0 12.0 13.0",
            "0.25 0.50 0.50",
            "broke off",
            "missed",
            "met",
            "not measured",
            "1.00 1.50 3.00",
        ):
            self.assertIn(piece, text)

    def test_alone(self) -> None:
        """One broker alone has no ratios."""
        self.assertNotIn("ratio", self.shown(results(), None))

    def test_noise(self) -> None:
        """A machine busy with something else is told of."""
        made = results()
        self.assertNotIn("quiet machine", self.shown(made, None))
        made.loads.append(loaded("batch-128", "ours", 5.0, foreign=0.9))
        self.assertIn("busy during batch-128", self.shown(made, None))


def measured(
    target: str, threads: int, rate: float, cpu_us: float, program: apache.Program = "producer"
) -> apache.Measured:
    """Return one run of one of Apache's programs."""
    return apache.Measured(program, threads, target, rate, cpu_us, 1000, 0, rate)


class ApacheTests(SynchronousTestCase):
    """Apache's programs: ratios and goals."""

    def results(self) -> apache.Results:
        made = apache.Results("now", {}, [], apache.Pace())
        made.measured = [
            measured("ours", 1, 90.0, 80.0),
            measured("theirs", 1, 100.0, 100.0),
            measured("ours", 16, 150.0, 50.0),
            measured("theirs", 16, 100.0, 100.0),
            measured("ours", 20, 100.0, 90.0, "consumer"),
            measured("theirs", 20, 100.0, 100.0, "consumer"),
        ]
        made.compare("ours", "theirs")
        return made

    def test_goals(self) -> None:
        """Rates are to be at least the reference's; CPU at most 0.6 of it at 16 threads, 0.8 consuming, any at one."""
        self.assertEqual(
            [(each.program, each.threads, each.rate_met, each.cpu_met) for each in self.results().ratios],
            [("producer", 1, False, None), ("producer", 16, True, True), ("consumer", 20, True, False)],
        )

    def test_shown(self) -> None:
        """The tables hold both brokers, the ratios and what was asked."""
        console = Console(width=200, file=io.StringIO())
        made = self.results()
        apachereport.show(made, console, "theirs")
        assert isinstance(console.file, io.StringIO)
        for piece in ("ours", "theirs", "1.50 1.50 1.50", "≤ 0.6", "≥ 1", "missed"):
            self.assertIn(piece, console.file.getvalue())
        self.assertFalse(apachereport.all_met(made.ratios))

    def test_series_that_fails(self) -> None:
        """What was measured before a failure stays, and the failure is told."""

        def runs() -> apache.Runs:
            yield measured("ours", 1, 1.0, 1.0)
            raise BenchmarkError("the program ended")

        made = apache.Results("now", {}, [], apache.Pace())
        made.collect(runs())
        self.assertEqual((len(made.measured), made.failures), (1, ["the program ended"]))


class VerdictTests(SynchronousTestCase):
    """The edge of a goal."""

    def test_edge(self) -> None:
        """Exactly the goal is met."""
        goal = Goal("idle", "idle_percent", 0.5)
        self.assertTrue(Verdict(goal, "ours", 0.5).met)
        self.assertFalse(Verdict(goal, "ours", 0.51).met)
