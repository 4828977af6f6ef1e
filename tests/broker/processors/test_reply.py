"""Replies to requests between clients, through a whole broker in memory."""

from __future__ import annotations

import json
import os
import re
from typing import Any, ClassVar

from smartgo.errors import CallTimedOut
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import PushReplyRequest, SendRequest, SendResponse
from smartgo.schema.message import StoredMessage
from smartgo.schema.properties import encode
from tests.broker.fakecluster import BROKER, ClusterCase, send_command
from tests.broker.processors.test_clientadmin import AskedPeer
from tests.broker.processors.test_heartbeat import GOLDEN

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
PROPERTIES = {
    "MSG_TYPE": "reply",
    "REPLY_TO_CLIENT": "asker",
    "UNIQ_KEY": "C0",
    "TTL": "15000",
    "CORRELATION_ID": "28372daf",
}


class ReplyCase(ClusterCase):
    """A client that asked, and one that replies."""

    def setUp(self) -> None:
        super().setUp()
        self.asker = AskedPeer()
        self.cluster.broker.producers.register("Askers", self.asker, "asker", 0, 407)

    def start(self, command: Command) -> list[Command]:
        """Send a reply; the list gets the broker's answer when there is one."""
        answers: list[Any] = []
        self.cluster.client.ask(BROKER, command, 30.0).addBoth(answers.append)
        self.cluster.pump()
        return answers

    def reply(self, **more: Any) -> list[Command]:
        """Send a reply of a Java client."""
        fields: dict[str, Any] = {"code": RequestCode.SEND_REPLY_MESSAGE_V2, "properties": PROPERTIES} | more
        return self.start(send_command(REPLY_TOPIC, b"re: 1", **fields))

    def take(self, code: int = 0, remark: str | None = None) -> None:
        """Have the client that asked answer the oldest push."""
        self.asker.says(code, remark)
        self.cluster.pump()

    def stored(self) -> list[StoredMessage]:
        """The replies in the store."""
        return self.cluster.pull(REPLY_TOPIC)[1]


class PushTests(ReplyCase):
    def test_pushed_and_stored(self) -> None:
        """A reply goes to the client that asked; when it has taken it, the reply is stored and answered."""
        answers = self.reply(flag=7)
        ((command, timeout, _),) = self.asker.asked
        self.assertEqual((command.code, command.body, timeout), (326, b"re: 1", 10.0))
        pushed = command.read(PushReplyRequest)
        now = self.cluster.env.clock.wall_ms()
        self.assertEqual((pushed.topic, pushed.producer_group, pushed.flag), (REPLY_TOPIC, "PG", 7))
        self.assertEqual((pushed.store_host, pushed.store_timestamp), (BROKER, now))
        self.assertRegex(pushed.born_host, r"^127\.0\.0\.1:\d+$")
        self.assertIn(f"PUSH_REPLY_TIME\x01{now}\x02", pushed.properties)
        self.assertEqual((answers, self.stored()), ([], []))
        self.take()
        (message,) = self.stored()
        (answer,) = answers
        header = answer.read(SendResponse)
        self.assertEqual((answer.code, header.msg_id, header.queue_offset), (0, message.message_id, 0))
        self.assertEqual((header.region, header.trace_on), ("DefaultRegion", True))
        self.assertEqual((message.body, message.flag), (b"re: 1", 7))

    def test_long_names(self) -> None:
        """324 is 325 with other names of its fields."""
        header = SendRequest(
            producer_group="PG",
            topic=REPLY_TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=1,
            flag=0,
            properties=encode(PROPERTIES).decode(),
        )
        answers = self.start(Command.request(RequestCode.SEND_REPLY_MESSAGE, header, b"re: 1"))
        self.take()
        self.assertEqual((answers[0].code, len(self.stored())), (0, 1))

    def test_any_queue(self) -> None:
        """A queue id below 0 is for the broker to choose; the client that asked is told what was asked for."""
        answers = self.reply(queue_id=-1)
        self.assertEqual(self.asker.asked[0][0].read(PushReplyRequest).queue_id, -1)
        self.take()
        self.assertEqual(answers[0].read(SendResponse).queue_id, 0)


class FailedPushTests(ReplyCase):
    """A reply that nobody takes is answered 1, and stored all the same, as by RocketMQ."""

    def failed(self, answers: list[Command], remark: str) -> None:
        """Check an answer and the store."""
        self.assertEqual([(each.code, each.remark) for each in answers], [(1, remark)])
        self.assertEqual(answers[0].read(SendResponse).msg_id, self.stored()[0].message_id)

    def test_refused(self) -> None:
        """The client that asked refuses it."""
        answers = self.reply()
        self.take(1, "no such request")
        self.failed(answers, "push reply message to askerfail.")

    def test_late(self) -> None:
        """The client that asked does not answer."""
        answers = self.reply()
        self.asker.asked.pop()[2].errback(CallTimedOut("asker", 10.0))
        self.cluster.pump()
        self.failed(answers, "push reply message to askerfail.")

    def test_not_connected(self) -> None:
        """The client that asked is not there."""
        answers = self.reply(properties=PROPERTIES | {"REPLY_TO_CLIENT": "nobody"})
        self.failed(answers, "push reply message fail, channel of <nobody> not found.")

    def test_nobody_named(self) -> None:
        """It does not say who asked."""
        self.failed(self.reply(properties={"A": "b"}), "reply message properties[REPLY_TO_CLIENT] is null")


class RefusedTests(ReplyCase):
    """What is refused is neither pushed nor stored."""

    def refused(self, code: int, **more: Any) -> None:
        """Check a refusal."""
        (answer,) = self.reply(**more)
        self.assertEqual((answer.code, self.asker.asked, self.stored()), (code, [], []))

    def test_queue(self) -> None:
        """A queue that the topic does not have."""
        self.refused(1, queue_id=1)

    def test_topic(self) -> None:
        """A topic that takes no messages of clients."""
        (answer,) = self.start(
            send_command("SCHEDULE_TOPIC_XXXX", code=RequestCode.SEND_REPLY_MESSAGE_V2, properties=PROPERTIES)
        )
        self.assertEqual((answer.code, self.asker.asked), (16, []))

    def test_delayed(self) -> None:
        """A delayed, a timed and a transactional reply."""
        self.refused(13, properties=PROPERTIES | {"DELAY": "1"})
        self.refused(13, properties=PROPERTIES | {"TIMER_DELAY_MS": "1000"})
        self.refused(13, sys_flag=4)


class FullTests(ReplyCase):
    settings: ClassVar[dict[str, str]] = {"maxMessageSize": "1024"}

    def test_not_stored(self) -> None:
        """A reply that was pushed and cannot be stored is answered 0: the client that asked has it."""
        answers = self.start(
            send_command(REPLY_TOPIC, bytes(2000), code=RequestCode.SEND_REPLY_MESSAGE_V2, properties=PROPERTIES)
        )
        self.take()
        header = answers[0].read(SendResponse)
        self.assertEqual((answers[0].code, header.msg_id, header.queue_offset, self.stored()), (0, "0", 0, []))


class UnstoredTests(ReplyCase):
    settings: ClassVar[dict[str, str]] = {"storeReplyMessageEnable": "false"}

    def test_not_stored(self) -> None:
        """With storeReplyMessageEnable=false a reply is pushed alone."""
        answers = self.reply()
        self.take()
        self.assertEqual((answers[0].code, answers[0].read(SendResponse).msg_id, self.stored()), (0, "0", []))


class SlaveTests(ClusterCase):
    settings: ClassVar[dict[str, str]] = {"brokerRole": "SLAVE", "brokerId": "1"}

    def test_refused(self) -> None:
        """A slave refuses replies: it stores no messages of its own."""
        for code in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
            self.assertEqual(self.cluster.ask(send_command(REPLY_TOPIC, code=code)).code, 14)


class GoldenTests(ReplyCase):
    def test_push_of_real_broker(self) -> None:
        """The fields of a push are those that a real broker made of the same reply."""
        checked = 0
        for name in ("client-4.9-json", "client-5.3-json"):
            with open(os.path.join(GOLDEN, f"{name}.jsonl"), encoding="utf-8") as lines:
                frames = [json.loads(line) for line in lines]
            reply = next(one for one in frames if one.get("code_name") == "SEND_REPLY_MESSAGE_V2")["header"][
                "extFields"
            ]
            theirs = next(one for one in frames if one.get("code_name") == "PUSH_REPLY_MESSAGE_TO_CLIENT")
            expected = theirs["header"]["extFields"]
            found = re.search(r"REPLY_TO_CLIENT\x01([^\x02]+)", reply["i"])
            assert found is not None
            self.cluster.broker.producers.register("Askers", self.asker, found[1], 0, 407)
            self.start(Command.request(RequestCode.SEND_REPLY_MESSAGE_V2, fields=reply, body=b"re"))
            ours = dict(self.asker.asked[-1][0].fields)
            for fields in (ours, expected):
                self.assertRegex(fields.pop("bornHost"), r"^127\.0\.0\.1:\d+$")
                self.assertRegex(fields.pop("storeHost"), r"^127\.0\.0\.1:\d+$")
                pushed = fields.pop("storeTimestamp")
                fields["properties"] = fields["properties"].replace(pushed, "NOW")
            self.assertEqual(ours, expected)
            self.take()
            self.assertEqual(self.stored()[-1].properties, reply["i"].removesuffix("\x02").encode())
            checked += 1
        self.assertEqual(checked, 2)
