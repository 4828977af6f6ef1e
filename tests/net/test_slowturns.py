"""The count and the names of slow turns."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.slowturns import LIMIT, OTHER, SlowTurns
from smartgo.schema.command import Command
from tests.fakes import FakeClock
from tests.remoting.doubles import Accepted, Doing, request


class SlowTurnsTests(SynchronousTestCase):
    """Requests and timers that take long."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.slow = SlowTurns(self.clock)

    def take(self, seconds: float) -> None:
        """Hold the reactor up: time goes by, and no timer is called."""
        self.clock.rightNow += seconds

    def test_request(self) -> None:
        """A request that takes more than 50 ms is counted under its code, and logged with the peer; others are not."""
        times = iter([0.049, 0.2, 0.0])

        def answer(_: Any, asked: Command) -> Command:
            self.take(next(times))
            return asked.answer()

        accepted = Accepted([Doing(310, answer)], clock=self.clock)
        with capturedLogs() as logged:
            for _ in range(3):
                accepted.hear(request(310))
                accepted.turns(3)
        slow = accepted.sweeper.slow
        self.assertEqual((slow.counts, round(slow.seconds, 3)), ({"request 310": 1}, 0.2))
        self.assertEqual([event["log_level"] for event in logged], [LogLevel.info])
        self.assertEqual(logged[0]["detail"], "1 of request 310, with 10.1.2.3:5000")

    def test_backlog(self) -> None:
        """Requests that wait for their turn are measured too, a slice each; made-up codes share one name."""

        def answer(_: Any, asked: Command) -> Command:
            self.take(0.001)
            return asked.answer()

        accepted = Accepted([Doing(77777, answer)], clock=self.clock)
        accepted.hear(*(request(77777, number) for number in range(200)))
        accepted.turns()
        self.assertEqual(accepted.sweeper.slow.counts, {"request of an unknown code": 3})

    def test_timer(self) -> None:
        """A timer that takes long is counted under the name of its function, a looping call under that of its own."""
        loop = LoopingCall(self.take, 0.1)
        loop.clock = self.clock
        self.slow.timed(self.take, (0.06,), {})
        self.slow.timed(loop.start, (1.0,), {})
        loop.stop()
        self.slow.timed(loop, (), {}) if loop.running else self.slow.timed(self.take, (0.04,), {})
        name = "timer SlowTurnsTests.take"
        self.assertEqual(self.slow.counts, {name: 1, "timer LoopingCall.start": 1})

    def test_not_twice(self) -> None:
        """What a timer calls and what is counted by itself is not counted for the timer again."""

        def inner() -> None:
            self.take(0.2)
            self.slow.note("request 310", 0.2)

        self.slow.timed(inner, (), {})
        self.assertEqual(self.slow.counts, {"request 310": 1})

    def test_answers(self) -> None:
        """What an answer to a call of ours leads to is counted by its own name, and not as the answer again."""
        accepted = Accepted(clock=self.clock)
        slow = accepted.sweeper.slow
        for inner, counts in ((0.2, {"request GET /topics": 1}), (0.01, {"answer to a call of ours": 1})):
            slow.counts.clear()

            def go_on(_: object, inner: float = inner) -> None:
                self.take(inner)
                if inner >= LIMIT:
                    slow.note("request GET /topics", inner)
                self.take(0.21 - inner if inner < LIMIT else 0.01)

            accepted.connection.ask(request(), 3.0).addCallback(go_on)
            accepted.turns(2)
            (asked,) = accepted.answers()
            accepted.hear(asked.answer())
            self.assertEqual(slow.counts, counts)

    def test_steps(self) -> None:
        """A coroutine is counted by the step; what it waits for is not, nor what another name has already."""
        waits: list[Deferred[float]] = [Deferred() for _ in range(3)]

        async def work() -> str:
            for wait in waits:
                self.take(await wait)
            self.slow.note("request 310", 0.1)
            return "done"

        done = Deferred.fromCoroutine(self.slow.steps("request GET /topics", work()))
        for wait, took in zip(waits, (0.2, 0.01, 0.1), strict=True):
            self.take(10.0)
            wait.callback(took)
        self.assertEqual(self.successResultOf(done), "done")
        self.assertEqual(self.slow.counts, {"request GET /topics": 1, "request 310": 1})

    def test_steps_failing(self) -> None:
        """A coroutine fails, catches and is cancelled as it would be by itself."""
        wait: Deferred[None] = Deferred()

        async def work(catch: bool) -> str:
            try:
                await wait
            except ZeroDivisionError:
                if not catch:
                    raise
                self.take(0.1)
            return "caught"

        for catch in (True, False):
            wait = Deferred()
            done = Deferred.fromCoroutine(self.slow.steps("a", work(catch)))
            wait.errback(ZeroDivisionError())
            if catch:
                self.assertEqual(self.successResultOf(done), "caught")
            else:
                self.failureResultOf(done, ZeroDivisionError)
        wait = Deferred()
        done = Deferred.fromCoroutine(self.slow.steps("a", work(False)))
        done.cancel()
        self.failureResultOf(done, CancelledError)
        self.assertEqual(self.slow.counts, {"a": 1})

    def test_thread(self) -> None:
        """What the result of a thread leads to is counted under the name of its lane."""
        self.slow.delivered("flush", lambda: self.take(0.2))
        self.slow.delivered("flush", lambda: self.take(0.01))
        self.assertEqual(self.slow.counts, {"result of thread flush": 1})

    def test_failing(self) -> None:
        """A timer that fails is counted, and fails as it would."""

        def fail() -> None:
            self.take(0.2)
            raise ZeroDivisionError

        self.assertRaises(ZeroDivisionError, self.slow.timed, fail, (), {})
        self.assertEqual(list(self.slow.counts.values()), [1])

    def test_limited(self) -> None:
        """One line a name and minute, which says how many there were; no more than 64 names and one for all others."""
        with capturedLogs() as logged:
            for _ in range(100):
                self.slow.note("request 310", 0.1)
                self.take(1.0)
        self.assertEqual([event["count"] for event in logged], [1, 60])
        for number in range(100):
            self.slow.note(f"timer {number}", 0.1)
        self.assertEqual((len(self.slow.counts), self.slow.counts[OTHER]), (65, 37))
