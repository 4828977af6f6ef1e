"""Tests of L{smartgo.store.index.positionwaiters}."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.store.index.positionwaiters import PositionWaiters
from tests.fakes import FakeEnvironment


class PositionWaitersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = FakeEnvironment().clock
        self.waiters = PositionWaiters(self.clock)

    def wait(self, position: int) -> Deferred[None]:
        """Wait for a position."""
        return Deferred.fromCoroutine(self.waiters.wait(position))

    def test_reached(self) -> None:
        """Each waits for its own position, and leaves no timer behind."""
        near, far = self.wait(10), self.wait(20)
        self.waiters.reached(9)
        self.assertNoResult(near)
        self.waiters.reached(10)
        self.successResultOf(near)
        self.assertNoResult(far)
        self.waiters.reached(25)
        self.successResultOf(far)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_for_some_time(self) -> None:
        """After two seconds nobody waits any longer; who came later waits on."""
        first = self.wait(10)
        self.clock.advance(1.5)
        second = self.wait(10)
        self.clock.advance(0.5)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.waiters.reached(10)
        self.successResultOf(second)

    def test_give_up(self) -> None:
        """All go on when the index is closed."""
        waits = [self.wait(10), self.wait(20)]
        self.waiters.give_up()
        for one in waits:
            self.successResultOf(one)
        self.assertEqual(self.clock.getDelayedCalls(), [])
