"""Commands over the REST API: settings' past and its undoing, alerts, silences; how they end where it declines."""

from __future__ import annotations

from typing import Any

from twisted.internet.protocol import Factory, Protocol

from smartgo.cli.commands.alert import amount, limit
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.node.ops import LocalNode
from smartgo.ops.alerts.table import RuleAdjustment
from smartgo.ops.figures.sampler import BrokerFigures
from tests.cli.case import ClusterCase
from tests.ops.alerts.receivers import HttpReceiver
from tests.ops.front import Front

PERMISSION = "brokerPermission"


class Silent(Protocol):
    """Takes and gives nothing."""


class Strange(Protocol):
    """Says something else."""

    def dataReceived(self, data: bytes) -> None:
        """Say it."""
        transport: Any = self.transport
        transport.write(b"220 mail.example.com\r\n")
        transport.loseConnection()


class Page(Protocol):
    """Answers as a web server does that is another's."""

    def dataReceived(self, data: bytes) -> None:
        """Answer."""
        transport: Any = self.transport
        transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Welcome</html>")
        transport.loseConnection()


class Cut(Protocol):
    """Begins an answer, and says no more."""

    def dataReceived(self, data: bytes) -> None:
        """Begin."""
        transport: Any = self.transport
        transport.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"items": [')


class Chunked(Protocol):
    """Answers as a proxy may: in chunks."""

    def dataReceived(self, data: bytes) -> None:
        """Answer."""
        transport: Any = self.transport
        transport.write(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
            b'A;a=b\r\n{"items":[\r\n0b \r\n],"total":0\r\n1\r\n}\r\n0\r\n\r\n'
        )
        transport.loseConnection()


class CutChunk(Protocol):
    """Ends in the middle of a chunk."""

    def dataReceived(self, data: bytes) -> None:
        """Answer."""
        transport: Any = self.transport
        transport.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n{"items":')
        transport.loseConnection()


class RestCase(ClusterCase):
    """A registry, a broker and their API."""

    def setUp(self) -> None:
        """All of it, with an admin's token in the environment."""
        super().setUp()
        self.front = Front(
            self.cluster, LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        )
        self.addCleanup(self.front.stop_api)
        self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()

    @property
    def permission(self) -> int:
        """The permission in effect."""
        return self.cluster.broker.settings.configuration.broker.broker_permission


class ConfigTests(RestCase):
    """C{smartgo config}."""

    def test_set(self) -> None:
        """A change is made by an admin's token, and kept where that is asked for; a dry run makes none."""
        url = ("--api", "http://127.0.0.1:10913")
        rows = self.json("config", "set", f"{PERMISSION}=4", *url, "--dry-run")
        self.assertEqual((rows[0]["before"], rows[0]["value"], self.permission), ("6", "4", 6))
        said = self.out("config", "set", f"{PERMISSION}=4", *url, "--keep", "--yes")
        self.assertIn("kept by boss, 127.0.0.1,", said)
        self.assertEqual(self.permission, 4)
        self.assertIn(
            "a whole number from 0 to 7", self.refused("config", "set", f"{PERMISSION}=9", *url, "--yes", status=2)
        )
        self.assertIn("cannot be changed", self.refused("config", "set", "listenPort=1", *url, "--yes", status=77))
        said = self.refused("config", "set", f"{PERMISSION}=6", *url, status=2)
        self.assertIn("There is no terminal to confirm this", said)
        self.invoke("config", "set", "broker-a", f"{PERMISSION}=6", "--keep", status=2)

    def test_history(self) -> None:
        """Changes are listed, and taken back; what is not there ends with 66."""
        self.out("config", "set", f"{PERMISSION}=4", "--api", "http://127.0.0.1:10913", "--yes")
        (row,) = self.json("config", "history")
        self.assertEqual((row["name"], row["before"], row["after"], row["who"]), (PERMISSION, "6", "4", "boss"))
        self.assertEqual(self.json("config", "history", "--setting", "traceOn"), [])
        self.assertIn("Dry run", self.out("config", "undo", "1", "--dry-run"))
        self.assertEqual(self.permission, 4)
        self.out("config", "undo", "1", "--yes")
        self.assertEqual(self.permission, 6)
        self.assertIn("undone already", self.refused("config", "undo", "1", "--yes", status=1))
        self.assertIn("no change 9", self.refused("config", "undo", "9", "--yes", status=66))


class AlertTests(RestCase):
    """C{smartgo alert}."""

    def fire(self) -> None:
        """Let a broker be down."""
        watch = self.front.ops.alerts
        watch.table.adjust("broker-down", RuleAdjustment(seconds=0))
        watch.look([BrokerFigures("c", "broker-x", 0, "192.0.2.1:1", False)])
        self.patch(watch, "look", lambda rows: None)
        self.patch(self.front.ops.sampler, "_looked", lambda rows: None)

    def test_amounts(self) -> None:
        """Values and limits have their units."""
        self.assertEqual(amount("count", 2021.0, "group-stopped"), "2,021 messages")
        self.assertEqual(amount("count", 2.0, "registration-refused"), "2 registries")
        self.assertEqual((amount("count", 7.0, "of another version"), amount("state", 1.0, "broker-down")), ("7", ""))
        self.assertEqual(
            (limit("seconds", 600.0, "group-late"), limit("seconds", 0.0, "broker-gone")), ("10 min", "any")
        )
        self.assertEqual((limit("state", 0.0, "broker-down"), limit("ratio", 0.85, "disk-full")), ("", "85.0%"))

    def test_alerts(self) -> None:
        """Alerts are listed and silenced; C{--check} ends with 1 while one fires that is not."""
        self.assertEqual(self.out("alert", "list"), "No alerts.\n")
        self.fire()
        self.assertIn("broker-x", self.out("alert", "list"))
        self.invoke("alert", "list", "--check", status=1)
        made = self.json("alert", "silence", "broker-down", "broker-x", "--for", "4h", "--comment", "known")
        self.assertEqual(made["untilMs"] - made["atMs"], 4 * 3_600_000)
        self.invoke("alert", "list", "--check")
        self.assertEqual(self.json("alert", "list", "--loud"), [])
        self.assertIn("by boss until", self.out("alert", "list", "--state", "firing"))
        self.assertIn("ended", self.out("alert", "end", str(made["id"])))
        self.assertIn("no silence", self.refused("alert", "end", str(made["id"]), status=66))
        self.assertEqual([one["rule"] for one in self.json("alert", "history")], ["broker-down"])
        self.assertIn("85.0%", self.out("alert", "rules"))
        lines = self.out("alert", "rules").splitlines()
        self.assertLessEqual(max(map(len, lines)), 120)
        self.assertRegex("\n".join(lines), "group-behind +warning +group +1,000,000 messages +5 min")
        self.assertRegex("\n".join(lines), "dead-letters +warning +group +any +at once")
        made = self.json("alert", "silence", "--all", "--for", "30m")
        self.assertEqual((made["rule"], made["subject"]), ("", ""))
        self.assertIn("ended", self.out("alert", "end", str(made["id"])))
        self.invoke("alert", "silence", status=2)
        self.invoke("alert", "silence", "broker-down", "--all", status=2)
        self.invoke("alert", "silence", "x", "--for", "ages", status=2)
        self.assertIn("no rule x", self.refused("alert", "silence", "x", status=66))

    def test_silenced_subject(self) -> None:
        """A subject that nothing has is refused, unless it is to come; a name as doctor has it is taken."""
        self.fire()
        self.cluster.heartbeat("audit", "Orders")
        for subject in ("broker-x", "broker-a", "127.0.0.1:9876", "audit"):
            self.out("alert", "silence", "--subject", subject)
        slave = BrokerPlace("DefaultCluster", "broker-a", 1, "192.0.2.1:2")
        self.front.ops.membership.observe([slave])
        self.out("alert", "silence", "broker-gone", "broker-a#1")
        for words in (("broker-gone", "broker-a (slave 1)"), ("broker-gone", "broker-a#2"), ("--subject", "nosuch")):
            said = self.refused("alert", "silence", *words, status=66)
            self.assertIn(f"nothing is called {words[1]}: no alert, broker (a slave is NAME#ID), ", said)
            self.assertIn("--force", said)
        self.out("alert", "silence", "broker-gone", "broker-a#2", "--force")


class ReceiverTests(ClusterCase):
    """C{smartgo alert receivers} and C{smartgo alert test}."""

    def test_receivers(self) -> None:
        """The state of delivery is listed, a test message shows the answer, C{--check} ends with 1 after a failure."""
        server = HttpReceiver()
        server.listen_in(self.env, 8080)
        front = Front(self.cluster, alertReceivers="team slack url=http://hooks.example.com:8080/SECRET")
        self.addCleanup(front.stop_api)
        self.env.host.variables["SMARTGO_TOKEN"] = front.admin()
        shown = self.out("alert", "receivers")
        self.assertIn("team", shown)
        self.assertIn("unused", shown)
        self.assertNotIn("SECRET", shown)
        self.invoke("alert", "receivers", "--check")
        self.assertIn("team took the test message in 0 ms: HTTP status 200: ok", self.out("alert", "test", "team"))
        server.answers = [(403, b"invalid_token")]
        said = self.refused("alert", "test", "team", status=1)
        self.assertIn("team did not take the test message: HTTP status 403: invalid_token", said)
        self.assertIn("there is no receiver nobody", self.refused("alert", "test", "nobody", status=66))
        front.ops.notifier.queues["team"].last_error = "HTTP status 503"
        self.assertIn("HTTP status 503", self.invoke("alert", "receivers", "--check", status=1).stdout)

    def test_none(self) -> None:
        """Where no receiver is configured, that is said."""
        front = Front(self.cluster)
        self.addCleanup(front.stop_api)
        self.assertEqual(self.out("alert", "receivers"), "No receiver is configured: set alertReceivers.\n")


class ClientTests(RestCase):
    """C{smartgo client close}."""

    def test_close(self) -> None:
        """A client's connections are closed once that is said to be meant; what is not there ends with 66."""
        self.cluster.send("Orders")
        self.cluster.heartbeat("audit", "Orders", client_id="10.0.0.1@4711")
        self.refused("client", "close", "10.0.0.1@4711", status=2)
        self.assertIsNotNone(self.cluster.broker.consumers.get("audit"))
        said = self.out("client", "close", "10.0.0.1@4711", "--reason", "hangs & more", "--yes")
        self.assertIn("audit", said)
        self.assertIsNone(self.cluster.broker.consumers.get("audit"))
        entry = self.front.ops.audit.entries()[0]
        self.assertEqual(entry.detail["query"], {"reason": "hangs & more"})
        self.assertIn("no client", self.refused("client", "close", "10.0.0.1@4711", "--yes", status=66))
        self.cluster.heartbeat("audit", "Orders", client_id="c")
        (one,) = self.json("client", "close", "c", "--yes")["connections"]
        self.assertEqual(one["consumerGroups"], ["audit"])


class ApiTests(RestCase):
    """Requests to the API."""

    def test_token(self) -> None:
        """The token is in the environment or in a file; without the right one it ends with 77."""
        self.env.files.create("/token", self.env.host.variables.pop("SMARTGO_TOKEN").encode() + b"\n")
        self.assertIn("SMARTGO_TOKEN or --token-file", self.refused("config", "history", status=77))
        self.out("config", "history", "--token-file", "/token")
        self.refused("config", "history", "--token-file", "/nothing", status=78)

    def test_address(self) -> None:
        """What is no address is refused with 78; the environment may say another than the usual one."""
        for url in ("ftp://127.0.0.1", "127.0.0.1:10913", "http://", "http://127.0.0.1:x"):
            self.refused("alert", "list", "--api", url, status=78)
        self.env.host.variables["SMARTGO_API"] = "http://127.0.0.1:1"
        refused = self.refused("alert", "list", status=75)
        self.assertIn("http://127.0.0.1:1", refused)
        self.assertIn("--api", refused)

    def test_other_servers(self) -> None:
        """What is no REST API, or does not answer, ends with 75 and says so."""
        for number, (protocol, words) in enumerate(
            (
                (Strange, "this is not smartgo's REST API"),
                (Silent, "no answer within 30 s"),
                (Page, "this is not smartgo's REST API"),
                (Cut, "no answer within 30 s"),
                (CutChunk, "this is not smartgo's REST API"),
            )
        ):
            self.env.network.listen(f"tcp:{20000 + number}", Factory.forProtocol(protocol))
            said = self.refused("alert", "list", "--api", f"http://127.0.0.1:{20000 + number}", status=75)
            self.assertIn(words, said)

    def test_chunks(self) -> None:
        """What comes in chunks is put together."""
        self.env.network.listen("tcp:20100", Factory.forProtocol(Chunked))
        self.assertEqual(self.out("alert", "list", "--api", "http://127.0.0.1:20100", "-o", "json"), "[]\n")


class LocalTests(ClusterCase):
    """A machine where nobody has made a token."""

    def test_reader(self) -> None:
        """Who is on the machine reads without a token."""
        front = Front(
            self.cluster, LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        )
        self.addCleanup(front.stop_api)
        self.assertIn("broker-down", self.out("alert", "rules"))
