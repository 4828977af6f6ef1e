"""Sends, pulls, holds, retries and delays through a whole broker in memory."""

from __future__ import annotations

import json
import tracemalloc
from typing import ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import NotConnected
from smartgo.schema.batch import encode_items
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.message import NewMessage, pack_host, parse_message_id
from smartgo.schema.properties import decode
from smartgo.schema.record import encode as encode_record
from smartgo.schema.topics import FORBIDDEN_TO_SEND, OFFSET_MOVED_EVENT
from tests.broker.fakecluster import BROKER, FAST, Cluster, pull_command, records, send_command
from tests.fakes import FakeEnvironment
from tests.store.stores import content, killed


class ClusterCase(SynchronousTestCase):
    """With a cluster."""

    settings: ClassVar[dict[str, str]] = {}

    def setUp(self) -> None:
        """Start it."""
        self.cluster = Cluster(None, **self.settings)
        self.successResultOf(self.cluster.broker.ready)

    def tearDown(self) -> None:
        """Stop it: no timer and no mapping is left."""
        self.cluster.stop()
        self.assertEqual(self.cluster.env.clock.getDelayedCalls(), [])
        self.assertEqual(self.cluster.env.files.mappings, [])


class SendTests(ClusterCase):
    def test_stored(self) -> None:
        """A message is stored with the cluster's name in place of WAIT, and comes back as it was sent."""
        answer = self.cluster.send("T", b"hello", 1, properties={"TAGS": "a", "KEYS": "k", "WAIT": "true"}, flag=9)
        self.assertEqual(answer.code, 0)
        stored = answer.read(SendResponse)
        self.assertEqual(
            (stored.queue_id, stored.queue_offset, stored.region, stored.trace_on), (1, 0, "DefaultRegion", True)
        )
        _, (found,) = self.cluster.pull("T", 1)
        self.assertEqual((found.body, found.flag, found.born_ms), (b"hello", 9, 1_600_000_000_000))
        self.assertEqual(decode(found.properties), {"CLUSTER": "DefaultCluster", "TAGS": "a", "KEYS": "k"})
        self.assertEqual(parse_message_id(stored.msg_id), (pack_host("127.0.0.1", 10911), found.physical_offset))

    def test_long_names(self) -> None:
        """The form with long names (10) is the same."""
        command = send_command("T")
        long = {
            "producerGroup": "PG", "topic": "T", "defaultTopic": "TBW102", "defaultTopicQueueNums": "4",
            "queueId": "0", "sysFlag": "0", "bornTimestamp": "1600000000000", "flag": "0", "properties": "",
        }  # fmt: skip
        answer = self.cluster.ask(Command.request(RequestCode.SEND_MESSAGE, fields=long, body=command.body))
        self.assertEqual(answer.code, 0)

    def test_auto_creation(self) -> None:
        """An unknown topic comes into being with as many queues as asked for, and is registered at once."""
        self.cluster.send("New", queue_id=3)
        config = self.cluster.broker.topics.get("New")
        assert config is not None
        self.assertEqual((config.read_queue_nums, config.write_queue_nums, config.perm), (4, 4, 6))
        route = self.cluster.ask(Command.request(105, fields={"topic": "New"}), "127.0.0.1:9876")
        self.assertEqual(json.loads(route.body)["queueDatas"][0]["writeQueueNums"], 4)

    def test_no_template(self) -> None:
        """Without a template there is no topic: 17."""
        answer = self.cluster.send("New", default_topic="Nothing")
        self.assertEqual((answer.code, answer.remark), (17, "topic[New] not exist, apply first please!"))

    def test_queue_ids(self) -> None:
        """A negative queue id means any; one past the queues is refused."""
        self.cluster.send("T")
        seen = {self.cluster.send("T", queue_id=-1).read(SendResponse).queue_id for _ in range(40)}
        self.assertEqual(seen, {0, 1, 2, 3})
        answer = self.cluster.send("T", queue_id=4)
        self.assertEqual(answer.code, 1)
        self.assertIn("queueId[4] is illegal", answer.remark or "")

    def test_forbidden(self) -> None:
        """The broker's own topics take no sends."""
        for topic in FORBIDDEN_TO_SEND:
            self.assertEqual(self.cluster.send(topic).code, ResponseCode.NO_PERMISSION, topic)

    def test_names(self) -> None:
        """A name that is none is refused before anything is made of it."""
        for topic in ("../x", "a/b", "a b", "", "x" * 128, "\uff21"):
            self.assertEqual(self.cluster.send(topic).code, 1, topic)
        self.assertEqual([one for one in self.cluster.broker.topics.names() if "x" in one and "/" in one], [])

    def test_limits(self) -> None:
        """A body over 4 MiB, properties over 32,767 bytes, or too many of them: 13."""
        self.cluster.send("T")
        self.assertEqual(self.cluster.send("T", bytes((4 << 20) + 1)).code, 13)
        self.assertEqual(self.cluster.send("T", properties={"p": "x" * 32768}).code, 13)
        self.assertEqual(self.cluster.send("T", properties={f"p{one}": "x" for one in range(129)}).code, 13)
        self.assertEqual(self.cluster.send("T", properties={"KEYS": " ".join(map(str, range(65)))}).code, 13)

    def test_transactions_refused(self) -> None:
        """A half message is refused as long as there are no transactions, and stored nowhere."""
        self.cluster.send("T")
        self.assertEqual(self.cluster.send("T", properties={"TRAN_MSG": "true"}, sys_flag=4).code, 16)
        self.assertEqual(len(self.cluster.pull("T")[1]), 1)

    def test_batch(self) -> None:
        """A batch becomes adjacent messages of one queue, each with its own properties and those of the batch."""
        items = [(0, b"one", b"TAGS\x01a"), (1, b"two", b""), (2, b"three", b"KEYS\x01k\x02")]
        body = encode_items(items)
        answer = self.cluster.ask(send_command("T", body, 2, code=320, batch=True, properties={"WAIT": "true"}))
        stored = answer.read(SendResponse)
        self.assertEqual((answer.code, stored.queue_offset, stored.msg_id.count(",")), (0, 0, 2))
        _, found = self.cluster.pull("T", 2)
        self.assertEqual(
            [(one.flag, one.body, one.queue_offset) for one in found],
            [(0, b"one", 0), (1, b"two", 1), (2, b"three", 2)],
        )
        self.assertEqual(decode(found[0].properties), {"TAGS": "a", "CLUSTER": "DefaultCluster", "WAIT": "true"})
        ids = [parse_message_id(one)[1] for one in stored.msg_id.split(",")]
        self.assertEqual(ids, [one.physical_offset for one in found])
        tagged, _ = self.cluster.pull("T", 2, subscription="a")
        self.assertEqual(len(records(tagged.body)), 1)

    def test_tag_of_a_batch(self) -> None:
        """A tag of the batch counts for each of its messages, as it does once the queue is made anew from the log."""
        body = encode_items([(0, b"one", b"TAGS\x01a"), (0, b"two", b"")])
        self.cluster.ask(send_command("T", body, 2, code=320, batch=True, properties={"TAGS": "b", "WAIT": "true"}))
        for cluster in (self.cluster, self.rebuilt()):
            for tag, expected in (("a", 0), ("b", 2)):
                answer, found = cluster.pull("T", 2, subscription=tag)
                self.assertEqual(len(found), expected, (tag, answer.code))

    def rebuilt(self) -> Cluster:
        """The broker after a kill that took the queues with it."""
        env = killed(self.cluster.env)
        for path in content(env, "consumequeue"):
            del env.files.files[path]
        return Cluster(env)

    def test_bad_batches(self) -> None:
        """A batch that is malformed, delayed, or meant for a retry topic is refused whole."""
        good = encode_items([(0, b"x", b"")])
        for topic, body, properties in (
            ("T", good[:-1], {}),
            ("T", b"", {}),
            ("T", good, {"DELAY": "1"}),
            ("%RETRY%CG", good, {}),
        ):
            answer = self.cluster.ask(send_command(topic, body, 0, code=320, batch=True, properties=properties))
            self.assertEqual(answer.code, 13, (topic, body, properties))
        self.assertEqual(self.cluster.pull("T")[1], [])

    def test_one_way(self) -> None:
        """A one-way send is stored and not answered."""
        self.cluster.send("T")
        command = send_command("T", b"quiet")
        command.flag = 2
        self.cluster.client.tell("127.0.0.1:10911", command)
        self.cluster.pump()
        self.assertEqual([one.body for one in self.cluster.pull("T")[1]], [b"body", b"quiet"])

    def test_pipelined(self) -> None:
        """Many sends on one connection are answered each with its own place, in order."""
        self.cluster.send("T")
        answers: list[Command] = []
        for number in range(100):
            self.cluster.client.ask("127.0.0.1:10911", send_command("T", b"%d" % number), 3.0).addCallback(
                answers.append
            )
        self.cluster.pump()
        self.cluster.pump()  # a turn takes 64 requests of a connection
        self.assertEqual([one.read(SendResponse).queue_offset for one in answers], list(range(1, 101)))


class SyncFlushTests(ClusterCase):
    settings: ClassVar[dict[str, str]] = {"flushDiskType": "SYNC_FLUSH"}

    def test_waits_for_the_disk(self) -> None:
        """Under SYNC_FLUSH a send is answered when the flush that began after it is done, and readable then."""
        self.cluster.send("T")
        self.cluster.env.threads.held.add("flush")
        answers: list[Command] = []
        for _ in range(3):
            self.cluster.client.ask("127.0.0.1:10911", send_command("T"), 10.0).addCallback(answers.append)
        self.cluster.pump()
        self.assertEqual((answers, len(self.cluster.pull("T")[1])), ([], 1))
        while self.cluster.env.threads.release("flush"):
            self.cluster.pump()
        self.assertEqual([one.code for one in answers], [0, 0, 0])
        self.assertEqual(len(self.cluster.pull("T")[1]), 4)
        self.cluster.env.threads.held.clear()

    def test_without_waiting(self) -> None:
        """WAIT=false is answered at once (D5)."""
        self.cluster.send("T")
        self.cluster.env.threads.held.add("flush")
        self.assertEqual(self.cluster.send("T", properties={"WAIT": "false"}).code, 0)
        self.cluster.env.threads.held.clear()
        while self.cluster.env.threads.release("flush"):
            self.cluster.pump()

    def test_late(self) -> None:
        """A flush that takes more than five seconds is answered 10, with the whole header (D2)."""
        self.cluster.send("T")
        self.cluster.env.threads.held.add("flush")
        answers: list[Command] = []
        self.cluster.client.ask("127.0.0.1:10911", send_command("T"), 20.0).addCallback(answers.append)
        self.cluster.pump(6.0)
        self.assertEqual([one.code for one in answers], [10])
        self.assertEqual(answers[0].read(SendResponse).queue_offset, 1)
        self.cluster.env.threads.held.clear()
        while self.cluster.env.threads.release("flush"):
            self.cluster.pump()

    def test_failed_disk(self) -> None:
        """A flush that fails is never a success (D3); later sends get 14, reads go on (D4)."""
        self.cluster.send("T")
        self.cluster.env.files.sync_error = 5
        self.assertEqual(self.cluster.send("T").code, 10)
        self.cluster.env.files.sync_error = 0
        self.assertEqual(self.cluster.send("T").code, 14)
        self.assertGreaterEqual(len(self.cluster.pull("T")[1]), 1)
        self.flushLoggedErrors()


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
        sql, _ = self.cluster.pull("T", expression_type="SQL92", subscription="a > 1")
        self.assertEqual(sql.code, 1)
        self.assertIn("SQL92", sql.remark or "")

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


class RetryTests(ClusterCase):
    def give_back(self, offset: int, level: int = 0, maximum: int | None = None) -> Command:
        """Send a message back."""
        header = SendBackRequest(offset=offset, group="CG", delay_level=level, max_reconsume_times=maximum)
        return self.cluster.ask(Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header))

    def test_comes_again(self) -> None:
        """A message given back comes again from %RETRY% after ten seconds, and says where it came from."""
        stored = self.cluster.send("T", b"hard", properties={"TAGS": "x"}).read(SendResponse)
        offset = parse_message_id(stored.msg_id)[1]
        self.assertEqual(self.give_back(offset).code, 0)
        self.cluster.pump(9.8)
        self.assertEqual(self.cluster.pull("%RETRY%CG")[1], [])
        self.cluster.pump(0.4)
        _, (again,) = self.cluster.pull("%RETRY%CG")
        carried = decode(again.properties)
        self.assertEqual((again.body, again.reconsume_times), (b"hard", 1))
        self.assertEqual(
            (carried["RETRY_TOPIC"], carried["ORIGIN_MESSAGE_ID"], carried["TAGS"]), ("T", stored.msg_id, "x")
        )

    def test_dead(self) -> None:
        """After the last retry it is a dead letter, at once."""
        offset = parse_message_id(self.cluster.send("T").read(SendResponse).msg_id)[1]
        self.assertEqual(self.give_back(offset, maximum=0).code, 0)
        _, (dead,) = self.cluster.pull("%DLQ%CG")
        self.assertEqual(dead.reconsume_times, 1)
        self.assertEqual(decode(dead.properties)["RETRY_TOPIC"], "T")

    def test_negative_level(self) -> None:
        """A negative level means the dead letter topic."""
        offset = parse_message_id(self.cluster.send("T").read(SendResponse).msg_id)[1]
        self.assertEqual(self.give_back(offset, level=-1).code, 0)
        self.assertEqual(len(self.cluster.pull("%DLQ%CG")[1]), 1)

    def test_missing(self) -> None:
        """What is not there cannot be given back."""
        answer = self.give_back(12345)
        self.assertEqual((answer.code, answer.remark), (1, "look message by offset failed, 12345"))

    def test_sent_to_retry(self) -> None:
        """A client's own send to %RETRY% waits its level, and is dead when its count is up."""
        self.cluster.heartbeat("CG", "T")
        self.assertEqual(self.cluster.send("%RETRY%CG", properties={"DELAY": "1"}, reconsume_times=1).code, 0)
        self.cluster.pump(1.2)
        self.assertEqual(len(self.cluster.pull("%RETRY%CG")[1]), 1)
        self.assertEqual(self.cluster.send("%RETRY%CG", properties={"DELAY": "1"}, reconsume_times=16).code, 0)
        self.assertEqual(len(self.cluster.pull("%DLQ%CG")[1]), 1)
        answer = self.cluster.send("%RETRY%CG", reconsume_times=3, max_reconsume_times=3)
        self.assertEqual((answer.code, len(self.cluster.pull("%DLQ%CG")[1])), (0, 2))


class DelayTests(ClusterCase):
    def test_delayed(self) -> None:
        """A delayed message is answered with its place in the schedule topic and arrives when it is due."""
        answer = self.cluster.send("T", b"later", 2, properties={"DELAY": "2", "TAGS": "x"}).read(SendResponse)
        self.assertEqual((answer.queue_id, answer.queue_offset), (2, 0))
        self.cluster.pump(4.9)
        self.assertEqual(self.cluster.pull("T", 2)[1], [])
        self.cluster.pump(0.2)
        _, (found,) = self.cluster.pull("T", 2)
        self.assertEqual(found.body, b"later")

    def test_restart(self) -> None:
        """What was delayed before a restart is delivered after it, once."""
        self.cluster.send("T", b"later", properties={"DELAY": "2"})
        self.cluster.send("T", b"soon", properties={"DELAY": "1"})
        self.cluster.pump(2.0)
        self.cluster.stop()
        self.cluster = Cluster(self.cluster.env)
        self.successResultOf(self.cluster.broker.ready)
        self.cluster.pump(4.0)
        self.assertEqual([one.body for one in self.cluster.pull("T")[1]], [b"soon", b"later"])


class StopTests(SynchronousTestCase):
    def test_during_recovery(self) -> None:
        """A broker told to stop while its store is being recovered gives that up, and opens no port."""
        env = FakeEnvironment()
        env.threads.held.add("prepare")
        cluster = Cluster(env)
        self.assertNoResult(cluster.broker.ready)
        stopping = cluster.broker.stopService()
        env.threads.held.clear()
        while env.threads.release("prepare"):
            cluster.pump()
        self.successResultOf(stopping)
        self.assertEqual(list(env.network.ports), [9876])
        self.assertEqual(env.files.locks, set())

    def test_silent_registry(self) -> None:
        """A registry that never answers does not hold up the stop of a broker that waits for it."""
        env = FakeEnvironment()
        env.network.listen("tcp:9999", Factory.forProtocol(Protocol))
        cluster = Cluster(env, namesrvAddr="127.0.0.1:9999")
        self.assertNoResult(cluster.broker.ready)
        stopping = cluster.broker.stopService()
        cluster.pump(3.5)
        self.successResultOf(stopping)


class DurableTopicTests(ClusterCase):
    settings: ClassVar[dict[str, str]] = {"flushDiskType": "SYNC_FLUSH"}

    def test_given_back(self) -> None:
        """Under SYNC_FLUSH a message given back is answered when the topic made for it is on the disk (D15)."""
        offset = parse_message_id(self.cluster.send("T").read(SendResponse).msg_id)[1]
        self.cluster.env.threads.held.add("tables")
        header = SendBackRequest(offset=offset, group="CG", delay_level=-1)
        answers: list[Command] = []
        request = Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)
        self.cluster.client.ask("127.0.0.1:10911", request, 30.0).addCallback(answers.append)
        self.cluster.pump()
        self.assertEqual(answers, [])
        self.cluster.env.threads.held.clear()
        while self.cluster.env.threads.release("tables"):
            self.cluster.pump()
        self.assertEqual([one.code for one in answers], [0])
