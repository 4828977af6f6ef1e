"""Tests for L{benchmarks.clients.results} and L{benchmarks.clients.report}."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.clients import report
from benchmarks.clients.results import load
from benchmarks.errors import BenchmarkError
from benchmarks.results import write
from benchmarks.spread import Spread

from .samples import AIOKAFKA, JAVA, JAVA_THEIRS, THEIRS, TWISTED, client_costs, sample


class RatioTests(SynchronousTestCase):
    """Ratios are taken round by round."""

    def test_same_broker(self) -> None:
        """A client is divided by the reference on its own broker."""
        made = client_costs()
        self.assertEqual(made.ratio("pipelined-1k", TWISTED, "cpu_us"), Spread(1.0, 1.5, 2.0, 2))
        self.assertEqual(made.ratio("pipelined-1k", THEIRS, "cpu_us"), Spread(1.0, 2.0, 3.0, 2))
        self.assertEqual(made.reference_of(THEIRS), JAVA_THEIRS)

    def test_other_broker(self) -> None:
        """Where the reference was not measured on a client's broker, it is that of the first broker."""
        made = client_costs()
        self.assertEqual(made.reference_of(AIOKAFKA), JAVA)
        self.assertEqual(made.ratio("pipelined-1k", AIOKAFKA, "cpu_us"), Spread(2.0, 3.0, 4.0, 2))

    def test_another_reference(self) -> None:
        """A client can be divided by another one."""
        self.assertEqual(client_costs().ratio("pipelined-1k", TWISTED, "cpu_us", "aiokafka"), Spread(0.5, 0.5, 0.5, 2))

    def test_missing(self) -> None:
        """What was not measured has no ratio."""
        made = client_costs()
        self.assertIsNone(made.ratio("one-by-one-1k", THEIRS, "cpu_us"))
        self.assertIsNone(made.ratio("pipelined-1k", TWISTED, "p50_ms"))
        self.assertIsNone(made.ratio("pipelined-1k", TWISTED, "cpu_us", "confluent"))

    def test_order(self) -> None:
        """Clients stand by broker, then as they were given."""
        self.assertEqual(client_costs().subjects, [TWISTED, JAVA, THEIRS, JAVA_THEIRS, AIOKAFKA])

    def test_cautions(self) -> None:
        """Too few rounds and a busy machine are told."""
        made = client_costs()
        self.assertEqual(len(made.cautions()), 1)
        made.samples.append(sample(TWISTED, 1, "consume-1k", foreign=0.5, cpu_us=1.0))
        self.assertIn("consume-1k", made.cautions()[0])


class FileTests(SynchronousTestCase):
    """Results are kept as JSON."""

    def test_round_trip(self) -> None:
        """What was written is read again."""
        path = Path(self.mktemp())
        write(client_costs(), path)
        self.assertEqual(load(path), client_costs())

    def test_something_else(self) -> None:
        """Another file is refused by name."""
        path = Path(self.mktemp())
        path.write_text("{}")
        error = self.assertRaises(BenchmarkError, load, path)
        self.assertIn(str(path), str(error))


class ReportTests(SynchronousTestCase):
    """The tables."""

    def test_show(self) -> None:
        """Medians, ratios to both references, failures and cautions are printed."""
        made = client_costs()
        made.failures.append("confluent was left out: no wheel")
        output = io.StringIO()
        report.show(made, Console(file=output, width=200))
        lines = [" ".join(each.replace("│", " ").split()) for each in output.getvalue().splitlines()]
        self.assertIn("pipelined-1k twisted smartgo 65.00 10 - - 60 0.00", lines)
        self.assertIn("pipelined-1k twisted smartgo 1.00 1.50 2.00 0.50 0.50 0.50 - - 0.25 0.25 0.25 0.50", lines)
        self.assertIn("confluent was left out: no wheel", lines)
        self.assertTrue(any("Fewer than three rounds" in each for each in lines))
