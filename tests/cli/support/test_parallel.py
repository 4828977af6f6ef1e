"""Tests of L{smartgo.cli.support.parallel}, and of the commands that send with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from rich.console import Console
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.commands import demo
from smartgo.cli.commands import sendconsume as message
from smartgo.cli.support.parallel import call_each
from smartgo.cli.support.progress import ProgressLine
from smartgo.client.client import Client
from smartgo.client.messages import Message, SendResult, SendStatus
from smartgo.client.producer import Producer
from smartgo.errors import NotConnected
from smartgo.schema.bodies import MessageQueue
from tests.fakes import FakeEnvironment

MANY = 20_000
"""Calls; more than a stack is deep."""
RESULT = SendResult(SendStatus.SEND_OK, "U", "O", MessageQueue("T", "b", 0), 5)


class FakeProducer:
    """
    A producer whose first send is answered at once.

    @ivar begun: how many sends were begun.
    """

    def __init__(self, later: Callable[[], Deferred[SendResult]]) -> None:
        self.later = later
        self.begun = 0

    async def start(self) -> None:
        """Do nothing."""

    def send(self, message: Message) -> Deferred[SendResult]:
        """Answer the first; the others are answered by C{later}."""
        self.begun += 1
        return succeed(RESULT) if self.begun == 1 else self.later()


class CallEachTests(SynchronousTestCase):
    def begin(self, function: Callable[[int], Deferred[Any]], count: int = MANY) -> Deferred[None]:
        """Call it many times."""
        return Deferred.fromCoroutine(call_each(function, count, 3))

    def test_all(self) -> None:
        """Every number comes once, also where answers come at once."""
        seen: list[int] = []

        def function(number: int) -> Deferred[None]:
            seen.append(number)
            return succeed(None)

        self.successResultOf(self.begin(function))
        self.assertEqual(seen, list(range(MANY)))
        self.successResultOf(self.begin(function, 0))
        self.assertEqual(len(seen), MANY)

    def test_limit(self) -> None:
        """So many wait at a time, and the next begins when one is answered."""
        waiting: list[Deferred[None]] = []

        def function(_: int) -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        over = self.begin(function, 4)
        self.assertEqual(len(waiting), 3)
        waiting[1].callback(None)
        self.assertEqual(len(waiting), 4)
        self.assertNoResult(over)
        for number in (0, 2, 3):
            waiting[number].callback(None)
        self.successResultOf(over)

    def test_failure(self) -> None:
        """It ends with the first failure itself, and nothing more is begun when others are answered."""
        waiting: list[Deferred[None]] = []

        def function(_: int) -> Deferred[None]:
            waiting.append(Deferred())
            return waiting[-1]

        over = self.begin(function)
        waiting[1].errback(NotConnected("gone"))
        self.failureResultOf(over, NotConnected)
        waiting[0].callback(None)
        waiting[2].callback(None)
        self.assertEqual(len(waiting), 3)


class SendTests(SynchronousTestCase):
    """The commands that send many messages."""

    def sends(self, later: Callable[[], Deferred[SendResult]]) -> list[tuple[FakeProducer, Deferred[Any]]]:
        """Begin to send many messages, as C{send --count} and as C{demo} do."""
        env = FakeEnvironment()
        one, other = FakeProducer(later), FakeProducer(later)
        progress = ProgressLine(env.clock, "sent", MANY)
        sending = message._send_all(cast("Producer", one), Message(topic="T", body=b"x"), MANY, progress)
        self.patch(demo, "Producer", lambda *_, **__: other)
        demonstration = demo.DemoRun(env, "", Console(), MANY)
        return [
            (one, Deferred.fromCoroutine(sending)),
            (other, Deferred.fromCoroutine(demonstration._send(cast("Client", None)))),
        ]

    def test_interrupted(self) -> None:
        """An interrupt ends the sends under way as such, and begins no more."""
        for producer, over in self.sends(Deferred):
            begun = producer.begun
            over.cancel()
            self.failureResultOf(over, CancelledError)
            self.assertEqual((begun, producer.begun), (257, 257))

    def test_broker_lost(self) -> None:
        """Without a broker they end with what the first send ended with."""
        for producer, over in self.sends(lambda: fail(NotConnected("gone"))):
            self.failureResultOf(over, NotConnected)
            self.assertLess(producer.begun, 1000)
