"""Resources about the process: readiness, figures, metrics."""

from __future__ import annotations

from typing import Any, cast

from prometheus_client import CollectorRegistry
from twisted.trial.unittest import SynchronousTestCase

from smartgo.node.ops import LocalNode
from smartgo.ops.resources.status import MetricsApi
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
        self.assertEqual([one["name"] for one in found["checks"]], ["registry", "broker", "store"])
        self.front.cluster.broker.store.hold_back("the disk is full")
        answer = self.front.ask("GET", "/ready")
        self.assertEqual((answer.status, answer.code), (503, "not-ready"))
        self.assertNotIn(b"disk", answer.content)

    def test_figures(self) -> None:
        """Figures that only the process itself knows are told."""
        self.assertIn("logUnflushedBytes", self.front.get("/process", token=self.token))


class OutsideTests(SynchronousTestCase):
    """A front before a cluster, in a process of its own."""

    def test_nothing(self) -> None:
        """It is ready, and has no figures to show."""
        front = Front()
        self.addCleanup(front.stop)
        token = front.admin()
        self.assertTrue(front.get("/ready")["ready"])
        self.assertEqual(front.get("/process", token=token), {})


class MetricsTests(SynchronousTestCase):
    """What Prometheus reads."""

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
