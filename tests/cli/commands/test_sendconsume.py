"""Tests of C{smartgo send}, and of what it says of messages that are stored less safely than asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import click
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.commands.sendconsume import as_members, as_text, read_beginning
from smartgo.cli.main import cli
from smartgo.client.messages import ReceivedMessage
from smartgo.ha.stream import Stream
from smartgo.schema.bodies import ConsumeFromWhere, MessageQueue
from tests.broker.cluster.test_replication import Pair
from tests.broker.fakecluster import Cluster
from tests.cli.case import ClusterCase, CommandCase

NO_SLAVE = "SLAVE_NOT_AVAILABLE"
LATE_SLAVE = "FLUSH_SLAVE_TIMEOUT"


class SyncMasterTests(CommandCase):
    """A master that waits for a slave, with one."""

    def setUp(self) -> None:
        """Both; the topic is at both."""
        super().setUp()
        self.pair = Pair(brokerRole="SYNC_MASTER")
        self.addCleanup(self.pair.stop)
        self.env = self.pair.env
        self.pair.send("T", b"first")

    def pump(self) -> None:
        """Let bytes and time pass."""
        self.pair.pump(0.1)

    def stop_answers(self) -> None:
        """Have the slave say no more what it has, as if it was stopped by a signal."""
        self.patch(Stream, "report", lambda stream: None)

    def test_none(self) -> None:
        """With C{--count} it is said how many no slave has, to people and to programs."""
        self.pair.stop_slave()
        self.assertIn(f"({NO_SLAVE})", self.out("send", "T", "x"))
        self.assertIn(f" per second; 20 of them {NO_SLAVE}\n", self.out("send", "T", "x", "--count", "20"))
        found = self.json("send", "T", "x", "--count", "20")
        self.assertEqual((found["sent"], found["status"], found["statuses"]), (20, NO_SLAVE, {NO_SLAVE: 20}))

    def test_all(self) -> None:
        """Where the slave has all of them nothing is added."""
        self.assertTrue(self.out("send", "T", "x", "--count", "20").endswith(" per second\n"))
        self.assertEqual(self.json("send", "T", "x", "--count", "20")["statuses"], {"SEND_OK": 20})

    def test_ids(self) -> None:
        """The first and the last message id are printed, and programs get all of them."""
        self.assertRegex(self.out("send", "T", "x", "--count", "3"), "^first [0-9A-F]{32}, last [0-9A-F]{32}; all ids")
        found = self.json("send", "T", "x", "--count", "20")
        self.assertEqual((len(set(found["message_ids"])), found["message_ids"][-1]), (20, found["message_id"]))
        self.assertEqual(found["message_ids"], sorted(found["message_ids"]))

    def test_some(self) -> None:
        """Where a slave stops answering after the first message, the others alone are counted as late."""
        sizes = [len(self.pair.logs()[0])]
        self.out("send", "T", "x")
        sizes.append(len(self.pair.logs()[0]))
        last = 2 * sizes[1] - sizes[0]  # where one more of these ends
        report = Stream.report

        def sometimes(stream: Stream) -> None:
            if self.pair.followed.store.log_bounds()[1] <= last:
                report(stream)

        self.patch(Stream, "report", sometimes)
        statuses = self.json("send", "T", "x", "--count", "5")["statuses"]
        self.assertEqual(statuses, {"SEND_OK": 1, LATE_SLAVE: 4})

    def test_late(self) -> None:
        """A slave that is stopped makes the broker wait slaveTimeout, 3 s; what it says then is shown."""
        self.stop_answers()
        self.assertIn(f"({LATE_SLAVE})", self.out("send", "T", "x"))

    def test_late_bench(self) -> None:
        """Measuring waits as long, and counts no failure."""
        self.stop_answers()
        found = self.json("bench", "send", "T", "-n", "2")
        self.assertEqual((found["messages"], found["failures"]), (2, 0))
        self.assertGreater(found["latency_ms"]["max"], 2000)

    def test_late_copy(self) -> None:
        """A copy of a message is sent with the same patience."""
        self.out("topic", "create", "Copies")
        number = self.json("send", "T", "x")["message_id"]
        self.pair.pump(2.0)
        self.stop_answers()
        self.assertIn("sent as", self.out("msg", "resend", number, "--topic", "T", "--to", "Copies", "--yes"))


class SizeTests(ClusterCase):
    def test_client(self) -> None:
        """A body that is longer than the client sends is refused with both numbers, without asking a broker."""
        said = self.refused("send", "T", "x" * (4194304 + 1), status=2)
        self.assertIn("the body has 4,194,305 bytes; smartgo sends at most 4,194,304", said)

    def test_broker(self) -> None:
        """A body that is longer than the broker's maxMessageSize is refused with the broker's sentence and code 13."""
        self.cluster.stop()
        self.cluster = Cluster(self.env, maxMessageSize="1024")
        self.addCleanup(self.cluster.stop)
        said = self.refused("send", "T", "x" * 2000, status=1)
        self.assertIn("1024", said)
        self.assertIn("response code 13", said)


class TimedTests(ClusterCase):
    def bodies(self) -> list[bytes]:
        """Return the bodies in the queues of the topic."""
        return [bytes(one.body) for queue in range(8) for one in self.cluster.pull("T", queue)[1]]

    def test_delay(self) -> None:
        """A message with a delay in seconds is delivered after it; one with a level too."""
        self.out("send", "T", "first")
        said = self.out("send", "T", "timed", "--delay", "1500ms")
        self.assertIn("it waits for its time; to recall it: smartgo msg recall ", said)
        self.assertNotIn("offset", said)
        self.assertNotIn("offset", self.out("send", "T", "level", "--delay", "1"))
        self.assertEqual(self.bodies(), [b"first"])
        self.cluster.pump(2)
        self.assertEqual(set(self.bodies()), {b"first", b"timed", b"level"})
        self.assertIn("send it without --count", self.out("send", "T", "x", "--delay", "1m", "--count", "2"))

    def test_recall(self) -> None:
        """A message with a time of delivery can be recalled by what its send printed."""
        self.out("send", "T", "first")
        now = datetime.fromtimestamp(self.env.clock.wall_ms() / 1000, UTC)
        found = json.loads(
            self.out("send", "T", "timed", "--at", (now + timedelta(minutes=1)).isoformat(), "-o", "json")
        )
        due_ms = int((now + timedelta(minutes=1)).timestamp() * 1000)
        self.assertEqual((found["offset"], found["due_ms"]), (None, due_ms))
        self.out("send", "T", "kept", "--delay", "1m")
        said = self.out("msg", "recall", found["recall_handle"])
        self.assertIn(f"recalled {found['message_id']}", said)
        self.cluster.pump(70, 0.5)
        self.assertEqual(set(self.bodies()), {b"first", b"kept"})
        late = self.invoke("msg", "recall", found["recall_handle"], status=1).stderr
        self.assertIn("it is too late to recall it: it was due at ", late)

    def test_shown(self) -> None:
        """Of a message that waits nobody says that there is none; delivered, it is shown."""
        self.out("send", "T", "first")
        found = self.json("send", "T", "timed", "--delay", "2m")
        name = found["message_id"]
        for words in (("show", name), ("show", name, "-T", "T"), ("track", name)):
            said = self.refused("msg", *words, status=66)
            self.assertIn(f"message {name} is not in topic T yet: it waits for its delivery at 2023-", said)
        self.assertIn("there is no message", self.refused("msg", "show", name, "-T", "TBW102", status=66))
        self.cluster.pump(130, 0.5)
        self.assertIn("timed", self.out("msg", "show", name))

    def test_past(self) -> None:
        """A message whose time of delivery is past is delivered at once, which is said."""
        self.assertIn("its time is past: it is delivered at once", self.out("send", "T", "late", "--at", "2020-01-01"))
        self.assertEqual(self.json("send", "T", "later", "--at", "2020-01-01")["offset"] is None, False)
        self.assertIsNone(self.json("send", "T", "level", "--delay", "1")["offset"])
        self.assertEqual(set(self.bodies()), {b"late", b"later"})

    def test_refused(self) -> None:
        """What is no delay, time or handle, and times that brokers refuse, end with a sentence."""
        self.out("send", "T", "first")
        for arguments, status, words in (
            (("send", "T", "x", "--delay", "soon"), 2, "'soon' is no level from 1 to 18 (0: no delay)"),
            (
                ("send", "T", "x", "--delay", "99"),
                2,
                "'99' is no level from 1 to 18 (0: no delay), which stand for 1s 5s",
            ),
            (
                ("send", "T", "x", "--delay", "19"),
                2,
                "write a time with its unit, such as 90s or 3h, or give the time of",
            ),
            (("send", "T", "x", "--delay", "1.5"), 2, "'1.5' is no level from 1 to 18"),
            (("send", "T", "x", "--at", "noon"), 2, "use a date and time, or a time such as"),
            (("send", "T", "x", "--at", "2030-01-01", "--delay", "1"), 2, "--at and --delay exclude each other"),
            (("send", "T", "x", "--delay", "41d"), 1, "smartgo: the broker takes delivery times up to 40 d ahead"),
            (("send", "T", "x", "--delay", "41d"), 1, "the delay time should not be bigger than the max delay"),
            (("msg", "recall", "x"), 1, "recall handle is invalid"),
        ):
            self.assertIn(words, self.invoke(*arguments, status=status).stderr, arguments)


class BeginningTests(SynchronousTestCase):
    def test_beginning(self) -> None:
        """A time to begin at is written as people write it, or in milliseconds."""
        context = click.Context(cli)
        option = click.Option(["--from"])
        self.assertEqual(
            read_beginning(context, option, "2030-01-01T00:00:00+00:00"),
            (ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, 1_893_456_000_000),
        )
        self.assertEqual(read_beginning(context, option, "1000")[1], 1000)
        self.assertEqual(read_beginning(context, option, "first"), (ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, None))


class PrintingTests(SynchronousTestCase):
    def message(self, body: bytes) -> ReceivedMessage:
        """A message."""
        return ReceivedMessage(
            topic="T", queue=MessageQueue("T", "b", 2), queue_offset=5, body=body, properties={"TAGS": "A"},
            message_id="U", offset_id="O", log_offset=0, flag=0, born_ms=1, stored_ms=2, born_host="h:1",
            reconsume_times=0,
        )  # fmt: skip

    def test_text(self) -> None:
        """A line shows place, tag and body; bytes that are no text are escaped."""
        self.assertEqual(as_text(self.message(b"hi \xff")), "2:5 [A] hi \\xff")

    def test_json(self) -> None:
        """The members hold everything; a body that is no text stands in base64."""
        self.assertEqual(as_members(self.message("é".encode()))["body"], "é")
        found = as_members(self.message(b"\xff"))
        self.assertEqual((found["body_base64"], "body" in found), ("/w==", False))
