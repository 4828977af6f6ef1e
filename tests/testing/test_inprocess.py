"""Tests of L{smartgo.testing.inprocess} and L{smartgo.testing.trialcase}: a broker on the reactor of a test."""

from __future__ import annotations

import os
import sys
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import TCP4ServerEndpoint
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.internet.utils import getProcessOutputAndValue
from twisted.trial.unittest import TestCase

from smartgo import (
    CallFailed,
    ConsumeFromWhere,
    ConsumerSettings,
    Message,
    PeerRefused,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SettingError,
    TransactionProducer,
    TransactionState,
)
from smartgo.errors import BadName
from smartgo.testing import BrokerMixin, InProcessBroker
from tests.test_layers import ROOT

FIRST = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


class Received:
    """A listener that keeps what it was given, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.messages: list[ReceivedMessage] = []
        self.calls = 0
        self._waiting: list[tuple[int, Deferred[None]]] = []

    def __call__(self, messages: list[ReceivedMessage]) -> None:
        """Keep messages, or fail; tell who waits for this many calls."""
        self.calls += 1
        if self.calls > self.failures:
            self.messages += messages
        for calls, told in [one for one in self._waiting if one[0] <= self.calls]:
            self._waiting.remove((calls, told))
            told.callback(None)
        if self.calls <= self.failures:
            raise RuntimeError("a failure of the test's listener")

    def called(self, calls: int) -> Deferred[None]:
        """Fire once it was called so often."""
        told: Deferred[None] = Deferred()
        if self.calls >= calls:
            told.callback(None)
        else:
            self._waiting.append((calls, told))
        return told.addTimeout(20, reactor)


class InProcessBrokerTests(BrokerMixin, TestCase):
    """One broker a test."""

    timeout = 60

    async def producer(self, broker: InProcessBroker, topic: str = "Orders", queues: int = 1) -> Producer:
        """Create a topic and return a producer that is started."""
        await broker.create_topic(topic, queues)
        producer = Producer(self.make_client(), "producers")
        await producer.start()
        return producer

    async def consume(self, listener: Any) -> PushConsumer:
        """Start a consumer of the group C{readers}, with a client of its own."""
        consumer = PushConsumer(self.make_client(instance="reader"), "readers", listener, FIRST)
        consumer.subscribe("Orders")
        await consumer.start()
        return consumer

    async def test_messages(self) -> None:
        """What was sent is what is stored, with tags, keys and properties."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        for number in range(3):
            await producer.send(Message(topic="Orders", body=b"order %d" % number, tag="new", keys=[f"k{number}"]))
        found = await broker.messages("Orders")
        self.assertEqual([(one.body, one.tag, one.keys) for one in found], [
            (b"order 0", "new", ["k0"]), (b"order 1", "new", ["k1"]), (b"order 2", "new", ["k2"]),
        ])  # fmt: skip
        self.assertEqual(await broker.messages("Other"), [])
        await self.assertFailure(Deferred.fromCoroutine(broker.create_topic("no topic!")), BadName)

    async def test_wait(self) -> None:
        """A test can wait until messages are stored, and is told how many there were when it waited in vain."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        waiting = Deferred.fromCoroutine(broker.messages("Orders", at_least=2))
        await producer.send(Message(topic="Orders", body=b"1"))
        self.assertFalse(waiting.called)
        await producer.send(Message(topic="Orders", body=b"2"))
        self.assertEqual([one.body for one in await waiting], [b"1", b"2"])
        error: Any = await self.assertFailure(
            Deferred.fromCoroutine(broker.messages("Orders", at_least=3, timeout=0.05)), CallFailed
        )
        self.assertEqual(str(error), "topic Orders has 2 of 3 messages after 0.05 s")

    async def test_lag(self) -> None:
        """The lag counts what a group has not acknowledged, before its first commit as well."""
        broker = await self.start_broker()
        producer = await self.producer(broker, queues=2)
        for _ in range(4):
            await producer.send(Message(topic="Orders", body=b"x"))
        self.assertEqual(broker.lag("readers"), 0)  # no such group
        processed: Deferred[None] = Deferred()
        begun: Deferred[None] = Deferred()

        async def listener(messages: list[ReceivedMessage]) -> None:
            if not begun.called:
                begun.callback(None)
            await processed

        consumer = await self.consume(listener)
        await begun
        self.assertEqual(broker.lag("readers"), 4)
        processed.callback(None)
        await consumer.stop()
        self.assertEqual(broker.lag("readers"), 0)
        await producer.send(Message(topic="Orders", body=b"x"))
        self.assertEqual(broker.lag("readers"), 1)

    async def test_purge(self) -> None:
        """A purge empties the broker at the same addresses; the same client goes on with it."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        await producer.send(Message(topic="Orders", body=b"1"))
        await broker.advance(60)
        broker.faults.refuse(14, count=None)
        registry = broker.registry
        await broker.purge()
        self.assertEqual(broker.registry, registry)
        self.assertEqual(await broker.messages("Orders"), [])
        await broker.create_topic("Orders", 1)
        producer = Producer(self.make_client(instance="second"), "producers")
        await producer.start()
        await producer.send(Message(topic="Orders", body=b"2"))
        (found,) = await broker.messages("Orders")
        self.assertEqual(found.body, b"2")
        self.assertLess(abs(found.stored_ms - found.born_ms), 30_000)

    async def test_restart(self) -> None:
        """A restart keeps messages and addresses."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        await producer.send(Message(topic="Orders", body=b"1"))
        before = broker.registry, broker.address
        await broker.restart()
        self.assertEqual((broker.registry, broker.address), before)
        self.assertEqual([one.body for one in await broker.messages("Orders")], [b"1"])

    async def test_down(self) -> None:
        """A broker that is down takes nothing; when it is back a consumer goes on, also with what was due meanwhile."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        listener = Received()
        await self.consume(listener)
        await producer.send(Message(topic="Orders", body=b"before"))
        await producer.send(Message(topic="Orders", body=b"due", delay=3600))
        await listener.called(1)
        before = broker.registry, broker.address
        async with broker.down():
            await self.assertFailure(producer.send(Message(topic="Orders", body=b"lost")), CallFailed)
            await self.assertFailure(Deferred.fromCoroutine(broker.messages("Orders")), CallFailed)
            await self.assertFailure(Deferred.fromCoroutine(broker.go_down()), CallFailed)
            await broker.advance(3600)
        self.assertEqual((broker.registry, broker.address), before)
        await broker.messages("Orders", at_least=2)
        await producer.send(Message(topic="Orders", body=b"after"))
        await listener.called(3)
        self.assertEqual(sorted(one.body for one in listener.messages), [b"after", b"before", b"due"])

    async def test_down_ends(self) -> None:
        """A broker that is down is back after an error too, may be stopped for good, and restarted before the end."""
        broker = await self.start_broker()

        async def fail() -> None:
            async with broker.down():
                raise ZeroDivisionError

        await self.assertFailure(Deferred.fromCoroutine(fail()), ZeroDivisionError)
        await broker.create_topic("Orders")
        async with broker.down():
            await broker.restart()
            await broker.create_topic("Others")
        async with broker.down():
            await broker.stop()
        await self.assertFailure(Deferred.fromCoroutine(broker.messages("Orders")), CallFailed)

    async def test_port_taken(self) -> None:
        """A broker whose port another program took while it was down cannot come back, and says so."""
        broker = await self.start_broker()
        await broker.go_down()
        port = int(broker.address.rpartition(":")[2])
        other = await TCP4ServerEndpoint(reactor, port, interface="127.0.0.1").listen(Factory())
        error: Any = await self.assertFailure(Deferred.fromCoroutine(broker.come_back()), CallFailed)
        self.assertIn(f"port {port}", str(error))
        await maybeDeferred(other.stopListening)
        await broker.come_back()
        await broker.create_topic("Orders")

    async def test_settings(self) -> None:
        """Settings are those of a configuration file; a wrong one is named, and nothing is left behind."""
        broker = await self.start_broker(autoCreateTopicEnable="false", brokerClusterName="Mine")
        client = self.make_client()
        producer = Producer(client, "producers")
        await producer.start()
        await self.assertFailure(producer.send(Message(topic="Unknown", body=b"x")), PeerRefused)
        other = InProcessBroker(self.env, {"flushDiskTyp": "x"})
        error: Any = await self.assertFailure(Deferred.fromCoroutine(other.start()), SettingError)
        self.assertIn("flushDiskTyp", str(error))
        self.assertEqual(other.directory, "")
        self.assertTrue(os.path.isdir(broker.directory))
        await self.assertFailure(Deferred.fromCoroutine(broker.start()), SettingError)

    async def test_stopped(self) -> None:
        """A broker that has ended answers nothing, leaves no directory, and may be ended again."""
        broker = await self.start_broker()
        directory = broker.directory
        await broker.stop()
        self.assertFalse(os.path.exists(directory))
        self.assertRaises(CallFailed, broker.lag, "readers")
        await broker.stop()

    async def test_two(self) -> None:
        """Several brokers run side by side."""
        first = await self.start_broker()
        second = await self.start_broker()
        self.assertNotEqual(first.registry, second.registry)
        await second.create_topic("Orders")
        self.assertEqual(self.make_client().registries, (second.registry,))

    # -- time ----------------------------------------------------------------------------------------------------

    async def test_delay_level(self) -> None:
        """A message with delay level 18 arrives when the clock has moved by two hours, and not before."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        await producer.send(Message(topic="Orders", body=b"late", delay_level=18))
        await broker.advance(7190)
        self.assertEqual(await broker.messages("Orders"), [])
        await broker.advance(10)
        self.assertEqual([one.body for one in await broker.messages("Orders")], [b"late"])

    async def test_timed(self) -> None:
        """A message in three days arrives when the clock has moved by three days."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        await producer.send(Message(topic="Orders", body=b"later", delay=3 * 86400 - 60))
        await broker.advance(2 * 86400)
        self.assertEqual(await broker.messages("Orders"), [])
        await broker.advance(86400)
        self.assertEqual([one.body for one in await broker.messages("Orders")], [b"later"])

    async def test_retries(self) -> None:
        """A message that fails twice comes again after 10 s and after 30 s, by the clock that is moved."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        listener = Received(failures=2)
        await self.consume(listener)
        await producer.send(Message(topic="Orders", body=b"hard"))
        for calls, seconds in ((1, 10), (2, 30)):
            await listener.called(calls)
            await broker.messages("SCHEDULE_TOPIC_XXXX", at_least=calls)  # it was given back
            self.assertEqual(listener.calls, calls)
            await broker.advance(seconds)
        await listener.called(3)
        self.assertEqual([(one.body, one.reconsume_times) for one in listener.messages], [(b"hard", 2)])
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 2)

    async def test_members_stay(self) -> None:
        """Members of groups, routes and connections outlast a move of the clock by days."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        listener = Received()
        await self.consume(listener)
        await producer.send(Message(topic="Orders", body=b"1"))
        await listener.called(1)
        await broker.advance(5 * 86400)
        await deferLater(reactor, 0.0)
        await producer.send(Message(topic="Orders", body=b"2"))
        await listener.called(2)
        self.assertEqual([one.body for one in listener.messages], [b"1", b"2"])
        found = (await broker.messages("Orders"))[-1]
        self.assertGreater(found.stored_ms - found.born_ms, 4 * 86_400_000)

    async def test_transaction(self) -> None:
        """A transaction whose outcome is unknown is checked back when it is 6 s old, and delivered when committed."""
        broker = await self.start_broker()
        await broker.create_topic("Orders", 1)
        checked: list[str] = []

        def check(half: ReceivedMessage) -> TransactionState:
            checked.append(half.message_id)
            return TransactionState.COMMIT

        producer = TransactionProducer(self.make_client(), "buyers", check)
        await producer.start()
        sent = await producer.send_in_transaction(
            Message(topic="Orders", body=b"1"), lambda message, transaction: TransactionState.UNKNOWN
        )
        self.assertEqual(await broker.messages("Orders"), [])
        await broker.advance(6)
        (found,) = await broker.messages("Orders", at_least=1)
        self.assertEqual((checked, found.message_id), ([sent.message_id], sent.message_id))

    # -- faults --------------------------------------------------------------------------------------------------

    async def test_refuse(self) -> None:
        """A refused send fails with the code that was asked for; the next one succeeds."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        fault = broker.faults.refuse(13, topic="Orders")
        error: Any = await self.assertFailure(producer.send(Message(topic="Orders", body=b"1")), PeerRefused)
        self.assertEqual((error.code, fault.met()), (13, 1))
        await producer.send(Message(topic="Orders", body=b"2"))
        self.assertEqual([one.body for one in await broker.messages("Orders")], [b"2"])

    async def test_duplicate(self) -> None:
        """A message that is sent twice by the network is stored twice, with one unique id."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        broker.faults.duplicate()
        sent = await producer.send(Message(topic="Orders", body=b"1"))
        found = await broker.messages("Orders")
        self.assertEqual([one.message_id for one in found], [sent.message_id] * 2)
        listener = Received()
        await self.consume(listener)
        await listener.called(2)

    async def test_drop(self) -> None:
        """A send whose answer is lost is stored; the producer sends again, so that there are two."""
        broker = await self.start_broker()
        await broker.create_topic("Orders", 1)
        producer = Producer(self.make_client(), "producers", timeout=0.3)
        await producer.start()
        fault = broker.faults.drop("send", count=None)
        await self.assertFailure(producer.send(Message(topic="Orders", body=b"1")), CallFailed)
        found = await broker.messages("Orders")
        self.assertGreaterEqual(fault.met(), 1)
        self.assertEqual(len(found), fault.met())

    async def test_delay(self) -> None:
        """A send that is held is answered later; clearing the faults lets it go on at once."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        broker.faults.delay(30)
        sending = producer.send(Message(topic="Orders", body=b"1"))
        await deferLater(reactor, 0.05)
        self.assertFalse(sending.called)
        broker.faults.clear()
        await sending

    async def test_disconnect(self) -> None:
        """A consumer whose pull is cut off connects again and consumes."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        fault = broker.faults.disconnect("pull")
        listener = Received()
        await self.consume(listener)
        await producer.send(Message(topic="Orders", body=b"1"))
        await listener.called(1)
        self.assertEqual(fault.met(), 1)

    async def test_pull(self) -> None:
        """A pull can be refused as well."""
        broker = await self.start_broker()
        producer = await self.producer(broker)
        await producer.send(Message(topic="Orders", body=b"1"))
        consumer = PullConsumer(self.make_client(instance="puller"), "pullers")
        (queue,) = await consumer.queues("Orders")
        broker.faults.refuse(1, "pull", remark="broken")
        error: Any = await self.assertFailure(consumer.pull(queue, 0), PeerRefused)
        self.assertEqual((error.code, error.remark), (1, "broken"))


CASE = """
from twisted.trial.unittest import TestCase
from smartgo import Message, Producer
from smartgo.testing import BrokerMixin

class OrderTests(BrokerMixin, TestCase):
    broker_settings = {"brokerClusterName": "Mine"}

    async def test_order(self):
        broker = await self.start_broker()
        producer = Producer(self.make_client(), "orders")
        await producer.start()
        await producer.send(Message(topic="Orders", body=b"1"))
        self.assertEqual(len(await broker.messages("Orders")), 1)

    async def test_failing(self):
        broker = await self.start_broker()
        print("DIRECTORY", broker.directory)
        self.fail("on purpose")

    def test_no_broker(self):
        self.assertRaises(ValueError, self.make_client)
        self.assertEqual(self.make_client("127.0.0.1:1").registries, ("127.0.0.1:1",))
"""


class BrokerMixinTests(TestCase):
    """The mixin in a test case of a user."""

    async def test_clean(self) -> None:
        """Tests that leave broker and clients running have a clean reactor, and leave no directory, failed or not."""
        folder = self.mktemp()
        os.mkdir(folder)
        with open(os.path.join(folder, "test_orders.py"), "w", encoding="utf-8") as file:
            file.write(CASE)
        said, _, status = await getProcessOutputAndValue(
            sys.executable, ["-m", "twisted.trial", "test_orders"], {**os.environ, "PYTHONPATH": ROOT}, folder
        )
        text = said.decode()
        self.assertEqual(status, 1, text)
        self.assertIn("FAILED (failures=1, successes=2)", text)
        self.assertNotIn("DirtyReactor", text)
        directory = text.split("DIRECTORY ")[1].split()[0]
        self.assertFalse(os.path.exists(directory))
