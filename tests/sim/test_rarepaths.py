"""Rare paths: their names, and the choice of those that a run takes."""

from __future__ import annotations

import re

from twisted.trial.unittest import SynchronousTestCase

from smartgo.env.real import RealEnvironment
from tests.fakes import FakeEnvironment
from tests.sim.rarepaths import RarePaths, names


class RarePathsTests(SynchronousTestCase):
    def test_names(self) -> None:
        """There are at least 25 rare paths; each has a name of its own that says where it is (T5)."""
        found = names()
        self.assertGreaterEqual(len(found), 25)
        for name, place in found.items():
            self.assertTrue(re.fullmatch(r"[a-z]+\.[a-z]+(-[a-z]+)*", name), f"{place}: {name}")

    def test_real(self) -> None:
        """Outside the simulator none is ever taken."""
        environment = RealEnvironment.__new__(RealEnvironment)
        self.assertEqual({environment.buggify(name) for name in names()}, {False})
        self.assertEqual({FakeEnvironment().buggify(name) for name in names()}, {False})

    def test_same_seed(self) -> None:
        """One seed always takes the same paths, whatever is asked for beside them."""
        one, other = RarePaths(5), RarePaths(5)
        asked = sorted(names()) * 20
        taken = [one(name) for name in asked]
        for name in asked:
            other("another " + name)
        self.assertEqual(taken, [other(name) for name in asked])
        self.assertEqual(one.hits.total(), sum(taken))

    def test_seeds_differ(self) -> None:
        """A run enables some paths only; some hundred runs enable each."""
        seen: set[str] = set()
        for seed in range(200):
            paths = RarePaths(seed)
            for name in names():
                for _ in range(20):
                    paths(name)
            self.assertLess(len(paths.hits), len(names()))
            seen.update(paths.hits)
        self.assertEqual(seen, set(names()))

    def test_off(self) -> None:
        """None is taken any more once they are off."""
        paths = RarePaths(1)
        paths.on = False
        self.assertFalse(any(paths(name) for name in sorted(names()) * 50))
