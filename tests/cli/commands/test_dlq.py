"""Dead letters: what each face shows while they are sent again, fail anew, are acknowledged and opened again."""

from __future__ import annotations

from typing import Any
from unittest import mock

from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry
from twisted.internet.defer import Deferred

from smartgo.client.administration.topics import Topics
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.deadletterjournal import DeadLetterJournal, JournalEntry, LetterPlace
from smartgo.client.internal.redeliveries import Redeliveries
from smartgo.client.internal.search import BrokerSearch
from smartgo.client.listening import ConsumeLater, ConsumerSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import CallTimedOut
from smartgo.node.ops import LocalNode
from smartgo.ops.alerts import monitor
from smartgo.ops.alerts.noticemetrics import DeadLetterMetrics
from smartgo.schema.topics import DEAD_LETTER_JOURNAL, dlq_topic
from tests.broker.fakecluster import REGISTRY
from tests.cli.case import ClusterCase
from tests.ops.front import Front


class LettersCase(ClusterCase):
    """A cluster with its REST API, and a group that fails as it is told."""

    seconds = 120.0

    def setUp(self) -> None:
        super().setUp()
        self.patch(monitor, "REST", 0)
        self.out("topic", "create", "Orders", "-n", "1")
        self.start_front()
        self.addCleanup(self.stop_front)
        self.env.host.variables["USER"] = "ann"
        self.failing = lambda number: True
        self.consumed: list[str] = []
        self.client = Client(self.env, REGISTRY, instance="member")
        self.addCleanup(self.cluster.pump, 0.5)
        self.addCleanup(self.client.stop)

    def start_front(self) -> None:
        """Start the REST API."""
        node = LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        self.front = Front(self.cluster, node)
        if not self.front.ops.tokens.any:
            self.token = self.front.admin()
        self.env.host.variables["SMARTGO_TOKEN"] = self.token

    def stop_front(self) -> None:
        """Stop the REST API that there is."""
        self.front.stop_api()

    def consume(self) -> None:
        """Let a consumer of the group run for a minute; what fails becomes a dead letter at once."""

        def take(messages: list[ReceivedMessage]) -> Deferred[None] | None:
            for one in messages:
                if self.failing(int(one.body)):
                    raise ConsumeLater(-1)
                self.consumed.append(one.body.decode())
            return None

        consumer = PushConsumer(self.client, "billing", take)
        consumer.subscribe("Orders")
        consumer.start()
        self.cluster.pump(60.0, 0.5)
        consumer.stop()
        self.cluster.pump(10.0, 0.5)

    def letters(self, count: int) -> None:
        """Make dead letters."""
        for number in range(count):
            unique = f"7F00000100000000000000000000{number:04X}"
            self.cluster.send("Orders", b"%d" % number, properties={"UNIQ_KEY": unique})
        self.out("group", "create", "billing")
        self.out("group", "reset", "billing", "Orders", "--to", "0", "--yes", "--plan", "/p")
        self.consume()

    # -- the faces ---------------------------------------------------------------------------------------------

    def rest(self, path: str) -> Any:
        """Ask the REST API."""
        self.front.ops.view.forget()
        return self.front.get(path, token=self.token)

    def states(self) -> list[str]:
        """What REST says of each dead letter, oldest first."""
        rows = self.rest("/dlq/billing?sort=storedMs")["items"]
        states = []
        for one in rows:
            done = "acknowledged" if one["acknowledged"] else one["resent"] and one["resent"]["state"]
            states.append("open" if one["open"] else done)
        return states

    def counts(self) -> dict[str, Any]:
        """How many dead letters there are, and how many are open, on each face."""
        self.cluster.pump(40.0, 1.0)
        row = self.rest("/dlq")["items"][0]
        (line,) = self.json("dlq", "ls")
        alerts = self.rest("/alerts?q=dead-letters&state=firing")["items"]
        registry = CollectorRegistry()
        registry.register(DeadLetterMetrics(lambda: self.front.ops.alerts.dead))
        doctor = [one for one in self.json("doctor") if "dead letter" in one["what"] or "resent" in one["what"]]
        return {
            "rest": (row["messages"], row["open"]),
            "ls": (line["messages"], line["open"]),
            "dry run": self.json("dlq", "resend", "billing", "--all", "--dry-run")["sent"],
            "alert": alerts[0]["value"] if alerts else None,
            "metrics": [line for line in generate_latest(registry).decode().splitlines() if "billing" in line],
            "doctor": [(one["verdict"], one["subject"], one["what"]) for one in doctor],
        }

    def expected(self, messages: int, opened: int, in_retry: int = 0) -> dict[str, Any]:
        """What all faces must say."""
        retry = f"; {in_retry} in retry" if in_retry else ""
        many = f"{opened} dead letter{'s' if opened > 1 else ''} neither resent nor acknowledged"
        return {
            "rest": (messages, opened),
            "ls": (messages, opened),
            "dry run": opened,
            "alert": float(opened) or None,
            "metrics": [f'smartgo_dead_letters_open{{consumer_group="billing"}} {opened}.0'],
            "doctor": [("warning", "group billing", many)]
            if opened
            else [("ok", "groups", f"{messages} dead letters, all resent or acknowledged{retry}")],
        }


class WalkTests(LettersCase):
    """The walk through an incident."""

    def test_walk(self) -> None:
        """Twelve letters are sent again, half fail anew: each face counts what nobody has seen to, at each step."""
        self.letters(12)
        self.assertEqual(self.counts(), self.expected(12, 12))
        self.assertEqual(self.states(), ["open"] * 12)
        shown = self.out("dlq", "show", "billing")
        self.assertEqual(shown.count("open"), 12)

        self.assertEqual(self.out("dlq", "resend", "billing", "--all", "--yes"), "sent 12 messages to group billing\n")
        self.assertEqual(self.counts(), self.expected(12, 0, 12))
        self.assertEqual(self.states(), ["waiting"] * 12)
        self.assertEqual(self.out("dlq", "show", "billing").count("by ann: not consumed yet"), 12)
        said = self.out("dlq", "resend", "billing", "--all", "--yes")
        self.assertRegex(
            said, "^sent 0 messages to group billing\nNone is open: 12 resent, last .* by ann, 12 in retry"
        )
        self.assertIn("--again", said)

        self.failing = lambda number: number % 2 == 1
        self.consume()
        self.assertEqual(sorted(map(int, self.consumed)), [0, 2, 4, 6, 8, 10])
        self.assertEqual(self.counts(), self.expected(18, 6))
        self.assertEqual(self.states(), ["consumed", "failed"] * 6 + ["open"] * 6)
        shown = self.out("dlq", "show", "billing")
        self.assertEqual((shown.count("by ann: consumed"), shown.count("by ann: failed again")), (6, 6))
        rows = self.rest("/dlq/billing?sort=storedMs")["items"]
        self.assertEqual(rows[12]["resentFrom"], rows[1]["offsetId"])
        self.assertEqual((rows[0]["resent"]["who"], rows[0]["resent"]["times"]), ("ann", 1))
        self.assertEqual(self.rest("/dlq/billing?state=open")["total"], 6)
        self.assertEqual(self.rest("/dlq/billing?state=closed&limit=5&sort=storedMs")["total"], 12)

        one = rows[13]["offsetId"]
        said = self.out("dlq", "ack", "billing", "--id", one, "--comment", "paid by hand", "--yes")
        self.assertEqual(said, "acknowledged 1 dead letter of group billing\n")
        self.assertEqual(self.counts(), self.expected(18, 5))
        self.assertIn("by ann: paid by hand", self.out("dlq", "show", "billing"))

        self.failing = lambda number: False
        status = self.front.ask("POST", "/dlq/billing/resend", {}, token=self.token)
        self.cluster.pump(5.0)
        job = self.rest(f"/jobs/{status.json['id']}")
        self.assertEqual((job["result"]["found"], job["result"]["sent"]), (5, 5))
        self.consume()
        self.assertEqual(self.counts(), self.expected(18, 0))
        self.assertEqual(self.states()[12:].count("consumed"), 5)
        self.assertEqual(self.rest("/dlq/billing?sort=storedMs")["items"][17]["resent"]["who"], "boss")

        self.stop_front()
        self.start_front()
        self.assertEqual(self.counts(), self.expected(18, 0))
        self.out("dlq", "ack", "billing", "--id", one, "--undo", "--yes")
        self.assertEqual(self.counts(), self.expected(18, 1))
        self.assertEqual(self.json("dlq", "resend", "billing", "--all", "--again", "--dry-run")["sent"], 12)


class RefusedTests(LettersCase):
    """Copies that the group refuses again: while they wait for a retry nobody says that they were consumed."""

    def refuse(self, retries: int = 2) -> PushConsumer:
        """Start a consumer of the group that refuses everything, and asks for so many retries."""

        def take(messages: list[ReceivedMessage]) -> Deferred[None] | None:
            if self.failing(int(messages[0].body)):
                raise ConsumeLater()
            self.consumed.append(messages[0].body.decode())
            return None

        consumer = PushConsumer(self.client, "billing", take, ConsumerSettings(max_reconsume=retries))
        consumer.subscribe("Orders")
        consumer.start()
        self.addCleanup(consumer.stop)
        return consumer

    def faces(self) -> dict[str, Any]:
        """What each face says of the copies, as a set, and how many messages are in retry."""
        self.front.ops.view.forget()
        rows = [one["resent"] for one in self.rest("/dlq/billing?sort=storedMs")["items"] if one["resent"]]
        shown = self.out("dlq", "show", "billing").splitlines()
        message = self.json("dlq", "show", "billing")[0]["message_id"]
        (track,) = [one for one in self.json("msg", "track", message, "-T", "Orders") if one["group"] == "billing"]
        (group,) = self.rest(f"/messages/{message}/groups?topic=Orders")["items"]
        return {
            "rest": {(one["state"], one["retry"], one["retryLimit"]) for one in rows},
            "show": {line.split("by ann: ")[1].split("  ")[0] for line in shown if "by ann: " in line},
            "in retry": (self.rest("/dlq")["items"][0]["inRetry"], self.json("dlq", "ls")[0]["in_retry"]),
            "track": (track["state"], track["detail"]),
            "groups": (group["state"], group["detail"]),
            "explain": self.rest(f"/messages/{message}/explain?topic=Orders&group=billing")["verdict"],
        }

    def expected_refused(self, retry: int, limit: int | None) -> dict[str, Any]:
        """What all faces must say of two letters that wait for a retry."""
        words = f"refused, tried again (waits for retry {retry}{f' of {limit}' if limit else ''})"
        detail = f"refused, tried again (waits for retry {retry})"
        return {
            "rest": {("refused", retry, limit)},
            "show": {words},
            "in retry": (2, 2),
            "track": ("REFUSED", detail),
            "groups": ("retrying", detail),
            "explain": "retrying",
        }

    def test_walk(self) -> None:
        """Two letters are sent again and refused until they are dead anew; then sent again and consumed."""
        self.letters(2)
        self.out("dlq", "resend", "billing", "--all", "--yes")
        consumer = self.refuse()
        self.cluster.pump(8.0, 0.5)
        self.assertEqual(self.faces(), self.expected_refused(1, 2))
        (member,) = self.json("group", "members", "billing")["connectionSet"]
        self.assertEqual(member["retries"], 2)
        self.assertRegex(self.out("group", "members", "billing"), r"client .* retries *\n127.* 2 *\n")
        message = self.json("dlq", "show", "billing")[0]["message_id"]
        self.assertIn(message, self.out("dlq", "show", "billing"))
        self.assertIn(
            "group billing  refused, tried again (waits for retry 1)", self.out("msg", "show", message, "-T", "Orders")
        )
        (ok,) = [one["what"] for one in self.json("doctor") if "dead letter" in one["what"]]
        self.assertEqual(ok, "2 dead letters, all resent or acknowledged; 2 in retry")
        self.cluster.pump(5.0, 0.5)
        self.assertEqual(self.faces(), self.expected_refused(2, 2))
        consumer.stop()
        self.cluster.pump(60.0, 1.0)  # the retry is due, and nobody takes it
        said, expected = self.faces(), self.expected_refused(2, None)
        for face in ("rest", "show", "in retry", "explain"):  # the others say that nobody is online
            self.assertEqual(said[face], expected[face])

        self.refuse()
        self.cluster.pump(30.0, 0.5)
        said = self.faces()
        self.assertEqual(said["rest"], {("failed", None, None)})
        self.assertEqual(said["show"], {"failed again"})
        self.assertEqual(said["in retry"], (0, 0))
        self.assertEqual(said["track"], ("DEAD", "given up: it is a dead letter of the group"))
        self.assertEqual((said["groups"][0], said["explain"]), ("dead", "dead"))
        for id_ in (message, self.json("dlq", "show", "billing")[0]["offset_id"]):
            self.assertRegex(self.out("msg", "show", id_), r"group billing +dead letter \(smartgo dlq show billing\)")
            self.assertEqual(self.json("msg", "show", id_)["dead_letter_of"], ["billing"])
        self.assertEqual(self.counts()["ls"], (4, 2))

        self.failing = lambda number: False
        self.out("dlq", "resend", "billing", "--all", "--yes")
        self.cluster.pump(10.0, 0.5)
        said = self.faces()
        self.assertEqual(said["rest"], {("failed", None, None), ("consumed", None, None)})
        self.assertEqual(said["in retry"], (0, 0))
        self.assertEqual((said["track"], said["explain"]), (("CONSUMED", None), "consumed"))
        self.assertEqual(sorted(self.consumed), ["0", "1"])

    def test_copies(self) -> None:
        """Letters of one message are sent once, whatever names them; those left out are named, and acknowledged."""
        self.letters(2)
        self.out("dlq", "resend", "billing", "--all", "--yes")
        self.consume()
        self.out("dlq", "resend", "billing", "--all", "--yes", "--to", "Orders")
        self.consume()
        rows = self.json("dlq", "show", "billing")
        self.assertEqual(len(rows), 6)
        ids = [one["offset_id"] for one in rows if one["body"] == rows[0]["body"]]
        said = self.json("dlq", "resend", "billing", "--all", "--again", "--dry-run")
        self.assertEqual((said["sent"], len(said["left_out"])), (2, 4))
        self.assertEqual({one["instead"] for one in said["left_out"] if one["id"] in ids}, {ids[-1]})
        text = self.out("dlq", "resend", "billing", "--id", rows[0]["message_id"], "--dry-run")
        self.assertEqual(text.splitlines()[0], "would send 1 message to group billing")
        self.assertIn(f"  {ids[0]}: {ids[1]} instead", text)
        status = self.front.ask("POST", "/dlq/billing/resend", {"again": True}, token=self.token)
        self.cluster.pump(5.0)
        result = self.rest(f"/jobs/{status.json['id']}")["result"]
        self.assertEqual((result["found"], result["sent"], len(result["leftOut"])), (2, 2, 4))
        self.failing = lambda number: False
        self.consume()
        self.assertEqual(sorted(self.consumed), ["0", "1"])

        self.out("dlq", "ack", "billing", "--id", ids[0], "--id", ids[1], "--undo", "--yes")
        self.assertEqual(self.json("dlq", "ls")[0]["open"], 2)
        self.assertEqual(self.json("dlq", "resend", "billing", "--all", "--yes")["sent"], 1)
        self.assertEqual(self.json("dlq", "ls")[0]["open"], 0)
        self.out("dlq", "ack", "billing", "--id", ids[0], "--yes")
        said = self.out("dlq", "ack", "billing", "--all", "--yes")
        self.assertRegex(
            said, "^acknowledged 0 dead letters of group billing\nNone is open: 5 resent, .*; 1 acknowledged"
        )

    def test_shown_anyway(self) -> None:
        """A message is shown where brokers do not tell of its groups."""
        self.letters(1)
        message = self.json("dlq", "show", "billing")[0]["message_id"]
        self.assertIn("group billing", self.out("msg", "show", message, "-T", "Orders"))

        async def groups(topic: str) -> None:
            raise CallTimedOut("a question", 3.0)

        self.patch(Topics, "groups", lambda topics, topic: Deferred.fromCoroutine(groups(topic)))
        said = self.out("msg", "show", message, "-T", "Orders")
        self.assertIn(message, said)
        self.assertNotIn("group billing", said)

    def test_one_group_unknown(self) -> None:
        """A group of which brokers do not tell does not hide the others."""
        self.letters(1)
        message = self.json("dlq", "show", "billing")[0]["message_id"]
        fate = Redeliveries.fate

        async def told(self_: Redeliveries, group: str, unique: str, resent_from: str = "") -> Any:
            if group == "another":
                raise CallTimedOut("a question", 3.0)
            return await fate(self_, group, unique, resent_from)

        async def groups(topic: str) -> list[str]:
            return ["another", "billing"]

        self.patch(Redeliveries, "fate", told)
        self.patch(Topics, "groups", lambda topics, topic: Deferred.fromCoroutine(groups(topic)))
        self.assertIn("group billing", self.out("msg", "show", message, "-T", "Orders"))

    def test_elsewhere(self) -> None:
        """A copy that went to a topic that the group does not read is not in retry; one in a topic that it reads is."""
        self.letters(2)
        ids = [one["offset_id"] for one in self.json("dlq", "show", "billing")]
        self.out("topic", "create", "Archive", "-n", "1")
        self.out("dlq", "resend", "billing", "--id", ids[0], "--to", "Archive", "--yes")
        self.assertEqual(self.rest("/dlq")["items"][0]["inRetry"], 0)
        self.assertEqual((self.json("dlq", "ls")[0]["open"], self.json("dlq", "ls")[0]["in_retry"]), (1, 0))
        self.out("dlq", "resend", "billing", "--id", ids[1], "--to", "Orders", "--yes")
        self.assertEqual(self.json("dlq", "ls")[0]["in_retry"], 1)
        self.failing = lambda number: False
        self.consume()
        self.assertEqual(self.json("dlq", "ls")[0]["in_retry"], 0)

    def test_no_index(self) -> None:
        """A broker without an index cannot tell a refused copy from a consumed one: neither is claimed."""
        self.letters(1)
        self.out("dlq", "resend", "billing", "--all", "--yes")
        self.assertEqual(self.states(), ["waiting"])
        self.failing = lambda number: False
        self.consume()

        async def nothing(search: BrokerSearch, topic: str, id: str, brokers: Any) -> list[Any]:
            return []

        with mock.patch.object(BrokerSearch, "by_unique_key", nothing):
            self.assertEqual(self.states(), ["unknown"])
            self.assertIn("by ann: state unknown", self.out("dlq", "show", "billing"))
            self.assertEqual(self.json("dlq", "ls")[0]["in_retry"], 0)
        self.assertEqual(self.states(), ["consumed"])

    def test_settled(self) -> None:
        """A copy that was found consumed twice, a minute apart, is not asked for again."""
        self.letters(1)
        self.out("dlq", "resend", "billing", "--all", "--yes")
        self.failing = lambda number: False
        self.consume()
        asked: list[str] = []
        fate = Redeliveries.fate

        async def counted(self_: Redeliveries, group: str, unique: str, resent_from: str = "") -> Any:
            asked.append(unique)
            return await fate(self_, group, unique, resent_from)

        self.patch(Redeliveries, "fate", counted)
        for _ in range(4):
            self.assertEqual(self.rest("/dlq")["items"][0]["inRetry"], 0)
            self.cluster.pump(61.0, 1.0)
        self.assertEqual(len(asked), 2)


class AcknowledgeTests(LettersCase):
    """Acknowledging."""

    def acknowledge(self, body: Any) -> Any:
        """Ask over REST."""
        self.front.ops.view.forget()
        return self.front.ask("POST", "/dlq/billing/acknowledge", body, token=self.token)

    def test_rest(self) -> None:
        """All open ones, or named ones; a dry run only counts."""
        self.letters(4)
        ids = [one["offsetId"] for one in self.rest("/dlq/billing")["items"]]
        answer = self.acknowledge({"ids": [ids[0], "nothing"], "comment": "known"})
        self.assertEqual(answer.json, {"count": 1, "left": 0, "notFound": ["nothing"], "dryRun": False})
        self.assertEqual(self.acknowledge({"dryRun": True}).json["count"], 3)
        self.assertEqual(self.rest("/dlq")["items"][0]["open"], 3)
        self.assertEqual(self.acknowledge({}).json["count"], 3)
        self.assertEqual(self.rest("/dlq")["items"][0]["open"], 0)
        row = next(one for one in self.rest("/dlq/billing")["items"] if one["offsetId"] == ids[0])
        self.assertEqual((row["acknowledged"]["who"], row["acknowledged"]["comment"]), ("boss", "known"))
        self.assertEqual(self.acknowledge({"reopen": True}).status, 400)
        self.assertEqual(self.acknowledge({"ids": ids[:2], "reopen": True}).json["count"], 2)
        self.assertEqual(self.rest("/dlq")["items"][0]["open"], 2)
        self.assertEqual(self.front.ask("POST", "/dlq/none/acknowledge", {}, token=self.token).code, "no-dead-letters")

    def test_command(self) -> None:
        """What is meant must be said; C{--key} takes only open ones."""
        self.letters(2)
        self.invoke("dlq", "ack", "billing", status=2)
        self.invoke("dlq", "ack", "billing", "--all", "--undo", status=2)
        self.assertIn(
            "there is no dead letter with id x", self.refused("dlq", "ack", "billing", "--id", "x", status=66)
        )
        self.assertEqual(
            self.out("dlq", "ack", "billing", "--all", "--dry-run"),
            "would acknowledge 2 dead letters of group billing\n",
        )
        self.out("dlq", "ack", "billing", "--all", "--yes")
        self.assertEqual(self.json("dlq", "show", "billing", "--open"), [])
        self.assertEqual(self.json("dlq", "ls")[0]["open"], 0)

    def test_hidden(self) -> None:
        """The journal is a system topic for people: lists of topics leave it out."""
        self.letters(1)
        self.out("dlq", "ack", "billing", "--all", "--yes")
        self.assertIn(DEAD_LETTER_JOURNAL, self.cluster.broker.topics)
        self.assertNotIn(DEAD_LETTER_JOURNAL, self.out("topic", "ls"))
        self.assertEqual(self.rest(f"/topics/{DEAD_LETTER_JOURNAL}")["kind"], "system")

    def test_removed(self) -> None:
        """A journal that was removed begins anew: all are open again, and it is made once more."""
        self.letters(2)
        self.out("dlq", "ack", "billing", "--all", "--yes")
        self.assertEqual(self.rest("/dlq")["items"][0]["open"], 0)
        self.out("topic", "rm", DEAD_LETTER_JOURNAL, "--yes")
        self.cluster.pump(2.0)
        self.assertEqual(self.rest("/dlq")["items"][0]["open"], 2)
        self.acknowledge({})
        self.assertEqual(self.rest("/dlq")["items"][0]["open"], 0)

    def test_strange(self) -> None:
        """What somebody else sends to the journal changes nothing."""
        self.letters(2)
        self.out("dlq", "ack", "billing", "--all", "--yes")
        for body in (b"", b"{}", b"[1]", b"\xff"):
            self.cluster.send(DEAD_LETTER_JOURNAL, body)
        self.assertEqual(self.json("dlq", "ls")[0]["open"], 0)


class JournalTests(ClusterCase):
    """The journal by itself."""

    def test_pruned(self) -> None:
        """Marks of letters that retention removed are forgotten."""
        from smartgo.client.internal.deadletterjournal import _BrokerJournal
        from smartgo.client.internal.reading import Span
        from smartgo.schema.bodies import MessageQueue

        journal, known = DeadLetterJournal(), _BrokerJournal()
        journal._brokers["b"] = known
        known.take(JournalEntry("g", "acknowledged", "ann", [LetterPlace(0, at) for at in range(10)]), 1)
        queue = MessageQueue(dlq_topic("g"), "b", 0)
        self.assertEqual(journal.count_open("g", Span(queue, 4, 20)), 10)
        self.assertEqual(list(known.marks["g", 0]), [4, 5, 6, 7, 8, 9])
        self.assertEqual(list(journal.open_places("g", Span(queue, 8, 12))), [10, 11])
