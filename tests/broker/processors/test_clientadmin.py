"""Requests of administrators that connected consumers have a part in."""

from __future__ import annotations

from typing import Any

import msgspec
from twisted.internet.defer import Deferred

from smartgo.errors import CallTimedOut, ConsumerNotOnline, NotConnected, RequestRefused
from smartgo.remoting.interfaces import Answer
from smartgo.schema.bodies import MessageQueue, ResetOffsetBody
from smartgo.schema.codes import LanguageCode, RequestCode
from smartgo.schema.command import Command
from tests.broker.doubles import FakePeer, received, request
from tests.broker.processors.test_brokeradmin import AdminCase
from tests.broker.processors.test_heartbeat import consumer, subscription


class AskedPeer(FakePeer):
    """A connection whose client answers when it is told to."""

    def __init__(self, address: str = "192.0.2.7:40001") -> None:
        super().__init__(address)
        self.asked: list[tuple[Command, float, Deferred[Command]]] = []

    def ask(self, command: Command, timeout: float) -> Deferred[Command]:
        """Remember it."""
        answer: Deferred[Command] = Deferred()
        self.asked.append((command, timeout, answer))
        return answer

    def says(self, code: int = 0, remark: str | None = None, body: bytes = b"") -> None:
        """Answer the oldest question."""
        command, _, waiting = self.asked.pop(0)
        waiting.callback(command.answer(code, remark, body=body))


class ClientAdminCase(AdminCase):
    """A topic of two queues, and groups that may have members."""

    def setUp(self) -> None:
        super().setUp()
        self.peers: list[AskedPeer] = []
        self.create("T")
        self.store.stored["T", 0] = (2, [10, 20, 30])
        self.store.stored["T", 1] = (0, [15])
        for queue_id, offset in ((0, 4), (1, 0)):
            self.offsets.commit("g", "T", queue_id, offset)

    def join(self, client: str = "c1", address: str = "192.0.2.7:40001", version: int = 409) -> AskedPeer:
        """Let a consumer of g come."""
        peer = AskedPeer(address)
        body = {"clientID": client, "consumerDataSet": [consumer("g", subscription("T"))], "producerDataSet": []}
        beat = request(RequestCode.HEART_BEAT, None, body)
        beat.version = version
        self.heartbeats.process(peer, beat)
        self.peers.append(peer)
        for one in self.peers:
            one.told.clear()
        return peer

    def refused(self, answer: Any, kind: type[RequestRefused] = RequestRefused) -> str:
        """The remark of a refusal, at once or through the Deferred."""
        return str(self.failureResultOf(answer, kind).value)


class ResetTests(ClientAdminCase):
    """Moving a group."""

    def reset(self, timestamp: int = 15, force: bool = False, **more: Any) -> Any:
        """222."""
        fields = {"topic": "T", "group": "g", "timestamp": timestamp, "isForce": str(force).lower()} | more
        return self.raw(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **fields)

    def offsets_of(self, body: bytes) -> dict[int, int]:
        """Offsets by queue id of a table."""
        table = ResetOffsetBody.decode(body).offset_table
        self.assertEqual({(queue.topic, queue.broker_name) for queue in table}, {("T", "broker-a")})
        return {queue.queue_id: offset for queue, offset in table.items()}

    def test_tells_every_member(self) -> None:
        """222 sends the offsets of a time to all members, one-way, and answers with the same table."""
        peers = [self.join("c1", "192.0.2.7:1"), self.join("c2", "192.0.2.7:2")]
        answer = received(self.successResultOf(self.reset()))
        self.assertEqual((answer.code, self.offsets_of(answer.body)), (0, {0: 3, 1: 0}))
        for peer in peers:
            (told,) = peer.told
            self.assertEqual((told.code, told.is_one_way, told.body), (220, True, answer.body))
            self.assertEqual(told.fields, {"topic": "T", "group": "g", "timestamp": "15", "isForce": "false"})
        self.assertEqual(self.offsets.query("g", "T", 0), 4)

    def test_never_forward(self) -> None:
        """222 moves no queue past where the group stands, unless it is forced; -1 is the end of each queue."""
        self.join()
        cases: list[tuple[dict[str, Any], dict[int, int]]] = [
            ({"timestamp": 25}, {0: 4, 1: 0}),
            ({"timestamp": -1}, {0: 4, 1: 0}),
            ({"timestamp": -1, "force": True}, {0: 5, 1: 1}),
            ({"timestamp": 16, "force": True, "queueId": -1, "offset": -1}, {0: 3, 1: 1}),
        ]
        for fields, wanted in cases:
            answer = received(self.successResultOf(self.reset(**fields)))
            self.assertEqual(self.offsets_of(answer.body), wanted, fields)

    def test_one_queue(self) -> None:
        """222 of 5.x may name one queue and the offset to go to, which must be in the queue."""
        self.join()
        answer = received(self.successResultOf(self.reset(force=True, queueId=0, offset=5)))
        self.assertEqual(self.offsets_of(answer.body), {0: 5})
        answer = received(self.successResultOf(self.reset(15, queueId=0)))
        self.assertEqual(self.offsets_of(answer.body), {0: 3})
        remark = self.refused(self.reset(force=True, queueId=0, offset=1))
        self.assertEqual(remark, "Target offset 1 not in consume queue range [2-5]")
        self.assertIn("queueId[2]", self.refused(self.reset(queueId=2)))

    def test_languages(self) -> None:
        """A C++ administrator and its members get the table as a list."""
        peer = self.join()
        asked = request(
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, None, topic="T", group="g", timestamp="15", isForce="false"
        )
        asked.language = LanguageCode.CPP
        self.successResultOf(self.client_admin.process(FakePeer(), asked))
        entries = msgspec.json.decode(peer.told[0].body)["offsetTable"]
        self.assertEqual(
            sorted(entries, key=lambda one: one["queueId"]),
            [
                {"topic": "T", "brokerName": "broker-a", "queueId": queue_id, "offset": offset}
                for queue_id, offset in ((0, 3), (1, 0))
            ],
        )

    def test_refused(self) -> None:
        """222 says what is missing: members (206), the topic, the group, a client that understands."""
        remark = self.refused(self.reset(), ConsumerNotOnline)
        self.assertEqual(remark, "Consumer not online, so can not reset offset, Group: g Topic: T Timestamp: 15")
        with self.assertRaises(RequestRefused) as caught:
            self.reset(topic="U")
        self.assertEqual(str(caught.exception), "[reset-offset] reset offset failed, no topic in this broker. topic=U")
        self.assertEqual(self.refused(self.reset(group="h")), "THe consumer group <h> not exist")
        peer = self.join(version=20)
        self.assertEqual(self.refused(self.reset()), "the client does not support this feature. version=20")
        self.assertEqual(peer.told, [])


class StatusTests(ClientAdminCase):
    """The offsets of members."""

    def status(self, **more: Any) -> Any:
        """223."""
        return self.raw(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="T", group="g", **more)

    def table(self, offset: int) -> bytes:
        """Return the table of offsets that a client reports."""
        key = MessageQueue("T", "broker-a", 0).key()
        return msgspec.json.encode({"messageQueueTable": {key: offset}, "consumerTable": {}})

    def test_all(self) -> None:
        """223 asks every member and tells their offsets by client id; who does not answer is left out."""
        one, two, three = (self.join(f"c{number}", f"192.0.2.7:{number}") for number in (1, 2, 3))
        answer = self.status(clientAddr="")
        for peer in (one, two, three):
            command, timeout, _ = peer.asked[0]
            self.assertEqual((command.code, command.fields, timeout), (221, {"topic": "T", "group": "g"}, 5.0))
        one.says(body=self.table(7))
        two.says(body=b"{")
        self.assertNoResult(answer)
        three.asked[0][2].errback(NotConnected("gone"))
        shown = msgspec.json.decode(received(self.successResultOf(answer)).body)
        self.assertEqual(shown["consumerTable"], {"c1": {MessageQueue("T", "broker-a", 0).key(): 7}})

    def test_one(self) -> None:
        """223 may name one client."""
        one, two = self.join("c1", "192.0.2.7:1"), self.join("c2", "192.0.2.7:2")
        self.status(clientAddr="c2")
        self.assertEqual((len(one.asked), len(two.asked)), (0, 1))

    def test_refused(self) -> None:
        """223 needs members, and such that understand."""
        with self.assertRaises(RequestRefused) as caught:
            self.status()
        self.assertEqual(str(caught.exception), "No Any Consumer online in the consumer group: [g]")
        self.join(version=20)
        with self.assertRaises(RequestRefused) as caught:
            self.status()
        self.assertEqual(str(caught.exception), "the client does not support this feature. version=20")


class RunningInfoTests(ClientAdminCase):
    """The running information of clients."""

    def info(self, **more: Any) -> Deferred[Answer]:
        """307."""
        fields = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true"} | more
        answer: Deferred[Answer] = self.raw(RequestCode.GET_CONSUMER_RUNNING_INFO, **fields)
        return answer

    def test_relayed(self) -> None:
        """307 is handed to the client with all its fields, and the client's code, remark and body come back."""
        peer = self.join()
        answer = self.info(extra="kept")
        command, timeout, _ = peer.asked[0]
        self.assertEqual((command.code, timeout), (307, 10.0))
        self.assertEqual(
            command.fields, {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "true", "extra": "kept"}
        )
        peer.says(5, "as it is", b'{"properties":{}}')
        got = received(self.successResultOf(answer))
        self.assertEqual((got.code, got.remark, got.body), (5, "as it is", b'{"properties":{}}'))

    def test_silent(self) -> None:
        """307 is answered 207 where the client does not answer, and 1 where it leaves meanwhile."""
        peer = self.join()
        answers = [self.info(), self.info()]
        peer.asked[0][2].errback(CallTimedOut("request 307 to 192.0.2.7:40001", 10.0))
        peer.asked[1][2].errback(NotConnected("the connection has ended"))
        got = received(self.successResultOf(answers[0]))
        self.assertEqual(got.code, 207)
        self.assertTrue((got.remark or "").startswith("consumer <g> <c1> Timeout: "))
        self.assertTrue(self.refused(answers[1]).startswith("invoke consumer <g> <c1> Exception: "))

    def test_refused(self) -> None:
        """307 needs the client, and one that understands."""
        with self.assertRaises(RequestRefused) as caught:
            self.info()
        self.assertEqual(str(caught.exception), "The Consumer <g> <c1> not online")
        self.join(version=61)
        with self.assertRaises(RequestRefused) as caught:
            self.info()
        self.assertIn("too low to finish, please upgrade it to V3_1_8_SNAPSHOT", str(caught.exception))
        with self.assertRaises(RequestRefused) as caught:
            self.info(clientId="c2")
        self.assertEqual(str(caught.exception), "The Consumer <g> <c2> not online")
