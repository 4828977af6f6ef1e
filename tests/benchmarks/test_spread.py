"""Tests for L{benchmarks.spread}."""

from __future__ import annotations

import statistics

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.spread import Spread, ratios
from tests.doctests import DocTestCase


class ExampleTests(DocTestCase, module="benchmarks.spread"):
    """The examples in its docstrings."""


class SpreadTests(SynchronousTestCase):
    """Several figures become three."""

    def test_even_number(self) -> None:
        """The median of an even number of figures lies between the middle two."""
        self.assertEqual(Spread.of([4.0, 1.0, 2.0, 9.0]), Spread(1.0, 3.0, 9.0, 4))

    def test_none(self) -> None:
        """No figures have no spread."""
        self.assertRaises(statistics.StatisticsError, Spread.of, [])

    def test_ratios_pair_rounds(self) -> None:
        """Ratios are of neighbouring rounds, so that a disturbance of both cancels; what has no partner is left out."""
        self.assertEqual(ratios([10.0, 20.0, 99.0], [5.0, 10.0]), Spread(2.0, 2.0, 2.0, 2))

    def test_no_divisor(self) -> None:
        """Where there is nothing to divide by there is no ratio."""
        self.assertIsNone(ratios([1.0], [0.0]))
        self.assertIsNone(ratios([], [1.0]))
