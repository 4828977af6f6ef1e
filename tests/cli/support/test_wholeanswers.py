"""What commands that read say where a broker is missing or does not answer, and how they end."""

from __future__ import annotations

import json

from twisted.internet.protocol import Factory, Protocol

from smartgo.cli.support.membermemory import MemberMemoryAnswer
from smartgo.cli.support.wholeanswers import LackingBrokers
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.errors import NotConnected
from tests.broker.fakecluster import BROKER
from tests.cli.support.test_membermemory import MemoryCase
from tests.ops.front import PORT

NO_SUCH = "7F0000011793F4F48EE573A68E80FFFF"
LACKS = "this answer lacks broker-x (missing, last seen "


class AnotherMissingTests(MemoryCase):
    """A broker answers, and the REST API remembers another one that is missing."""

    def setUp(self) -> None:
        super().setUp()
        self.front.ops.membership.observe([BrokerPlace("DefaultCluster", "broker-x", 0, "192.0.2.1:1")])
        self.cluster.pump(12.0, 1.0)

    def lacking(self, *words: str) -> str:
        """Run a command, which must name the missing broker on standard error; return its standard output."""
        result = self.invoke(*words, status=75)
        self.assertIn(LACKS, result.stderr)
        return result.stdout

    def test_shown(self) -> None:
        """What the others told is printed all the same, for people and for programs."""
        self.assertIn("broker-a", self.lacking("topic", "stats", "Orders"))
        self.assertEqual(len(json.loads(self.lacking("topic", "stats", "Orders", "-o", "json"))), 4)
        for words in (("topic", "ls"), ("topic", "show", "Orders"), ("group", "ls", "--all")):
            self.assertTrue(self.lacking(*words), words)

    def test_nothing(self) -> None:
        """Where the others have nothing, it is not said that there is nothing."""
        for words in (("dlq", "ls"), ("group", "ls"), ("client", "ls"), ("topic", "ls", "--filter", "nobody")):
            self.assertEqual(self.lacking(*words), "The brokers that answered have nothing to show.\n", words)

    def test_absent(self) -> None:
        """What was not found may be at the missing broker."""
        words = self.refused("msg", "show", NO_SUCH, status=75)
        self.assertTrue(
            words.startswith(f"smartgo: no broker that answered has message {NO_SUCH} in any topic; {LACKS}")
        )
        words = self.refused("msg", "search", "Orders", "--key", "none", status=75)
        self.assertTrue(
            words.startswith(f"smartgo: no broker that answered has matching messages in topic Orders; {LACKS}")
        )
        for command in (("msg", "track", NO_SUCH), ("group", "lag", "nobody"), ("topic", "show", "Nothing")):
            self.assertIn("no broker that answered has ", self.refused(*command, status=75))

    def test_found(self) -> None:
        """A message that was found is whole."""
        self.cluster.send("Orders", b"found", 0)
        self.cluster.pump(1.0)
        (row,) = json.loads(self.lacking("msg", "search", "Orders", "--grep", "found", "-o", "json"))
        result = self.invoke("msg", "show", row["offset_id"])
        self.assertEqual(result.stderr, "")

    def test_lag(self) -> None:
        """The lag of a group says how many of its messages wait at the missing broker, as far as that is known."""
        self.invoke("consume", "Orders", "--group", "late", "--count", "2")
        self.cluster.pump(12.0, 1.0)  # until the API asks the brokers for their groups again
        words = self.invoke("group", "lag", "late", status=75).stderr
        self.assertIn("; how many messages wait for group late at broker-x is not known", words)
        memory = self.front.ops.membership
        memory.groups_counted({"late": {"broker-x": 700}, "other": {"broker-x": 5}})
        words = self.invoke("group", "lag", "late", status=75).stderr
        self.assertIn("; 700 messages waited for group late at broker-x (counted 2023-", words)
        rows = self.front.get("/groups?limit=200", token=self.front.admin())["items"]
        [late] = [one for one in rows if one["name"] == "late"]
        self.assertEqual([(one["broker"], one["messages"]) for one in late["unreachable"]], [("broker-x", 700)])

    def test_route(self) -> None:
        """A route names the brokers that are registered, and it is said which are not."""
        self.assertIn("broker-a", self.lacking("topic", "route", "Orders"))
        self.assertIn("no broker that answered has topic Nothing", self.refused("topic", "route", "Nothing", status=75))

    def test_streams(self) -> None:
        """Commands that go on say it at the start, and again when it changes."""
        for words in (("msg", "tail", "Orders"), ("consume", "Orders", "--group", "readers")):
            self.seconds = 8.0
            result = self.invoke(*words)
            self.assertTrue(result.stderr.startswith("smartgo: this output lacks broker-x (missing, last seen "), words)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertIn("no broker that answered has topic Nothing", self.refused("msg", "tail", "Nothing", status=75))
        self.cluster.send("Orders", b"new", 0)
        self.invoke("msg", "tail", "Orders", "--from", "-1", "--count", "1")
        told = self.invoke("consume", "Nothing", "--group", "readers").stderr
        self.assertIn("waiting: topic Nothing is at no broker that is registered\n", told)
        self.seconds = 20.0
        token = self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()
        ticks = iter(range(1000))

        def forget() -> None:
            if next(ticks) == 30:
                self.assertEqual(self.front.ask("DELETE", "/brokers/broker-x", token=token).status, 200)

        self.during = forget
        result = self.invoke("msg", "tail", "Orders")
        self.assertEqual(result.stderr.splitlines()[1:], ["smartgo: no broker is missing any more"])

    def test_top(self) -> None:
        """The line below the title says it; a number of samples ends with 75; programs get the names."""
        result = self.invoke("top", "-n", "2", status=75)
        self.assertRegex(result.stdout.splitlines()[1], "^this output lacks broker-x [(]missing, last seen ")
        self.assertRegex(result.stderr, "^smartgo: this output lacks broker-x [(]missing, last seen ")
        [sample] = map(json.loads, self.invoke("top", "-n", "1", "-o", "jsonl", status=75).stdout.splitlines())
        self.assertEqual([*sample["lacks"]], ["broker-x"])

    def test_other_errors(self) -> None:
        """An error of another kind stays what it is."""
        self.refused("msg", "show", "no id", status=2)


class DeafTests(MemoryCase):
    """A broker is registered, takes connections, and answers nothing: it is waited for once in each command."""

    seconds = 30.0

    def test_once(self) -> None:
        """However many groups there are, and copies of dead letters; the diagnosis names the broker once."""
        for number in range(8):
            self.out("group", "create", f"g-{number}")
            self.cluster.send(f"%DLQ%g-{number}", b"dead")
        self.cluster.register("broker-z", 20911, *(f"%DLQ%g-{number}" for number in range(8)))
        self.env.network.listen("tcp:20911", Factory.forProtocol(Protocol))
        result = self.invoke("group", "ls", status=75)
        self.assertEqual(result.stdout.count("g-"), 8)
        self.assertIn("this answer lacks broker-z (no answer: no answer within 5 s)", result.stderr)
        result = self.invoke("dlq", "ls", status=75)
        self.assertEqual(result.stdout.count("g-"), 8)
        result = self.invoke("doctor", status=1)
        self.assertEqual(result.stderr.count("skipping broker broker-z"), 1)
        self.assertIn("group g-7: 1 dead letter neither resent nor acknowledged", result.stdout)

    def test_read_by_queues(self) -> None:
        """What is read queue by queue is read at the brokers that answer."""
        self.cluster.register("broker-z", 20911, "Orders", "%DLQ%g")
        self.env.network.listen("tcp:20911", Factory.forProtocol(Protocol))
        self.cluster.send("%DLQ%g", b"dead")
        for command, lines in (
            (("msg", "search", "Orders", "--grep", "one", "-o", "jsonl"), 10),
            (("msg", "export", "Orders"), 10),
            (("dlq", "show", "g", "-o", "jsonl"), 1),
        ):
            result = self.invoke(*command, status=75)
            self.assertEqual(result.stdout.count("\n"), lines, result.stdout)
            self.assertRegex(result.stderr, r"this answer lacks broker-z \(no answer: (no answer within|lost 127)")
            self.assertNotIn("abort", result.stderr)
        self.cluster.env.network.kill(10911)
        self.assertIn("broker-", self.refused("msg", "export", "Orders", status=75))


class AllMissingTests(MemoryCase):
    """The only broker is missing."""

    def test_topic(self) -> None:
        """Its topic is not said to be none, and what it holds is counted."""
        self.vanish()
        words = self.refused("topic", "stats", "Orders", status=75)
        self.assertIn(
            "no broker that answered has topic Orders; this answer lacks broker-a (missing, last seen ", words
        )
        self.assertIn("10 messages and 4 queues cannot be reached)", words)
        self.assertIn("nothing to show", self.invoke("topic", "ls", status=75).stdout)


class ComesBackTests(MemoryCase):
    """The only broker is gone for some seconds, and comes back."""

    def test_tail(self) -> None:
        """What follows a topic says so once, waits, and goes on where it was."""
        self.seconds = 90.0
        port = self.env.network.ports[10911]
        self.addCleanup(self.env.network.ports.setdefault, 10911, port)
        ticks = iter(range(10_000))

        def act() -> None:
            tick = next(ticks)
            if tick == 50:
                self.env.network.kill(10911)
                self.assertTrue(self.cluster.registry.routes.unregister(BROKER, "broker-a", 0))
            elif tick == 150:
                self.env.network.ports[10911] = port
            elif tick == 800:
                self.cluster.send("Orders", b"after", 2)

        self.during = act
        result = self.invoke("msg", "tail", "Orders")
        self.assertEqual(result.stdout, "2:2 after\n")
        first, *others = result.stderr.splitlines()
        self.assertRegex(first, "^smartgo: this output lacks broker-a [(]missing, last seen ")
        self.assertEqual(others, ["smartgo: no broker is missing any more"])


class SilentMemoryTests(MemoryCase):
    """The REST API takes a connection, and answers nothing."""

    def test_given_up(self) -> None:
        """It is waited for no longer than a moment: what the brokers told is the answer."""
        self.env.network.kill(PORT)
        self.env.network.listen(f"tcp:{PORT}", Factory.forProtocol(Protocol))
        begun = self.env.clock.seconds()
        self.assertIn("Orders", self.out("topic", "ls"))
        self.assertLess(self.env.clock.seconds() - begun, 10.0)
        self.assertIn("no answer within 6 s", self.out("doctor"))
        words = self.refused("msg", "show", NO_SUCH, status=66)
        self.assertIn("no REST API tells of others", words)


class WithoutMemoryTests(MemoryCase):
    """No REST API answers."""

    def setUp(self) -> None:
        super().setUp()
        port = self.env.network.ports.pop(PORT)
        self.addCleanup(self.env.network.ports.__setitem__, PORT, port)

    def test_absent(self) -> None:
        """A search says that it asked the brokers that are registered now; a list is one of those, as documented."""
        words = self.refused("msg", "show", NO_SUCH, status=66)
        self.assertIn("in any topic (at the brokers that are registered now; no REST API tells of others)", words)
        self.assertIn("There are no dead letters", self.out("dlq", "ls"))

    def test_silent(self) -> None:
        """A broker that the route of a topic names and that does not answer is named."""
        self.env.network.ports.pop(10911)  # the registry has not noticed yet
        self.assertIn("broker-a", self.refused("topic", "stats", "Orders", status=75))

    def test_no_broker(self) -> None:
        """Where no broker is registered, that is said."""
        self.vanish()
        self.assertEqual(self.invoke("topic", "ls", status=75).stderr, "smartgo: no broker is registered\n")


class LackingBrokersTests(MemoryCase):
    """The sentence about the brokers that an answer lacks."""

    def test_silent_of_several(self) -> None:
        """One that does not answer while another does is named with the reason."""
        lacking = LackingBrokers()
        lacking.note("broker-b", NotConnected("broker broker-b: cannot connect"))
        lacking.note("broker-b", NotConnected("broker broker-b: something else"))
        words = lacking.sentence(self.ask_nobody(), {"broker-a", "broker-b"})
        self.assertEqual(words, "this answer lacks broker-b (no answer: cannot connect)")
        self.assertEqual(LackingBrokers().sentence(self.ask_nobody(), {"broker-a"}), "")

    @staticmethod
    def ask_nobody() -> MemberMemoryAnswer:
        """Return the answer where no API answers."""
        return MemberMemoryAnswer(None, "nobody")
