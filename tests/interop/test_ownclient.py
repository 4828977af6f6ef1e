"""Our own client with the brokers of both peers."""

from __future__ import annotations

import os
from typing import Any
from unittest import SkipTest

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from smartgo import Client, Message, PeerRefused, Producer, PullConsumer, PushConsumer, RealEnvironment, Sql
from tests.interop.case import Cluster
from tests.interop.jars import unavailable
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer


class SqlTests(TestCase):
    """SQL92 filters."""

    timeout = 300

    def setUp(self) -> None:
        """Skip where the real broker cannot run."""
        if os.environ.get("SMARTGO_INTEROP") == "0":
            raise SkipTest("switched off by SMARTGO_INTEROP=0")
        reason = unavailable()
        if reason is not None:
            raise SkipTest(f"the real broker cannot run: {reason}")

    def _filter(self, peer: Peer) -> Deferred[None]:
        cluster = Cluster(peer, os.path.abspath(self.mktemp()))
        self.addCleanup(cluster.end)
        cluster.start()
        return Deferred.fromCoroutine(self._consume(cluster.namesrv))

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
