"""What commands that change something say where a broker is missing, and how they end."""

from __future__ import annotations

from smartgo.client.administration.brokers import BrokerPlace
from tests.broker.fakecluster import Cluster
from tests.cli.case import ClusterCase
from tests.cli.support.test_membermemory import MemoryCase

REACH = "smartgo: this does not reach broker-x (missing, last seen "
AGAIN = "smartgo: nothing changes at broker-x: run the command again when all brokers are back"


class AnotherMissingTests(MemoryCase):
    """A broker answers, and the REST API remembers another one that is missing."""

    def setUp(self) -> None:
        super().setUp()
        self.out("group", "create", "readers")
        self.out("group", "reset", "readers", "Orders", "--to", "earliest", "--yes", "--plan", "/before")
        self.front.ops.membership.observe([BrokerPlace("DefaultCluster", "broker-x", 0, "192.0.2.1:1")])
        self.cluster.pump(12.0, 1.0)

    def lacking(self, *words: str) -> str:
        """Run a command, which must name the missing broker first and last; return its standard output."""
        result = self.invoke(*words, status=75)
        lines = result.stderr.splitlines()
        self.assertTrue(lines[0].startswith(REACH), result.stderr)
        self.assertEqual(lines[-1], AGAIN)
        return result.stdout

    def test_previews(self) -> None:
        """A preview is one of the brokers that are there."""
        for words in (
            ("group", "reset", "readers", "Orders", "--to", "latest"),
            ("group", "clone", "readers", "others", "Orders"),
            ("group", "rm", "readers"),
            ("group", "set", "readers", "--retries", "3"),
            ("group", "create", "new"),
            ("topic", "create", "New"),
            ("topic", "set", "Orders", "--queues", "8"),
            ("topic", "empty", "Orders"),
            ("topic", "rm", "Orders"),
        ):
            self.assertTrue(self.lacking(*words, "--dry-run"), words)

    def test_done(self) -> None:
        """The change is made where it can be."""
        out = self.lacking("group", "reset", "readers", "Orders", "--to", "latest", "--yes", "--plan", "/p")
        self.assertIn("Offsets changed at broker-a.", out)
        self.assertIn(
            "topic Orders with 10 messages was deleted at broker-a", self.lacking("topic", "rm", "Orders", "-y")
        )

    def test_named(self) -> None:
        """Where a command is for brokers that are there, or for another cluster, nothing is lacking."""
        for words in (
            ("group", "reset", "readers", "Orders", "--to", "latest", "--queue", "broker-a:1", "--dry-run"),
            ("topic", "create", "New", "--broker", "broker-a", "--dry-run"),
            ("group", "create", "new", "--broker", "broker-a", "--dry-run"),
        ):
            self.assertEqual(self.invoke(*words).stderr, "", words)
        self.front.ops.membership.observe([BrokerPlace("Elsewhere", "broker-y", 0, "192.0.2.2:1")])
        self.cluster.pump(12.0, 1.0)
        said = self.invoke("topic", "rm", "Orders", "--cluster", "DefaultCluster", "--dry-run", status=75).stderr
        self.assertIn("broker-x", said)
        self.assertNotIn("broker-y", said)

    def test_absent(self) -> None:
        """What was not found may be at the missing broker."""
        words = self.invoke("topic", "rm", "Nothing", "--yes", status=75).stderr
        self.assertIn("no broker that answered has topic Nothing; this does not reach broker-x", words)

    def test_other_errors(self) -> None:
        """An error of another kind stays what it is."""
        self.assertIn("exists already", self.invoke("topic", "create", "Orders", status=78).stderr)

    def test_export(self) -> None:
        """Definitions are exported of all brokers or not at all: what a file lacks would be gone after an import."""
        words = self.refused("cluster", "export", status=75)
        self.assertIn("smartgo: the definitions would lack broker-x (missing, last seen ", words)
        self.assertIn("take them out of service: smartgo cluster forget", words)


class SlaveTests(ClusterCase):
    """Only a slave is registered, and no REST API answers."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.stop()
        self.cluster = Cluster(self.env, brokerRole="SLAVE", brokerId="1", storePathRootDir="/slave")

    def test_said(self) -> None:
        """It is no place for a change."""
        words = self.invoke("topic", "create", "New", status=1).stderr
        self.assertIn("smartgo: this does not reach broker-a (it has no master)", words)
