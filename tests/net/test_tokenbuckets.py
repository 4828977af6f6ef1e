"""Tests of L{smartgo.net.tokenbuckets}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.tokenbuckets import TokenBuckets


class TokenBucketsTests(SynchronousTestCase):
    """How often something may happen."""

    def test_rate(self) -> None:
        """A burst at once, then the rate; each key has its own; time without use is saved up to a burst."""
        buckets = TokenBuckets(rate=2.0, burst=3.0)
        self.assertEqual([buckets.take("a", 0.0) for _ in range(4)], [True, True, True, False])
        self.assertTrue(buckets.take("b", 0.0))
        self.assertEqual([buckets.take("a", now) for now in (0.4, 0.5, 0.9, 1.0)], [False, True, False, True])
        self.assertEqual([buckets.take("a", 100.0) for _ in range(4)], [True, True, True, False])

    def test_several(self) -> None:
        """Several tokens are taken together or not at all; more than a burst count as a burst."""
        buckets = TokenBuckets(rate=1.0, burst=10.0)
        self.assertEqual([buckets.take("a", 0.0, 6.0), buckets.take("a", 0.0, 6.0)], [True, False])
        self.assertTrue(buckets.take("a", 0.0, 4.0))
        self.assertEqual([buckets.take("a", 9.0, 50.0), buckets.take("a", 10.0, 50.0)], [False, True])

    def test_clock_set_back(self) -> None:
        """A clock that goes back adds nothing and takes nothing away."""
        buckets = TokenBuckets(rate=1.0, burst=2.0)
        self.assertEqual([buckets.take("a", now) for now in (100.0, 50.0, 50.0, 51.0)], [True, True, False, True])

    def test_bounded(self) -> None:
        """Of too many keys those are forgotten that were used longest ago."""
        buckets = TokenBuckets(rate=1.0, burst=1.0, keys=3)
        for key in ("a", "b", "c"):
            self.assertTrue(buckets.take(key, 0.0))
        self.assertFalse(buckets.take("a", 0.0))
        self.assertTrue(buckets.take("d", 0.0))
        self.assertEqual(set(buckets._left), {"c", "a", "d"})
