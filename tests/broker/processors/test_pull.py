"""Pulls and long polls, through a whole broker in memory."""

from __future__ import annotations

import json
import tracemalloc
from typing import ClassVar

from twisted.internet.defer import Deferred

from smartgo.errors import NotConnected
from smartgo.schema.bodies import ConsumerData, HeartbeatData, SubscriptionData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.message import NewMessage, pack_host, parse_message_id
from smartgo.schema.record import encode as encode_record
from smartgo.schema.topics import OFFSET_MOVED_EVENT
from tests.broker.fakecluster import BROKER, FAST, ClusterCase, pull_command, records, send_command


class PullTests(ClusterCase):
    def test_statuses(self) -> None:
        """What is outside the queue is answered as a RocketMQ broker does, with the offset to go on from."""
        self.cluster.send("T")
        for offset, code, remark, following in (
            (0, 0, "FOUND", 1),
            (1, 19, "OFFSET_OVERFLOW_ONE", 1),
            (7, 21, "OFFSET_OVERFLOW_BADLY", 1),
        ):
            answer, _ = self.cluster.pull("T", 0, offset)
            fields = answer.fields
            self.assertEqual((answer.code, answer.remark, fields["nextBeginOffset"]), (code, remark, str(following)))
            self.assertEqual(
                (fields["minOffset"], fields["maxOffset"], fields["suggestWhichBrokerId"]), ("0", "1", "0")
            )
        self.assertEqual([self.cluster.pull("T", 3, offset)[0].code for offset in (0, 5)], [19, 21])

    def test_moved_event(self) -> None:
        """An offset that is not there leaves a trace in OFFSET_MOVED_EVENT."""
        self.cluster.send("T")
        self.cluster.pull("T", 0, 7)
        _, (event,) = self.cluster.pull(OFFSET_MOVED_EVENT)
        self.assertEqual(
            json.loads(bytes(event.body)),
            {
                "consumerGroup": "CG",
                "messageQueue": {"brokerName": "broker-a", "queueId": 0, "topic": "T"},
                "offsetNew": 1,
                "offsetRequest": 7,
            },
        )
        self.assertIn(b"KEYS\x01CG\x02DELAY\x010\x02TAGS\x01CG", bytes(event.properties))  # as RocketMQ stores it

    def test_refused(self) -> None:
        """Unknown topics, queues and subscriptions are refused with their codes."""
        self.cluster.send("T")
        self.assertEqual(self.cluster.pull("Nothing")[0].code, 17)
        self.assertEqual([self.cluster.pull("T", queue)[0].code for queue in (-1, 4)], [1, 1])
        self.assertEqual(self.cluster.pull("T", sys_flag=0)[0].code, 24)
        self.cluster.heartbeat("CG", "Other")
        self.assertEqual(self.cluster.pull("T", sys_flag=0)[0].code, 24)
        self.cluster.heartbeat("CG", "T", version=5)
        self.assertEqual(self.cluster.pull("T", sys_flag=0, sub_version=6)[0].code, 25)
        self.assertEqual(self.cluster.pull("T", sys_flag=0, sub_version=5)[0].code, 0)

    def test_commits(self) -> None:
        """An offset that a pull carries is committed."""
        self.cluster.send("T")
        self.cluster.pull("T", sys_flag=5, commit_offset=1)
        self.assertEqual(self.cluster.broker.offsets.query("CG", "T", 0), 1)

    def test_tags(self) -> None:
        """A subscription to tags gets those; what is filtered out moves the offset on."""
        for tag in ("a", "b", "a"):
            self.cluster.send("T", tag.encode(), properties={"TAGS": tag})
        answer, found = self.cluster.pull("T", subscription="a")
        self.assertEqual(([one.body for one in found], answer.fields["nextBeginOffset"]), ([b"a", b"a"], "3"))
        answer, found = self.cluster.pull("T", subscription="c")
        self.assertEqual((answer.code, found, answer.fields["nextBeginOffset"]), (20, [], "3"))

    def test_limits(self) -> None:
        """One pull brings at most 32 messages, and at most 256 KiB unless the first is longer."""
        for _ in range(40):
            self.cluster.send("T", b"x")
        self.assertEqual(len(self.cluster.pull("T", max_msg_nums=1000)[1]), 32)
        self.assertEqual(len(self.cluster.pull("T", max_msg_nums=5)[1]), 5)
        for _ in range(3):
            self.cluster.send("T", bytes(200_000), 1)
        self.assertEqual(len(self.cluster.pull("T", 1)[1]), 1)

    def test_held(self) -> None:
        """A pull at the end of its queue waits for the next message."""
        self.cluster.send("T")
        answers: list[Command] = []
        self.cluster.client.ask("127.0.0.1:10911", pull_command("T", 0, 1, sys_flag=6), 30.0).addCallback(
            answers.append
        )
        self.cluster.pump(3.0)
        self.assertEqual((answers, self.cluster.broker.long_polls.count), ([], 1))
        self.cluster.send("T", b"second")
        self.assertEqual([(one.code, records(one.body)[0].body) for one in answers], [(0, b"second")])

    def test_held_is_small(self) -> None:
        """Of a pull that is held neither body nor raw header is kept, nor long texts of the header."""
        self.cluster.send("T")

        def hold() -> None:
            command = pull_command("T", 0, 1, sys_flag=6)
            command.body = bytes(300_000)
            command.remark = "r" * 50_000
            command.fields.update(pad="x" * 50_000, proxyFrowardClientId="y" * 50_000, Signature="z" * 50_000)
            self.cluster.client.ask(BROKER, command, 30.0).addErrback(lambda failure: None)
            command.body, command.remark = b"", None
            command.fields.clear()
            self.cluster.pump()

        hold()
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        hold()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            hold()
        after, _ = tracemalloc.get_traced_memory()
        self.assertEqual(self.cluster.broker.long_polls.count, 22)
        self.assertLess((after - before) / 20, 20_000)

    def test_held_to_the_end(self) -> None:
        """With no message it is answered 19 when its time is over."""
        self.cluster.send("T")
        answers: list[Command] = []
        command = pull_command("T", 0, 1, sys_flag=6, suspend_timeout_millis=3000)
        self.cluster.client.ask("127.0.0.1:10911", command, 30.0).addCallback(answers.append)
        self.cluster.pump(2.9)
        self.assertEqual(answers, [])
        self.cluster.pump(0.8)
        self.assertEqual([one.code for one in answers], [19])

    def test_held_and_gone(self) -> None:
        """A connection that ends takes its held pulls with it."""
        self.cluster.send("T")
        waiting: Deferred[Command] = self.cluster.client.ask(
            "127.0.0.1:10911", pull_command("T", 0, 1, sys_flag=6), 30.0
        )
        self.cluster.pump()
        self.cluster.client.hang_up("127.0.0.1:10911", "test")
        self.cluster.pump()
        self.failureResultOf(waiting, NotConnected)
        self.assertEqual(self.cluster.broker.long_polls.count, 0)

    def test_fast_port(self) -> None:
        """The fast port answers everything but pulls, which get 3."""
        self.assertEqual(self.cluster.ask(send_command("T"), FAST).code, 0)
        self.assertEqual(self.cluster.ask(pull_command("T"), FAST).code, 3)

    def test_view(self) -> None:
        """A message is found by its place, and only where one begins."""
        stored = self.cluster.send("T", b"find me").read(SendResponse)
        offset = parse_message_id(stored.msg_id)[1]
        code = RequestCode.VIEW_MESSAGE_BY_ID
        answer = self.cluster.ask(Command.request(code, ViewMessageRequest(offset=offset)))
        self.assertEqual([one.body for one in records(answer.body)], [b"find me"])
        for wrong in (offset + 1, -1, 1 << 40):
            answer = self.cluster.ask(Command.request(code, ViewMessageRequest(offset=wrong)))
            self.assertEqual((answer.code, answer.remark), (1, f"can not find message by the offset, {wrong}"))

    def forge(self, topic: str, queue_offset: int) -> int:
        """Send a message whose body holds a record of another topic; return where that record begins."""
        stored = self.cluster.send("Attacker", b"x" * 8).read(SendResponse)
        begin = parse_message_id(stored.msg_id)[1]
        end = begin + self.log_size(begin)
        at = end + 88  # where the next record's body begins
        message = NewMessage(
            topic, 0, b"forged", b"", born_host=pack_host("127.0.0.1", 1), store_host=pack_host("127.0.0.1", 2)
        )
        record = encode_record(message, queue_offset, at, 1)
        stored = self.cluster.send("Attacker", record + b"tail").read(SendResponse)
        self.assertEqual(parse_message_id(stored.msg_id)[1], end)
        return at

    def log_size(self, offset: int) -> int:
        """The size of the record at a physical offset."""
        return len(self.successResultOf(self.cluster.broker.store.at(offset)))

    def test_forged(self) -> None:
        """A record inside a body is no message, whatever it says: neither shown, nor given back."""
        self.cluster.send("Victim", b"genuine")
        self.cluster.send("Victim", b"genuine")
        for topic, queue_offset in (("Victim", 0), ("Victim", 1), ("Victim", 2), ("Nowhere", 0), ("Attacker", 1)):
            at = self.forge(topic, queue_offset)
            self.assertEqual(
                self.successResultOf(self.cluster.broker.store.at(at))[-len(topic) - 3 - 6 :][:6], b"forged"
            )
            view = Command.request(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=at))
            answer = self.cluster.ask(view)
            self.assertEqual((answer.code, answer.remark), (1, f"can not find message by the offset, {at}"))
            header = SendBackRequest(offset=at, group="CG", delay_level=-1)
            answer = self.cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header))
            self.assertEqual((answer.code, answer.remark), (1, f"look message by offset failed, {at}"))
        self.assertEqual(self.cluster.broker.store.bounds("%DLQ%CG", 0), (0, 0))


class NoSqlTests(ClusterCase):
    """A broker that does not filter by properties."""

    settings: ClassVar[dict[str, str]] = {"enablePropertyFilter": "false"}

    def test_refused(self) -> None:
        """Expressions other than tags are refused."""
        self.cluster.send("T")
        sql, _ = self.cluster.pull("T", expression_type="SQL92", subscription="a > 1")
        self.assertEqual(sql.code, 1)
        self.assertIn("SQL92", sql.remark or "")


class SqlTests(ClusterCase):
    """A broker that filters by properties, as it does by default."""

    settings: ClassVar[dict[str, str]] = {"mappedFileSizeConsumeQueue": "20000"}

    def send(self, *numbers: int) -> None:
        """Send messages with a property n."""
        for number in numbers:
            self.cluster.send("T", str(number).encode(), properties={"n": str(number)})

    def test_request(self) -> None:
        """A pull that carries an expression has the messages that match, and goes on behind the others."""
        self.send(1, 7, 2, 8)
        answer, found = self.cluster.pull("T", expression_type="SQL92", subscription="n BETWEEN 5 AND 7 OR n = 2")
        self.assertEqual(([one.body for one in found], answer.fields["nextBeginOffset"]), ([b"7", b"2"], "4"))
        answer, found = self.cluster.pull("T", expression_type="SQL92", subscription="n > 100")
        self.assertEqual((answer.code, found, answer.fields["nextBeginOffset"]), (20, [], "4"))

    def test_wrong(self) -> None:
        """A pull that carries a wrong expression is answered 23, one of a group that subscribed by it 27."""
        self.send(1)
        answer, _ = self.cluster.pull("T", expression_type="SQL92", subscription="n >")
        self.assertEqual(answer.code, 23)
        self.assertIn("parse the consumer's subscription failed", answer.remark or "")
        for version, text, code in ((1, "n >", 27), (2, "", 27), (3, "n > 0", 0)):
            self.subscribe(text, version)
            self.assertEqual(self.cluster.pull("T", sys_flag=0)[0].code, code)

    def subscribe(self, text: str, version: int) -> None:
        """Join a group, subscribing by an expression."""
        data = SubscriptionData(topic="T", sub_string=text, sub_version=version, expression_type="SQL92")
        consumer = ConsumerData(group_name="CG", subscription_data_set=[data])
        body = HeartbeatData(client_id="client-1", consumer_data_set=[consumer]).encode()
        self.assertEqual(self.cluster.ask(Command.request(RequestCode.HEART_BEAT, body=body)).code, 0)

    def test_check(self) -> None:
        """46 answers with the words of the parser."""
        for text, code, remark in (
            ("n > 5 AND m IS NOT NULL", 0, ""),
            ("n between 5 and 1", 23, "java.lang.RuntimeException: Illegal values of between, left value(5) must less"),
        ):
            data = {"topic": "T", "subString": text, "expressionType": "SQL92"}
            body = json.dumps({"clientId": "c", "group": "CG", "subscriptionData": data}).encode()
            answer = self.cluster.ask(Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body))
            self.assertEqual(answer.code, code)
            self.assertTrue((answer.remark or "").startswith(remark), answer.remark)

    def test_held(self) -> None:
        """A held pull is answered by a message that matches, not by others."""
        self.send(1)
        answers: list[Command] = []
        command = pull_command("T", 0, 1, sys_flag=6, expression_type="SQL92", subscription="n > 5")
        self.cluster.client.ask(BROKER, command, 30.0).addCallback(answers.append)
        self.cluster.pump()
        self.send(2, 3)
        self.assertEqual((answers, self.cluster.broker.long_polls.count), ([], 1))
        self.send(9)
        self.assertEqual([[found.body for found in records(one.body)] for one in answers], [[b"9"]])

    def test_passed(self) -> None:
        """A held pull that only other messages pass goes on behind them after 5 s."""
        self.send(1)
        answers: list[Command] = []
        command = pull_command("T", 0, 1, sys_flag=6, expression_type="SQL92", subscription="n > 5")
        self.cluster.client.ask(BROKER, command, 30.0).addCallback(answers.append)
        self.cluster.pump()
        self.send(2, 3)
        self.cluster.pump(4.0)
        self.assertEqual(answers, [])
        self.cluster.pump(2.0)
        self.assertEqual([(one.code, one.fields["nextBeginOffset"]) for one in answers], [(20, "3")])

    def test_many(self) -> None:
        """One pull looks at 200 messages at least, and not at all of a long queue."""
        self.send(*range(250))
        answer, found = self.cluster.pull("T", expression_type="SQL92", subscription="n > 240")
        self.assertEqual((answer.code, found, answer.fields["nextBeginOffset"]), (20, [], "200"))
        answer, found = self.cluster.pull("T", 0, 200, expression_type="SQL92", subscription="n > 240")
        self.assertEqual((len(found), answer.fields["nextBeginOffset"]), (9, "250"))
