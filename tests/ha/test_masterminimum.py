"""Tests of L{smartgo.ha.masterminimum}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.masterminimum import MasterMinimum


class MinimumTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.flushed = 500
        self.minimum = MasterMinimum(lambda: self.flushed)

    def test_caught_up(self) -> None:
        """What the master does not have any more counts once our log goes as far as its own went then."""
        self.assertEqual(self.minimum.value, 0)
        self.minimum.tell(100, 600)
        self.assertEqual(self.minimum.value, 0)
        self.flushed = 600
        self.assertEqual(self.minimum.value, 100)

    def test_always_behind(self) -> None:
        """A slave that is never quite there comes to know it all the same, later."""
        for number in range(10):
            self.minimum.tell(number * 10, 600 + number * 10)
            self.flushed += 10 if number else 90
            self.assertLess(self.minimum.value or 0, number * 10 or 1)
        self.assertGreaterEqual(self.minimum.value or 0, 80)

    def test_never_back(self) -> None:
        """What may be removed once may be removed later."""
        self.minimum.tell(100, 400)
        self.assertEqual(self.minimum.value, 100)
        self.minimum.tell(50, 400)
        self.assertEqual(self.minimum.value, 100)

    def test_rocketmq(self) -> None:
        """A master that tells nothing leaves the slave its own rules, until one tells again."""
        self.minimum.tell(100, 400)
        self.minimum.tell_nothing()
        self.assertIsNone(self.minimum.value)
        self.minimum.tell(200, 700)
        self.assertEqual(self.minimum.value, 0)

    def test_forgotten(self) -> None:
        """Of another master nothing is known."""
        self.minimum.tell(100, 400)
        self.minimum.forget()
        self.assertEqual(self.minimum.value, 0)
