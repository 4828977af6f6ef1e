"""Tests for L{benchmarks.scaling}: the arithmetic, and one short run on two real brokers."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks import builder
from benchmarks.errors import BenchmarkError
from benchmarks.generator import Latency
from benchmarks.generator import Outcome as Loaded
from benchmarks.runner import Pace
from benchmarks.scaling import SCENARIOS, USUAL, Outcome, Pinned, Scaled, Window, brokers_of, run, sentences, table
from benchmarks.scenarios import LOADS
from benchmarks.targets import Bench


def loaded(messages: int, cpu: float, code: str = "0") -> Loaded:
    """Return the result of a generator after two seconds."""
    return Loaded(
        "send", 2.0, messages, messages, 0, messages, 0, 0, 1.0, 0.2, Latency(1, 1, 1, 1), {code: messages}, {}, None,
        server_user_s=cpu, server_system_s=0.0,
    )  # fmt: skip


class WindowTests(SynchronousTestCase):
    def test_sums(self) -> None:
        """Rates and processors of brokers under load at once are added, their CPU is by the messages of all."""
        window = Window([loaded(2000, 1.0), loaded(4000, 2.0)], 0.1)
        self.assertEqual((window.rate, window.broker_cores), (3000.0, 1.5))
        self.assertAlmostEqual(window.load_cores, 0.2)
        self.assertAlmostEqual(window.cpu_us, 500.0)

    def test_ratio(self) -> None:
        """Neighbouring windows are divided; the goal is held against the median."""
        scaled = Scaled("x", 2, [Window([loaded(1000, 1)], 0)] * 3)
        for together in (1600, 1800, 1750):
            scaled.all.append(Window([loaded(together // 2, 1), loaded(together - together // 2, 1)], 0))
        ratio = scaled.ratio
        assert ratio is not None
        self.assertEqual((ratio.minimum, ratio.median, ratio.maximum), (1.6, 1.75, 1.8))
        self.assertTrue(scaled.met)
        outcome = Outcome(2, 2, False, [scaled])
        self.assertTrue(outcome.met)
        self.assertEqual(sentences(outcome), ["x: asked 1.7, got 1.75: met"])
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(table(outcome))
        self.assertIn("1.60 1.75 1.80", console.export_text())
        scaled.one.append(Window([loaded(1000, 1, "2")], 0))
        self.assertFalse(outcome.met)
        self.assertIn("x: errors were answered", sentences(outcome))

    def test_broke_off(self) -> None:
        """A scenario that broke off is told, and nothing is met."""
        outcome = Outcome(2, 2, True, [Scaled("x", 2, error="no answer")], ["killed"])
        console = Console(width=150, record=True, file=io.StringIO())
        console.print(table(outcome))
        self.assertIn("broke off", console.export_text())
        self.assertEqual((outcome.met, sentences(outcome)), (False, ["x broke off: no answer", "killed"]))
        self.assertLessEqual(set(USUAL), set(SCENARIOS))


class BrokerTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A folder."""
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()
        self.bench = Bench(self.folder, 27300)

    def test_pinned(self) -> None:
        """Each broker has a processor of its own; more brokers than processors cannot be pinned."""
        processors = sorted(os.sched_getaffinity(0))
        found = brokers_of(self.bench, len(processors), True)
        commands = [one.broker_command(self.folder)[:3] for one in found]
        self.assertEqual(commands, [["taskset", "--cpu-list", str(one)] for one in processors])
        self.assertIsInstance(found[0], Pinned)
        self.assertRaises(BenchmarkError, brokers_of, self.bench, len(processors) + 1, True)

    def test_run(self) -> None:
        """Two brokers with stores of their own are put under load, one and both, and end in order."""
        targets = brokers_of(self.bench, 2, False)
        scenario = next(one for one in LOADS if one.name == "send-128")
        outcome = run(targets, builder.generator(), [scenario], Pace(1, 1.0, 0.1), lambda words: None)
        (scaled,) = outcome.scenarios
        self.assertEqual((scaled.error, outcome.complaints), (None, []))
        self.assertEqual([len(window.outcomes) for window in (*scaled.one, *scaled.all)], [1, 2])
        self.assertTrue(scaled.clean)
        self.assertGreater(min(each.messages for each in scaled.all[0].outcomes), 0)
        self.assertEqual(len({str(target.work) for target in targets}), 2)

    if shutil.which("gcc") is None:
        test_run.skip = "no C compiler"  # type: ignore[attr-defined]
