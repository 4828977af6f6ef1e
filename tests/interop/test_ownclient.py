"""Our own client with the brokers of both peers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any
from unittest import SkipTest

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from smartgo import (
    Admin,
    Client,
    ConsumeFromWhere,
    ConsumerSettings,
    LitePullConsumer,
    LitePullSettings,
    Message,
    PeerRefused,
    Producer,
    PullConsumer,
    PushConsumer,
    RealEnvironment,
    ReceivedMessage,
    ReplyTimedOut,
    Sql,
    TransactionProducer,
    TransactionState,
)
from tests.interop.case import Cluster, driver
from tests.interop.jars import unavailable
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer


class OwnClientCase(TestCase):
    """Tests of our own client, which run on the reactor of this process; skipped where no real broker can run."""

    timeout = 300

    def setUp(self) -> None:
        """Skip where the real broker cannot run."""
        if os.environ.get("SMARTGO_INTEROP") == "0":
            raise SkipTest("switched off by SMARTGO_INTEROP=0")
        reason = unavailable()
        if reason is not None:
            raise SkipTest(f"the real broker cannot run: {reason}")

    def start(self, peer: Peer, settings: Mapping[str, str] | None = None) -> Cluster:
        """Return a running cluster of a peer, which ends with the test."""
        cluster = Cluster(peer, os.path.abspath(self.mktemp()), settings)
        self.addCleanup(cluster.end)
        cluster.start()
        return cluster

    def connect(self, namesrv: str) -> Client:
        """Return a client, which stops before its cluster does."""
        env = RealEnvironment(reactor)
        client = Client(env, namesrv)
        self.addCleanup(env.threads.stop)
        self.addCleanup(client.stop)
        return client

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look again and again until something is so; trial's time-out ends what never is."""
        while not condition():
            await deferLater(reactor, 0.05, lambda: None)


class TransactionTests(OwnClientCase):
    """Transactions of our client."""

    def _transactions(self, peer: Peer) -> Deferred[None]:
        settings = {"transactionCheckInterval": "2000", "transactionTimeOut": "1000"}
        return Deferred.fromCoroutine(self._transact(self.start(peer, settings)))

    async def _transact(self, cluster: Cluster) -> None:
        """Commit, roll back, leave one to be committed and one to be rolled back by a check-back."""
        client = self.connect(cluster.namesrv)
        await Admin(client).topics.create("T", queues=1)
        checked: list[bytes] = []
        seen: list[tuple[bytes, str]] = []

        def check(half: ReceivedMessage) -> TransactionState:
            checked.append(half.body)
            return TransactionState.COMMIT if half.body == b"late" else TransactionState.ROLLBACK

        producer = TransactionProducer(client, "tp", check)
        await producer.start()
        ids: dict[bytes, str] = {}
        states = {
            b"commit": TransactionState.COMMIT,
            b"rollback": TransactionState.ROLLBACK,
            b"late": TransactionState.UNKNOWN,
            b"never": TransactionState.UNKNOWN,
        }
        for body, state in states.items():
            result = await producer.send_in_transaction(
                Message(topic="T", body=body), lambda message, _: states[message.body]
            )
            self.assertEqual(result.state, state)
            ids[body] = result.message_id
        consumer = PushConsumer(
            client,
            "g",
            lambda messages: seen.extend((one.body, one.message_id) for one in messages),
            ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
        )
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: len(seen) >= 2 and len(set(checked)) == 2)
        await deferLater(reactor, 2.5, lambda: None)  # one more round of check-backs, which has nothing to ask
        self.assertEqual(sorted(seen), [(body, ids[body]) for body in (b"commit", b"late")])
        self.assertEqual(sorted(checked), [b"late", b"never"])

    def test_smartgo(self) -> Deferred[None]:
        """Our broker: what was committed arrives, also after a check-back; each open transaction is asked for once."""
        return self._transactions(SMARTGO)

    def test_rocketmq(self) -> Deferred[None]:
        """RocketMQ 4.9.7: the same."""
        return self._transactions(ROCKETMQ)


class RequestTests(OwnClientCase):
    """Requests and replies between our client and Java's: 4.9 asks and answers, 5.3 answers (its request() cannot)."""

    def _requests(self, peer: Peer) -> Deferred[None]:
        return Deferred.fromCoroutine(self._converse(self.start(peer).namesrv))

    async def _converse(self, namesrv: str) -> None:
        """Ask repliers of both generations; then let a 4.9 client ask us, and us ourselves."""
        client = self.connect(namesrv)
        producer = Producer(client, "ours")
        await producer.start()
        where = {"namesrv": namesrv}
        for generation in ("4.9", "5.3"):
            topic = f"to-{generation[0]}"
            await Admin(client).topics.create(topic, queues=1)
            java = driver(generation)
            self.addCleanup(java.ask, "forget", namesrv=namesrv)
            consumer = java.start("push", name=topic, group=topic, topics={topic: "*"}, reply=True, **where)
            await deferToThread(consumer.result)
            reply = await producer.request(Message(topic=topic, body=b"from us"), 60.0)
            self.assertEqual(reply.body, b"re: from us")
            await deferToThread(java.ask, "push.stop", name=topic)
        answering = Producer(client, "answering")
        await answering.start()

        async def listener(messages: list[ReceivedMessage]) -> None:
            await answering.reply(messages[0], b"ours: " + messages[0].body)

        await Admin(client).topics.create("to-us", queues=1)
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
        own = PushConsumer(client, "to-us", listener, settings)
        own.subscribe("to-us")
        await own.start()
        answer = await deferToThread(driver("4.9").ask, "request", topic="to-us", **where)
        self.assertEqual(answer["text"], "ours: to-us-0")
        reply = await producer.request(Message(topic="to-us", body=b"x" * 10_000), 60.0)
        self.assertEqual(reply.body, b"ours: " + b"x" * 10_000)
        await own.stop()
        waits = producer.request(Message(topic="to-us", body=b"nobody is there"), 1.0)
        await self.assertFailure(waits, ReplyTimedOut)

    def test_smartgo(self) -> Deferred[None]:
        """Our broker: each request gets its reply, in both directions; without a replier it ends with a time-out."""
        return self._requests(SMARTGO)

    def test_rocketmq(self) -> Deferred[None]:
        """RocketMQ 4.9.7: the same."""
        return self._requests(ROCKETMQ)


class LitePullTests(OwnClientCase):
    """Our lite pull consumer."""

    def _polls(self, peer: Peer) -> Deferred[None]:
        return Deferred.fromCoroutine(self._poll(self.start(peer).namesrv))

    async def _poll(self, namesrv: str) -> None:
        """Poll as a member of a group with tags, go on after a restart, seek, and read an assigned queue."""
        client = self.connect(namesrv)
        await Admin(client).topics.create("T", queues=2)
        producer = Producer(client, "p")
        await producer.start()
        for number in range(40):
            await producer.send(Message(topic="T", body=b"%d" % number, tag="AB"[number % 4 // 2]))
        settings = LitePullSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)

        async def polled(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
            found: list[ReceivedMessage] = []
            while len(found) < count:
                found += await consumer.poll()
            return found

        consumer = LitePullConsumer(client, "g", settings)
        consumer.subscribe("T", "A")
        await consumer.start()
        first = await polled(consumer, 20)
        self.assertEqual({one.tag for one in first}, {"A"})
        self.assertEqual(len({one.message_id for one in first}), 20)
        queue = consumer.queues[0]
        await consumer.commit()
        await consumer.stop()
        again = LitePullConsumer(client, "g", settings)
        again.subscribe("T", "A")
        await again.start()
        self.assertEqual(await again.poll(1.0), [])
        await again.seek_to_begin(queue)
        self.assertEqual(len(await polled(again, 10)), 10)
        await again.commit()
        self.assertGreater(await again.committed(queue) or 0, 0)
        await again.stop()
        assigned = LitePullConsumer(client, "other", settings)
        await assigned.assign([queue])
        await assigned.start()
        found = await polled(assigned, 20)
        self.assertEqual([one.queue_offset for one in found], list(range(20)))
        self.assertEqual({one.queue for one in found}, {queue})

    def test_smartgo(self) -> Deferred[None]:
        """Our broker: polls have the messages with the tag once, go on after a restart, and follow a seek."""
        return self._polls(SMARTGO)

    def test_rocketmq(self) -> Deferred[None]:
        """RocketMQ 4.9.7: the same."""
        return self._polls(ROCKETMQ)


class SqlTests(OwnClientCase):
    """SQL92 filters."""

    def _filter(self, peer: Peer) -> Deferred[None]:
        return Deferred.fromCoroutine(self._consume(self.start(peer).namesrv))

    async def _consume(self, namesrv: str) -> None:
        """Send messages, consume and pull some of them, and be refused for a wrong expression."""
        env = RealEnvironment(reactor)
        client = Client(env, namesrv)
        producer = Producer(client, "p")
        await producer.start()
        seen: list[bytes] = []

        def listener(messages: list[Any]) -> None:
            seen.extend(one.body for one in messages)

        async def send(first: int) -> None:
            for number in range(first, first + 10):
                properties = {"n": str(number % 10), "colour": "red" if number % 2 else "blue"}
                await producer.send(Message(topic="T", body=b"%d" % number, properties=properties))

        await send(0)
        wanted = Sql("colour = 'red' AND n BETWEEN 3 AND 7")
        consumer = PushConsumer(client, "g", listener)
        consumer.subscribe("T", wanted)
        await consumer.start()
        await send(10)
        while len(seen) < 6:
            await deferLater(env.clock, 0.05, lambda: None)
        self.assertEqual(sorted(map(int, seen)), [3, 5, 7, 13, 15, 17])
        await consumer.stop()
        puller = PullConsumer(client, "hand")
        found: list[int] = []
        for queue in await puller.queues("T"):
            offset, end = 0, await puller.max_offset(queue)
            while offset < end:
                result = await puller.pull(queue, offset, wanted)
                found += [int(one.body) for one in result.messages]
                offset = result.next_offset
        self.assertEqual(sorted(found), [3, 5, 7, 13, 15, 17])
        wrong = PushConsumer(client, "wrong", listener)
        wrong.subscribe("T", Sql("n > AND"))
        start: Deferred[Any] = wrong.start()
        refusal = await self.assertFailure(start, PeerRefused)
        self.assertEqual(refusal.code, 23)
        self.assertIn('Encountered " "AND" "AND "" at line 1, column 5.', refusal.remark)
        await client.stop()
        await env.threads.stop()

    def test_smartgo(self) -> Deferred[None]:
        """Our broker: a consumer has the messages that match, a pull too, and a wrong expression is refused."""
        return self._filter(SMARTGO)

    def test_rocketmq(self) -> Deferred[None]:
        """RocketMQ 4.9.7: the same."""
        return self._filter(ROCKETMQ)
