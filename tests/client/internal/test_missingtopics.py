"""Looks for topics that are missing: when they happen, and when they end."""

from __future__ import annotations

import itertools

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.missingtopics import LOOK, LOOK_SELDOM, SOON, MissingTopics
from smartgo.errors import NotConnected, PeerRefused
from smartgo.schema.codes import ResponseCode
from tests.fakes import FakeEnvironment


class MissingTopicsTests(SynchronousTestCase):
    """Looks on a clock."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.clock: Clock = self.env.clock
        self.missing = ["T"]
        self.asked: list[tuple[float, str]] = []
        self.error: Exception = PeerRefused(ResponseCode.TOPIC_NOT_EXIST, "none")
        self.answers: Deferred[object] | None = None
        self.looks = MissingTopics(self.env.clock, self.env.random, lambda: list(self.missing), self._ask)
        self.addCleanup(lambda: self.assertEqual(self.clock.getDelayedCalls(), []))
        self.addCleanup(self.looks.stop)

    def _ask(self, topic: str) -> Deferred[object]:
        self.asked.append((self.clock.seconds(), topic))
        if self.answers is not None:
            return self.answers
        return succeed(None) if topic not in self.missing else fail(self.error)

    def pass_time(self, seconds: float, step: float = 0.01) -> None:
        """Let time go by."""
        for _ in range(round(seconds / step)):
            self.clock.advance(step)

    def test_until_there(self) -> None:
        """A missing topic is looked up every 1 to 2 s, and no more once it is there."""
        self.looks.look()
        self.pass_time(60.0)
        times = [0.0] + [at for at, _ in self.asked]
        pauses = [after - before for before, after in itertools.pairwise(times)]
        self.assertTrue(all(LOOK / 2 <= pause <= LOOK + 0.02 for pause in pauses), pauses)
        self.assertGreater(max(pauses) - min(pauses), LOOK / 4)  # clients that start together do not ask together
        self.missing = []
        self.pass_time(LOOK + 0.02)
        del self.asked[:]
        self.pass_time(60.0)
        self.assertEqual(self.asked, [])

    def test_soon(self) -> None:
        """A topic that is about to be created is looked up within 50 ms, and seldomer each time."""
        self.looks.look()
        self.looks.look(SOON)
        self.pass_time(10.0)
        times = [0.0] + [at for at, _ in self.asked]
        pauses = [after - before for before, after in itertools.pairwise(times)]
        for number, pause in enumerate(pauses):
            most = min(LOOK, SOON * 2**number)
            self.assertTrue(most / 2 <= pause <= most + 0.02, (number, pause))

    def held(self) -> Deferred[object]:
        """Return the answer to the look that is next, which waits for it; no time passes after the question."""
        answer = self.answers = Deferred()
        del self.asked[:]
        for _ in range(1000):
            if self.asked:
                break
            self.pass_time(0.01)
        self.answers = None
        return answer

    def test_soon_while_looking(self) -> None:
        """A topic that is about to be created during a look is looked up soon after it."""
        self.looks.look()
        answer = self.held()
        self.looks.look(SOON)
        answer.callback(None)
        self.assertEqual(len(self.asked), 1)
        self.pass_time(SOON + 0.01)
        self.assertEqual(len(self.asked), 2)

    def test_slow(self) -> None:
        """Pauses are ten times as long as looks, and 30 s at most."""
        for took, pause in ((1.0, 10.0), (5.0, LOOK_SELDOM)):
            self.looks.look(SOON)
            answer = self.held()
            self.pass_time(took)
            answer.errback(self.error)
            ended = self.clock.seconds()
            self.pass_time(pause + 0.02)
            self.assertTrue(pause / 2 <= self.asked[1][0] - ended <= pause + 0.02, (took, self.asked))

    def test_no_registry(self) -> None:
        """A look ends where no registry answers, and is repeated."""
        self.missing = ["T", "U"]
        self.error = NotConnected("no registry")
        self.looks.look()
        self.pass_time(5.0)
        self.assertEqual({topic for _, topic in self.asked}, {"T"})
        self.assertGreater(len(self.asked), 1)
        del self.asked[:]
        self.error = PeerRefused(ResponseCode.TOPIC_NOT_EXIST, "none")
        self.pass_time(5.0)
        self.assertEqual([topic for _, topic in self.asked][:4], ["T", "U", "T", "U"])

    def test_stopped_while_looking(self) -> None:
        """A look that ends after the stop is the last one; none begins after it."""
        self.answers = Deferred()
        self.looks.look(SOON)
        self.pass_time(0.06)
        self.looks.stop()
        self.answers.callback(None)
        self.looks.look()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_broken(self) -> None:
        """A look that fails otherwise is logged, and does not end the looks."""
        self.error = ZeroDivisionError()
        self.looks.look()
        self.pass_time(LOOK + 0.02)
        self.assertGreater(len(self.flushLoggedErrors(ZeroDivisionError)), 0)
        self.error = PeerRefused(ResponseCode.TOPIC_NOT_EXIST, "none")
        del self.asked[:]
        self.pass_time(LOOK + 0.02)
        self.assertGreater(len(self.asked), 0)
