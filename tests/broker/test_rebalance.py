"""Queue locks of orderly consumers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.rebalance import LockTable, RebalanceProcessor
from smartgo.broker.topics import TopicTable
from smartgo.errors import BadBody, BadName
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.bodies import MessageQueue, TopicConfig
from smartgo.schema.codes import RequestCode
from tests.broker.doubles import FakePeer, body_of, received, request
from tests.fakes import FakeClock


def queue(queue_id: int, topic: str = "T") -> MessageQueue:
    """A queue of our broker."""
    return MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)


class LockTableTests(SynchronousTestCase):
    """Who may consume which queue in order."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.locks = LockTable(self.clock)

    def test_one_owner(self) -> None:
        """A queue is granted to one client of a group; other groups have locks of their own."""
        self.assertEqual(self.locks.lock("g", "a", [queue(0), queue(1)]), [queue(0), queue(1)])
        self.assertEqual(self.locks.lock("g", "b", [queue(1), queue(2)]), [queue(2)])
        self.assertEqual(self.locks.lock("h", "b", [queue(1)]), [queue(1)])
        self.assertEqual(self.locks.lock("g", "a", [queue(1)]), [queue(1)])
        self.assertEqual(self.locks.owner("g", queue(2)), "b")
        self.assertIsNone(self.locks.owner("g", queue(3)))

    def test_expiry(self) -> None:
        """A lock ends 60 s after its last grant, not after its first."""
        self.locks.lock("g", "a", [queue(0), queue(1)])
        self.clock.advance(59)
        self.locks.lock("g", "a", [queue(1)])
        self.assertEqual(self.locks.lock("g", "b", [queue(0)]), [])
        self.clock.advance(1)
        self.assertIsNone(self.locks.owner("g", queue(0)))
        self.assertEqual(self.locks.lock("g", "b", [queue(0), queue(1)]), [queue(0)])
        self.assertEqual(self.locks.lock("g", "a", [queue(0)]), [])

    def test_unlock(self) -> None:
        """Only the owner releases a queue; unknown ones are ignored."""
        self.locks.lock("g", "a", [queue(0)])
        self.locks.unlock("g", "b", [queue(0), queue(5)])
        self.assertEqual(self.locks.owner("g", queue(0)), "a")
        self.locks.unlock("g", "a", [queue(0)])
        self.locks.unlock("x", "a", [queue(0)])
        self.assertEqual((self.locks.owner("g", queue(0)), len(self.locks)), (None, 0))

    def test_ended_locks_are_dropped(self) -> None:
        """Locks that have ended do not pile up."""
        for number in range(100):
            self.locks.lock(f"g{number}", "a", [queue(0)])
            self.clock.advance(10)
        self.assertLess(len(self.locks), 15)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class RebalanceProcessorTests(SynchronousTestCase):
    """Requests 41 and 42."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        topics = TopicTable(self.clock)
        topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2))
        self.processor = RebalanceProcessor(LockTable(self.clock), topics)
        verifyObject(IRequestProcessor, self.processor)
        self.peer = FakePeer()

    def ask(self, code: int, client: str, *queues: int, topic: str = "T", member: str = "mqSet") -> object:
        """Lock or unlock."""
        wanted = [{"brokerName": "broker-a", "queueId": one, "topic": topic} for one in queues]
        body = {"clientId": client, "consumerGroup": "g", member: wanted, "onlyThisBroker": False}
        return self.processor.process(self.peer, request(code, body=body))

    def test_lock_and_unlock(self) -> None:
        """41 answers the queues that were granted, 42 releases them."""
        granted = body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "a", 0, 3))
        self.assertEqual([one["queueId"] for one in granted["lockOKMQSet"]], [0, 3])
        self.assertEqual(granted["lockOKMQSet"][0], {"brokerName": "broker-a", "queueId": 0, "topic": "T"})
        self.assertEqual(body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "b", 0)), {"lockOKMQSet": []})
        answer = received(self.ask(RequestCode.UNLOCK_BATCH_MQ, "a", 0))
        self.assertEqual((answer.code, answer.body), (0, b""))
        self.assertEqual(len(body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "b", 0))["lockOKMQSet"]), 1)

    def test_what_is_not_there(self) -> None:
        """Queues and topics that do not exist are not granted."""
        self.assertEqual(body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "a", 4, -1)), {"lockOKMQSet": []})
        self.assertEqual(body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "a", 0, topic="U")), {"lockOKMQSet": []})

    def test_smartgo(self) -> None:
        """SmartGo's name for the queues of a lock is understood."""
        granted = body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "a", 0, member="mq_set"))
        self.assertEqual(len(granted["lockOKMQSet"]), 1)

    def test_nonsense(self) -> None:
        """A body that cannot be read, or a group that cannot be, is refused."""
        with self.assertRaises(BadBody):
            self.processor.process(self.peer, request(RequestCode.LOCK_BATCH_MQ, body=b"{"))
        body = {"clientId": "a", "consumerGroup": "a/b", "mqSet": []}
        with self.assertRaises(BadName):
            self.processor.process(self.peer, request(RequestCode.LOCK_BATCH_MQ, body=body))
