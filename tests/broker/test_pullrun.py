"""Runs of plain pulls: the compiled one by itself, and in a whole broker whose hub reads real sockets."""

from __future__ import annotations

from typing import Any, ClassVar
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.processors.pull import PullProcessor
from smartgo.broker.pullrun import PullRun, PullSource, PullWork
from smartgo.broker.settings.changes import Who
from smartgo.core import CORE, IS_COMPILED
from smartgo.errors import RequestRefused
from smartgo.net.hub import Hub
from smartgo.net.link import Link
from smartgo.schema.bodies import ConsumerData, HeartbeatData, SubscriptionData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.responses import found_pieces, pull_response
from smartgo.store.interfaces import ReadLimit, ReadResult, ReadStatus
from tests.broker import test_sendrun
from tests.broker.fakecluster import Cluster, pull_command, send_command
from tests.broker.sendtape import SocketClient
from tests.broker.test_sendrun import binary_frame, json_frame
from tests.fakes import FakeEnvironment
from tests.net.test_hub import CompiledHubTestCase, HubTestCase, Source, with_length
from tests.sockets import SocketNetwork

FIELDS = {
    "consumerGroup": "CG", "topic": "T", "queueId": "1", "queueOffset": "7", "maxMsgNums": "32", "sysFlag": "2",
    "commitOffset": "0", "suspendTimeoutMillis": "15000", "subVersion": "5",
}  # fmt: skip
FRAMES: tuple[Any, ...] = (json_frame, binary_frame)


class PullRunTests(SynchronousTestCase):
    """The run by itself."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    def setUp(self) -> None:
        """A run that knows one group and topic."""
        self.known: PullSource | None = PullSource("CG", "T", 4, 0, 1, 5, "filter")  # type: ignore[arg-type]
        self.asked: list[Any] = []
        self.reads: list[Any] = []
        self.counted: list[Any] = []
        self.committed: list[Any] = []
        parts = [memoryview(b"one"), memoryview(b"twothree")]
        self.result = ReadResult(ReadStatus.FOUND, 10, 3, 1 << 40, parts, 3, 11, False)
        self.run_of_pulls = self.make(self.commit)

    def make(self, commit: Any) -> Any:
        """A run that asks this test."""
        pieces = found_pieces("FOUND")
        limit = ReadLimit(32, 1000)
        return PullRun(PullWork(self.learn, self.find, self.read, self.count, commit, limit, ReadStatus.FOUND, pieces))

    def learn(self, group: str, topic: str) -> PullSource | None:
        self.asked.append((group, topic))
        return self.known if (group, topic) == ("CG", "T") else None

    def find(self, kind: str | None, text: str | None) -> Any:
        if text == "bad":
            raise RequestRefused("no such filter")
        return f"filter of {text}"

    def read(self, *asked: Any) -> ReadResult:
        self.reads.append(asked)
        return self.result

    def count(self, *counted: Any) -> None:
        self.counted.append(counted)

    def commit(self, *committed: Any) -> None:
        self.committed.append(committed)

    def answer(self, **changes: str) -> Any:
        """The answer to a pull that is plain but for some fields."""
        return self.run_of_pulls.answer(json_frame({**FIELDS, **changes}, b"", 11))

    def test_answers(self) -> None:
        """The answer is what Python writes, for both codes and encodings, whatever the numbers."""
        for encoding, frame in enumerate(FRAMES):
            for code in (11, 361):
                for numbers in ((0, 0, 0), (10, 3, 1 << 40), ((1 << 62) + 1, 99, 123_456_789)):
                    self.result = self.result._replace(next_offset=numbers[0], minimum=numbers[1], maximum=numbers[2])
                    head = pull_response(encoding, 5, 0, "FOUND", 0, *numbers, 11)
                    self.assertEqual(self.run_of_pulls.answer(frame(FIELDS, b"", code)), head + b"onetwothree")

    def test_opaques(self) -> None:
        """An answer has the number of its request, whatever it is."""
        for opaque in (0, -1, -(1 << 31), (1 << 31) - 1):
            head = pull_response(0, opaque, 0, "FOUND", 0, 10, 3, 1 << 40, 11)
            found = self.run_of_pulls.answer(json_frame(FIELDS, b"", 11, opaque=opaque))
            self.assertEqual(found, head + b"onetwothree")

    def test_reads(self) -> None:
        """What is read is what was asked for, within the limits; what is given out is counted."""
        for changes, limit in (
            ({}, (32, 1000)),
            ({"maxMsgNums": "33"}, (32, 1000)),
            ({"maxMsgNums": "31"}, (31, 1000)),
            ({"maxMsgNums": "0"}, (1, 1000)),
            ({"maxMsgNums": "-9"}, (1, 1000)),
            ({"maxMsgBytes": "999"}, (32, 999)),
            ({"maxMsgBytes": "1001"}, (32, 1000)),
            ({"maxMsgBytes": "0"}, (32, 1)),
        ):
            self.reads.clear()
            self.counted.clear()
            self.assertIsNotNone(self.answer(**changes), changes)
            self.assertEqual(self.reads, [("T", 1, 7, limit, "filter")], changes)
            self.assertEqual(self.counted, [("CG", "T", 3, 11, 1)])

    def test_slaves(self) -> None:
        """Where the read suggests it, the other broker is named."""
        self.result = self.result._replace(suggest_slave=True)
        head = pull_response(0, 5, 0, "FOUND", 1, 10, 3, 1 << 40, 11)
        self.assertEqual(self.answer(), head + b"onetwothree")

    def test_filters(self) -> None:
        """A subscription that comes with the pull counts if the flag says so; what can be no filter is not taken."""
        for changes, wanted in (
            ({}, None),
            ({"subscription": "*"}, None),
            ({"subscription": ""}, None),
            ({"subscription": "**"}, "filter of **"),
            ({"subscription": "中 || b", "expressionType": "TAG"}, "filter of 中 || b"),
            ({"subscription": "a", "expressionType": ""}, "filter of a"),
        ):
            self.reads.clear()
            self.assertIsNotNone(self.answer(**{"sysFlag": "4", "subVersion": "99", **changes}), changes)
            self.assertEqual(self.reads[0][4], wanted, changes)
        for changes in ({"subscription": "bad"}, {"subscription": "a", "expressionType": "SQL92"}):
            self.assertIsNone(self.answer(**{"sysFlag": "4", **changes}), changes)
        self.assertEqual(len(self.reads), 1)
        self.answer(subscription="other", expressionType="SQL92")
        self.assertEqual(self.reads[1][4], "filter")

    def test_commits(self) -> None:
        """An offset that comes with a pull is committed, where the flag says so and commits are taken."""
        self.answer(sysFlag="3", commitOffset="6")
        self.answer(sysFlag="1", commitOffset="0")
        self.answer(sysFlag="2", commitOffset="6")
        self.answer(sysFlag="3", commitOffset="-1")
        self.assertEqual(self.committed, [("CG", "T", 1, 6), ("CG", "T", 1, 0)])
        self.run_of_pulls = self.make(None)
        self.assertIsNotNone(self.answer(sysFlag="3", commitOffset="6"))
        self.assertEqual(len(self.committed), 2)

    def test_learned(self) -> None:
        """A group and topic are asked for once, until all is forgotten; what is not known is asked for again."""
        for _ in range(3):
            self.answer()
            self.assertIsNone(self.answer(topic="U"))
        self.assertEqual(self.asked, [("CG", "T"), ("CG", "U"), ("CG", "U"), ("CG", "U")])
        self.run_of_pulls.forget()
        self.known = None
        self.assertIsNone(self.answer())

    def test_many(self) -> None:
        """The table of what is known is emptied when it is full."""
        with mock.patch.object(self, "learn", lambda group, topic: self.known._replace(topic=topic)):  # type: ignore[union-attr]
            self.run_of_pulls = self.make(None)
            for number in range(4100):
                self.assertIsNotNone(self.answer(topic=f"T{number}"))
                self.assertEqual(self.reads.pop()[0], f"T{number}")
            self.assertIsNotNone(self.answer(topic="T1"))

    def assert_not_taken(self, why: str, frame: bytes | None = None, **changes: Any) -> None:
        """Nothing is answered, counted or committed."""
        self.counted.clear()
        frame = json_frame({**FIELDS, "sysFlag": "3", **changes}, b"", 11) if frame is None else frame
        self.assertIsNone(self.run_of_pulls.answer(frame), why)
        self.assertEqual((self.counted, self.committed), ([], []), why)

    def test_not_taken(self) -> None:
        """Each rule, crossed by one."""
        self.assert_not_taken("queue below 0", queueId="-1")
        self.assert_not_taken("queue past the last", queueId="4")
        self.assert_not_taken("version above the group's", subVersion="6")
        self.assert_not_taken("no such group", consumerGroup="CH")
        self.assert_not_taken("no such topic", topic="S")
        for name in FIELDS:
            rest = {key: value for key, value in FIELDS.items() if key != name}
            for frame in FRAMES:
                self.assert_not_taken(f"without {name}", frame(rest, b"", 11))
                if name not in ("consumerGroup", "topic"):
                    for value in ("", "x", "1.0", "+1", " 1", "9" * 19):
                        self.assert_not_taken(f"{name} {value}", frame({**FIELDS, name: value}, b"", 11))
        for name in ("maxMsgBytes", "requestSource"):
            self.assert_not_taken("no number", json_frame({**FIELDS, name: "x"}, b"", 11))
        self.assert_not_taken("negative size", maxMsgBytes="-1")
        for name in ("queueId", "maxMsgNums", "sysFlag", "maxMsgBytes", "requestSource"):
            for number in (1 << 31, -(1 << 31) - 1):
                self.assert_not_taken(f"{name} {number}", json_frame({**FIELDS, name: str(number)}, b"", 11))
        for flag in (1, 2, 3, -1):
            self.assert_not_taken("flag", json_frame(FIELDS, b"", 11, flag=flag))
            self.assert_not_taken("flag", binary_frame(FIELDS, b"", 11, flag=flag))
        for code in (10, 12, 310, 360, 362, 34):
            for frame in FRAMES:
                self.assert_not_taken("code", frame(FIELDS, b"", code))
        whole = json_frame(FIELDS, b"", 11)
        for size in range(len(whole)):
            self.assert_not_taken("cut", whole[:size])
        twice = whole.replace(b'"queueId":"1"', b'"queueId":"1","queueId":"1"')
        self.assert_not_taken("twice", len(twice[4:]).to_bytes(4, "big") + twice[4:])
        self.assertEqual(self.reads, [])
        self.known = self.known and self.known._replace(version=None)
        self.run_of_pulls.forget()
        self.assert_not_taken("no subscription")
        self.assertEqual(self.reads, [])

    def test_not_found(self) -> None:
        """Whatever a read says but that there are messages is not taken."""
        for status in ReadStatus:
            self.result = self.result._replace(status=status)
            if status is not ReadStatus.FOUND:
                self.assert_not_taken(status.name)
        self.result = self.result._replace(status=ReadStatus.FOUND, parts=[memoryview(b"x")] * 65)
        self.assert_not_taken("too many pieces")
        self.result = self.result._replace(parts=[memoryview(b"x")] * 64)
        self.assertIsNotNone(self.answer())

    def test_fails(self) -> None:
        """What fails changes nothing, and the next pull is taken."""
        with mock.patch.object(self, "result", None):
            self.assertRaises(TypeError, self.answer)
        self.result = self.result._replace(maximum=1 << 63)
        self.assertRaises(OverflowError, self.answer)
        self.result = self.result._replace(maximum=(1 << 63) - 1)
        self.assertEqual(self.counted, [])
        self.assertIsNotNone(self.answer())


class UnsentTests(HubTestCase):
    """Pulls of a link that has not sent all it has to send."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    kind = Hub

    def test_unsent(self) -> None:
        """A pull is not answered before what its link has still to send: it goes to the link."""
        pulls = PullRunTests()
        pulls.setUp()
        link, end, _ = self.attach(Source(pulls.run_of_pulls))
        frame = with_length(json_frame(FIELDS, b"", 11))
        for unsent, out in ((1, []), (0, [b"answer"]), (1, [b"answer"])):
            link.unsent, link.out = unsent, out
            end.send(frame)
            self.turn()
            self.assertEqual((link.read, link.frames, pulls.reads), ([frame], [], []))
            link.read.clear()
        link.unsent, link.out = 0, []
        end.send(frame)
        self.turn()
        self.assertEqual((link.read, link.frames, len(pulls.reads)), ([], [1], 1))
        self.assertTrue(end.recv(1 << 16).endswith(b"onetwothree"))


class StoredTests(CompiledHubTestCase):
    """Pulls of a link whose sends were stored and answered."""

    def test_behind_answers(self) -> None:
        """A pull behind answers to sends finds what they stored: the run of the sends ends before."""
        pulls = PullRunTests()
        pulls.setUp()
        self.source.alone = (self.source, Source(pulls.run_of_pulls))  # type: ignore[assignment]
        link, end, _ = self.attach(self.source)
        _, far, _ = self.attach()
        ended: list[int] = []
        seen = link.dataReceived

        def note(data: bytes) -> None:
            ended.append(self.source.ended)
            seen(data)

        link.dataReceived = note  # type: ignore[method-assign]
        pull = with_length(json_frame(FIELDS, b"", 11))
        share = 64  # frames of a link, where others are ready, too: the pull waits until these are answered
        end.send(with_length(*[json_frame(test_sendrun.FIELDS)] * share) + pull)
        far.send(b"any")
        self.turn()
        self.assertEqual((link.frames, pulls.reads), ([share], []))
        self.assertEqual((link.read, ended), ([pull], [1]))

    def test_before_kept_answers(self) -> None:
        """A pull is not answered before answers to sends that may leave, but have not yet: it goes to the link."""
        pulls = PullRunTests()
        pulls.setUp()
        self.source.run = self.sends.run_of_sends = self.sends.make(later=True)
        self.source.alone = (self.source, Source(pulls.run_of_pulls))  # type: ignore[assignment]
        link, end, _ = self.attach(self.source)
        end.send(with_length(json_frame(test_sendrun.FIELDS)))
        self.turn()
        self.source.tells[0][1](None)
        self.assertEqual((link.frames, self.read(end)), ([1], b""))
        pull = with_length(json_frame(FIELDS, b"", 11))
        end.send(pull)
        self.turn()
        self.assertEqual((link.frames, pulls.reads, link.read), ([1], [], [pull]))
        self.assertEqual(len(self.sends.answers(link.written)), 1)


class HubPullTests(SynchronousTestCase):
    """Pulls of a whole broker, from sockets that the hub reads."""

    if not IS_COMPILED:
        skip = f"the core is {CORE}"

    settings: ClassVar[dict[str, str]] = {}

    def setUp(self) -> None:
        """A broker with some messages, and one connection."""
        env = FakeEnvironment()
        env.network = network = SocketNetwork()
        self.cluster = Cluster(env, **self.settings)
        self.addCleanup(self.cluster.stop)
        for number in range(5):
            self.cluster.send("T", b"%d" % number, properties={"TAGS": "ab"[number % 2]})
        self.cluster.heartbeat("CG", "T", version=5)
        self.connection = SocketClient(network)
        self.taken = 0
        took = Link.took

        def count(link: Link, frames: int) -> None:
            self.taken += frames
            took(link, frames)

        self.patch(Link, "took", count)
        self.raw(pull_command("T"))  # the first frame goes through the link

    def raw(self, *commands: Command) -> bytes:
        """The answers to some requests that are sent together."""
        for command in commands:
            command.opaque = 7
        self.connection.write(b"".join(map(encode, commands)))
        self.cluster.pump()
        return self.connection.hear()

    def both(self, taken: int, *commands: Command, why: str = "") -> bytes:
        """Answers to requests, of which so many are taken by the hub, and which it answers as Python does."""
        self.taken = 0
        found = self.raw(*commands)
        self.assertEqual(self.taken, taken, why)
        with mock.patch.object(PullProcessor, "ready_run", lambda _: None):
            self.assertEqual(found, self.raw(*commands), why)
        return found

    def test_taken(self) -> None:
        """Pulls that find messages are taken, several of one read too."""
        pulls = [pull_command("T", 0, offset) for offset in range(5)]
        self.both(5, *pulls)
        self.both(1, pull_command("T", subscription="a"))
        self.both(1, pull_command("T", sys_flag=0, sub_version=5))
        self.both(1, pull_command("T", sys_flag=1, sub_version=5, commit_offset=3))
        self.assertEqual(self.cluster.broker.offsets.query("CG", "T", 0), 3)
        stats = self.cluster.broker.stats
        self.assertEqual(stats.got.total, 5 + 2 * (15 + 3 + 5 + 5))
        flows = [(one.topic, one.group, one.count) for one in stats.got_totals()]
        self.assertEqual(flows, [("T", "CG", 61)])

    def test_by_content(self) -> None:
        """The pulls of a group that subscribed by SQL92 are left to Python; those with tags of their own are not."""
        subscription = SubscriptionData(topic="T", sub_string="TAGS = 'a'", sub_version=5, expression_type="SQL92")
        consumer = ConsumerData(group_name="CS", subscription_data_set=[subscription])
        body = HeartbeatData(client_id="client-2", consumer_data_set=[consumer]).encode()
        self.cluster.ask(Command.request(RequestCode.HEART_BEAT, body=body))
        self.both(0, pull_command("T", sys_flag=0, sub_version=5, consumer_group="CS"))
        self.both(1, pull_command("T", subscription="a", consumer_group="CS"))

    def test_left(self) -> None:
        """What finds nothing, or is refused, is left to Python, and what follows it in the same read, too."""
        for offset in (5, 6, -1):
            self.both(0, pull_command("T", 0, offset))
        self.both(0, pull_command("T", 1))
        self.both(0, pull_command("T", 4))
        self.both(0, pull_command("U"))
        self.both(0, pull_command("T", subscription="c"))
        self.both(0, pull_command("T", sys_flag=0, sub_version=6))
        self.both(1, pull_command("T"), pull_command("T", 0, 5), pull_command("T"))

    def test_changes(self) -> None:
        """What is learned is forgotten when a group, a topic, a subscription or a setting changes."""
        plain = pull_command("T", sys_flag=0, sub_version=5)
        own = pull_command("T")
        broker = self.cluster.broker
        self.both(2, plain, own)
        broker.groups.set_consume_enabled("CG", False)
        self.both(0, plain, own, why="group")
        broker.groups.set_consume_enabled("CG", True)
        self.both(2, plain, own)
        self.cluster.heartbeat("CG", "T", version=6)
        self.both(2, plain, own)
        self.cluster.heartbeat("CG", "U", version=7)
        self.both(0, plain, why="subscription")
        self.both(1, own)
        self.cluster.heartbeat("CG", "T", version=8)
        self.both(1, plain)
        config = broker.topics.get("T")
        assert config is not None
        for fields in ({"perm": "2"}, {"readQueueNums": "0", "perm": "6"}):
            fields = {
                "topic": "T", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
                "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false", **fields,
            }  # fmt: skip
            self.cluster.ask(Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields=fields))
            self.both(0, own, why=str(fields))
        broker.topics.restore(config)
        self.both(1, own)
        for permission, taken in (("2", 0), ("6", 1)):
            broker.settings.change([("brokerPermission", permission)], Who("test"))
            self.both(taken, own, why="permission")

    def test_with_sends(self) -> None:
        """A pull behind a send in one read is answered behind it, and before what is sent later."""
        for _ in range(2):
            self.cluster.send("T", b"first", 3)
        send = send_command("T", b"new", 3)
        for commands, taken in (([send, pull_command("T")], 1), ([pull_command("T"), send], 2)):
            self.taken = 0
            data = self.raw(*commands)
            size = 4 + int.from_bytes(data[:4], "big")
            answers = [decode(data[4:size]), decode(data[size + 4 :])]
            self.assertEqual(["msgId" in one.fields for one in answers], [one is send for one in commands])
            self.assertEqual(self.taken, taken)

    def test_slow(self) -> None:
        """What the socket does not take goes through the link, in order and whole."""
        for _ in range(20):
            self.cluster.send("T", bytes(60_000), 2)
        pulls = [pull_command("T", 2, offset) for offset in range(16)] * 3
        for command in pulls:
            command.opaque = 7
        self.connection.write(b"".join(map(encode, pulls)))
        found = b""
        while (more := self.hear()) != b"":
            found += more
        at = count = 0
        while at < len(found):
            size = int.from_bytes(found[at : at + 4], "big")
            answer = decode(found[at + 4 : at + 4 + size])
            self.assertEqual((answer.code, answer.fields["nextBeginOffset"]), (0, str(count % 16 + 4)))
            at += 4 + size
            count += 1
        self.assertEqual(count, 48)

    def hear(self) -> bytes:
        """What came, after all had their turn."""
        self.cluster.pump(0.3)
        return self.connection.hear()


class SlaveReadPullTests(HubPullTests):
    """The same where clients are told which broker to ask."""

    settings: ClassVar[dict[str, str]] = {"slaveReadEnable": "true"}
