"""Tests of L{smartgo.ops.figures.accessmetrics}."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from twisted.trial.unittest import SynchronousTestCase

from smartgo.node.accesscontrol import PERIOD
from smartgo.ops.figures.accessmetrics import AccessMetrics
from tests.node.securedcluster import RULES, SecuredCluster, lay


class AccessMetricsTests(SynchronousTestCase):
    """The files of access control, for Prometheus."""

    def test_refused(self) -> None:
        """The figure is 1 from the look at files that cannot be used to that at files that can."""
        cluster = SecuredCluster()
        self.addCleanup(cluster.stop)
        registry = CollectorRegistry()
        registry.register(AccessMetrics(cluster.access.control))
        for text, refused in ((RULES, 0), ("accounts: [", 1), (RULES, 0)):
            lay(cluster.env, text)
            cluster.pump(3 * PERIOD)
            self.assertIn(f"smartgo_access_files_refused {refused:.1f}", generate_latest(registry).decode())
