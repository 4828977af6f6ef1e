"""Tests of L{smartgo.ha.backoff}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.backoff import LATE, SOON, Backoff
from tests.fakes import FakeRandom


class BackoffTests(SynchronousTestCase):
    """The lengths of pauses."""

    def test_grows(self) -> None:
        """Pauses double from 1 s to 5 s at most, or 25 s, differ by chance, and begin anew when all was well."""
        for longest, some in ((SOON, (1, 2, 4, 4, 4)), (LATE, (1, 2, 4, 8, 16))):
            backoff = Backoff(FakeRandom())
            pauses = [backoff.pause(longest) for _ in range(50)]
            for pause, least in zip(pauses, (*some, *[longest / 1.25] * 45), strict=True):
                self.assertTrue(least <= pause <= least * 1.25 <= longest, pauses)
            self.assertGreater(len(set(pauses[5:])), 40)
            backoff.reset()
            self.assertLess(backoff.pause(longest), 1.25)

    def test_mixed(self) -> None:
        """However long the last pauses were, one that may not be long is not."""
        backoff = Backoff(FakeRandom())
        for _ in range(9):
            backoff.pause(LATE)
        self.assertLessEqual(backoff.pause(SOON), 5)
        self.assertGreater(backoff.pause(LATE), 19.9)
