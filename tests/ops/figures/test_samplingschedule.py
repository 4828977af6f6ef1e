"""Samples one after another, with pauses, whatever a sample ends with."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import CallFailed
from smartgo.ops.figures.samplingschedule import SamplingSchedule
from tests.fakes import FakeClock


class SamplingScheduleTests(SynchronousTestCase):
    """Samples whose end the test decides; the pause is 10 s less what a sample took."""

    def setUp(self) -> None:
        """Begin, with the first sample due after 1 s."""
        self.clock = FakeClock()
        self.begun: list[Deferred[None]] = []
        self.schedule = SamplingSchedule(self.clock, "a test", self.sample, lambda took: 10.0 - took)
        self.schedule.start(1.0)

    async def sample(self) -> None:
        """Take a sample, which lasts until its Deferred fires."""
        self.begun.append(Deferred())
        await self.begun[-1]

    def assert_next_after(self, seconds: float) -> None:
        """Fail unless the next sample begins in so many seconds, and not before."""
        count = len(self.begun)
        self.clock.advance(seconds - 0.5)
        self.assertEqual(len(self.begun), count)
        self.clock.advance(0.5)
        self.assertEqual(len(self.begun), count + 1)

    def test_pause(self) -> None:
        """The next sample begins after the pause, and never while one is under way."""
        self.assert_next_after(1.0)
        self.clock.advance(4.0)
        self.begun[-1].callback(None)
        self.assert_next_after(6.0)
        self.clock.advance(60.0)
        self.assertEqual(len(self.begun), 2)

    def test_failed(self) -> None:
        """A sample that fails is logged, unless no broker answered; the next one comes in both cases."""
        self.assert_next_after(1.0)
        self.begun[-1].errback(CallFailed("nobody"))
        self.assertEqual(self.flushLoggedErrors(), [])
        self.assert_next_after(10.0)
        self.begun[-1].errback(ZeroDivisionError())
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assert_next_after(10.0)

    def test_hurry(self) -> None:
        """A sample that waits for its time begins now; one that is under way is let alone."""
        self.schedule.hurry()
        self.clock.advance(0.0)
        self.assertEqual(len(self.begun), 1)
        self.schedule.hurry()
        self.clock.advance(5.0)
        self.assertEqual(len(self.begun), 1)

    def test_stop(self) -> None:
        """A sample under way is cancelled without a word, and no other one begins."""
        self.assert_next_after(1.0)
        self.schedule.stop()
        self.assertTrue(self.begun[-1].called)
        self.schedule.hurry()
        self.clock.advance(60.0)
        self.assertEqual((len(self.begun), self.clock.getDelayedCalls()), (1, []))
