"""The commands about topics."""

from __future__ import annotations

import json

from twisted.internet.defer import fail

from smartgo.client.administration.positions import Positions
from smartgo.errors import CallFailed
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.cli.case import ClusterCase


class TopicTests(ClusterCase):
    def test_retention(self) -> None:
        """There is no retention by topic, and whoever asks for it learns why."""
        for words in (("create", "T"), ("set", "T")):
            said = self.refused("topic", *words, "--retention", "1h", status=2)
            self.assertIn("there is no retention by topic: all topics share the log", said)

    def test_life(self) -> None:
        """A topic is created, listed, shown, changed, and deleted with its messages."""
        self.assertEqual(
            self.out("topic", "create", "Orders", "-n", "4"), "topic Orders has 4 queues, permission rw, at broker-a\n"
        )
        self.cluster.send("Orders", queue_id=1)
        (row,) = self.json("topic", "ls")
        self.assertEqual(
            row,
            {
                "topic": "Orders",
                "kind": "normal",
                "broker": "broker-a",
                "read_queues": 4,
                "write_queues": 4,
                "perm": "rw",
            },
        )
        shown = self.json("topic", "show", "Orders")
        self.assertEqual((shown["messages"], shown["groups"], list(shown["brokers"])), (1, [], ["broker-a"]))
        stats = self.json("topic", "stats", "Orders")
        self.assertEqual([one["messages"] for one in stats], [0, 1, 0, 0])
        changed = self.json("topic", "set", "Orders", "--write-queues", "2", "--perm", "r")
        self.assertEqual((changed["read_queues"], changed["write_queues"], changed["perm"]), (4, 2, "r-"))
        self.assertEqual(self.json("topic", "route", "Orders")["queueDatas"][0]["writeQueueNums"], 2)
        self.assertIn("1 message was deleted at broker-a", self.out("topic", "rm", "Orders", "--yes"))
        self.assertEqual(self.json("topic", "ls"), [])
        self.assertIn("There are no topics", self.out("topic", "ls"))

    def test_dry(self) -> None:
        """A dry run says what would be, and nothing is."""
        self.assertIn("would have 2 queues", self.out("topic", "create", "T", "-n", "2", "--dry-run"))
        self.assertEqual(self.json("topic", "ls"), [])
        self.out("topic", "create", "T")
        self.assertTrue(self.json("topic", "rm", "T", "--dry-run")["dry_run"])
        self.assertIn("would have 9 queues", self.out("topic", "set", "T", "-n", "9", "--dry-run"))
        self.assertEqual(self.json("topic", "ls")[0]["read_queues"], 8)

    def test_empty(self) -> None:
        """Emptying a topic says what stays, moves its groups behind its end, and can be undone."""
        self.out("topic", "create", "Orders", "-n", "1")
        self.assertIn("No group reads Orders", self.out("topic", "empty", "Orders", "--yes"))
        for _ in range(5):
            self.cluster.send("Orders")
        header = UpdateOffsetRequest(consumer_group="audit", topic="Orders", queue_id=0, commit_offset=2)
        self.out("group", "create", "audit")
        self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        said = self.out("topic", "empty", "Orders", "--dry-run")
        self.assertIn("5 messages of Orders stay on the disk until retention removes the log files.", said)
        self.assertIn("Dry run", said)
        (row,) = self.json("topic", "empty", "Orders", "--yes", "--plans", "/")["groups"]
        self.assertEqual((row["group"], row["skipped"], row["members"]), ("audit", 3, 0))
        self.assertEqual([one["lag"] for one in self.json("group", "lag", "audit")], [0])
        self.assertEqual(self.json("topic", "show", "Orders")["messages"], 5)
        self.out("group", "undo", row["plan"], "--yes")
        self.assertEqual([one["lag"] for one in self.json("group", "lag", "audit")], [3])

    def test_empty_failed(self) -> None:
        """A move that fails may be done in part: the file of its plan is named, for an undo."""
        self.out("topic", "create", "Orders", "-n", "1")
        self.cluster.send("Orders")
        self.out("group", "create", "audit")
        header = UpdateOffsetRequest(consumer_group="audit", topic="Orders", queue_id=0, commit_offset=0)
        self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
        self.patch(Positions, "apply", lambda positions, plan: fail(CallFailed("no answer")))
        said = self.invoke("topic", "empty", "Orders", "--yes", "--plans", "/", status=1)
        self.assertIn("To undo: smartgo group undo /audit-Orders-", said.stdout)
        self.assertIn("1 group not moved: audit: no answer", said.stderr)
        rows = self.invoke("topic", "empty", "Orders", "--yes", "--plans", "/", "-o", "json", status=1)
        (row,) = json.loads(rows.stdout)["groups"]
        self.assertTrue(row["plan"].startswith("/audit-Orders-"), row)

    def test_empty_kinds(self) -> None:
        """Topics of the system and retry topics are not emptied, as in the console."""
        self.assertIn("TBW102 is a system topic", self.refused("topic", "empty", "TBW102", "--yes", status=1))

    def test_missing(self) -> None:
        """What is not there ends with 66, what may not be with 78 or 2."""
        for words in (["show"], ["stats"], ["route"], ["groups"], ["empty"], ["rm"], ["set", "-n", "3"]):
            self.refused("topic", words[0], "Nowhere", *words[1:], status=66)
        self.out("topic", "create", "T")
        self.assertIn("--change", self.refused("topic", "create", "T", status=78))
        self.refused("topic", "create", "bad name", status=2)
        self.assertIn("broker-a", self.refused("topic", "create", "U", "-b", "nobody", status=1))
        self.assertIn("nobody", self.refused("topic", "create", "U", "--cluster", "nobody", status=1))

    def test_asks(self) -> None:
        """A topic is not deleted unless a person says so."""
        self.out("topic", "create", "T")
        self.assertIn("--yes", self.refused("topic", "rm", "T", status=2))
        self.assertEqual(len(self.json("topic", "ls")), 1)

    def test_formats(self) -> None:
        """A table for people, and the same as JSON, lines of JSON, and YAML."""
        self.out("topic", "create", "A")
        self.out("topic", "create", "B")
        table = self.out("topic", "ls").splitlines()
        self.assertEqual(
            [line.split() for line in table[1:]], [["A", "broker-a", "8", "8", "rw"], ["B", "broker-a", "8", "8", "rw"]]
        )
        self.assertEqual(len(self.out("topic", "ls", "-o", "jsonl").splitlines()), 2)
        self.assertIn("- topic: A\n", self.out("topic", "ls", "-o", "yaml"))
        everything = {row["topic"]: row["kind"] for row in self.json("topic", "ls", "--all")}
        self.assertEqual(everything["TBW102"], "system")
        self.assertEqual(everything["broker-a"], "system")
