"""The commands about messages and dead letters."""

from __future__ import annotations

import json
from typing import cast

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.annotate import annotated
from smartgo.client.administration.topics import Topics
from smartgo.client.internal import topicsweep
from smartgo.client.internal.deadletterjournal import JournalWriter
from smartgo.errors import CallTimedOut, PeerRefused
from smartgo.schema import properties
from smartgo.schema.codes import ResponseCode
from smartgo.schema.message import NewMessage as Stored
from smartgo.schema.messagetrace import encode as encode_trace
from smartgo.schema.record import encode
from smartgo.schema.topics import TRACE_TOPIC
from tests.broker.cluster.test_replication import Pair
from tests.cli.case import ClusterCase, CommandCase
from tests.client.internal.test_tracetimeline import begun
from tests.ops.resources.test_trace import sent as traced


class MessageTests(ClusterCase):
    def setUp(self) -> None:
        """A topic of two queues, with four messages in the first and two in the second."""
        super().setUp()
        self.out("topic", "create", "T", "-n", "2")
        self.ids = []
        for number in range(6):
            found = {"KEYS": f"k{number} all", "TAGS": "AB"[number % 2], "UNIQ_KEY": f"{number:032X}", "colour": "red"}
            answer = self.cluster.send("T", b'{"n": %d}' % number, queue_id=number // 4, properties=found)
            self.ids.append(answer.fields["msgId"])
            self.cluster.pump(1.0)

    def lines(self, *arguments: str) -> list[dict[str, object]]:
        """The JSON lines that a command writes."""
        return [json.loads(line) for line in self.out(*arguments).splitlines()]

    def test_show(self) -> None:
        """A message is found by its offset id and shown in each form."""
        found = self.json("msg", "show", self.ids[1])
        self.assertEqual((found["body"], found["queue"], found["offset"], found["tag"]), ('{"n": 1}', 0, 1, "B"))
        self.assertEqual((found["broker"], found["message_id"]), ("broker-a", f"{1:032X}"))
        text = self.out("msg", "show", self.ids[1])
        self.assertIn("k1, all", text)
        self.assertIn('{"n": 1}', text)
        self.assertIn('"n": 1\n', self.out("msg", "show", self.ids[1], "--as", "json"))
        self.assertIn("7b 22 6e 22 3a 20 31 7d", self.out("msg", "show", self.ids[1], "--as", "hex"))
        record = self.json("msg", "show", self.ids[1], "--as", "record")
        fields = {one["name"]: one["value"] for one in record["fields"]}
        self.assertEqual((fields["queue_offset"], fields["topic"], fields["magic"]), ("1", "T", "0xDAA320A7"))
        self.assertEqual(sum(one["size"] for one in record["fields"]), record["size"])
        self.assertIn("physical_offset", self.out("msg", "show", self.ids[1], "--as", "record"))

    def test_trace(self) -> None:
        """What clients traced of a message is shown as a table and as JSON; without traces the command says so."""
        self.assertIn("has no trace of message", self.refused("msg", "trace", f"{1:032X}", status=1))
        calls = encode_trace(begun("r", 2000, retries=2, message=f"{1:032X}"))
        found = {"KEYS": f"{1:032X} k1", "UNIQ_KEY": f"{77:032X}"}
        self.cluster.send(TRACE_TOPIC, (traced(f"{1:032X}") + calls).encode(), properties=found)
        self.cluster.pump(1.0)
        for one in (f"{1:032X}", self.ids[1]):
            rows = self.json("msg", "trace", one)
            self.assertEqual([event["kind"] for event in rows["events"]], ["produced", "consumed"])
        text = self.out("msg", "trace", f"{1:032X}")
        self.assertIn("3 ms", text)
        self.assertIn("no end is known, redelivery 2", text)
        self.assertEqual(self.json("msg", "trace", f"{2:032X}")["events"], [])

    def test_search(self) -> None:
        """Messages are found by key, also within a time, by either id, by place, and by what their bodies hold."""

        def bodies(*arguments: str) -> list[str]:
            return [one["body"] for one in self.json("msg", "search", "T", *arguments)]

        self.assertEqual(bodies("--key", "k3"), ['{"n": 3}'])
        self.assertEqual(len(bodies("--key", "all")), 6)
        later = ("--from", "2023-11-14T22:13:23+00:00")
        self.assertEqual(bodies("--key", "all", *later), bodies(*later))
        self.assertTrue(0 < len(bodies(*later)) < 6)
        self.assertEqual(bodies("--id", f"{4:032X}"), ['{"n": 4}'])
        self.assertEqual(bodies("--id", self.ids[5]), ['{"n": 5}'])
        self.assertEqual(bodies("--queue", "broker-a:1", "--offset", "1"), ['{"n": 5}'])
        self.assertEqual(bodies("--grep", '"n": 2'), ['{"n": 2}'])
        self.assertEqual(bodies("--grep", "n", "-n", "2", "--queue", "broker-a:1"), ['{"n": 4}', '{"n": 5}'])
        self.assertIn("k3, all", self.out("msg", "search", "T", "--key", "k3"))

    def test_search_missing(self) -> None:
        """What is not found ends with 66, what cannot be meant with 2."""
        self.refused("msg", "search", "T", "--key", "none", status=66)
        self.refused("msg", "search", "T", "--key", "all", "--from", "2030-01-01", status=66)
        self.refused("msg", "search", "T", "--id", "F" * 32, status=66)
        self.refused("msg", "search", "T", "--id", "nonsense", status=66)
        self.refused("msg", "search", "T", "--queue", "broker-a:1", "--offset", "7", status=66)
        self.refused("msg", "search", "T", "--grep", "none", status=66)
        self.refused("msg", "search", "Nowhere", "--key", "k", status=66)
        for words in ([], ["--key", "k", "--id", "i"], ["--offset", "1"], ["--key", "k", "--from", "3"]):
            self.invoke("msg", "search", "T", *words, status=2)

    def test_search_combined(self) -> None:
        """Options that cannot be combined are refused, and the sentence names them; none is ignored."""
        start = ["--from", "2023-11-14T22:13:20+00:00"]
        single = "give only one of --key, --id, --offset and --grep"
        cases: list[tuple[list[str], str]] = [
            (["--key", "all", "--grep", "n"], single),
            (["--key", "all", *start, "--grep", "n"], single),
            (["--id", self.ids[5], *start], "--from can be added to --key or --grep, or stand alone"),
            (["--id", self.ids[5], "--until", "2030-01-01"], "--until cannot be combined with --id or --offset"),
            (["--key", "all", "--queue", "broker-a:1"], "--queue cannot be combined with --key or --id"),
            (["--id", self.ids[5], "--queue", "broker-a:1"], "--queue cannot be combined with --key or --id"),
        ]
        for words, sentence in cases:
            self.assertIn(sentence, self.invoke("msg", "search", "T", *words, status=2).stderr, words)
        found = self.json("msg", "search", "T", *start, "--grep", '"n": 2')
        self.assertEqual([one["body"] for one in found], ['{"n": 2}'])

    def test_unique(self) -> None:
        """An id that the producer gave finds the message, of a topic that is named or of any."""
        for words in (["--topic", "T"], []):
            self.assertEqual(self.json("msg", "show", f"{2:032X}", *words)["body"], '{"n": 2}')
        for text in (f"{99:032X}", "7F000001477C9D208E2C7107D75F0003"):  # the second can be no offset id
            self.assertIn(f"there is no message {text} in any topic", self.refused("msg", "show", text, status=66))
        self.patch(topicsweep, "SWEPT", 1)
        refusal = self.refused("msg", "show", f"{99:032X}", status=66)
        self.assertRegex(refusal, r"in the 1 of \d+ topics that were searched; give its topic too")
        self.assertEqual(self.json("msg", "show", self.ids[2], "--topic", "T")["offset"], 2)

    def test_track(self) -> None:
        """What each group made of a message is told: consumed, filtered, not yet, or nobody is there."""
        self.assertIn("No group consumes topic T", self.out("msg", "track", self.ids[0]))
        self.out("group", "reset", "gone", "T", "--to", "2", "--create", "--yes", "--plan", "/p")
        self.out("group", "reset", "here", "T", "--to", "2", "--create", "--yes", "--plan", "/q")
        self.cluster.heartbeat("here", "T", tags="A")
        for number, states in enumerate(
            (("CONSUMED", "NOT_ONLINE"), ("CONSUMED_BUT_FILTERED", "NOT_ONLINE"), ("NOT_CONSUME_YET", "NOT_ONLINE"))
        ):
            rows = {row["group"]: row for row in self.json("msg", "track", self.ids[number])}
            self.assertEqual((rows["here"]["state"], rows["gone"]["state"]), states, number)
            self.assertEqual((rows["here"]["position"], rows["here"]["wants"]), (2, "A"))
        self.assertIn("NOT_ONLINE", self.out("msg", "track", f"{0:032X}", "--topic", "T"))

    def test_push(self) -> None:
        """A member that is not there cannot consume; nobody is asked without a yes."""
        words = ("msg", "push", self.ids[0], "--group", "cg", "--client", "nobody")
        self.assertIn("--yes", self.refused(*words, status=2))
        self.assertIn("not online", self.refused(*words, "--yes", status=1))

    def test_missing(self) -> None:
        """An id that leads nowhere and a topic that is none end with 66, an id that is none with 2."""
        self.refused("msg", "show", self.ids[0][:-4] + "7FFF", status=66)
        self.refused("msg", "show", "nonsense", status=2)
        self.refused("msg", "export", "Nowhere", status=66)
        self.refused("msg", "tail", "Nowhere", status=66)
        self.invoke("msg", "export", "T", "--from", "yesterday", status=2)

    def test_json_body(self) -> None:
        """A body that is no JSON is not shown as JSON."""
        answer = self.cluster.send("T", b"\xff")
        self.refused("msg", "show", answer.fields["msgId"], "--as", "json", status=1)
        self.assertIn("\\xff", self.out("msg", "show", answer.fields["msgId"]))

    def test_export(self) -> None:
        """All messages are written as JSON lines, or those between two places, of one queue, of a tag, or so many."""
        self.assertEqual(
            [line["body"] for line in self.lines("msg", "export", "T")], [f'{{"n": {n}}}' for n in range(6)]
        )
        self.assertEqual(len(self.lines("msg", "export", "T", "-n", "3")), 3)
        self.assertEqual([line["offset"] for line in self.lines("msg", "export", "T", "--from", "-1")], [3, 1])
        self.assertEqual([line["offset"] for line in self.lines("msg", "export", "T", "--until", "1")], [0, 0])
        self.assertEqual(len(self.lines("msg", "export", "T", "-q", "broker-a:1")), 2)
        self.assertEqual({line["tag"] for line in self.lines("msg", "export", "T", "--tag", "B")}, {"B"})
        stored = [cast("int", line["stored_ms"]) for line in self.lines("msg", "export", "T")]
        moment = "2023-11-14T22:13:23+00:00"
        later = self.lines("msg", "export", "T", "--from", moment)
        self.assertEqual([line["stored_ms"] for line in later], [one for one in stored if one >= 1_700_000_003_000])
        self.assertTrue(0 < len(later) < 6)

    def test_export_file(self) -> None:
        """A file is written; one that is there is left alone."""
        result = self.invoke("msg", "export", "T", "--file", "/out.jsonl")
        self.assertEqual((result.stdout, result.stderr), ("", "exported 6 messages to /out.jsonl\n"))
        self.assertEqual(len(self.env.files.read("/out.jsonl").splitlines()), 6)
        self.refused("msg", "export", "T", "--file", "/out.jsonl", status=1)

    def test_tail(self) -> None:
        """Messages are printed as they come, of all queues, from the end or from before it."""
        self.assertEqual(len(self.out("msg", "tail", "T", "--from", "-1", "-n", "2").splitlines()), 2)
        sent = iter(range(6, 30))

        def send() -> None:
            self.cluster.send("T", b"new %d" % next(sent), queue_id=1)

        self.during = send
        self.assertEqual(
            [line["body"] for line in self.lines("msg", "tail", "T", "-n", "3", "-o", "jsonl")],
            ["new 6", "new 7", "new 8"],
        )
        self.assertIn("new 1", self.out("msg", "tail", "T", "-n", "1", "--grep", "new 1"))

    def test_tail_ends(self) -> None:
        """An interrupt is how it ends, and leaves nothing behind; other work ends with 130 then."""
        self.seconds = 3.0
        self.assertEqual(self.out("msg", "tail", "T"), "")
        self.seconds = 0.0
        self.refused("msg", "export", "T", status=130)

    def test_resend(self) -> None:
        """A copy is sent after a question; a dry run only says where to."""
        self.assertIn("would send to T", self.out("msg", "resend", self.ids[0], "--dry-run"))
        self.assertIn("--yes", self.refused("msg", "resend", self.ids[0], status=2))
        sent = self.json("msg", "resend", self.ids[0], "--yes")
        copy = self.json("msg", "show", sent["offset_id"])
        self.assertEqual((copy["topic"], copy["body"], copy["keys"]), ("T", '{"n": 0}', ["k0", "all"]))
        self.assertEqual(copy["properties"]["colour"], "red")
        self.assertNotEqual(copy["message_id"], f"{0:032X}")
        self.out("topic", "create", "U")
        self.assertEqual(self.json("msg", "resend", self.ids[0], "--to", "U", "--yes")["topic"], "U")


class DeadLetterTests(ClusterCase):
    def setUp(self) -> None:
        """A group with three dead letters of topic T."""
        super().setUp()
        self.out("topic", "create", "T", "-n", "1")
        self.out("group", "create", "cg")
        self.cluster.heartbeat("cg", "T")
        for number in range(3):
            found = {
                "KEYS": f"k{number}", "UNIQ_KEY": f"{number:032X}", "RETRY_TOPIC": "T", "ORIGIN_MESSAGE_ID": "O",
                "RECONSUME_TIME": "16",
            }  # fmt: skip
            self.cluster.send(
                "%RETRY%cg", b"dead %d" % number, properties=found, reconsume_times=16, max_reconsume_times=16
            )
        self.cluster.pump(1.0)

    def test_list(self) -> None:
        """Groups with dead letters are listed, and what they are."""
        (row,) = self.json("dlq", "ls")
        self.assertEqual((row["group"], row["messages"]), ("cg", 3))
        rows = self.json("dlq", "show", "cg")
        self.assertEqual([(row["topic"], row["body"]) for row in rows], [("T", f"dead {n}") for n in range(3)])
        self.assertIn("dead 2", self.out("dlq", "show", "cg", "--from", "-1"))
        self.assertEqual(len(self.out("dlq", "export", "cg").splitlines()), 3)
        self.refused("dlq", "show", "nobody", status=66)

    def test_none(self) -> None:
        """Where there are none a person is told."""
        self.out("topic", "rm", "%DLQ%cg", "--yes")
        self.assertIn("no dead letters", self.out("dlq", "ls"))

    def test_unknown(self) -> None:
        """Where the broker that has them declines to tell, nobody is told that there are none."""

        async def stats(topic: str) -> None:
            raise PeerRefused(ResponseCode.SYSTEM_BUSY, "later")

        self.patch(Topics, "stats", lambda topics, topic: Deferred.fromCoroutine(stats(topic)))
        self.assertIn("later", self.refused("dlq", "ls", status=75))

    def test_unmarked(self) -> None:
        """A resent one that cannot be marked is told as sent: to resend it again would be wrong."""

        async def resent(*what: object) -> None:
            raise CallTimedOut("a send", 3.0)

        self.patch(JournalWriter, "resent", resent)
        result = self.invoke("dlq", "resend", "cg", "--all", "--yes", status=1)
        self.assertIn("sent 3 messages, but 3 could not be marked as resent", result.stderr)
        self.cluster.pump(1.0)
        self.assertEqual(len(self.cluster.pull("%RETRY%cg")[1]), 3)

    def test_resend(self) -> None:
        """Chosen ones go to the group alone, through its retry topic, as if new."""
        found = self.json("dlq", "resend", "cg", "--all", "--dry-run")
        self.assertEqual((found["sent"], found["dry_run"]), (3, True))
        self.assertEqual(self.cluster.pull("%RETRY%cg")[1], [])
        self.out("dlq", "resend", "cg", "--id", f"{1:032X}", "--yes")
        self.cluster.pump(1.0)
        _, (stored,) = self.cluster.pull("%RETRY%cg")
        found = properties.decode(stored.properties)
        self.assertEqual((stored.body, stored.reconsume_times, found["RETRY_TOPIC"]), (b"dead 1", 0, "T"))
        self.assertEqual(found["UNIQ_KEY"], f"{1:032X}")
        self.out("dlq", "resend", "cg", "--key", "k0", "--to", "T", "--yes")
        self.cluster.pump(1.0)
        self.assertEqual([one.body for one in self.cluster.pull("T")[1]], [b"dead 0"])

    def test_many(self) -> None:
        """However many there are, all are sent, once; where one is not taken it is told how many were."""
        for number in range(150):
            self.cluster.send("%RETRY%cg", b"more %d" % number, reconsume_times=16, max_reconsume_times=16)
        self.cluster.pump(1.0)
        self.assertIn(
            "sent 0 of 153 messages",
            self.refused("dlq", "resend", "cg", "--all", "--to", "SELF_TEST_TOPIC", "--yes", status=1),
        )
        self.assertEqual(self.json("dlq", "resend", "cg", "--all", "--to", "T", "--yes")["sent"], 153)
        self.cluster.pump(1.0)
        self.assertEqual(self.json("topic", "show", "T")["messages"], 153)
        self.assertEqual(self.json("dlq", "resend", "cg", "--all", "--to", "T", "--yes")["sent"], 0)

    def test_no_origin(self) -> None:
        """One that does not say where it came from goes to no group; those before it were sent, and are counted."""
        self.cluster.send("%RETRY%cg", b"lost", reconsume_times=16, max_reconsume_times=16)
        self.cluster.pump(1.0)
        words = self.refused("dlq", "resend", "cg", "--all", "--yes", status=1)
        self.assertIn("sent 3 of 4 messages, then failed: nothing says which topic", words)

    def test_refused(self) -> None:
        """Which ones must be said; one that is not there is missing."""
        self.invoke("dlq", "resend", "cg", status=2)
        self.refused("dlq", "resend", "cg", "--id", "F" * 32, "--yes", status=66)
        self.refused("dlq", "resend", "nobody", "--all", "--yes", status=66)
        self.assertIn("--yes", self.refused("dlq", "resend", "cg", "--all", status=2))


class AnnotationTests(SynchronousTestCase):
    def test_fields(self) -> None:
        """The fields of a record follow each other without a gap and tell what its bytes say."""
        raw = encode(Stored("T", 3, b"x" * 100, b"KEYS\x01a"), 7, 1000, 1_600_000_000_000)
        fields = annotated(raw)
        self.assertEqual([one.at for one in fields[1:]], [one.at + one.size for one in fields[:-1]])
        self.assertEqual(fields[-1].at + fields[-1].size, len(raw))
        values = {one.name: one.value for one in fields}
        self.assertEqual((values["queue_id"], values["queue_offset"], values["properties"]), ("3", "7", "KEYS=a"))
        self.assertTrue(values["body"].endswith(" ..."))
        self.assertTrue(values["stored_ms"].startswith("1600000000000 (2020-"))


class SlaveLettersTests(CommandCase):
    """Dead letters of a broker whose master is gone, while its slave is up."""

    def setUp(self) -> None:
        """Three dead letters, which the slave has."""
        super().setUp()
        self.pair = Pair()
        self.addCleanup(self.pair.stop)
        self.env = self.pair.env
        self.pair.send("T", b"first")
        self.out("group", "create", "cg")
        self.pair.heartbeat("cg", "T")
        for number in range(3):
            self.pair.send(
                "%RETRY%cg",
                b"dead %d" % number,
                properties={"UNIQ_KEY": f"{number:032X}", "RETRY_TOPIC": "T"},
                reconsume_times=16,
                max_reconsume_times=16,
            )
        first = self.json("dlq", "show", "cg")[0]["offset_id"]
        self.assertIn("acknowledged 1", self.out("dlq", "ack", "cg", "--id", first, "--yes"))
        self.pair.pump(70.0)
        self.pair.stop_master()

    def pump(self) -> None:
        """Let bytes and time pass."""
        self.pair.pump(0.1)

    def test_read(self) -> None:
        """They are listed and shown, with what was done about them."""
        [row] = self.json("dlq", "ls")
        self.assertEqual((row["group"], row["messages"], row["open"]), ("cg", 3, 2))
        self.assertEqual([row["open"] for row in self.json("dlq", "show", "cg")], [False, True, True])
        self.assertIn("2 dead letters", self.out("dlq", "ack", "cg", "--all", "--dry-run"))
        self.assertIn("2 messages", self.out("dlq", "resend", "cg", "--all", "--dry-run"))
        said = self.invoke("doctor", status=1).stdout
        self.assertIn("group cg: 2 dead letters", said)
        self.assertNotIn("could not be finished", said)
