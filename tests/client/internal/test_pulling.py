"""The pulls of one queue of a push consumer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue, Thresholds
from smartgo.client.internal.pulling import LOCK_WAIT, Pulling
from smartgo.client.listening import ConsumerSettings
from smartgo.schema.bodies import MessageQueue, SubscriptionData
from tests.fakes import FakeEnvironment


class LockTests(SynchronousTestCase):
    """An orderly queue is pulled only while its lock is held."""

    def setUp(self) -> None:
        """Start the pulls of a queue without a lock; nothing may be pulled, so that there is nothing to pull with."""
        env = FakeEnvironment()
        self.clock = env.clock
        self.pauses = Pauses(self.clock)
        client = SimpleNamespace(env=env, outages=None)
        member = SimpleNamespace(client=client, settings=ConsumerSettings(orderly=True), calls=None, offsets=None)
        self.held = ProcessQueue(MessageQueue("T", "broker-a", 0), 0, Thresholds(), self.clock.seconds())
        self.pulling = Pulling(
            cast("Membership", member),
            self.held,
            SubscriptionData(topic="T", sub_string="*"),
            self.pauses,
            cast("TopicMeters", None),
            lambda held, messages: None,
            lambda held, offset: None,
        )
        self.pulling.start()

    def test_waits(self) -> None:
        """Without a lock it is asked for again once a second, and nothing is pulled."""
        for _ in range(3):
            self.assertEqual(
                [one.getTime() - self.clock.seconds() for one in self.clock.getDelayedCalls()], [LOCK_WAIT]
            )
            self.clock.advance(LOCK_WAIT)

    def test_pauses_end(self) -> None:
        """The pulls of a consumer that stops end although it has no lock; they ran in a circle for ever."""
        self.pauses.end()
        self.pulling.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])
