"""What a client with traces writes, when, and what becomes of traces that cannot be sent."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred

from smartgo.client.client import Client
from smartgo.client.internal import tracewriter
from smartgo.client.internal.events import ClientEvents, Consuming, observed
from smartgo.client.internal.tracewriter import PENDING, SIZE, TraceWriter
from smartgo.client.internal.tracing import events_of
from smartgo.client.listening import ConsumeLater
from smartgo.client.messages import Message, ReceivedMessage
from smartgo.client.producer import Producer
from smartgo.errors import BadName, PeerRefused
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendRequest, SendRequestV2, SendResponse
from smartgo.schema.messagetrace import (
    ConsumeBegun,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Published,
    TraceRecord,
    TransactionEnded,
    decode,
)
from smartgo.schema.topics import TRACE_TOPIC
from tests.client.doubles import ClusterTestCase, Node, Storing, route

A = ("a", 10001)


def message(**changes: Any) -> ReceivedMessage:
    """A message that a consumer received."""
    parts: dict[str, Any] = {
        "topic": "T",
        "queue": MessageQueue("T", "a", 0),
        "queue_offset": 7,
        "body": b"body",
        "properties": {properties.KEYS: "k1 k2", properties.MSG_REGION: "North"},
        "message_id": "ID1",
        "offset_id": "OFF",
        "log_offset": 0,
        "flag": 0,
        "born_ms": 0,
        "stored_ms": 0,
        "born_host": "127.0.0.1:1",
        "reconsume_times": 2,
    }
    return ReceivedMessage(**{**parts, **changes})


class WriterCase(ClusterTestCase):
    """A client with traces, a broker with its topic and that of traces."""

    topic = TRACE_TOPIC
    region: str | None = "North"
    trace_on: bool | None = True

    def setUp(self) -> None:
        """Everything."""
        super().setUp()
        self.routes["T"] = self.routes[self.topic] = route(A, queues=1)
        self.node = Node()
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            self.node.does[code] = self.store
        self.listen(A[1], self.node)
        self.client_ = Client(self.env, "127.0.0.1:9876", instance="one", trace=self.topic)
        self.addCleanup(self.ended, self.client_)
        (writer,) = events_of(self.client_).listeners
        assert isinstance(writer, TraceWriter)
        self.writer = writer
        self.code = 0

    def store(self, request: Command) -> Any:
        """Answer a send."""
        header = request.read(SendRequest)
        return request.answer(
            self.code,
            "as told",
            SendResponse(
                msg_id="OFF",
                queue_id=header.queue_id,
                queue_offset=7,
                region=self.region,
                trace_on=self.trace_on,
            ),
        )

    def producer(self) -> Producer:
        """A producer that has started."""
        producer = Producer(self.client_, "pg", retries=0)
        self.result(producer.start())
        self.result(producer.queues("T"))
        self.result(producer.send_one_way(Message(topic="T", body=b"the connection is there")))
        return producer

    def traces(self) -> list[tuple[SendRequestV2, Command]]:
        """The trace messages that the broker got."""
        found = []
        for request in self.node.of(RequestCode.SEND_MESSAGE_V2):
            header = request.read(SendRequestV2)
            if header.topic == self.topic:
                found.append((header, request))
        return found

    def records(self) -> list[TraceRecord]:
        """The records that the broker got."""
        return [record for _, request in self.traces() for record in decode(bytes(request.body).decode())]


class SendTests(WriterCase):
    """Traces of sends."""

    def test_send(self) -> None:
        """Half a second after a send one message with its record is in the trace topic, found by its id and keys."""
        producer = self.producer()
        begun_ms = self.env.clock.wall_ms()
        sent = producer.send(Message(topic="T", body=b"7 apples", tag="new", keys=["k1", "k2"]))
        result = self.result(sent, 0.1)
        self.pass_time(0.3)
        self.assertEqual(self.traces(), [])
        self.pass_time(0.3)
        ((header, _),) = self.traces()
        found = properties.decode_text(header.properties or "")
        self.assertEqual(found[properties.KEYS].split(), [result.message_id, "k1", "k2"])
        self.assertEqual(header.producer_group, "_INNER_TRACE_PRODUCER-pg-PRODUCE-1")
        (record,) = self.records()
        assert isinstance(record, Published)
        self.assertEqual(
            record,
            Published(
                time_ms=begun_ms,
                region="North",
                group="pg",
                topic="T",
                message_ids=(result.message_id,),
                tags="new",
                keys="k1 k2",
                store_host="127.0.0.1:10001",
                body_length=8,
                cost_ms=100,
                kind=MessageKind.NORMAL,
                offset_id="OFF",
                success=True,
            ),
        )

    def test_kinds(self) -> None:
        """Delayed messages and batches are told apart; a batch has one record, found by the id of each message."""
        producer = self.producer()
        producer.send(Message(topic="T", body=b"1", delay_level=3))
        producer.send(Message(topic="T", body=b"1", delay=1.5))
        batch = producer.send_batch([Message(topic="T", body=b"1", keys="k"), Message(topic="T", body=b"2")])
        ids = self.result(batch, 1.0).message_id.split(",")
        first, second, third = self.records()
        assert isinstance(first, Published) and isinstance(second, Published) and isinstance(third, Published)
        self.assertEqual(
            (first.kind, second.kind, third.kind), (MessageKind.DELAY, MessageKind.DELAY, MessageKind.NORMAL)
        )
        self.assertEqual((third.message_ids, third.keys), (tuple(ids), ""))
        ((header, _),) = self.traces()
        self.assertEqual(properties.decode_text(header.properties or "")[properties.KEYS].split()[2:], ids)

    def test_less_durable(self) -> None:
        """A message that was stored less durably than asked is traced as no success; a refused one is not traced."""
        producer = self.producer()
        self.code = int(ResponseCode.FLUSH_SLAVE_TIMEOUT)
        self.result(producer.send(Message(topic="T", body=b"1")))
        self.code = int(ResponseCode.MESSAGE_ILLEGAL)
        refused = producer.send(Message(topic="T", body=b"2"))
        self.pass_time(0.1)
        self.failureResultOf(refused, PeerRefused)
        self.code = 0
        self.pass_time(1.0)
        (record,) = self.records()
        assert isinstance(record, Published)
        self.assertFalse(record.success)

    def test_broker_gone_meanwhile(self) -> None:
        """A traced send whose broker left the routes before it answered is a success."""
        producer = self.producer()
        waiting: list[tuple[Deferred[Any], Command]] = []

        def wait(request: Command) -> Deferred[Any]:
            waiting.append((Deferred(), request))
            return waiting[-1][0]

        self.node.does[RequestCode.SEND_MESSAGE_V2] = wait
        sent = producer.send(Message(topic="T", body=b"1"))
        self.pass_time(0.1)
        self.routes["T"] = self.routes[self.topic] = route(("b", 10002), queues=1)
        self.result(self.client_.routes.refresh())
        self.assertIsNone(self.client_.routes.address("a"))
        ((answer, request),) = waiting
        answer.callback(self.store(request))
        self.assertEqual(self.result(sent).offset_id, "OFF")

    def test_one_way(self) -> None:
        """A send without an answer is not traced, as in Java."""
        self.result(self.producer().send_one_way(Message(topic="T", body=b"1")), 1.0)
        self.assertEqual(self.records(), [])

    def test_traces_are_not_traced(self) -> None:
        """A message that an application sends to the topic of traces is not traced."""
        self.result(self.producer().send(Message(topic=self.topic, body=b"1")), 2.0)
        self.assertEqual(len(self.traces()), 1)
        self.assertEqual(self.records(), [])

    def test_stop(self) -> None:
        """A stop sends the records that are kept."""
        producer = self.producer()
        sent = producer.send(Message(topic="T", body=b"1"))
        self.result(sent, 0.1)
        self.assertEqual(self.records(), [])
        self.result(self.client_.stop(), 0.4)
        self.assertEqual(len(self.records()), 1)

    def test_off(self) -> None:
        """Without the setting nothing listens, and nothing is written."""
        plain = self.client()
        self.addCleanup(lambda: self.result(plain.stop(), 4.0))
        self.assertFalse(plain.events)
        producer = Producer(plain, "pg")
        self.result(producer.start())
        self.result(producer.send(Message(topic="T", body=b"1")), 2.0)
        self.assertEqual(self.traces(), [])

    def test_topic(self) -> None:
        """The topic of traces is RocketMQ's, or one of another name, which follows the rules."""
        for choice, topic in ((True, TRACE_TOPIC), ("Mine", "Mine")):
            client = Client(self.env, "127.0.0.1:9876", trace=choice)
            (writer,) = events_of(client).listeners
            self.assertEqual(events_of(client).listeners, [writer])
            assert isinstance(writer, TraceWriter)
            self.assertEqual(writer.topic, topic)
        self.assertRaises(BadName, Client, self.env, "127.0.0.1:9876", trace="no good")


class UnwantedTests(WriterCase):
    """A broker that wants no traces, by its setting C{traceOn}."""

    trace_on = False

    def test_unwanted(self) -> None:
        """Sends that it answers are not traced."""
        self.result(self.producer().send(Message(topic="T", body=b"1")), 1.0)
        self.assertEqual(self.records(), [])


class BoundsTests(WriterCase):
    """How much is kept, and what becomes of the rest."""

    topic = "Mine"
    region = None

    def consuming(self, count: int = 1, **changes: Any) -> None:
        """Let a listener be called with messages."""
        self.writer.consume_begun(Consuming("cg", [message(**changes) for _ in range(count)], 5))

    def test_size(self) -> None:
        """A trace message is sent at once when it is long enough, or has keys enough."""
        self.consuming(2 * SIZE // 100, properties={})
        self.pass_time(0.3)
        self.assertEqual(len(self.traces()), 1)
        for number in range(2000):
            self.consuming(message_id=f"{number:032X}")
        self.pass_time(0.3)
        self.assertGreaterEqual(len(self.traces()), 3)
        for header, _ in self.traces():
            self.assertLess(len(header.properties or ""), properties.SIZE_LIMIT)

    def test_long_batch(self) -> None:
        """The ids of a batch whose keys would be longer than properties may be are cut; its record is whole."""
        producer = self.producer()
        sent = producer.send_batch([Message(topic="T", body=b"1") for _ in range(1000)])
        self.pass_time(0.2)
        ids = self.successResultOf(sent).message_id.split(",")
        self.pass_time(1.0)
        ((header, request),) = self.traces()
        self.assertLess(len(header.properties or ""), properties.SIZE_LIMIT)
        self.assertEqual(self.writer.dropped, 0)
        self.assertGreater(len(ids), 900)
        self.assertLess(len(request.body), 34_000)  # compressed or not: the ids once

    def test_no_room(self) -> None:
        """While no broker takes traces, records beyond the limit are dropped and counted; sends go on."""
        self.node.does[RequestCode.SEND_MESSAGE_V2] = lambda request: Deferred()
        self.env.network.pump()
        while not self.writer.dropped:
            self.consuming(100)
        self.assertLessEqual(self.writer._pending, PENDING)
        before = self.writer.dropped
        self.consuming(10)
        self.assertEqual(self.writer.dropped, before + 10)
        self.node.does[RequestCode.SEND_MESSAGE_V2] = self.store
        self.result(self.producer().send(Message(topic="T", body=b"1")))

    def test_refused(self) -> None:
        """Records that every broker refuses are dropped and counted, and there is room again."""
        self.code = int(ResponseCode.MESSAGE_ILLEGAL)
        self.consuming(3)
        self.pass_time(1.0)
        self.assertEqual((self.writer.dropped, self.writer._pending), (3, 0))

    def test_stop_waits_not_long(self) -> None:
        """A stop waits two seconds for trace messages that no broker answers, not longer."""
        self.node.does[RequestCode.SEND_MESSAGE_V2] = lambda request: Deferred()
        self.consuming(1)
        stopped = self.client_.stop()
        self.pass_time(tracewriter.STOP - 0.2)
        self.assertNoResult(stopped)
        self.pass_time(0.5)
        self.successResultOf(stopped)


class ConsumeTests(WriterCase):
    """Traces of consumption."""

    def call(self, listener: Any, *messages: ReceivedMessage) -> Any:
        """Call a listener that the client's listeners hear of; return what it returned."""
        told = observed(listener, self.client_.events, "cg", self.env.clock, 60.0)
        return told(list(messages))

    def test_consume(self) -> None:
        """A call has a record for its begin and one for its end, of each message, with one request id."""
        waits: Deferred[None] = Deferred()
        begun_ms = self.env.clock.wall_ms()
        result = self.call(lambda messages: waits, message(), message(message_id="ID2"))
        self.env.clock.advance(0.2)
        waits.callback(None)
        self.assertIsNone(self.successResultOf(result))
        ended_ms = self.env.clock.wall_ms()
        self.pass_time(1.0)
        records = self.records()
        first = records[0]
        assert isinstance(first, ConsumeBegun)
        request = first.request_id
        self.assertEqual(len(request), 32)
        self.assertEqual(
            records,
            [
                ConsumeBegun(
                    time_ms=begun_ms, region="North", group="cg", request_id=request, message_id=one, retries=2,
                    keys="k1 k2",
                )
                for one in ("ID1", "ID2")
            ]
            + [
                ConsumeEnded(
                    request_id=request, message_id=one, cost_ms=100, success=True, keys="k1 k2", time_ms=ended_ms,
                    group="cg",
                )
                for one in ("ID1", "ID2")
            ],
        )  # fmt: skip
        ((header, _),) = self.traces()
        self.assertEqual(header.producer_group, "_INNER_TRACE_PRODUCER-cg-CONSUME-1")

    def test_outcomes(self) -> None:
        """The end says whether the call succeeded, asked for the message again, failed, or took too long."""

        def asks(messages: list[ReceivedMessage]) -> None:
            raise ConsumeLater

        def fails(messages: list[ReceivedMessage]) -> None:
            raise ValueError("broken")

        self.assertIsNone(self.call(lambda messages: None, message()))
        self.assertRaises(ConsumeLater, self.call, asks, message())
        self.assertRaises(ValueError, self.call, fails, message())
        slow: Deferred[None] = Deferred()
        result = self.call(lambda messages: slow, message())
        self.pass_time(61.0, 1.0)
        slow.callback(None)
        self.successResultOf(result)
        self.pass_time(1.0)
        ends = [one for one in self.records() if isinstance(one, ConsumeEnded)]
        self.assertEqual(
            [(one.success, one.code) for one in ends],
            [
                (True, ConsumeCode.SUCCESS),
                (False, ConsumeCode.FAILED),
                (False, ConsumeCode.EXCEPTION),
                (True, ConsumeCode.TIME_OUT),
            ],
        )

    def test_received(self) -> None:
        """Messages that a program polled or pulled count as consumed at once, as in Java's lite pull consumer."""
        begun_ms = self.env.clock.wall_ms()
        off = message(message_id="OFF1", properties={properties.TRACE_ON: "false"})
        one, two = message(), message(message_id="ID2")
        self.client_.events.received("cg", one.queue, [one, two, off], 20.0)
        self.client_.events.received("cg", one.queue, [off], 20.0)
        self.pass_time(1.0)
        records = self.records()
        self.assertEqual([type(one) for one in records], [ConsumeBegun, ConsumeBegun, ConsumeEnded, ConsumeEnded])
        begun, _, ended, _ = records
        assert isinstance(begun, ConsumeBegun) and isinstance(ended, ConsumeEnded)
        self.assertEqual((begun.time_ms, begun.message_id, begun.retries), (begun_ms, "ID1", 2))
        self.assertEqual(
            (ended.request_id, ended.message_id, ended.success, ended.code, ended.cost_ms),
            (begun.request_id, "ID1", True, ConsumeCode.SUCCESS, 0),
        )

    def test_unwanted(self) -> None:
        """Messages whose broker wants no traces, and traces themselves, are left out."""
        off = message(message_id="OFF1", properties={properties.TRACE_ON: "false"})
        self.call(lambda messages: None, off, message())
        self.call(lambda messages: None, off)
        self.call(lambda messages: None, message(topic=self.topic))
        self.pass_time(1.0)
        self.assertEqual([type(one) for one in self.records()], [ConsumeBegun, ConsumeEnded])

    def test_transaction(self) -> None:
        """The end of a transaction has a record."""
        found = {properties.UNIQ_KEY: "ID1", properties.TAGS: "new", properties.KEYS: "k1"}
        self.client_.events.transaction_ended("pg", "T", found, "127.0.0.1:10001", "TX", "ROLLBACK_MESSAGE", True)
        self.client_.events.transaction_ended("pg", self.topic, found, "h:1", "TX", "COMMIT_MESSAGE", False)
        self.pass_time(1.0)
        (record,) = self.records()
        assert isinstance(record, TransactionEnded)
        self.assertEqual(
            (record.message_id, record.state, record.from_check, record.kind, record.region),
            ("ID1", "ROLLBACK_MESSAGE", True, MessageKind.COMMIT, "DefaultRegion"),
        )


class _Failing(ClientEvents):
    """A listener that always fails."""

    def send_begun(self, sending: object) -> None:
        """Fail."""
        raise ValueError("send")

    def consume_begun(self, consuming: object) -> Any:
        """Fail when the listener has returned."""
        raise ValueError("consume")


class FailingTests(ClusterTestCase):
    """A listener of the client's events that fails."""

    def test_failing(self) -> None:
        """Sends and consumption go on; what it raised is logged."""
        self.routes["T"] = route(A)
        self.listen(A[1], Storing())
        client = self.client()
        client.events.listeners.append(_Failing())
        producer = Producer(client, "pg")
        self.result(producer.start())
        self.result(producer.send(Message(topic="T", body=b"1")))
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        seen: list[Any] = []
        observed(seen.append, client.events, "cg", self.env.clock, 60.0)([message()])
        self.assertEqual(len(seen), 1)
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.ended(client)
