"""Queue locks of orderly consumers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.processors.queuelocks import LockTable, RebalanceProcessor
from smartgo.errors import BadBody, BadName
from smartgo.net.memorybudget import Kind, MemoryBudget
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.bodies import MessageQueue, TopicConfig
from smartgo.schema.codes import RequestCode
from tests.broker.doubles import FakeBroker, FakePeer, body_of, received, request
from tests.fakes import FakeClock


def queue(queue_id: int, topic: str = "T") -> MessageQueue:
    """A queue of our broker."""
    return MessageQueue(topic=topic, broker_name="broker-a", queue_id=queue_id)


class LockTableTests(SynchronousTestCase):
    """The locks of queues that are consumed in order."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.budget = MemoryBudget(self.clock)
        self.locks = LockTable(self.clock, self.budget, limit=100)

    def test_one_owner(self) -> None:
        """A queue is granted to one client of a group; other groups have locks of their own."""
        self.assertEqual(self.locks.lock("g", "a", [queue(0), queue(1)], "192.0.2.1"), [queue(0), queue(1)])
        self.assertEqual(self.locks.lock("g", "b", [queue(1), queue(2)], "192.0.2.1"), [queue(2)])
        self.assertEqual(self.locks.lock("h", "b", [queue(1)], "192.0.2.1"), [queue(1)])
        self.assertEqual(self.locks.lock("g", "a", [queue(1)], "192.0.2.1"), [queue(1)])
        self.assertEqual(self.locks.owner("g", queue(2)), "b")
        self.assertIsNone(self.locks.owner("g", queue(3)))

    def test_expiry(self) -> None:
        """A lock ends 60 s after its last grant, not after its first."""
        self.locks.lock("g", "a", [queue(0), queue(1)], "192.0.2.1")
        self.clock.advance(59)
        self.locks.lock("g", "a", [queue(1)], "192.0.2.1")
        self.assertEqual(self.locks.lock("g", "b", [queue(0)], "192.0.2.1"), [])
        self.clock.advance(1)
        self.assertIsNone(self.locks.owner("g", queue(0)))
        self.assertEqual(self.locks.lock("g", "b", [queue(0), queue(1)], "192.0.2.1"), [queue(0)])
        self.assertEqual(self.locks.lock("g", "a", [queue(0)], "192.0.2.1"), [])

    def test_unlock(self) -> None:
        """Only the owner releases a queue; unknown ones are ignored."""
        self.locks.lock("g", "a", [queue(0)], "192.0.2.1")
        self.locks.unlock("g", "b", [queue(0), queue(5)])
        self.assertEqual(self.locks.owner("g", queue(0)), "a")
        self.locks.unlock("g", "a", [queue(0)])
        self.locks.unlock("x", "a", [queue(0)])
        self.assertEqual((self.locks.owner("g", queue(0)), len(self.locks), self.budget.used), (None, 0, 0))

    def test_ended_locks_are_dropped(self) -> None:
        """Locks that have ended do not pile up."""
        for number in range(100):
            self.locks.lock(f"g{number}", "a", [queue(0)], "192.0.2.1")
            self.clock.advance(10)
        self.assertLess(len(self.locks), 15)
        self.assertEqual(self.budget.taken(Kind.LOCKS), 256 * len(self.locks))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_shared(self) -> None:
        """One address takes half of the table at most, keeps what it has, and others find room."""
        many = [queue(number) for number in range(200)]
        self.assertEqual(len(self.locks.lock("g", "a", many, "192.0.2.1")), 50)
        self.assertEqual(len(self.locks.lock("g", "a", many, "192.0.2.1")), 50)
        self.assertEqual(self.locks.lock("h", "a", many, "192.0.2.1"), [])
        self.assertEqual(len(self.locks.lock("h", "b", many, "192.0.2.2")), 25)
        self.clock.advance(60)
        self.assertEqual(len(self.locks.lock("x", "c", many, "192.0.2.3")), 50)
        self.assertEqual((len(self.locks), self.budget.used), (50, 50 * 256))

    def test_taken_over(self) -> None:
        """A lock that ended and that another address takes over counts for that one."""
        self.locks.lock("g", "a", [queue(0), queue(1)], "192.0.2.1")
        self.clock.advance(59)
        self.locks.lock("g", "a", [queue(1)], "192.0.2.1")  # no sweep before the end of the other
        self.clock.advance(2)
        self.assertEqual(self.locks.lock("g", "b", [queue(0), queue(1)], "192.0.2.2"), [queue(0)])
        self.assertEqual((self.locks._shares.of("192.0.2.1"), self.locks._shares.of("192.0.2.2")), (1, 1))

    def test_budget(self) -> None:
        """Where the memory budget has no room, no new locks are given; old ones go on."""
        self.locks.lock("g", "a", [queue(0)], "192.0.2.1")
        self.budget.take(Kind.REQUESTS, self.budget.limit)
        self.assertEqual(self.locks.lock("g", "a", [queue(0), queue(1)], "192.0.2.1"), [queue(0)])


class RebalanceProcessorTests(SynchronousTestCase):
    """Requests 41 and 42."""

    def setUp(self) -> None:
        broker = FakeBroker()
        self.clock = broker.env.clock
        broker.topics.update(TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=2))
        self.locks = LockTable(self.clock, MemoryBudget(self.clock))
        self.processor = RebalanceProcessor(broker, self.locks)
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

    def test_long(self) -> None:
        """A request of more than a MiB is not read: reading it would hold up everybody."""
        with self.assertRaises(BadBody):
            self.ask(RequestCode.LOCK_BATCH_MQ, "a", *[0] * 25_000)
        self.assertEqual(len(body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "a", *range(4)))["lockOKMQSet"]), 4)

    def test_other_brokers(self) -> None:
        """Queues of made-up broker names are neither granted nor kept, nor can they release one of ours."""
        self.ask(RequestCode.LOCK_BATCH_MQ, "a", 0)
        for number in range(100):
            wanted = [{"brokerName": f"made-up-{number}", "queueId": one, "topic": "T"} for one in range(4)]
            body = {"clientId": "a", "consumerGroup": "g", "mqSet": wanted}
            answer = self.processor.process(self.peer, request(RequestCode.LOCK_BATCH_MQ, body=body))
            self.assertEqual(body_of(answer), {"lockOKMQSet": []})
            self.processor.process(self.peer, request(RequestCode.UNLOCK_BATCH_MQ, body=body))
        self.assertEqual(len(self.locks), 1)
        self.assertEqual(body_of(self.ask(RequestCode.LOCK_BATCH_MQ, "b", 0)), {"lockOKMQSet": []})

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
