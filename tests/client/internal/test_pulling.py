"""The pulls of one queue of a push consumer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from twisted.internet.defer import succeed
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue, Thresholds
from smartgo.client.internal.pulling import LOCK_WAIT, Pulling
from smartgo.client.listening import ConsumerSettings
from smartgo.client.pullconsumer import PullResult, PullStatus
from smartgo.schema.bodies import MessageQueue, SubscriptionData
from tests.client.internal.test_processqueue import message
from tests.fakes import FakeEnvironment

QUEUE = MessageQueue("T", "broker-a", 0)


def pulling(member: SimpleNamespace, held: ProcessQueue, pauses: Pauses, moved: list[int]) -> Pulling:
    """Return the pulls of a queue; C{moved} gets where to go on."""
    return Pulling(
        cast("Membership", member),
        held,
        SubscriptionData(topic="T", sub_string="*"),
        pauses,
        cast("TopicMeters", None),
        lambda held, messages: None,
        lambda held, offset: moved.append(offset),
    )


class MovedTests(SynchronousTestCase):
    """A queue that does not have the offset pulled for: its broker has lost the end of it, or removed the beginning."""

    def moved(self, minimum: int, end: int, unconsumed: int | None) -> int:
        """
        Return where a consumer goes on that has pulled up to 10.

        @param minimum: the first offset of the queue, C{end} behind the last.
        @param unconsumed: the first offset that was pulled and is not consumed yet; C{None} for none.
        """
        env = FakeEnvironment()
        moved: list[int] = []
        result = PullResult(PullStatus.OFFSET_MOVED, [], minimum if minimum > 10 else end, minimum, end, 0)
        held = ProcessQueue(QUEUE, 10, Thresholds(), env.clock.seconds())
        if unconsumed is not None:
            held.put([message(unconsumed)])
        member = SimpleNamespace(
            client=SimpleNamespace(env=env, outages=SimpleNamespace(down=False)),
            settings=ConsumerSettings(),
            calls=SimpleNamespace(pull=lambda *args, **kwargs: succeed(result)),
            offsets=SimpleNamespace(update=lambda queue, offset: None),
        )
        pulls = pulling(member, held, Pauses(env.clock), moved)
        pulls.start()
        self.assertEqual(env.clock.getDelayedCalls(), [])
        return moved[0]

    def test_end_lost(self) -> None:
        """What is held and not consumed yet is pulled again; it was left out for good."""
        self.assertEqual(self.moved(0, 9, unconsumed=4), 4)
        self.assertEqual(self.moved(0, 9, unconsumed=None), 9)
        self.assertEqual(self.moved(0, 3, unconsumed=4), 3)

    def test_begin_removed(self) -> None:
        """Nothing in front of the queue's first message is pulled."""
        self.assertEqual(self.moved(20, 30, unconsumed=4), 20)
        self.assertEqual(self.moved(6, 9, unconsumed=4), 6)


class LockTests(SynchronousTestCase):
    """An orderly queue is pulled only while its lock is held."""

    def setUp(self) -> None:
        """Start the pulls of a queue without a lock; nothing may be pulled, so that there is nothing to pull with."""
        env = FakeEnvironment()
        self.clock = env.clock
        self.pauses = Pauses(self.clock)
        client = SimpleNamespace(env=env, outages=None)
        member = SimpleNamespace(client=client, settings=ConsumerSettings(orderly=True), calls=None, offsets=None)
        self.held = ProcessQueue(QUEUE, 0, Thresholds(), self.clock.seconds())
        self.pulling = pulling(member, self.held, self.pauses, [])
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
