"""SQL92 filters of the client: against a registry and a broker in the same process, over real connections."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.consumer import PushConsumer
from smartgo.client.filters import Sql
from smartgo.client.internal.subscription import lets_in, subscription
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.pullconsumer import PullConsumer, PullStatus
from smartgo.errors import PeerRefused, SubscriptionParseFailed
from smartgo.schema.bodies import ConsumeFromWhere
from tests.client.test_cluster import ClusterCase, coroutine


class SqlTests(SynchronousTestCase):
    def test_text(self) -> None:
        """An expression is a text that says something."""
        self.assertRaises(TypeError, Sql, b"n > 5")
        self.assertRaises(SubscriptionParseFailed, Sql, " ")

    def test_subscription(self) -> None:
        """It goes to the broker as it is; only the broker knows which messages it lets in."""
        made = subscription("T", Sql("TAGS IN ('A||B')"), 7)
        self.assertEqual((made.expression_type, made.sub_string, made.sub_version), ("SQL92", "TAGS IN ('A||B')", 7))
        self.assertEqual((made.tags_set, made.code_set), (frozenset(), frozenset()))
        self.assertIsNone(lets_in(made, "A"))


class FilterCase(ClusterCase):
    """Tests with brokers whose parser is imported, as its library takes seconds to load on a busy machine."""

    @coroutine
    async def setUp(self) -> None:  # type: ignore[override]
        """A registry, a broker and a producer."""
        import_module("smartgo.broker.sql.parser")
        await super().setUp()

    async def refused(self, work: Deferred[Any], code: int, words: str) -> None:
        """Fail unless a broker refuses something."""
        refusal = await self.assertFailure(work, PeerRefused)
        self.assertEqual(refusal.code, code)
        self.assertIn(words, refusal.remark)


class FilteredTests(FilterCase):
    """Consumers with filters that a broker evaluates."""

    async def fill(self) -> None:
        """Send ten messages with a number, and two without."""
        for number in range(12):
            properties = {"n": str(number)} if number < 10 else {}
            await self.producer.send(Message(topic="T", body=b"%d" % number, properties=properties))

    @coroutine
    async def test_push(self) -> None:
        """A push consumer gets the messages that match, also those that arrive later, and no other."""
        await self.fill()
        seen: list[bytes] = []

        def listener(messages: list[ReceivedMessage]) -> None:
            seen.extend(one.body for one in messages)

        begin = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = PushConsumer(self.make_client(), "cg", listener, ConsumerSettings(begin=begin))
        consumer.subscribe("T", Sql("n BETWEEN 3 AND 4 OR n IS NULL"))
        await consumer.start()
        await self.until(lambda: len(seen) == 4)
        await self.fill()
        await self.until(lambda: len(seen) == 8)
        self.assertEqual(sorted(seen), sorted([b"3", b"4", b"10", b"11"] * 2))
        await consumer.stop()

    @coroutine
    async def test_pull(self) -> None:
        """A pull with an expression has the messages that match, and goes on behind the others."""
        await self.fill()
        puller = PullConsumer(self.client, "hand")
        found = []
        for queue in await puller.queues("T"):
            result = await puller.pull(queue, 0, Sql("n > 7"))
            self.assertEqual(result.next_offset, await puller.max_offset(queue))
            self.assertIs(result.status, PullStatus.FOUND if result.messages else PullStatus.NO_MATCH)
            found += [one.body for one in result.messages]
        self.assertEqual(sorted(found), [b"8", b"9"])

    @coroutine
    async def test_wrong(self) -> None:
        """A wrong expression is refused with the parser's words: at the start of a consumer, and of each pull."""
        await self.fill()
        consumer = PushConsumer(self.client, "cg", lambda messages: None)
        consumer.subscribe("T", Sql("n > AND"))
        await self.refused(consumer.start(), 23, 'Encountered " "AND" "AND "" at line 1, column 5.')
        self.assertEqual(consumer.queues, [])
        puller = PullConsumer(self.client, "hand")
        queue = (await puller.queues("T"))[0]
        await self.refused(puller.pull(queue, 0, Sql("n >")), 23, "parse the consumer's subscription failed")


class SwitchedOffTests(FilterCase):
    """A broker that does not filter by properties."""

    settings: ClassVar[dict[str, str]] = {"enablePropertyFilter": "false"}

    @coroutine
    async def test_refused(self) -> None:
        """It refuses such consumers and pulls, and says why."""
        await self.producer.send(Message(topic="T", body=b"x"))
        consumer = PushConsumer(self.client, "cg", lambda messages: None)
        consumer.subscribe("T", Sql("n > 5"))
        await self.refused(consumer.start(), 1, "does not support consumer to filter message by SQL92")
