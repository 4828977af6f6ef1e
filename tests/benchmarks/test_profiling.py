"""Tests for L{benchmarks.profiling} and L{benchmarks.sampled}."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from benchmarks import profiling
from benchmarks.errors import BenchmarkError
from benchmarks.profiling import Samples, counted, sampled
from benchmarks.sampled import Sampler


class SamplerTests(SynchronousTestCase):
    """Where the stack was becomes counts."""

    def test_counts(self) -> None:
        """A function counts once a sample for what is below it, however deep, and for itself only at the top."""
        sampler = Sampler()

        def dive(depth: int) -> None:
            if depth:
                dive(depth - 1)
            else:
                sampler.sample(0, sys._getframe())

        dive(3)
        dive(0)
        sampler.sample(0, None)
        path = Path(self.mktemp())
        sampler.dump_stats(str(path))
        samples = msgspec.json.decode(path.read_bytes(), type=Samples)
        by_name = {name.rpartition(".")[2]: (own, below) for _, name, _, own, below in samples.functions}
        self.assertEqual(samples.samples, 2)
        self.assertEqual(by_name["dive"], (2, 2))
        self.assertEqual(by_name["test_counts"], (0, 2))
        self.assertEqual([count for _, _, count in samples.lines], [2])


class CostTests(SynchronousTestCase):
    """Counts become microseconds a message."""

    def test_sampled(self) -> None:
        """Samples share the process's CPU time a message; the dearest come first."""
        samples = Samples(4, [("a.py", "f", 1, 1, 4), ("b.py", "g", 2, 3, 3)], [("a.py", 5, 1), ("b.py", 6, 3)])
        functions, lines = sampled(samples, 8.0)
        self.assertEqual(
            [(cost.name, cost.own_us, cost.below_us) for cost in functions], [("g", 6.0, 6.0), ("f", 2.0, 8.0)]
        )
        self.assertEqual([(cost.place, cost.own_us) for cost in lines], [("b.py:6", 6.0), ("a.py:5", 2.0)])

    def test_no_samples(self) -> None:
        """No samples are no profile."""
        self.assertRaises(BenchmarkError, sampled, Samples(0, [], []), 8.0)

    def test_counted(self) -> None:
        """Calls and times are divided by the messages handled."""
        stats: dict[tuple[str, int, str], tuple[Any, ...]] = {
            ("a.py", 1, "f"): (9, 10, 0.5, 1.0, {}),
            ("~", 0, "<built-in>"): (5, 5, 0.75, 0.75, {}),
        }
        costs = counted(stats, 5)
        self.assertEqual(
            [(cost.place, cost.name, cost.own_us, cost.below_us, cost.calls) for cost in costs],
            [("", "<built-in>", 150_000.0, 150_000.0, 1.0), ("a.py:1", "f", 100_000.0, 200_000.0, 2.0)],
        )
        self.assertRaises(BenchmarkError, counted, stats, 0)

    def test_short_paths(self) -> None:
        """Paths lose what all of them begin with."""
        here = str(Path(profiling.__file__).resolve())
        self.assertEqual(profiling._short(here), "benchmarks/profiling.py")
        self.assertEqual(profiling._short("/v/lib/python3.11/site-packages/twisted/x.py"), "twisted/x.py")
        self.assertEqual(profiling._short("/usr/lib/python3.11/json/decoder.py"), "json/decoder.py")
        self.assertEqual(profiling._short("~"), "~")
