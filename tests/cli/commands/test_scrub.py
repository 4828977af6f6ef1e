"""C{smartgo cluster scrub}."""

from __future__ import annotations

from tests.cli.case import ClusterCase
from tests.ops.front import Front


class ScrubTests(ClusterCase):
    """A REST API in a process without a broker."""

    def setUp(self) -> None:
        super().setUp()
        self.front = Front(self.cluster)
        self.addCleanup(self.front.stop_api)
        self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()
        self.out("topic", "create", "Orders", "-n", "1")
        self.cluster.send("Orders")

    def test_named(self) -> None:
        """The log of a broker that is named is scrubbed, and its result shown."""
        self.assertTrue(self.json("cluster", "scrub", "start", "broker-a")["scrub"]["running"])
        self.cluster.pump(5.0, 0.1)
        said = self.json("cluster", "scrub", "status", "broker-a", "--id", "0")["scrub"]
        self.assertEqual((said["running"], said["lastRecords"]), (False, 1))
        self.assertIn("1 message right", self.out("cluster", "scrub", "status", "broker-a"))
        self.assertIn("1 message right", self.out("cluster", "scrub", "status", "broker-a#0"))

    def test_unknown(self) -> None:
        """Brokers that are not there, and a process without a broker, end with 66."""
        for words in (["status", "nobody"], ["start", "broker-a", "--id", "1"], ["start", "broker-a#1"], ["status"]):
            self.refused("cluster", "scrub", *words, status=66)
        said = self.refused("cluster", "scrub", "status", status=66)
        self.assertIn("has no broker; name one: smartgo cluster scrub status broker-a (broker-a)", said)
        said = self.invoke("cluster", "scrub", "status", "broker-a#1", "--id", "2", status=2).stderr
        self.assertIn("broker-a#1 and --id 2 name different processes", said)
        self.assertIn("--id needs the name", self.invoke("cluster", "scrub", "status", "--id", "1", status=2).stderr)
