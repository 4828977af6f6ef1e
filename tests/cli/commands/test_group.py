"""The commands about consumer groups."""

from __future__ import annotations

import json

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.filters import Sql
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.schema.bodies import ConsumeFromWhere
from tests.broker.fakecluster import REGISTRY
from tests.cli.case import ClusterCase


class GroupTests(ClusterCase):
    def setUp(self) -> None:
        """A topic of two queues with ten messages each."""
        super().setUp()
        self.out("topic", "create", "T", "-n", "2")
        for number in range(20):
            self.cluster.send("T", queue_id=number % 2)
        self.cluster.pump(1.0)
        self.seen: list[ReceivedMessage] = []

    def member(self, name: str = "cg", expression: str | Sql = "*") -> PushConsumer:
        """A consumer that has read everything, and reported it."""
        client = Client(self.env, REGISTRY)

        def stop() -> None:
            client.stop()
            self.cluster.pump(0.5)

        self.addCleanup(stop)
        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, stop_timeout=0.0)
        consumer = PushConsumer(client, name, self.seen.extend, settings)
        consumer.subscribe("T", expression)
        consumer.start()
        self.cluster.pump(20.0)
        self.assertEqual(len(self.seen), 20)
        return consumer

    def test_retries(self) -> None:
        """Whoever sets the retries of a group is told that clients send their own number, and where to see it."""
        said = self.invoke("group", "create", "audit", "--retries", "1").stderr
        self.assertIn("override the retries of a group", said)
        self.assertIn('"smartgo group members audit"', said)
        self.assertIn("override", self.invoke("group", "set", "audit", "--retries", "2").stderr)
        self.assertEqual(self.invoke("group", "set", "audit", "--no-consume").stderr, "")

    def test_settings(self) -> None:
        """A group is created, shown, changed and deleted."""
        self.assertEqual(self.out("group", "create", "audit", "--retries", "3"), "group audit was set at broker-a\n")
        self.assertIn("audit", self.refused("group", "create", "audit", status=78))
        (shown,) = self.json("group", "show", "audit")
        self.assertEqual((shown["retryMaxTimes"], shown["broker"]), (3, "broker-a"))
        changed = self.json("group", "set", "audit", "--no-consume", "--dry-run")
        self.assertEqual((changed["config"]["consumeEnable"], changed["dry_run"]), (False, True))
        self.assertTrue(self.json("group", "show", "audit")[0]["consumeEnable"])
        self.out("group", "set", "audit", "--no-consume")
        (shown,) = self.json("group", "show", "audit")
        self.assertEqual((shown["consumeEnable"], shown["retryMaxTimes"]), (False, 3))
        self.assertIn("would be", self.out("group", "rm", "audit", "--dry-run"))
        self.out("group", "rm", "audit", "--yes")
        self.assertEqual(self.json("group", "ls"), [])
        self.assertIn("There are no groups", self.out("group", "ls"))

    def test_missing(self) -> None:
        """A group that is not there ends with 66; nothing to change, and nothing to move to, with 2."""
        for words in (["show", "no"], ["lag", "no"], ["members", "no"], ["rm", "no"], ["set", "no", "--retries", "1"]):
            self.refused("group", *words, status=66)
        self.out("group", "create", "audit")
        self.invoke("group", "set", "audit", status=2)
        self.invoke("group", "reset", "audit", "T", status=2)
        self.invoke("group", "reset", "audit", "T", "--to", "yesterday", status=2)
        self.invoke("group", "reset", "audit", "T", "--to", "earliest", "--queue", "3", status=2)
        self.refused("group", "reset", "audit", "Nowhere", "--to", "latest", status=66)
        self.refused("group", "reset", "audit", "T", "--to", "latest", "--queue", "broker-a:9", status=78)
        self.refused("group", "undo", "/nothing.json", status=1)

    def test_offline(self) -> None:
        """A group without members is moved after a look at what that means, and back by the plan that was kept."""
        self.out("group", "create", "audit")
        plan = self.json("group", "reset", "audit", "T", "--to", "7", "--dry-run")
        self.assertEqual([(one["before"], one["after"]) for one in plan["moves"]], [(None, 7), (None, 7)])
        self.assertEqual(self.json("group", "lag", "audit"), [])
        self.out("group", "reset", "audit", "T", "--to", "7", "--yes", "--plan", "/first.json")
        lag = self.json("group", "lag", "audit")
        self.assertEqual([(one["position"], one["end"], one["lag"]) for one in lag], [(7, 10, 3), (7, 10, 3)])
        moved = self.json(
            "group", "reset", "audit", "T", "--to", "-5", "-q", "broker-a:1", "--yes", "--plan", "/p.json"
        )
        self.assertEqual((moved["written"], moved["told"]), (["broker-a"], []))
        self.assertEqual([one["position"] for one in self.json("group", "lag", "audit")], [7, 2])
        self.assertEqual(json.loads(self.env.files.read("/p.json"))["moves"][0]["before"], 7)
        self.assertIn("skips 5 messages", self.out("group", "undo", "/p.json", "--dry-run"))
        self.out("group", "undo", "/p.json", "--yes")
        self.assertEqual([one["position"] for one in self.json("group", "lag", "audit")], [7, 7])
        self.refused("group", "undo", "/first.json", status=1)

    def test_new(self) -> None:
        """A group that does not exist is not reset unless --create is given, and the preview says that it is new."""
        reset = ("group", "reset", "adit", "T", "--to", "7")
        for option in ("--yes", "--dry-run"):
            said = self.refused(*reset, option, status=66)
            self.assertEqual(
                said,
                "smartgo: group adit does not exist; check the name, or use --create to set the offsets of a new"
                " group\n",
            )
        self.assertEqual(self.json("group", "ls"), [])
        said = self.out(*reset, "--create", "--dry-run")
        self.assertIn("Group adit does not exist yet; it will be created.", said)
        self.assertEqual(self.json("group", "ls"), [])
        self.assertTrue(self.json(*reset, "--create", "--yes", "--plan", "/p.json")["new_group"])
        self.assertEqual([one["position"] for one in self.json("group", "lag", "adit")], [7, 7])
        self.assertNotIn("created", self.out(*reset, "--dry-run"))
        self.assertIn("Lag: 6 messages; no member is connected.", self.out("group", "lag", "adit"))

    def test_targets(self) -> None:
        """Earliest, latest and a time lie within the bounds."""
        self.out("group", "create", "audit")
        for target, after in (("earliest", 0), ("latest", 10), ("99", 10), ("2030-01-01T00:00:00+00:00", 10)):
            plan = self.json("group", "reset", "audit", "T", "--to", target, "--dry-run")
            self.assertEqual([one["after"] for one in plan["moves"]], [after, after], target)

    def test_online(self) -> None:
        """A group with members is moved through them: they read again from there."""
        self.member()
        (row,) = self.json("group", "ls")
        self.assertEqual((row["members"], row["lag"], row["topics"]), (1, 0, ["T"]))
        lag = {(one["topic"], one["queue"]): one["member"] for one in self.json("group", "lag", "cg")}
        self.assertEqual(set(lag), {("T", 0), ("T", 1), ("%RETRY%cg", 0)})
        self.assertEqual(len(set(lag.values())), 1)
        moved = self.json("group", "reset", "cg", "T", "--to", "earliest", "--yes", "--plan", "/p.json")
        self.assertEqual((moved["members"], moved["told"]), (1, ["broker-a"]))
        self.cluster.pump(30.0)
        self.assertEqual(len(self.seen), 40)
        single = self.json("group", "reset", "cg", "T", "--to", "8", "-q", "broker-a:0", "--yes", "--plan", "/q.json")
        self.assertEqual(single["told"], ["broker-a"])
        self.cluster.pump(30.0)
        self.assertEqual([one.queue_offset for one in self.seen[40:]], [8, 9])
        self.assertIn("has 1 connected member;", self.refused("group", "rm", "cg", "--yes", status=1))

    def test_members(self) -> None:
        """Who is connected is listed, and tells about itself."""
        self.member()
        found = self.json("group", "members", "cg")
        (one,) = found["connectionSet"]
        self.assertEqual(found["subscriptionTable"]["T"]["subString"], "*")
        shown = self.out("group", "members", "cg")
        self.assertIn(one["clientId"], shown)
        self.assertIn("V4_9_8", shown)
        self.assertIn("clustering; the application is given messages by its client; a queue without", shown)
        self.assertNotIn("CONSUME_", shown)
        info = self.json("group", "info", "cg", one["clientId"])
        self.assertEqual(info["properties"]["PROP_CONSUME_TYPE"], "CONSUME_PASSIVELY")
        self.assertIn("PROP_CONSUME_TYPE", self.out("group", "info", "cg", one["clientId"], "--raw"))
        shown = self.out("group", "info", "cg", one["clientId"])
        self.assertNotIn("PROP_", shown)
        self.assertRegex(shown, "consumes +concurrently, 20 at a time\nlistener calls +none under way\n")
        self.refused("group", "info", "cg", "nobody", status=1)
        self.out("group", "create", "idle")
        self.assertIn("Group idle has no connected members.", self.out("group", "members", "idle"))

    def test_sql(self) -> None:
        """The SQL92 expression of a group is shown where others show their tags."""
        self.member(expression=Sql("n IS NULL"))
        self.assertRegex(self.out("group", "members", "cg"), r"T +n IS NULL +SQL92")

    def test_clone(self) -> None:
        """A group stands where another stands."""
        self.out("group", "create", "a")
        self.out("group", "reset", "a", "T", "--to", "4", "--yes", "--plan", "/a.json")
        said = self.out("group", "clone", "a", "b", "T", "--yes", "--plan", "/p.json")
        self.assertIn("Group b does not exist yet; it will be created.", said)
        self.assertEqual([one["position"] for one in self.json("group", "lag", "b")], [4, 4])
        self.refused("group", "clone", "nobody", "b", "T", status=1)
