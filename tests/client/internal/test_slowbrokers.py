"""Brokers that producers leave out: the table of penalties, and sends that follow it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.slowbrokers import SlowBrokers, penalty
from smartgo.client.messages import Message, SendResult, SendStatus
from smartgo.client.producer import Producer
from smartgo.errors import PeerRefused
from smartgo.schema.codes import RequestCode, ResponseCode
from tests.client.doubles import ClusterTestCase, Storing, route


class PenaltyTests(SynchronousTestCase):
    def test_table(self) -> None:
        """The penalties are those of RocketMQ 4.9; a latency at a limit has that limit's."""
        for latency, seconds in (
            (0.0, 0), (0.05, 0), (0.549, 0), (0.55, 30), (1.0, 60), (2.0, 120), (3.0, 180), (14.9, 180), (15.0, 600)
        ):  # fmt: skip
            self.assertEqual(penalty(latency), seconds, latency)

    def test_avoided(self) -> None:
        """A broker is left out until its time is over, or until it answers quickly; a failure costs ten minutes."""
        slow = SlowBrokers()
        slow.answered("a", 1.0, 100.0)
        self.assertEqual([slow.avoids("a", now) for now in (100.0, 159.0, 160.0)], [True, True, False])
        slow.failed("a", 200.0)
        self.assertTrue(slow.avoids("a", 799.0))
        slow.answered("a", 0.01, 300.0)
        self.assertFalse(slow.avoids("a", 300.0))
        self.assertFalse(slow.avoids("b", 300.0))


class SendTests(ClusterTestCase):
    def setUp(self) -> None:
        """Two brokers that share topic T; U is at the first one alone."""
        super().setUp()
        self.a, self.b = Storing(), Storing()
        self.listen(10001, self.a)
        self.listen(10002, self.b)
        self.routes["T"] = route(("a", 10001), ("b", 10002))
        self.routes["U"] = route(("a", 10001))
        self.client_ = self.client()

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def producer(self, avoid: bool = False, again: bool = False) -> Producer:
        """A running producer."""
        found = Producer(self.client_, "pg", avoid_slow_brokers=avoid, retry_when_not_ok=again)
        self.result(found.start())
        return found

    def send(self, producer: Producer, topic: str = "T") -> SendResult:
        """Send a message."""
        return self.result(producer.send(Message(topic=topic, body=b"x")), 2.0)

    def count(self, broker: Storing) -> int:
        """How often a broker was sent something."""
        return len(broker.of(RequestCode.SEND_MESSAGE_V2))

    def test_avoids(self) -> None:
        """A broker that failed gets nothing for ten minutes while there is another; alone, it is asked all the same."""
        producer = self.producer(avoid=True)
        self.a.code = int(ResponseCode.SYSTEM_BUSY)
        for _ in range(6):
            self.assertEqual(self.send(producer).queue.broker_name, "b")
        self.assertEqual(self.count(self.a), 1)
        self.a.code = 0
        self.assertEqual(self.send(producer, "U").queue.broker_name, "a")  # which ends its penalty
        self.assertEqual({self.send(producer).queue.broker_name for _ in range(4)}, {"a", "b"})

    def test_does_not_avoid(self) -> None:
        """That is off by default: the broker that failed gets its turns."""
        producer = self.producer()
        self.a.code = int(ResponseCode.SYSTEM_BUSY)
        for _ in range(6):
            self.send(producer)
        self.assertGreater(self.count(self.a), 1)

    def test_not_ok(self) -> None:
        """A message that is not stored as it should be is sent again elsewhere if that is asked for; else it is not."""
        self.a.code = int(ResponseCode.SLAVE_NOT_AVAILABLE)
        producer = self.producer(again=True)
        self.assertEqual({self.send(producer).status for _ in range(4)}, {SendStatus.SEND_OK})
        self.assertGreater(self.count(self.a), 0)
        self.assertEqual(self.send(producer, "U").status, SendStatus.SLAVE_NOT_AVAILABLE)
        self.result(producer.stop())
        producer = self.producer()
        self.assertIn(SendStatus.SLAVE_NOT_AVAILABLE, {self.send(producer).status for _ in range(4)})

    def test_not_ok_then_refused(self) -> None:
        """A message that one broker stored, less durably, is sent, although the next broker refuses it."""
        self.a.code, self.b.code = int(ResponseCode.SLAVE_NOT_AVAILABLE), int(ResponseCode.MESSAGE_ILLEGAL)
        producer = self.producer(again=True)
        for _ in range(4):
            before = self.count(self.a)
            sending = producer.send(Message(topic="T", body=b"x"))
            self.pass_time(0.5)
            if self.count(self.a) > before:
                self.assertEqual(self.successResultOf(sending).status, SendStatus.SLAVE_NOT_AVAILABLE)
            else:  # the other broker was asked first
                self.failureResultOf(sending, PeerRefused)
        self.assertGreater(self.count(self.a), 0)

    def test_lasting(self) -> None:
        """A refusal that time does not change is repeated without a pause."""
        self.a.code = int(ResponseCode.NO_PERMISSION)
        sending = self.producer().send(Message(topic="U", body=b"x"))
        self.pass_time(0.06, 0.02)
        self.failureResultOf(sending, PeerRefused)
        self.assertEqual(self.count(self.a), 3)

    def test_waits(self) -> None:
        """Repetitions at the only broker wait, longer each time, and end within the time-out."""
        producer = self.producer()
        self.a.code = int(ResponseCode.SYSTEM_BUSY)
        sending = producer.send(Message(topic="U", body=b"x"))
        self.pass_time(0.09, 0.03)
        self.assertEqual(self.count(self.a), 1)
        self.pass_time(0.21, 0.03)
        self.assertEqual(self.count(self.a), 2)
        self.pass_time(0.5, 0.05)
        self.assertEqual(self.count(self.a), 3)
        self.failureResultOf(sending, PeerRefused)
