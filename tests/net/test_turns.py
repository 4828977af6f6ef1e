"""Tests of L{smartgo.net.turns}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.turns import TurnScheduler


class Woken:
    """Counts its turns."""

    def __init__(self) -> None:
        self.turns = 0

    def flush(self) -> None:
        """Nothing was put."""

    def turn(self) -> None:
        """One more."""
        self.turns += 1


class TurnTests(SynchronousTestCase):
    """Once a turn."""

    def test_together(self) -> None:
        """All who were woken in a turn share one timer, and have their turn once."""
        clock = Clock()
        turns = TurnScheduler(clock)
        woken = [Woken() for _ in range(20)]
        for one in woken:
            turns.wake(one)
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        clock.advance(0)
        self.assertEqual({one.turns for one in woken}, {1})
        clock.advance(0)
        self.assertEqual({one.turns for one in woken}, {1})
        self.assertEqual(clock.getDelayedCalls(), [])

    def test_sleep(self) -> None:
        """Who needs no turn after all has none, and the last one takes the timer with it."""
        clock = Clock()
        turns = TurnScheduler(clock)
        one, other = Woken(), Woken()
        turns.wake(one)
        turns.wake(other)
        turns.sleep(one)
        self.assertEqual(len(clock.getDelayedCalls()), 1)
        turns.sleep(other)
        turns.sleep(other)
        self.assertEqual(clock.getDelayedCalls(), [])
        turns.wake(one)
        clock.advance(0)
        self.assertEqual((one.turns, other.turns), (1, 0))

    def test_failing_turn(self) -> None:
        """A turn that raises is logged and takes nobody else's."""

        class Failing(Woken):
            def turn(self) -> None:
                raise ZeroDivisionError

        clock = Clock()
        turns = TurnScheduler(clock)
        other = Woken()
        turns.wake(Failing())
        turns.wake(other)
        clock.advance(0)
        self.assertEqual(other.turns, 1)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
