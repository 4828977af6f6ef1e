"""Listener calls that take too long."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.feed import MessageFeed
from smartgo.client.internal.delivery import ConcurrentDelivery
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue, Thresholds
from smartgo.client.internal.sendback import SendBack
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import ReceivedMessage
from tests.client.internal.test_processqueue import QUEUE, message
from tests.fakes import FakeEnvironment


class GivenBack:
    """A broker that takes messages back."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []

    async def give_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Take one."""
        self.messages.append(message)
        return True


class LateTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A program that iterates, and has 60 s for a message."""
        self.clock = FakeEnvironment().clock
        self.feed = MessageFeed(self.clock)
        self.back = GivenBack()
        settings = ConsumerSettings(consume_timeout=60.0, concurrency=1)
        self.delivery = ConcurrentDelivery(
            self.clock, self.feed.listen, settings, cast("SendBack", self.back), Pauses(self.clock),
            lambda topic: TopicMeters(self.clock),
        )  # fmt: skip
        self.held = ProcessQueue(QUEUE, 0, Thresholds(), 0.0)

    def late(self) -> list[str]:
        """Give late messages back; return what the log says."""
        with capturedLogs() as events:
            self.successResultOf(self.delivery.give_back_late())
        return [event["log_format"].format(**event) for event in events]

    def test_held_too_long(self) -> None:
        """A message that a program holds for too long is given back, once; the log names it and the setting."""
        messages = [message(0), message(1)]
        self.held.put(messages)
        self.delivery.arrived(self.held, messages)
        received: Deferred[list[ReceivedMessage] | None] = self.feed.receive()
        self.assertEqual(self.successResultOf(received), [messages[0]])
        self.clock.advance(59.0)
        self.assertEqual(self.late(), [])
        self.clock.advance(1.0)
        (words,) = self.late()
        self.assertEqual(
            words,
            "message 0 of T was not acknowledged within 60 s and is delivered again (ConsumerSettings.consume_timeout)",
        )
        self.assertEqual(self.back.messages, messages[:1])
        self.assertEqual(self.late(), [])
        self.assertEqual(self.successResultOf(self.feed.receive()), [messages[1]])
        self.assertEqual(self.held.commit_offset, 1)
