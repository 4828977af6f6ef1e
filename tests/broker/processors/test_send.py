"""Sends and batches, through a whole broker in memory."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from smartgo.schema.batch import encode_items
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.message import pack_host, parse_message_id
from smartgo.schema.properties import decode
from smartgo.schema.topics import FORBIDDEN_TO_SEND, HALF_TOPIC
from tests.broker.fakecluster import Cluster, ClusterCase, records, send_command
from tests.store.stores import content, killed


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
        self.assertEqual(self.cluster.send("T", properties={"KEYS": " ".join(map(str, range(2049)))}).code, 13)

    def test_half_message(self) -> None:
        """A half message is stored, and not in its topic."""
        self.cluster.send("T")
        self.assertEqual(self.cluster.send("T", properties={"TRAN_MSG": "true"}, sys_flag=4).code, 0)
        self.assertEqual(len(self.cluster.pull("T")[1]), 1)

    def test_half_message_between_plain_ones(self) -> None:
        """The runs of plain sends take no half message, wherever it comes among them: it waits for its verdict."""
        self.cluster.send("T")
        half: dict[str, Any] = {"properties": {"TRAN_MSG": "true", "PGROUP": "PG", "UNIQ_KEY": "U"}}
        answers: list[Command] = []
        for number, more in enumerate([{}, {**half, "sys_flag": 4}, half, {"sys_flag": 4}, {}]):
            command = send_command("T", b"%d" % number, **more)
            self.cluster.client.ask("127.0.0.1:10911", command, 3.0).addCallback(answers.append)
        self.cluster.pump()
        self.assertEqual([one.code for one in sorted(answers, key=lambda one: one.opaque)], [0, 0, 0, 16, 0])
        self.assertEqual([bytes(one.body) for one in self.cluster.pull("T")[1]], [b"body", b"0", b"4"])
        self.assertEqual(self.cluster.broker.store.bounds(HALF_TOPIC, 0), (0, 2))

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
