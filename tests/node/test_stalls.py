"""The watch over the reactor: stalls are counted and shown, and nothing is left behind."""

from __future__ import annotations

import signal
import sys
import types

from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.node.stalls import StallWatch
from tests.fakes import FakeClock


class StallWatchTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A watch whose alarm only takes notes."""
        before = signal.getsignal(signal.SIGALRM)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.clock = FakeClock()
        self.wound: list[float] = []
        self.watch = StallWatch(self.clock, self.wound.append)
        self.watch.startService()

    def test_quiet(self) -> None:
        """A reactor that comes round is not complained about, and the alarm is always wound up anew."""
        self.clock.pump([0.1] * 20)
        self.assertEqual((self.watch.count, len(self.wound)), (0, 21))
        self.assertTrue(all(0.3 < seconds < 0.4 for seconds in self.wound))

    def test_stall(self) -> None:
        """A round that is a quarter of a second late or more is a stall."""
        self.clock.advance(0.34)
        self.assertEqual(self.watch.count, 0)
        with capturedLogs() as logged:
            self.clock.advance(0.6)
        self.assertEqual((self.watch.count, round(self.watch.longest, 3)), (1, 0.5))
        self.assertEqual([event["log_level"] for event in logged], [LogLevel.warn])

    def test_stack(self) -> None:
        """The alarm shows what is running."""
        with capturedLogs() as logged:
            self.watch.alarm(signal.SIGALRM, sys._getframe())
        self.assertIn("test_stack", logged[0]["stack"])

    def test_stacks_limited(self) -> None:
        """A place that holds the reactor up again and again is shown once a minute, another place at once."""
        with capturedLogs() as logged:
            for _ in range(100):
                self.watch.alarm(signal.SIGALRM, sys._getframe())
                self.clock.advance(0.1)
            self.assertEqual(len([event for event in logged if "stack" in event]), 1)
            self.watch.alarm(signal.SIGALRM, sys._getframe())
            self.assertEqual(len([event for event in logged if "stack" in event]), 2)

    def test_idle(self) -> None:
        """A reactor that waits for something to do holds nobody up: the process was stopped, or the machine busy."""

        def doPoll() -> None:
            self.watch.alarm(signal.SIGALRM, sys._getframe())

        waiting = types.FunctionType(doPoll.__code__, {"__name__": "twisted.internet.epollreactor", "signal": signal,
            "sys": sys}, "doPoll", None, doPoll.__closure__)  # fmt: skip
        with capturedLogs() as logged:
            waiting()
            self.assertEqual(logged, [])
            doPoll()
            self.assertEqual(len(logged), 1)

    def test_not_run(self) -> None:
        """A process that was idle and did not run has no stall; that is said in one line a minute."""

        def doPoll() -> None:
            self.watch.alarm(signal.SIGALRM, sys._getframe())

        waiting = types.FunctionType(doPoll.__code__, {"__name__": "twisted.internet.epollreactor", "signal": signal,
            "sys": sys}, "doPoll", None, doPoll.__closure__)  # fmt: skip
        with capturedLogs() as logged:
            for _ in range(3):
                waiting()
                self.clock.advance(0.5)
            self.assertEqual(self.watch.count, 0)
            self.clock.advance(0.5)  # without an alarm that found it waiting
        self.assertEqual(self.watch.count, 1)
        said = [event["log_format"].partition(" for ")[0] for event in logged]
        self.assertEqual(said, ["the machine did not run this process", "the reactor was blocked"])

    def test_lines_limited(self) -> None:
        """A hundred stalls in a minute are one line, and the next line says how many there were."""
        with capturedLogs() as logged:
            for _ in range(100):
                self.clock.advance(0.5)
            self.clock.advance(20)
        said = [event["count"] for event in logged if "count" in event]
        self.assertEqual((said, self.watch.count), ([1, 100], 101))

    def test_stop(self) -> None:
        """After stopping there is neither timer nor alarm."""
        self.watch.stopService()
        self.assertEqual((self.clock.getDelayedCalls(), self.wound[-1]), ([], 0.0))
