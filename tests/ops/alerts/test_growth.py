"""Growth of counters in a window, arrivals since the first measurement, and where a line leads."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.alerts.growth import Growth, led_to


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


class LineTests(SynchronousTestCase):
    """The extrapolation of a line."""

    def test_line(self) -> None:
        """Points on a line lead on along it; one point, or one moment, leads nowhere."""
        self.assertAlmostEqual(led_to([0, 1, 2], [0.5, 0.6, 0.7], 4), 0.9)
        self.assertIs(led_to([1], [1], 2), None)
        self.assertIs(led_to([1, 1], [1, 2], 2), None)
