"""Growth of counters in a window, arrivals since the first measurement, and where a line leads."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.alerts.growth import Arrivals, Growth, led_to


class GrowthTests(SynchronousTestCase):
    """Growth in a window."""

    def setUp(self) -> None:
        self.growth = Growth(60)

    def grown(self, at: float, value: float | None) -> float | None:
        """By how much one counter has grown."""
        return self.growth.look({"a": value}, at)["a"]

    def test_window(self) -> None:
        """What grew before the window is not counted."""
        self.assertEqual([self.grown(at, at) for at in range(0, 130, 10)][-1], 60)
        self.assertEqual(self.grown(190, 120), 0)

    def test_begins_anew(self) -> None:
        """A counter whose process was started again counts from 0."""
        self.grown(0, 100)
        self.grown(10, 103)
        self.assertEqual(self.grown(20, 2), 5)

    def test_first(self) -> None:
        """What was counted before the first look did not grow since, nor what nobody knew; what is new then did."""
        self.assertEqual(self.growth.look({"a": 1000, "b": None}, 0), {"a": 0, "b": None})
        self.assertEqual(self.growth.look({"a": 1000, "b": 7, "c": 3}, 10), {"a": 0, "b": 0, "c": 3})
        self.assertEqual(self.growth.look({"a": 1000, "b": 7, "c": 3}, 69), {"a": 0, "b": 0, "c": 3})
        self.assertEqual(self.growth.look({"a": 1000, "b": 7, "c": 3}, 70), {"a": 0, "b": 0, "c": 0})
        self.growth.begin_anew()
        self.assertEqual(self.growth.look({"d": 5}, 80), {"d": 0})

    def test_bounded(self) -> None:
        """However often it is asked, few samples are kept, and nothing of what is there no more."""
        for at in range(10_000):
            self.grown(at / 50, at)
        self.assertLess(len(self.growth._samples["a"]), 70)
        self.assertLess(abs((self.grown(200, 10_000) or 0) - 60 * 50), 60)
        self.growth.look({"b": None}, 201)
        self.assertEqual((self.growth._samples, self.growth._sums), ({}, {}))


class ArrivalsTests(SynchronousTestCase):
    """The increase of counters of several brokers."""

    def setUp(self) -> None:
        self.arrivals = Arrivals()

    def look(self, **brokers: Any) -> dict[str, int | None]:
        """Return the increase until now."""
        return self.arrivals.look(brokers)

    def test_came(self) -> None:
        """What was there before the first look did not come since; a subject that is new did, at any broker."""
        self.assertEqual(self.look(a={"g": 100}, b={}), {"g": 0})
        self.assertEqual(self.look(a={"g": 102, "h": 3}, b={"g": 1}), {"g": 3, "h": 3})
        self.assertEqual(self.look(a={"g": 4, "h": 3}, b={"g": 1}), {"g": 7, "h": 3})

    def test_brokers(self) -> None:
        """A broker that leaves takes nothing away, and brings what came meanwhile; a new one brings nothing."""
        self.look(a={"g": 100}, b={"g": 50})
        self.assertEqual(self.look(a={"g": 100}), {"g": 0})
        self.assertEqual(self.look(a={"g": 100}, b={"g": 51}, c={"g": 70}), {"g": 1})
        self.arrivals.keep(["a", "c"])
        self.assertEqual(self.look(a={"g": 100}, b={"g": 60}, c={"g": 70}), {"g": 1})
        self.assertEqual(self.look(c={"h": 1}), {"h": 1})
        self.assertEqual(self.look(c={"h": 1, "g": 2}), {"h": 1, "g": 2})

    def test_unknown(self) -> None:
        """What a broker does not tell of is unknown, and no news when it does."""
        self.assertEqual(self.look(a={"g": None, "h": 1}, b={"g": 5}), {"g": None, "h": 0})
        self.assertEqual(self.look(a={"g": 9, "h": 1}, b={"g": None}), {"g": None, "h": 0})
        self.assertEqual(self.look(a={"g": 9, "h": 1}, b={"g": 7}), {"g": 2, "h": 0})


class LineTests(SynchronousTestCase):
    """The extrapolation of a line."""

    def test_line(self) -> None:
        """Points on a line lead on along it; one point, or one moment, leads nowhere."""
        self.assertAlmostEqual(led_to([0, 1, 2], [0.5, 0.6, 0.7], 4), 0.9)
        self.assertIs(led_to([1], [1], 2), None)
        self.assertIs(led_to([1, 1], [1, 2], 2), None)
