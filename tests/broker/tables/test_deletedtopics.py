"""Topics that are deleted, shrunk and used anew: no acknowledged message is lost when the broker is killed (D15)."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.batch import encode_items
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.headers.topics import CreateTopicRequest, DeleteTopicRequest
from tests.broker.brokerprocess import BrokerProcessCase
from tests.broker.fakecluster import BROKER, Cluster, pull_command, send_command
from tests.fakes import FakeEnvironment
from tests.store.stores import killed

TOPICS = "/store/config/topics.json"
MODES: tuple[dict[str, str], ...] = ({}, {"flushDiskType": "SYNC_FLUSH"}, {"flushIntervalCommitLog": "100"})


def update(topic: str, queues: int) -> Command:
    """An administrator's request to make or change a topic."""
    header = CreateTopicRequest(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=6,
        topic_filter_type="SINGLE_TAG",
        order=False,
    )
    return Command.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def delete(topic: str) -> Command:
    """An administrator's request to delete a topic."""
    return Command.request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=topic))


class KilledTests(SynchronousTestCase):
    """A broker in memory; what a kill leaves is all that was written."""

    def setUp(self) -> None:
        self.cluster = Cluster()

    def begin(self, settings: dict[str, str], *topics: str) -> None:
        """Start a broker with some saved topics that have three messages each."""
        self.cluster = Cluster(FakeEnvironment(), **settings)
        for topic in topics:
            self.send(topic, 3, b"old")
        self.cluster.pump(2.0)

    def send(self, topic: str, count: int, body: bytes = b"new", queue_id: int = 0) -> None:
        """Send messages that must be acknowledged."""
        for number in range(count):
            answer = self.cluster.send(topic, b"%s %d" % (body, number), queue_id)
            self.assertEqual(answer.code, 0, answer.remark)

    def post(self, command: Command) -> None:
        """Ask, and do not wait for the answer: that of a changed topic waits for registries."""
        self.cluster.client.ask(BROKER, command, 30.0).addErrback(lambda failure: None)
        self.cluster.pump()

    def bodies(self, topic: str, queue_id: int = 0) -> list[bytes]:
        """The bodies of what can be pulled, whose offsets are checked to count from 0 on."""
        answer, found = self.cluster.pull(topic, queue_id)
        self.assertIn(answer.code, (0, 19, 20), answer.remark)
        self.assertEqual([one.queue_offset for one in found], list(range(len(found))))
        return [bytes(one.body) for one in found]

    def restart(self, settings: dict[str, str]) -> None:
        """Kill the broker and start it anew."""
        self.cluster = Cluster(killed(self.cluster.env), **settings)

    def check(self, settings: dict[str, str], topic: str, expected: list[bytes], queue_id: int = 0) -> None:
        """The messages are there before a kill, after it, and after one more; the next one goes behind them."""
        for _ in range(3):
            self.assertEqual(self.bodies(topic, queue_id), expected)
            self.restart(settings)
        answer = self.cluster.send(topic, b"next", queue_id)
        self.assertEqual(answer.read(SendResponse).queue_offset, len(expected))
        self.assertEqual(self.bodies(topic, queue_id), [*expected, b"next"])

    def test_used_anew(self) -> None:
        """A topic that is deleted and brought back by a send keeps what it is sent, in every flush mode."""
        for settings in MODES:
            with self.subTest(settings=settings):
                self.begin(settings, "T")
                self.assertEqual(self.cluster.ask(delete("T")).code, 0)
                self.cluster.pump(2.0)
                self.send("T", 2)
                self.check(settings, "T", [b"new 0", b"new 1"])

    def test_at_once(self) -> None:
        """The same where nothing of the deletion is in the file of topics yet, and for a single message."""
        for settings in MODES:
            for count in (1, 2):
                with self.subTest(settings=settings, count=count):
                    self.begin(settings, "T")
                    self.cluster.ask(delete("T"))
                    self.send("T", count)
                    self.check(settings, "T", [b"new %d" % number for number in range(count)])

    def test_by_an_administrator(self) -> None:
        """The same where an administrator makes the topic again, and again."""
        for settings in MODES:
            self.begin(settings, "T")
            for number in range(3):
                self.cluster.ask(delete("T"))
                self.cluster.pump(2.0)
                self.post(update("T", 2))
                self.send("T", 1, b"%d" % number, 1)
            self.check(settings, "T", [b"2 0"], 1)

    def test_dead_letters(self) -> None:
        """The same for dead letters that are purged."""
        self.begin({}, "%RETRY%g")
        for body in (b"old", b"new"):
            self.cluster.ask(send_command("%RETRY%g", body, reconsume_times=100))
            self.assertEqual(self.bodies("%DLQ%g"), [body])
            if body == b"old":
                self.cluster.pump(2.0)
                self.assertEqual(self.cluster.ask(delete("%DLQ%g")).code, 0)
                self.cluster.pump(2.0)
        for _ in range(2):
            self.restart({})
            self.assertEqual(self.bodies("%DLQ%g"), [b"new"])

    def test_cannot_be_saved(self) -> None:
        """The same while the file of topics cannot be saved for long."""
        self.begin({}, "T")
        self.cluster.ask(delete("T"))
        self.cluster.pump(2.0)
        self.cluster.env.files.fail[TOPICS] = errno.EROFS
        self.send("T", 2)
        self.cluster.pump(60.0)
        self.assertGreater(len(self.flushLoggedErrors(OSError)), 5)
        self.check({}, "T", [b"new 0", b"new 1"])

    def test_from_the_backup(self) -> None:
        """The same where the file of topics is damaged, and its backup is older than the topic that was made anew."""
        self.begin({}, "T")
        self.cluster.ask(delete("T"))
        self.cluster.pump(2.0)
        self.send("T", 2)
        self.cluster.pump(2.0)
        files = self.cluster.env.files
        backup = msgspec.json.decode(files.read(TOPICS + ".bak"))
        self.assertNotIn("T", backup["topicConfigTable"])
        self.assertEqual(backup["removedQueueTable"], {"T": 4})
        files.overwrite(TOPICS, 0, b"XX")
        self.check({}, "T", [b"new 0", b"new 1"])

    def test_grown_again(self) -> None:
        """Queues of a topic that shrank, grew again and was killed have what they were sent; others stay away."""
        for settings in MODES:
            self.begin(settings)
            self.post(update("T", 8))
            for queue_id in (6, 7):
                self.send("T", 1, b"old", queue_id)
            self.post(update("T", 4))
            self.cluster.pump(2.0)
            self.restart(settings)
            config = self.cluster.broker.topics.get("T")
            assert config is not None
            self.assertEqual(config.read_queue_nums, 4)
            self.post(update("T", 8))
            self.send("T", 2, b"new", 5)
            self.check(settings, "T", [b"new 0", b"new 1"], 5)

    def test_deleted(self) -> None:
        """A topic that is not used anew stays deleted."""
        for settings in MODES:
            self.begin(settings, "T", "U")
            self.cluster.ask(delete("T"))
            self.cluster.pump(2.0)
            for _ in range(2):
                self.restart(settings)
                self.assertNotIn("T", self.cluster.broker.topics)
                self.assertEqual({topic for topic, _ in self.cluster.broker.store.queues()}, {"U"})

    def test_deletion_fails(self) -> None:
        """A deletion that the store cannot save is answered as failed, and the topic is what it was."""
        self.begin({}, "T")
        self.post(update("T", 2))
        before = self.cluster.broker.topics.get("T")
        self.cluster.env.files.fail["/store/smartgo.deleted/1.mark"] = errno.ENOSPC
        answer = self.cluster.ask(delete("T"))
        self.assertEqual(answer.code, 1)
        self.assertIn("could not be deleted", answer.remark or "")
        self.assertEqual(self.bodies("T"), [b"old 0", b"old 1", b"old 2"])
        self.assertEqual(self.cluster.broker.topics.get("T"), before)
        self.cluster.pump(2.0)
        self.restart({})
        self.assertEqual(self.bodies("T"), [b"old 0", b"old 1", b"old 2"])
        self.assertEqual(self.cluster.broker.topics.get("T"), before)
        self.assertEqual(self.cluster.ask(delete("T")).code, 0)
        self.restart({})
        self.assertEqual({topic for topic, _ in self.cluster.broker.store.queues()}, set())


class SavedFirstTests(SynchronousTestCase):
    """Under SYNC_FLUSH no send is acknowledged before its topic is saved (D15)."""

    def setUp(self) -> None:
        self.cluster = Cluster(flushDiskType="SYNC_FLUSH")
        self.addCleanup(self.cluster.stop)
        self.codes: list[int] = []

    def send(self, **more: Any) -> None:
        """Send one message to T."""
        asked = self.cluster.client.ask(BROKER, send_command("T", **more), 30.0)
        asked.addCallback(lambda answer: self.codes.append(answer.code))
        self.cluster.pump()

    def test_sends(self) -> None:
        """Neither the send that makes a topic is answered before, nor one that overtakes the save, nor a batch."""
        self.cluster.env.threads.held.add("tables")
        self.send()
        self.assertIn("T", self.cluster.broker.topics)
        self.send()
        body = encode_items([(0, b"body", b"")])
        self.send(code=RequestCode.SEND_BATCH_MESSAGE, batch=True, body=body)
        self.assertEqual(self.cluster.broker.store.bounds("T", 0)[1], 3)
        self.assertEqual(self.codes, [])
        self.cluster.env.threads.held.clear()
        self.cluster.env.threads.release("tables")
        self.cluster.pump()
        self.assertEqual(self.codes, [0, 0, 0])
        self.send()
        self.assertEqual(self.codes, [0, 0, 0, 0])


class OvertakenTests(SynchronousTestCase):
    """Under SYNC_FLUSH the answer to a deletion waits for the file of topics."""

    def test_sent_meanwhile(self) -> None:
        """A message that comes meanwhile is of a new topic: it stays, and those before the deletion go."""
        cluster = Cluster(flushDiskType="SYNC_FLUSH")
        self.addCleanup(cluster.stop)
        cluster.send("T", b"old")
        cluster.env.threads.held.add("tables")
        codes: list[int] = []
        for command in delete("T"), send_command("T", b"new"):
            cluster.client.ask(BROKER, command, 30.0).addCallback(lambda answer: codes.append(answer.code))
        cluster.pump()
        self.assertEqual(codes, [])
        cluster.env.threads.held.clear()
        cluster.env.threads.release("tables")
        cluster.pump()
        self.assertEqual(codes, [0, 0])
        self.assertEqual([(one.queue_offset, bytes(one.body)) for one in cluster.pull("T")[1]], [(0, b"new")])


class NotSavedTests(SynchronousTestCase):
    """SYNC_FLUSH, and a file of topics that cannot be written."""

    def test_stored(self) -> None:
        """A send that made its topic is told 10: the message is stored, so that 14 would have it sent twice."""
        cluster = Cluster(flushDiskType="SYNC_FLUSH")
        self.addCleanup(cluster.stop)
        cluster.env.files.fail[TOPICS] = errno.ENOSPC
        answers: list[Command] = []
        for properties in ({"UNIQ_KEY": "00"}, {"UNIQ_KEY": "00", "WAIT": "false"}):
            command = send_command("T", b"stored", properties=properties)
            cluster.client.ask(BROKER, command, 30.0).addCallback(answers.append)
        cluster.pump(6.0)
        self.assertEqual([one.code for one in answers], [10, 10], answers)
        self.assertTrue(all(one.read(SendResponse).msg_id for one in answers))
        self.assertEqual(len(cluster.pull("T")[1]), 2)
        cluster.env.files.fail.clear()
        cluster.pump(6.0)
        self.assertEqual(cluster.send("T").code, 0)
        self.flushLoggedErrors(OSError)


class ProcessTests(BrokerProcessCase):
    """A broker in a process of its own, and C{kill -9}."""

    def wait_for_the_file(self) -> None:
        """Go on asking until the file of topics says that T was deleted."""
        deadline = time.monotonic() + 30
        path = os.path.join(self.folder, "store", "config", "topics.json")
        while True:
            with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
                if "T" in msgspec.json.decode(file.read())["removedQueueTable"]:
                    return
            self.assertLess(time.monotonic(), deadline)
            self.ask(pull_command("T", 0, 0))

    def check(self, **settings: str) -> None:
        """Delete, use anew, kill, start."""
        self.settings = settings
        self.start()
        for number in range(3):
            self.assertEqual(self.ask(send_command("T", b"old %d" % number)).code, 0)
        self.assertEqual(self.ask(delete("T")).code, 0)
        self.wait_for_the_file()
        new = [b"new %d" % number for number in range(100)]
        self.assertEqual({self.ask(send_command("T", body)).code for body in new}, {0})
        self.end(self.process)
        self.start()
        self.assertEqual(self.bodies(), new)
        self.assertEqual(self.ask(send_command("T", b"next")).read(SendResponse).queue_offset, 100)
        self.end(self.process)

    def test_asynchronous_flush(self) -> None:
        """Under ASYNC_FLUSH, the default, a topic used anew has all its messages after kill -9."""
        self.check()

    def test_synchronous_flush(self) -> None:
        """Under SYNC_FLUSH too."""
        self.check(flushDiskType="SYNC_FLUSH")
