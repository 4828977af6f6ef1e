"""Tests of L{smartgo.ha.alarm} and L{smartgo.ha.backoff}."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.ha.alarm import NEVER, Alarm
from smartgo.ha.backoff import LATE, SOON, Backoff
from tests.fakes import FakeRandom


class AlarmTests(SynchronousTestCase):
    """When it looks."""

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


class BackoffTests(SynchronousTestCase):
    """How long pauses are."""

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
