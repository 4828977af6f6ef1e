"""Message traces: written by Java clients and by ours, read by mqadmin and by ours, at both brokers."""

from __future__ import annotations

import os
import re
import time
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
    ConsumeLater,
    LitePullConsumer,
    LitePullSettings,
    Message,
    Producer,
    PushConsumer,
    RealEnvironment,
)
from smartgo.schema.messagetrace import decode, encode
from smartgo.schema.topics import TRACE_TOPIC
from tests.interop.case import Cluster
from tests.interop.driver import Driver
from tests.interop.jars import unavailable
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer

_PATIENCE = 120.0  # seconds


class TraceCase(TestCase):
    """A cluster and a JVM."""

    timeout = 400

    def setUp(self) -> None:
        """Skip where the real clients cannot run."""
        if os.environ.get("SMARTGO_INTEROP") == "0":
            raise SkipTest("switched off by SMARTGO_INTEROP=0")
        reason = unavailable()
        if reason is not None:
            raise SkipTest(f"the real clients cannot run: {reason}")

    def cluster(self, peer: Peer) -> str:
        """Start a broker that makes the topic of traces, and its registry; return the registry's address."""
        cluster = Cluster(peer, os.path.abspath(self.mktemp()), {"traceTopicEnable": "true"})
        self.addCleanup(cluster.end)
        cluster.start()
        return cluster.namesrv

    def driver(self, generation: str) -> Driver:
        """A JVM with the clients of one generation."""
        java = Driver(generation, os.path.abspath(self.mktemp()))
        self.addCleanup(java.process.kill)
        return java

    async def trace(self, admin: Admin, id: str, consumed: int) -> Any:
        """Return our reading of a trace with so many ended calls: clients write traces a while after the events."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            found = await admin.messages.trace(id)
            ended = [one for one in found.events if one.kind == "consumed" and one.result != "open"]
            if len(ended) >= consumed and any(one.kind == "produced" for one in found.events):
                return found
            self.assertLess(time.monotonic(), deadline, str(found))
            await deferLater(reactor, 0.2, lambda: None)


class JavaTests(TraceCase):
    """Traces that Java clients write."""

    def _read(self, peer: Peer, generation: str) -> Deferred[None]:
        return Deferred.fromCoroutine(self._written_by_java(self.cluster(peer), self.driver(generation)))

    async def _written_by_java(self, namesrv: str, java: Driver) -> None:
        """A message that a Java consumer takes at the second time: our reading, and our bytes for the same records."""

        def work() -> str:
            consumer = java.start(
                "push", namesrv=namesrv, name="one", group="cg", topics={"T": "*"}, failTimes=1, trace=True
            )
            (sent,) = java.start(
                "send", namesrv=namesrv, group="pg", topic="T", count=1, keys="k", tags=["new"], trace=True
            ).all_of("sent")
            consumer.wait_for("message", 2, timeout=120)
            return str(sent["msgId"])

        sent = await deferToThread(work)
        env = RealEnvironment(reactor)
        client = Client(env, namesrv)
        admin = Admin(client)
        try:
            regions = java.generation == "4.9"  # 5.3 drops records without a region, which brokers of 4.9 do not store
            found = await self.trace(admin, sent, 2 if regions else 0)
            self.assertEqual(
                [(one.kind, one.group, one.result, one.retries) for one in found.events],
                [("produced", "pg", "stored", None), ("consumed", "cg", "failed", 0), ("consumed", "cg", "success", 1)][
                    : 3 if regions else 1
                ],
            )
            self.assertEqual((found.unreadable, found.events[0].client), (0, "127.0.0.1"))
            count = 0
            for one in await admin.messages.by_key(TRACE_TOPIC, sent):
                text = one.body.decode()
                self.assertEqual("".join(encode(record) for record in decode(text)), text)
                count += len(decode(text))
                self.assertIn(sent, one.keys)
            self.assertGreaterEqual(count, 5 if regions else 1)
            self.assertTrue(await admin.messages.by_key(TRACE_TOPIC, "k0"))
        finally:
            await client.stop()

    async def _polled(self, namesrv: str, java: Driver) -> None:
        """A message that Java's lite pull consumer polls, and then ours: both traces say the same."""

        def work() -> str:
            send = java.start("send", namesrv=namesrv, group="pg", topic="T", count=1, keys="k", trace=True)
            (sent,) = send.all_of("sent")
            java.start("lite", namesrv=namesrv, group="java", topic="T", expect=1, trace=True).all_of("message")
            return str(sent["msgId"])

        sent = await deferToThread(work)
        client = Client(RealEnvironment(reactor), namesrv, trace=True)
        try:
            settings = LitePullSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
            consumer = LitePullConsumer(client, "python", settings)
            consumer.subscribe("T")
            await consumer.start()
            self.assertEqual([one.message_id for one in await consumer.poll()], [sent])
            found = await self.trace(Admin(client), sent, 2)
            self.assertEqual(
                [(one.kind, one.group, one.result, one.retries) for one in found.events[1:]],
                [("consumed", "java", "success", 0), ("consumed", "python", "success", 0)],
            )
        finally:
            await client.stop()

    def test_lite_pull(self) -> Deferred[None]:
        """What 4.9's lite pull consumer and ours write about what they polled, at our broker."""
        return Deferred.fromCoroutine(self._polled(self.cluster(SMARTGO), self.driver("4.9")))

    def test_lite_pull_rocketmq(self) -> Deferred[None]:
        """The same at the real broker."""
        return Deferred.fromCoroutine(self._polled(self.cluster(ROCKETMQ), self.driver("4.9")))

    def test_java_4_9(self) -> Deferred[None]:
        """Traces of 4.9's clients at our broker."""
        return self._read(SMARTGO, "4.9")

    def test_java_5_3(self) -> Deferred[None]:
        """Traces of 5.3's clients at our broker."""
        return self._read(SMARTGO, "5.3")

    def test_java_rocketmq(self) -> Deferred[None]:
        """Traces of 4.9's clients at the real broker."""
        return self._read(ROCKETMQ, "4.9")


class OwnTests(TraceCase):
    """Traces that our client writes."""

    async def _written_by_us(self, namesrv: str) -> list[str]:
        """
        Send a message that is consumed at the second time; return the lines of mqadmin about its trace, of both
        generations, without times.
        """
        env = RealEnvironment(reactor)
        client = Client(env, namesrv, trace=True)
        producer = Producer(client, "pg")
        await producer.start()
        calls: list[int] = []

        def listener(messages: list[Any]) -> None:
            calls.append(messages[0].reconsume_times)
            if not messages[0].reconsume_times:
                raise ConsumeLater(1)

        consumer = PushConsumer(client, "cg", listener)
        consumer.subscribe("T")
        sent = (await producer.send(Message(topic="T", body=b"1", keys=["k1", "k2"], tag="new"))).message_id
        await consumer.start()
        try:
            found = await self.trace(Admin(client), sent, 2)
            self.assertEqual(calls, [0, 1])
            self.assertEqual(
                [(one.kind, one.group, one.result, one.retries) for one in found.events],
                [("produced", "pg", "stored", None), ("consumed", "cg", "failed", 0), ("consumed", "cg", "success", 1)],
            )
            lines: list[str] = []
            for generation in ("4.9", "5.3"):
                java = self.driver(generation)
                (out,) = await deferToThread(java.mqadmin, f"queryMsgTraceById -n {namesrv} -i {sent}")
                out = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", re.sub(r"\d+ms", "MS", out))
                lines += out.splitlines()
            return [" ".join(one.split()) for one in lines if one.strip()]
        finally:
            await client.stop()

    async def _sides(self) -> None:
        ours = await self._written_by_us(self.cluster(SMARTGO))
        theirs = await self._written_by_us(self.cluster(ROCKETMQ))
        self.assertEqual(ours, theirs)
        for words in (
            "#Type #ProducerGroup #ClientHost #SendTime #CostTimes #Status",
            "Pub pg 127.0.0.1 TIME MS success",
            "#Type #ConsumerGroup #ClientHost #ConsumerTime #CostTimes #Status",
            "Sub cg 127.0.0.1 TIME MS failed",
            "Sub cg 127.0.0.1 TIME MS success",
        ):
            self.assertEqual(ours.count(words), 2, f"{words!r} in {ours}")

    def test_mqadmin(self) -> Deferred[None]:
        """mqadmin queryMsgTraceById of either generation shows our traces, at our broker as at the real one."""
        return Deferred.fromCoroutine(self._sides())
