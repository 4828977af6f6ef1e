"""Tests of L{smartgo.testing.movedclock}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.env.interfaces import IClock, IEnvironment
from smartgo.testing.movedclock import MovedClock, MovedEnvironment
from tests.fakes import EPOCH_MS, FakeClock, FakeEnvironment


class MovedClockTests(SynchronousTestCase):
    """A wall clock that is moved."""

    def setUp(self) -> None:
        self.real = FakeClock()
        self.clock = MovedClock(self.real)
        self.called: list[str] = []

    def test_interface(self) -> None:
        """The clock is one, and so is the environment that has it."""
        verifyObject(IClock, self.clock)
        env = MovedEnvironment(FakeEnvironment(), self.clock)
        verifyObject(IEnvironment, env)
        self.assertIs(env.clock, self.clock)
        self.assertFalse(env.buggify("rare"))

    def test_clocks(self) -> None:
        """The wall clock moves; the monotonic clock, which leases and time-outs use, does not."""
        self.clock.advance(7200)
        self.clock.advance(0.5)
        self.assertEqual(self.clock.wall_ms(), EPOCH_MS + 7_200_500)
        self.assertEqual(self.clock.seconds(), 0)
        self.assertEqual(self.real.wall_ms(), EPOCH_MS)
        self.assertEqual(self.clock.utc_offset(), 0)

    def test_timers(self) -> None:
        """A timer comes earlier by as much as the clock is moved, and never before the reactor's next turn."""
        self.clock.callLater(60, self.called.append, "soon")
        self.clock.callLater(100, self.called.append, "later")
        self.clock.advance(70)
        self.assertEqual(self.called, [])
        self.real.advance(0)
        self.assertEqual(self.called, ["soon"])
        self.real.advance(29)
        self.assertEqual(self.called, ["soon"])
        self.real.advance(1)
        self.assertEqual(self.called, ["soon", "later"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_cancelled(self) -> None:
        """Timers that were cancelled or are over stay so, and those set after a move are not moved by it."""
        self.clock.callLater(1, self.called.append, "never").cancel()
        self.clock.callLater(1, self.called.append, "once")
        self.real.advance(1)
        self.clock.advance(10)
        self.clock.callLater(5, self.called.append, "after")
        self.real.advance(4)
        self.assertEqual(self.called, ["once"])
        self.real.advance(1)
        self.assertEqual(self.called, ["once", "after"])

    def test_back(self) -> None:
        """The clock goes forward only."""
        for wrong in (-1.0, float("nan")):
            self.assertRaises(ValueError, self.clock.advance, wrong)
        self.assertEqual(self.clock.wall_ms(), EPOCH_MS)
