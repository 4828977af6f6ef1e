"""Tests of L{smartgo.net.alarm}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.alarm import NEVER, Alarm


class AlarmTests(SynchronousTestCase):
    """The times of calls."""

    def setUp(self) -> None:
        """Something is due at 5."""
        self.clock = Clock()
        self.due = 5.0
        self.looks: list[float] = []
        self.alarm = Alarm(self.clock, lambda: self.due, self.look)

    def look(self, now: float) -> None:
        """The next is due ten seconds on."""
        self.looks.append(now)
        self.due = now + 10

    def test_looks(self) -> None:
        """It looks when something is due, again when the next is, and never where nothing is."""
        self.alarm.set()
        self.alarm.set()
        self.clock.pump([4.0, 1.0, 9.0])
        self.assertEqual(self.looks, [5.0])
        self.clock.advance(1)
        self.assertEqual(self.looks, [5.0, 15.0])
        self.alarm.stop()
        self.alarm.stop()
        self.due = NEVER
        self.alarm.set()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_standstill(self) -> None:
        """After a standstill one more turn goes by, in which is read what came meanwhile, before it looks."""
        self.alarm.set()
        self.clock.rightNow = 65.0
        self.clock.calls.pop().func()
        self.assertEqual(self.looks, [])
        self.clock.advance(0)
        self.assertEqual(self.looks, [65.0])

    def test_set_by(self) -> None:
        """It may be set to an earlier time than the one it is set to, and not to a later one."""
        self.alarm.set()
        self.alarm.set_by(7.0)
        self.alarm.set_by(3.0)
        self.clock.pump([3.0, 9.0])
        self.assertEqual(self.looks, [3.0])
        self.clock.advance(1.0)
        self.assertEqual(self.looks, [3.0, 13.0])
