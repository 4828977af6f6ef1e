"""Tests of L{smartgo.net.tokenbuckets}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.tokenbuckets import TokenBuckets


class TokenBucketsTests(SynchronousTestCase):
    """The rate limits of keys."""

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

    def test_forgets_the_full(self) -> None:
        """Keys that were silent for as long as a bucket takes to fill are forgotten."""
        buckets = TokenBuckets(rate=10.0, burst=10.0)
        for number in range(3000):
            self.assertTrue(buckets.take(str(number), number * 0.01))
        self.assertLessEqual(len(buckets._left), 1024)

    def test_many_keys(self) -> None:
        """However many keys there are at once, each has its own bucket; they are forgotten when these are full."""
        buckets = TokenBuckets(rate=1.0, burst=1.0, keys=65_536)
        for number in range(20_000):
            self.assertTrue(buckets.take(str(number), 0.0))
        self.assertFalse(buckets.take("0", 0.0))
        for number in range(30_000):
            buckets.take(f"x{number}", 1.0)
        self.assertLessEqual(len(buckets._left), 33_000)

    def test_many_at_once(self) -> None:
        """A burst may be longer than a second's worth; what does not fit is refused whole."""
        buckets = TokenBuckets(rate=10.0, burst=100.0)
        self.assertEqual([buckets.take("a", 0.0, tokens) for tokens in (60, 60, 40)], [True, False, True])
        self.assertEqual([buckets.take("a", 1.0, tokens) for tokens in (11, 10)], [False, True])

    def test_forgotten_are_full(self) -> None:
        """Keys are forgotten, the one that was unused for longest first, so that memory does not grow."""
        buckets = TokenBuckets(rate=1.0, burst=1.0)
        for number in range(5000):
            buckets.take(str(number), 0.0)
        self.assertEqual(buckets.wait("0", 0.0), 0)
        self.assertGreater(buckets.wait("4999", 0.0), 0)

    def test_wait(self) -> None:
        """Who has no token is told how long it takes until there is one; to ask takes none."""
        buckets = TokenBuckets(rate=0.5, burst=2.0)
        self.assertEqual([buckets.wait("a", 0.0) for _ in range(3)], [0, 0, 0])
        self.assertEqual([buckets.take("a", 0.0) for _ in range(3)], [True, True, False])
        self.assertEqual([buckets.wait("a", now) for now in (0.0, 1.5, 2.0, 9.0)], [2.0, 0.5, 0, 0])

    def test_none(self) -> None:
        """A rate and a burst of zero refuse everything."""
        self.assertFalse(TokenBuckets(rate=0.0, burst=0.0).take("a", 5.0))
