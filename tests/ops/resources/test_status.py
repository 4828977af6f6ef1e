"""Resources about the process: readiness, figures, metrics."""

from __future__ import annotations

import json
from typing import Any, cast

from prometheus_client import CollectorRegistry, generate_latest
from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.node.ops import LocalNode
from smartgo.ops.figures.metrics import metrics_of
from smartgo.ops.resources.status import MetricsApi
from smartgo.schema.regions import Region
from smartgo.store.recovery.progress import RecoveredSoFar
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment
from tests.ops.front import Front


class StatusTests(SynchronousTestCase):
    """A front in the process of a broker."""

    def setUp(self) -> None:
        cluster = Cluster(maxHashSlotNum="100", maxIndexNum="400")
        self.node = LocalNode(cluster.configuration, [cluster.registry, cluster.service])
        self.front = Front(cluster, self.node)
        self.addCleanup(self.front.stop)
        self.token = self.front.admin()

    def test_ready(self) -> None:
        """It is ready while all is well; who may not read is not told what is checked."""
        self.assertEqual(self.front.get("/ready"), {"ready": True, "checks": []})
        found = self.front.get("/ready", token=self.token)
        self.assertEqual(
            [one["name"] for one in found["checks"]], ["registry", "broker", "store", "brokers", "registries"]
        )
        self.front.cluster.broker.store.hold_back("the disk is full")
        answer = self.front.ask("GET", "/ready")
        self.assertEqual((answer.status, answer.code), (503, "not-ready"))
        self.assertNotIn(b"disk", answer.content)

    def test_figures(self) -> None:
        """Figures that only the process itself knows are told."""
        self.assertIn("logUnflushedBytes", self.front.get("/process", token=self.token))

    def order(self, running: bool) -> Any:
        """Ask for a scrub, or for its end."""
        return json.loads(self.front.ask("POST", "/process/scrub", {"running": running}, token=self.token).content)

    def test_integrity(self) -> None:
        """A scrub is begun and ended over REST, and its result and the known damage are shown."""
        broker = self.front.cluster.broker
        self.assertEqual(self.front.get("/process/integrity", token=self.token)["regions"], 0)
        answer = self.front.ask("POST", "/process/scrub", {"running": True})
        self.assertEqual(answer.status, 401)
        found = self.order(True)
        self.assertEqual(found["scrub"]["running"], broker.store.scrub.running)
        broker.store.damage.add([Region(5, 7, "body CRC differs", "T", 1, 2, 3, "x")])
        found = self.front.get("/process/integrity", token=self.token)
        self.assertEqual((found["regions"], found["bytes"], found["found"]), (1, 7, 1))
        self.assertEqual(found["newest"][0]["topic"], "T")
        self.assertEqual(self.front.get("/process", token=self.token)["damagedRegions"], 1)
        found = self.order(False)
        self.assertFalse(found["scrub"]["running"])


class StartingTests(SynchronousTestCase):
    """A front in the process of a broker whose store is not open."""

    def test_recovering(self) -> None:
        """While the store recovers, readiness and figures say how far that is, and how long it will still take."""
        cluster = Cluster()
        service = Broker(cluster.env, cluster.configuration, cluster.sweeper)
        front = Front(cluster, LocalNode(cluster.configuration, [service]))
        self.addCleanup(front.stop)
        answer = front.ask("GET", "/ready")
        self.assertEqual((answer.status, answer.code), (503, "not-ready"))
        self.assertNotIn("recovery", json.loads(answer.content))
        self.patch(Broker, "recovered_so_far", RecoveredSoFar(250, 1000, None))
        shown = {"readBytes": 250, "totalBytes": 1000, "percent": 25.0, "secondsLeft": None}
        found = json.loads(front.ask("GET", "/ready").content)
        self.assertEqual((found["recovery"], found["type"], found["status"]), (shown, "about:blank", 503))
        token = front.admin()
        self.assertEqual(front.get("/process", token=token)["recoverySecondsLeft"], -1)
        self.patch(Broker, "recovered_so_far", RecoveredSoFar(500, 1000, 12.5))
        figures = front.get("/process", token=token)
        self.assertEqual((figures["recoveryPercent"], figures["recoverySecondsLeft"]), (50.0, 12.5))
        text = generate_latest(metrics_of(cluster.env, service)).decode()
        node = '{cluster="DefaultCluster",node_id="broker-a",node_type="broker"}'
        self.assertIn(f"\nsmartgo_broker_opened{node} 0.0\n", text)
        for name, value in (("read_bytes", 500.0), ("total_bytes", 1000.0), ("left_seconds", 12.5)):
            self.assertIn(f"\nsmartgo_store_recovery_{name}{node} {value}\n", text)


class OutsideTests(SynchronousTestCase):
    """A front before a cluster, in a process of its own."""

    def test_nothing(self) -> None:
        """It is ready, and has no figures to show."""
        front = Front()
        self.addCleanup(front.stop)
        token = front.admin()
        self.assertTrue(front.get("/ready")["ready"])
        self.assertEqual(front.get("/process", token=token), {})
        self.assertEqual(front.ask("GET", "/process/integrity", token=token).status, 404)
        self.assertEqual(front.ask("POST", "/process/scrub", {"running": True}, token=token).status, 404)


class MetricsTests(SynchronousTestCase):
    """The metrics for Prometheus."""

    def test_asked_often(self) -> None:
        """What is asked for again and again is gathered once a second, and for a tenth of the time at most."""
        clock = FakeEnvironment().clock
        took = [0.0, 0.5, 0.0]
        gathered: list[float] = []

        def registry() -> CollectorRegistry:
            gathered.append(clock.seconds())
            clock.advance(took.pop(0))
            return CollectorRegistry()

        api = MetricsApi(clock, registry)
        for _ in range(28):
            api.metrics(cast("Any", None))
            clock.advance(0.25)
        self.assertEqual(gathered, [0.0, 1.0, 6.5])
