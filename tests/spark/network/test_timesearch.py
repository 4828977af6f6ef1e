"""Tests of L{smartgo.spark.network.timesearch}."""

from __future__ import annotations

from bisect import bisect_left
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from smartgo.spark.network.timesearch import TimeSearch


def search(times: list[int], begin: int, wanted: int, hint: int) -> tuple[int, int]:
    """Search among the times of messages from offset C{begin} on; return what was found, and how many looks it took."""
    found = TimeSearch(begin, begin + len(times), hint)
    looks = 0
    while (probe := found.probe) is not None:
        looks += 1
        assert looks < 200, (times, begin, wanted, hint)
        found.learn(probe, times[probe - begin] < wanted)
    return found.found, looks


class TimeSearchTests(SynchronousTestCase):
    def test_any(self) -> None:
        """The first message at or after the time is found whatever the hint, with equal times and without any."""
        random = Random(3)
        for _ in range(500):
            times = sorted(random.choices(range(20), k=random.randrange(60)))
            begin, wanted = random.randrange(1000), random.randrange(-2, 23)
            found, _ = search(times, begin, wanted, random.randrange(0, 1100))
            self.assertEqual(found, begin + bisect_left(times, wanted))

    def test_looks(self) -> None:
        """Next to a good hint few looks are needed, and never many more than halving takes."""
        times = list(range(1_000_000))
        self.assertLess(search(times, 0, 500_000, 500_000)[1], 4)
        self.assertLess(search(times, 0, 500_000, 500_003)[1], 8)
        self.assertLess(search(times, 0, 999_999, 0)[1], 45)

    def test_gone(self) -> None:
        """A message that is gone is as old as the next one says, or as what is behind it."""
        found = TimeSearch(0, 10, 5)
        self.assertEqual(found.probe, 5)
        found.learn(7, is_older=True)
        self.assertEqual(found.probe, 9)
        found.learn(9, is_older=False)
        self.assertEqual(found.probe, 8)
        found.learn(8, is_older=True)
        self.assertIsNone(found.probe)
        self.assertEqual(found.found, 9)
