"""The cause of messages that a group lost, in its alert."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from smartgo.node.ops import LocalNode
from smartgo.ops.alerts.removals import removals
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment
from tests.ops.alerts.test_monitor import AlertsCase
from tests.ops.front import Front

SETTINGS = {"mappedFileSizeCommitLog": "64KiB", "maxLogTotalSize": "128KiB", "mappedFileSizeConsumeQueue": "200"}


class RemovalsTests(AlertsCase):
    """A broker whose log may have 128 KiB, and a group that is slower than its producer."""

    def serve(self, cluster: Cluster) -> Front:
        """Return a front in the process of that broker."""
        cluster.stop()
        self.cluster = Cluster(FakeEnvironment(), **SETTINGS)
        return Front(self.cluster, LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service]))

    def test_detail(self) -> None:
        """The alert says where files went, and which limit they went for."""
        self.ask("POST", "/topics", {"name": "T", "readQueues": 1, "writeQueues": 1})
        self.ask("POST", "/groups", {"name": "late"})
        for number in range(10):
            self.cluster.send("T", b"%d" % number + b"." * 1000)
        self.cluster.broker.offsets.commit("late", "T", 0, 5)
        self.wait(70)
        asked = Deferred.fromCoroutine(removals(self.front.ops.view, 0))
        self.cluster.pump()
        self.assertEqual(self.successResultOf(asked), "")
        for number in range(10, 200):
            self.cluster.send("T", b"%d" % number + b"." * 1000)
        self.wait(120)
        [row] = self.front.get("/alerts?q=group-lost", token=self.token)["items"]
        self.assertEqual((row["subject"], row["state"]), ("late", "firing"))
        self.assertRegex(row["detail"], r"^Broker broker-a has removed \d+ log files since its start, the last one at ")
        self.assertIn("(maxLogTotalSize).", row["detail"])
