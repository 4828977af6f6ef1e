"""Requests and replies, over connections in memory and between clients of our own broker."""

from __future__ import annotations

import zlib
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.errors import CallFailed, CallTimedOut, MessageIllegal, PeerRefused, ReplyTimedOut
from smartgo.schema import properties
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import PushReplyRequest, SendRequest
from tests.client.doubles import ClusterTestCase, Storing, route
from tests.client.test_cluster import FIRST, ClusterCase, coroutine


class RequestTests(ClusterTestCase):
    def setUp(self) -> None:
        """A broker and a producer that asks."""
        super().setUp()
        self.broker = Storing()
        self.listen(10001, self.broker)
        self.routes["T"] = route(("a", 10001))
        self.client_ = self.client()
        self.producer = Producer(self.client_, "pg")
        self.result(self.producer.start())

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def ask(self, timeout: float | None = None) -> Deferred[ReceivedMessage]:
        """Send a request; the broker has it afterwards."""
        found = self.producer.request(Message(topic="T", body=b"q", properties={"mine": "1"}), timeout)
        self.pass_time(0.5)
        return found

    def asked(self) -> dict[str, str]:
        """The properties of the last request."""
        return properties.decode_text(self.broker.of(RequestCode.SEND_MESSAGE_V2)[-1].read(SendRequest).properties)

    def push(self, correlation_id: str, body: bytes = b"a", sys_flag: int = 0) -> Command:
        """Let the broker push a reply; return the client's answer."""
        header = PushReplyRequest(
            producer_group="other",
            topic="C_REPLY_TOPIC",
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=sys_flag,
            born_timestamp=5,
            flag=7,
            born_host="10.0.0.9:1234",
            store_host="10.0.0.1:10911",
            store_timestamp=6,
            properties=properties.encode({"CORRELATION_ID": correlation_id, "UNIQ_KEY": "R", "TAGS": "t"}).decode(),
        )
        command = Command.request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, header, body)
        return self.result(self.broker.peers[-1].ask(command, 3.0))

    def test_client_stops(self) -> None:
        """A request that waits for its reply fails when its client stops, and leaves no timer."""
        waits = self.ask(600.0)
        self.result(self.client_.stop())
        error = self.failureResultOf(waits, CallFailed).value
        self.assertIn("the client has stopped", str(error))

    def test_reply(self) -> None:
        """A request carries its id, the client's and the time; the reply with that id is its outcome."""
        waits = self.ask(5.0)
        found = self.asked()
        self.assertEqual((found["REPLY_TO_CLIENT"], found["TTL"], found["mine"]), ("127.0.0.1@one", "5000", "1"))
        self.assertRegex(
            found["CORRELATION_ID"], "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
        )
        self.assertNoResult(waits)
        self.assertEqual(self.push(found["CORRELATION_ID"]).code, 0)
        reply = self.successResultOf(waits)
        self.assertEqual((reply.body, reply.topic, reply.message_id, reply.tag), (b"a", "C_REPLY_TOPIC", "R", "t"))
        self.assertEqual((reply.born_host, reply.born_ms, reply.stored_ms, reply.flag), ("10.0.0.9:1234", 5, 6, 7))
        self.assertEqual(self.push(found["CORRELATION_ID"]).code, 0)  # a second one, which nobody waits for
        self.assertEqual(len(self.client_.replies), 0)

    def test_heartbeat_first(self) -> None:
        """Where the topic had no route, brokers get a heartbeat before the request: they find the client by it."""
        waits = self.ask()
        codes = [one.code for one in self.broker.seen]
        self.assertLess(codes.index(RequestCode.HEART_BEAT), codes.index(RequestCode.SEND_MESSAGE_V2))
        self.push(self.asked()["CORRELATION_ID"])
        self.successResultOf(waits)

    def test_compressed(self) -> None:
        """A compressed reply is given decompressed; one that cannot be is refused, and nobody gets it."""
        waits = self.ask()
        correlation_id = self.asked()["CORRELATION_ID"]
        answer = self.push(correlation_id, b"no zlib", sys_flag=1)
        self.assertEqual(answer.code, ResponseCode.SYSTEM_ERROR)
        self.assertIn("process reply message fail", answer.remark or "")
        self.assertNoResult(waits)
        self.assertEqual(self.push(correlation_id, zlib.compress(b"long" * 2000), sys_flag=1).code, 0)
        self.assertEqual(self.successResultOf(waits).body, b"long" * 2000)

    def test_early(self) -> None:
        """A reply that overtakes the answer to the send counts, also if that answer never comes."""
        self.broker.does[RequestCode.SEND_MESSAGE_V2] = lambda request: None
        waits = self.ask(2.0)
        self.push(self.asked()["CORRELATION_ID"])
        self.assertEqual(self.successResultOf(waits).body, b"a")
        self.pass_time(4.0)

    def test_no_reply(self) -> None:
        """Without a reply in time the error says that the request was stored; a late reply is dropped."""
        waits = self.ask(2.0)
        self.pass_time(1.0)
        self.assertNoResult(waits)
        self.pass_time(1.0)
        self.failureResultOf(waits, ReplyTimedOut)
        self.assertEqual(self.push(self.asked()["CORRELATION_ID"]).code, 0)
        self.assertEqual(len(self.client_.replies), 0)

    def test_not_stored(self) -> None:
        """Where no broker takes the request, the outcome is that of its send, at once."""
        self.broker.code = int(ResponseCode.NO_PERMISSION)
        self.failureResultOf(self.ask(), PeerRefused)
        self.broker.does[RequestCode.SEND_MESSAGE_V2] = lambda request: None
        waits = self.ask(1.0)
        self.pass_time(2.0)
        self.assertNotIsInstance(self.failureResultOf(waits, CallTimedOut).value, ReplyTimedOut)
        self.assertEqual(len(self.client_.replies), 0)

    def test_cancelled(self) -> None:
        """A request that is cancelled waits for nothing any more."""
        waits = self.ask()
        waits.cancel()
        self.failureResultOf(waits, CancelledError)
        self.assertEqual(len(self.client_.replies), 0)

    def test_delayed(self) -> None:
        """A request cannot be delayed."""
        waits = self.producer.request(Message(topic="T", body=b"q", delay_level=1))
        self.pass_time(0.5)
        self.failureResultOf(waits, MessageIllegal)


class ConversationTests(ClusterCase):
    """Clients of our own broker."""

    async def serve(self, reply: Any) -> None:
        """Consume topic T by a listener."""
        settings = ConsumerSettings(begin=FIRST)
        consumer = PushConsumer(self.make_client(), "service", reply, settings)
        consumer.subscribe("T")
        await consumer.start()

    @coroutine
    async def test_conversation(self) -> None:
        """Requests get the replies to them, short and long; a plain message is no request."""
        answering = Producer(self.make_client(), "service")
        await answering.start()
        refused: list[MessageIllegal] = []

        async def listener(messages: list[ReceivedMessage]) -> None:
            try:
                await answering.reply(messages[0], messages[0].body * 3)
            except MessageIllegal as error:
                refused.append(error)

        await self.producer.send(Message(topic="T", body=b"plain"))
        await self.serve(listener)
        waits = [
            self.producer.request(Message(topic="T", body=body), 30.0) for body in (b"a", b"b", b"c", b"d" * 10_000)
        ]
        self.assertEqual([(await one).body for one in waits], [b"aaa", b"bbb", b"ccc", b"d" * 30_000])
        await self.until(lambda: len(refused) == 1)
        self.assertIn("is no request: it has no property CORRELATION_ID", str(refused[0]))

    @coroutine
    async def test_gone(self) -> None:
        """The reply to a client that is gone is refused with code 1."""
        gone = self.make_client()
        asking = Producer(gone, "asking")
        await asking.start()
        await self.producer.send(Message(topic="T", body=b"plain"))
        waits = asking.request(Message(topic="T", body=b"q"), 0.3)
        await self.assertFailure(waits, ReplyTimedOut)
        await gone.stop()
        outcomes: list[object] = []

        async def listener(messages: list[ReceivedMessage]) -> None:
            if messages[0].body == b"q":
                await deferLater(self.reactor, 0.0, lambda: None)
                try:
                    outcomes.append(await self.producer.reply(messages[0], b"a"))
                except PeerRefused as refusal:
                    outcomes.append((refusal.code, "not found" in refusal.remark))

        await self.serve(listener)
        await self.until(lambda: bool(outcomes))
        self.assertEqual(outcomes, [(1, True)])
