"""The offsets that a consumer tells its brokers."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail
from twisted.internet.task import deferLater
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.client import Client
from smartgo.client.internal.offsets import RemoteOffsets
from smartgo.client.pullconsumer import QueueCalls
from smartgo.errors import NotConnected
from smartgo.schema.bodies import MessageQueue
from tests.fakes import FakeEnvironment


class UnreachableBrokerTests(SynchronousTestCase):
    """Queues at two brokers, the first of which cannot be reached."""

    def setUp(self) -> None:
        """All offsets are to be told."""
        self.env = FakeEnvironment()
        self.offsets = RemoteOffsets(Client(self.env, "127.0.0.1:9876"), "g")
        self.queues = [MessageQueue("T", broker, number) for broker in ("a", "b") for number in range(3)]
        for queue in self.queues:
            self.offsets.update(queue, 7)
        self.tried: list[MessageQueue] = []

    def persist(self, seconds: float) -> Deferred[None]:
        """Persist the offsets while a connection to the first broker fails after some time."""

        async def tell(calls: QueueCalls, queue: MessageQueue, offset: int) -> None:
            self.tried.append(queue)
            if queue.broker_name == "a":
                if seconds:
                    await deferLater(self.env.clock, seconds, lambda: None)
                await fail(NotConnected("cannot connect"))

        self.patch(QueueCalls, "tell_commit", tell)
        return self.offsets.persist(self.queues)

    def test_slow(self) -> None:
        """The other broker waits for one attempt; the next time both are told what they were not told."""
        done = self.persist(3.0)
        self.env.clock.advance(3.0)
        self.successResultOf(done)
        self.assertEqual(self.tried, [self.queues[0], *self.queues[3:]])
        self.tried.clear()
        done = self.persist(3.0)
        self.env.clock.advance(3.0)
        self.successResultOf(done)
        self.assertEqual(self.tried, [self.queues[0]])

    def test_at_once(self) -> None:
        """Where a connection fails at once it is tried anew for each queue."""
        self.successResultOf(self.persist(0.0))
        self.assertEqual(self.tried, self.queues)
