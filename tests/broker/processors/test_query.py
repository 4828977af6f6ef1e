"""Single messages, asked for over the wire: by key (12), and consumed once more by a member of a group (309)."""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.errors import RequestRefused
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumeDirectlyRequest
from smartgo.schema.headers.messages import QueryMessageRequest, QueryMessageResponse
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.message import NewMessage, pack_host, parse_message_id
from smartgo.schema.record import encode as encode_record
from tests.broker.fakecluster import BROKER, ClusterCase, heartbeat, records
from tests.fakes import EPOCH_MS
from tests.remoting.doubles import sweeper_of


@implementer(IRequestProcessor)
class Consumer(Processor):
    """A client's side of 309: remembers what it is asked, and answers as it is told."""

    codes = frozenset({int(RequestCode.CONSUME_MESSAGE_DIRECTLY)})

    def __init__(self) -> None:
        self.asked: list[Command] = []
        self.remark: str | None = None
        self.silent = False

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Answer, refuse, or never do either."""
        self.asked.append(request)
        if self.silent:
            return Deferred()
        if self.remark:
            raise RequestRefused(self.remark)
        return request.answer(body=b'{"consumeResult":"CR_SUCCESS"}')


class QueryTests(ClusterCase):
    """12."""

    def query(self, key: str, topic: str = "T", unique: str | None = None, **more: Any) -> Command:
        """Ask as mqadmin does."""
        fields = {"topic": topic, "key": key, "maxNum": "64", "beginTimestamp": "0", "endTimestamp": str(1 << 62)}
        if unique is not None:
            fields["_UNIQUE_KEY_QUERY"] = unique
        fields |= {name: str(value) for name, value in more.items()}
        found: list[Command] = []
        self.cluster.client.ask(BROKER, Command.request(RequestCode.QUERY_MESSAGE, fields=fields), 3.0).addCallback(
            found.append
        )
        self.cluster.pump(0.1)
        return found[0]

    def bodies(self, answer: Command) -> list[bytes]:
        """Return the bodies of the found messages."""
        self.assertEqual(answer.code, 0, answer.remark)
        return [bytes(one.body) for one in records(answer.body)]

    def test_found(self) -> None:
        """Right after it was sent a message is found by each key and by its unique key, with how far the index is."""
        self.cluster.send("T", b"one", properties={"UNIQ_KEY": "U1", "KEYS": "a b"})
        second = self.cluster.send("T", b"two", properties={"UNIQ_KEY": "U2", "KEYS": "b"}).read(SendResponse)
        self.assertEqual(self.bodies(self.query("b")), [b"one", b"two"])
        self.assertEqual(self.bodies(self.query("a")), [b"one"])
        answer = self.query("U2", unique="true")
        self.assertEqual(self.bodies(answer), [b"two"])
        header = answer.read(QueryMessageResponse)
        self.assertEqual(header.index_last_update_phyoffset, parse_message_id(second.msg_id)[1])
        self.assertGreaterEqual(header.index_last_update_timestamp, EPOCH_MS)

    def test_not_found(self) -> None:
        """What is not there, of another topic or outside the span of time, is answered with 22, and how far it is."""
        self.cluster.send("T", properties={"KEYS": "k"})
        for answer in (
            self.query("x"),
            self.query("k", "U"),
            self.query("k", beginTimestamp=EPOCH_MS + 3_600_000),
            self.query("k", endTimestamp=EPOCH_MS - 3_600_000),
            self.query("k", maxNum=0),
            self.query("k", maxNum=-1),
        ):
            self.assertEqual((answer.code, answer.body), (22, b""))
            self.assertEqual(answer.remark, "can not find message, maybe time range not correct")
            self.assertGreater(answer.read(QueryMessageResponse).index_last_update_timestamp, 0)

    def test_limits(self) -> None:
        """By key at most 64 are found, by unique key 32 whatever was asked for: the newest."""
        sent = [b"%d" % number for number in range(70)]
        for body in sent:
            self.cluster.send("T", body, properties={"KEYS": "k"})
        self.assertEqual(self.bodies(self.query("k", maxNum=1000)), sent[-64:])
        self.assertEqual(self.bodies(self.query("k", maxNum=3)), sent[-3:])
        self.assertEqual(self.bodies(self.query("k", unique="true", maxNum=1)), sent[-32:])
        self.assertEqual(self.bodies(self.query("k", unique="false", maxNum=1)), sent[-1:])

    def test_collision(self) -> None:
        """Another key of the same hash is answered as well, as a RocketMQ broker does."""
        self.cluster.send("T", b"Aa", properties={"KEYS": "Aa"})
        self.cluster.send("T", b"BB", properties={"KEYS": "BB"})
        self.assertEqual(self.bodies(self.query("Aa")), [b"Aa", b"BB"])


class UnindexedTests(ClusterCase):
    """12 where there is no index."""

    settings: ClassVar[dict[str, str]] = {"messageIndexEnable": "false"}

    def test_nothing(self) -> None:
        """With the index switched off nothing is found, and no file is made."""
        self.cluster.send("T", properties={"KEYS": "k"})
        header = QueryMessageRequest(topic="T", key="k", max_num=64, begin_timestamp=0, end_timestamp=1 << 62)
        answer = self.cluster.ask(Command.request(RequestCode.QUERY_MESSAGE, header))
        self.assertEqual((answer.code, answer.read(QueryMessageResponse)), (22, QueryMessageResponse(0, 0)))
        self.assertEqual([path for path in self.cluster.env.files.files if "/index/" in path], [])


class ConsumeDirectlyTests(ClusterCase):
    """309."""

    def setUp(self) -> None:
        """A consumer c1 of G, and a message."""
        super().setUp()
        self.consumer = Consumer()
        self.member = RemotingClient(self.cluster.env, sweeper_of(self.cluster.env.clock), Dispatcher([self.consumer]))
        body = heartbeat("G", "T", client_id="c1")
        beat = Command.request(RequestCode.HEART_BEAT, body=body)
        self.member.ask(BROKER, beat, 3.0)
        self.cluster.pump()
        self.stored = self.cluster.send("T", b"hard", properties={"KEYS": "k"}).read(SendResponse)

    def tearDown(self) -> None:
        """Leave."""
        self.member.stop()
        self.cluster.pump()
        super().tearDown()

    def consume(self, **changes: Any) -> list[object]:
        """Ask as an administrator does; the answer may come later."""
        found: list[object] = []
        values = {"consumer_group": "G", "client_id": "c1", "msg_id": self.stored.msg_id, **changes}
        command = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyRequest(**values))
        self.cluster.client.ask(BROKER, command, 15.0).addBoth(found.append)
        self.cluster.pump(0.2)
        return found

    def answer(self, **changes: Any) -> Command:
        """The same, where it comes at once."""
        (found,) = self.consume(**changes)
        assert isinstance(found, Command), found
        return found

    def test_relayed(self) -> None:
        """The member gets the stored message, the fields and the broker's name; its answer is handed on."""
        answer = self.answer(topic="T")
        self.assertEqual((answer.code, answer.body), (0, b'{"consumeResult":"CR_SUCCESS"}'))
        (asked,) = self.consumer.asked
        self.assertEqual([one.body for one in records(asked.body)], [b"hard"])
        header = asked.read(ConsumeDirectlyRequest)
        self.assertEqual((header.consumer_group, header.client_id, header.broker_name), ("G", "c1", "broker-a"))
        self.assertEqual((header.msg_id, header.topic), (self.stored.msg_id, "T"))

    def test_refused(self) -> None:
        """A member that is not there, a message that is not there, no id at all: said so, and nobody is asked."""
        for changes, remark in (
            ({"client_id": "c2"}, "The Consumer <G> <c2> not online"),
            ({"client_id": None}, "The Consumer <G> <> not online"),
            ({"consumer_group": "H"}, "The Consumer <H> <c1> not online"),
            ({"msg_id": self.stored.msg_id[:-2] + "01"}, "no message 7F000001"),
            ({"msg_id": None}, ""),
            ({"msg_id": "nonsense"}, ""),
        ):
            answer = self.answer(**changes)
            self.assertEqual(answer.code, 1)
            self.assertIn(remark, answer.remark or "")
        self.assertEqual(self.consumer.asked, [])

    def test_forged(self) -> None:
        """A record inside a body of somebody's message is no message that a member would be given."""
        end = self.cluster.broker.store.log_bounds()[1]
        host = pack_host("127.0.0.1", 1)
        record = encode_record(NewMessage("T", 0, b"forged", b"", born_host=host, store_host=host), 1, end + 88, 1)
        self.cluster.send("Attacker", record)
        self.assertTrue(self.successResultOf(self.cluster.broker.store.at(end + 88)).endswith(b"forged\x01T\x00\x00"))
        answer = self.answer(msg_id=self.stored.msg_id[:-16] + f"{end + 88:016X}")
        self.assertEqual((answer.code, self.consumer.asked), (1, []))

    def test_its_refusal(self) -> None:
        """What the member refuses is handed on with its remark."""
        self.consumer.remark = "not now"
        answer = self.answer()
        self.assertEqual((answer.code, answer.remark), (1, "not now"))

    def test_late(self) -> None:
        """A member that does not answer in ten seconds is given up with 207."""
        self.consumer.silent = True
        found = self.consume()
        self.cluster.pump(9.5)
        self.assertEqual(found, [])
        self.cluster.pump(1.0)
        (answer,) = found
        assert isinstance(answer, Command), answer
        self.assertEqual(answer.code, 207)
