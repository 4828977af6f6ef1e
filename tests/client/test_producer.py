"""Routes and sends, over connections in memory: queues in turn, retries, the form of what is sent."""

from __future__ import annotations

import zlib
from typing import Any

from twisted.internet.defer import CancelledError

from smartgo.client.client import Client
from smartgo.client.internal.route import publish_queues, subscribe_queues
from smartgo.client.messages import Message, SendStatus
from smartgo.client.producer import Producer
from smartgo.errors import (
    CallFailed,
    CallTimedOut,
    MessageIllegal,
    MessageTypeWrong,
    NotConnected,
    PeerRefused,
    SettingError,
)
from smartgo.schema import batch, properties
from smartgo.schema.bodies import HeartbeatData, MessageQueue
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import UnregisterClientRequest
from smartgo.schema.headers.send import SendRequest
from smartgo.schema.topics import TOO_MANY_NEW
from tests.client.doubles import ClusterTestCase, Node, Storing, route

A, B = ("a", 10001), ("b", 10002)


class QueueTests(ClusterTestCase):
    def test_publish(self) -> None:
        """Messages go to writable queues of brokers with a master, by broker name."""
        data = route(B, A)
        data.broker_datas[0].broker_addrs = {1: "127.0.0.1:1"}
        self.assertEqual(publish_queues("T", data), (MessageQueue("T", "a", 0), MessageQueue("T", "a", 1)))
        self.assertEqual(publish_queues("T", route(A, perm=4)), ())

    def test_order(self) -> None:
        """Where the registry gives an order of queues, these are the queues."""
        data = route(A, B)
        data.order_topic_conf = "b:1;a:2"
        self.assertEqual(
            publish_queues("T", data), (MessageQueue("T", "b", 0), MessageQueue("T", "a", 0), MessageQueue("T", "a", 1))
        )

    def test_too_many(self) -> None:
        """No topic has more queues than any may have, whatever a registry says."""
        data = route(A, queues=70_000)
        self.assertEqual(len(publish_queues("T", data)), 65_536)
        self.assertEqual(len(subscribe_queues("T", data)), 65_536)
        for count in ("70000", "9" * 5000):
            data.order_topic_conf = f"a:{count}"
            self.assertEqual(len(publish_queues("T", data)), 65_536)

    def test_subscribe(self) -> None:
        """Messages come from the readable queues, sorted."""
        self.assertEqual([one.broker_name for one in subscribe_queues("T", route(B, A, queues=1))], ["a", "b"])
        self.assertEqual(subscribe_queues("T", route(A, perm=2)), ())


class SendTests(ClusterTestCase):
    def setUp(self) -> None:
        """Two brokers that share topic T."""
        super().setUp()
        self.a, self.b = self.broker(A[1]), self.broker(B[1])
        self.routes["T"] = route(A, B)
        self.client_ = self.client()
        self.producer = Producer(self.client_, "pg")
        self.result(self.producer.start())

    def broker(self, port: int) -> Storing:
        """A broker at a port."""
        found = Storing()
        self.listen(port, found)
        return found

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def sent(self, broker: Node) -> list[SendRequest]:
        """The headers of what a broker was sent."""
        return [one.read(SendRequest) for one in broker.of(RequestCode.SEND_MESSAGE_V2)]

    def test_in_turn(self) -> None:
        """Sends go round the queues of all brokers."""
        found = {self.result(self.producer.send(Message(topic="T", body=b"x"))).queue for _ in range(4)}
        self.assertEqual(len(found), 4)
        self.assertEqual((len(self.sent(self.a)), len(self.sent(self.b))), (2, 2))

    def test_result(self) -> None:
        """A result tells both ids, the place, and how safe the message is."""
        queue = MessageQueue("T", "b", 1)
        self.b.code = int(ResponseCode.FLUSH_DISK_TIMEOUT)
        result = self.result(self.producer.send_to(Message(topic="T", body=b"x", tag="A"), queue))
        header = self.sent(self.b)[0]
        self.assertEqual((result.status, result.offset_id, result.queue), (SendStatus.FLUSH_DISK_TIMEOUT, "OFF", queue))
        self.assertEqual(properties.decode_text(header.properties), {"TAGS": "A", "UNIQ_KEY": result.message_id})
        self.assertEqual((header.producer_group, header.default_topic, header.queue_id), ("pg", "TBW102", 1))

    def test_other_broker(self) -> None:
        """After a failure that another broker need not have, another broker is asked; each once where two retry."""
        for code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.SYSTEM_BUSY):
            self.a.code = int(code)
            for _ in range(4):
                self.assertEqual(self.result(self.producer.send(Message(topic="T", body=b"x"))).queue.broker_name, "b")

    def test_too_many_new(self) -> None:
        """A send that would create one topic too many for now waits and is tried again; in vain, it ends in time."""
        refusing = [True] * 5

        def store(request: Command) -> Command:
            if refusing:
                refusing.pop()
                return request.answer(int(ResponseCode.SYSTEM_ERROR), f"topic[T] is not created: {TOO_MANY_NEW}")
            return self.b._store(request)

        for broker in (self.a, self.b):
            broker.does[RequestCode.SEND_MESSAGE_V2] = store
        self.assertEqual(self.result(self.producer.send(Message(topic="T", body=b"x")), 2.5).queue_offset, 7)
        self.assertEqual(len(self.sent(self.a)) + len(self.sent(self.b)), 6)
        refusing += [True] * 100
        sending = self.producer.send(Message(topic="T", body=b"x"))
        self.pass_time(3.5)
        self.assertIn(TOO_MANY_NEW, self.failureResultOf(sending, PeerRefused).value.remark)
        self.assertGreater(len(refusing), 50)

    def refuse_all(self, remark: str) -> None:
        """Let the first broker refuse all sends: it is busy."""
        self.a.does[RequestCode.SEND_MESSAGE_V2] = lambda request: request.answer(int(ResponseCode.SYSTEM_BUSY), remark)

    def test_client_stops(self) -> None:
        """A send that waits before its next attempt fails at once when its client stops, and leaves no timer."""
        for remark in ("busy", f"topic[T] is not created: {TOO_MANY_NEW}"):
            client = Client(self.env, "127.0.0.1:9876", instance=remark[:4])
            self.routes["T"] = route(A)
            self.refuse_all(remark)
            producer = Producer(client, "pg", retries=100, timeout=100.0)
            self.result(producer.start())
            sending = producer.send(Message(topic="T", body=b"x"))
            self.pass_time(0.04, 0.02)
            self.assertNoResult(sending)
            stopping = client.stop()
            self.pass_time(0.04, 0.02)
            self.successResultOf(stopping)
            self.failureResultOf(sending, CallFailed)

    def test_gives_up(self) -> None:
        """After three attempts the last refusal is the outcome; a refusal that is the same everywhere is at once."""
        for code, attempts in ((ResponseCode.SERVICE_NOT_AVAILABLE, 3), (ResponseCode.MESSAGE_ILLEGAL, 1)):
            self.a.code = self.b.code = int(code)
            before = len(self.sent(self.a)) + len(self.sent(self.b))
            sending = self.producer.send(Message(topic="T", body=b"x"))
            self.pass_time(0.5)
            error = self.failureResultOf(sending, PeerRefused).value
            self.assertEqual(error.code, code)
            self.assertEqual(len(self.sent(self.a)) + len(self.sent(self.b)) - before, attempts)

    def test_cancelled(self) -> None:
        """A send that is cancelled ends at once, and nothing is tried again."""
        for broker in (self.a, self.b):
            broker.does[RequestCode.SEND_MESSAGE_V2] = lambda request: None
        self.result(self.producer.queues("T"))
        sending = self.producer.send(Message(topic="T", body=b"x"))
        self.pass_time(0.5)
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.pass_time(5.0)
        self.assertEqual(len(self.sent(self.a)) + len(self.sent(self.b)), 1)

    def test_lost_answer(self) -> None:
        """A first attempt whose connection is lost is followed by one at the other broker, of a known topic too."""
        self.result(self.producer.queues("T"))
        for broker in (self.a, self.b):
            broker.does[RequestCode.SEND_MESSAGE_V2] = lambda request: None
        sending = self.producer.send(Message(topic="T", body=b"x"))
        self.pass_time(0.2)
        asked, other = (self.a, self.b) if self.sent(self.a) else (self.b, self.a)
        other.does[RequestCode.SEND_MESSAGE_V2] = other._store
        asked.peers[-1].close("for the test")
        self.pass_time(1.0)
        self.assertEqual(self.result(sending).queue.broker_name, "a" if other is self.a else "b")

    def test_unreadable_answer(self) -> None:
        """An answer that cannot be read is a failure of the attempt: the other broker is asked."""
        self.result(self.producer.queues("T"))
        self.a.does[RequestCode.SEND_MESSAGE_V2] = lambda request: request.answer(0, fields={"msgId": "OFF"})
        for _ in range(4):
            self.assertEqual(self.result(self.producer.send(Message(topic="T", body=b"x"))).queue.broker_name, "b")

    def test_time(self) -> None:
        """All attempts together take no longer than the time-out: a broker that is silent uses it up."""
        for broker in (self.a, self.b):
            broker.does[RequestCode.SEND_MESSAGE_V2] = lambda request: None
        sending = self.producer.send(Message(topic="T", body=b"x"), timeout=2.0)
        self.pass_time(1.8)
        self.assertNoResult(sending)
        self.pass_time(1.5)
        self.failureResultOf(sending, CallTimedOut)
        self.assertEqual(len(self.sent(self.a)) + len(self.sent(self.b)), 1)

    def test_one_queue(self) -> None:
        """A send to a queue of the caller's choice is tried there and nowhere else."""
        self.a.code = int(ResponseCode.SYSTEM_ERROR)
        sending = self.producer.send_by(Message(topic="T", body=b"x"), lambda queues, _, at: queues[at], 0)
        self.pass_time(0.5)
        self.failureResultOf(sending, PeerRefused)
        self.assertEqual((len(self.sent(self.a)), len(self.sent(self.b))), (1, 0))

    def test_compressed(self) -> None:
        """Bodies of 4096 bytes and more travel as zlib, shorter ones as they are."""
        queue = MessageQueue("T", "a", 0)
        for size, flag in ((4095, 0), (4096, 1)):
            self.result(self.producer.send_to(Message(topic="T", body=b"x" * size), queue))
            command = self.a.of(RequestCode.SEND_MESSAGE_V2)[-1]
            self.assertEqual(command.read(SendRequest).sys_flag, flag)
            self.assertEqual(zlib.decompress(command.body) if flag else command.body, b"x" * size)

    def test_batch(self) -> None:
        """A batch is one request, each message with an id of its own; the result names them all."""
        messages = [Message(topic="T", body=b"%d" % at, flag=at) for at in range(3)]
        result = self.result(self.producer.send_batch(messages, MessageQueue("T", "a", 0)))
        (command,) = self.a.of(RequestCode.SEND_BATCH_MESSAGE)
        items = batch.decode_items(command.body)
        self.assertEqual([(flag, body) for flag, body, _ in items], [(0, b"0"), (1, b"1"), (2, b"2")])
        ids = [properties.decode(raw)["UNIQ_KEY"] for _, _, raw in items]
        self.assertEqual((result.message_id, len(set(ids))), (",".join(ids), 3))
        self.assertTrue(command.read(SendRequest).batch)

    def test_bad_batch(self) -> None:
        """Messages that cannot be one request are refused: none, two topics, a delay, too long together."""
        one = Message(topic="T", body=b"x")
        for messages in (
            [],
            [one, Message(topic="U", body=b"x")],
            [one, Message(topic="T", body=b"x", delay_level=1)],
            [Message(topic="T", body=bytes(3 << 20))] * 2,
        ):
            self.failureResultOf(self.producer.send_batch(messages), MessageIllegal)

    def test_no_message(self) -> None:
        """What is no message is refused with a word about what to give, alone and in a batch."""
        word: Any = "orders"
        for call in (lambda: self.producer.send(word), lambda: self.producer.send_batch([word])):
            error = self.failureResultOf(call(), MessageTypeWrong).value
            self.assertEqual(str(error), "give a Message(topic=..., body=...), not a str")

    def test_one_way(self) -> None:
        """A one-way send fires without an answer and asks for none."""
        self.result(self.producer.send_one_way(Message(topic="T", body=b"x"), MessageQueue("T", "a", 0)))
        self.assertTrue(self.a.of(RequestCode.SEND_MESSAGE_V2)[0].is_one_way)

    def test_new_topic(self) -> None:
        """A topic that does not exist is sent to the template's brokers, four queues at most; it is not yet known."""
        self.routes["TBW102"] = route(A, queues=8)
        found = {self.result(self.producer.send(Message(topic="New", body=b"x"))).queue.queue_id for _ in range(8)}
        self.assertEqual(found, {0, 1, 2, 3})
        self.assertIsNone(self.client_.routes.known("New"))
        self.routes["New"] = route(B)
        self.pass_time(30.0, 1.0)
        self.assertEqual(self.result(self.producer.send(Message(topic="New", body=b"x"))).queue.broker_name, "b")

    def test_no_topic(self) -> None:
        """Where not even the template exists, a send is refused as the registry said."""
        sending = self.producer.send(Message(topic="New", body=b"x"))
        self.pass_time(0.5)
        self.assertEqual(self.failureResultOf(sending, PeerRefused).value.code, 17)

    def test_heartbeats(self) -> None:
        """Brokers hear of the group when they are first connected to and every 30 s, and when we leave."""
        self.result(self.producer.send_to(Message(topic="T", body=b"x"), MessageQueue("T", "a", 0)))
        beats = self.a.of(RequestCode.HEART_BEAT)
        self.assertEqual(len(beats), 1)
        data = HeartbeatData.decode(beats[0].body)
        self.assertEqual(
            (data.client_id, [one.group_name for one in data.producer_data_set]), ("127.0.0.1@one", ["pg"])
        )
        self.pass_time(60.0, 1.0)
        self.assertEqual(len(self.a.of(RequestCode.HEART_BEAT)), 3)
        self.result(self.producer.stop())
        (left,) = self.a.of(RequestCode.UNREGISTER_CLIENT)
        self.assertEqual(left.read(UnregisterClientRequest).producer_group, "pg")
        self.failureResultOf(self.producer.send(Message(topic="T", body=b"x")), CallFailed)

    def test_reconnected(self) -> None:
        """A connection that was lost begins again with a heartbeat: the broker has forgotten us."""
        queue = MessageQueue("T", "a", 0)
        self.result(self.producer.send_to(Message(topic="T", body=b"x"), queue))
        self.a.peers[-1].close("for the test")
        self.pass_time(1.0)
        self.result(self.producer.send_to(Message(topic="T", body=b"x"), queue))
        self.assertEqual(len(self.a.of(RequestCode.HEART_BEAT)), 2)

    def test_group_once(self) -> None:
        """A client has one producer of a group."""
        self.assertRaises(SettingError, Producer(self.client_, "pg").start)

    def test_registry_gone(self) -> None:
        """Without any registry a send of an unknown topic fails; known topics still work."""
        self.result(self.producer.send(Message(topic="T", body=b"x")))
        self.servers[0].stopService()
        self.pass_time(8.0)
        self.result(self.producer.send(Message(topic="T", body=b"x")))
        sending = self.producer.send(Message(topic="U", body=b"x"))
        self.pass_time(0.5)
        self.failureResultOf(sending, NotConnected)
