"""The metrics of alerts."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from twisted.trial.unittest import SynchronousTestCase

from smartgo.health.snapshot import BrokerSnapshot, ClusterSnapshot
from smartgo.ops.alerts import alertmetrics
from smartgo.ops.alerts.alertmetrics import AlertMetrics
from smartgo.ops.alerts.table import AlertTable


class AlertMetricsTests(SynchronousTestCase):
    """Each alert that is not resolved."""

    def setUp(self) -> None:
        """Begin without alerts."""
        self.table = AlertTable()
        self.registry = CollectorRegistry()
        self.registry.register(AlertMetrics(self.table))

    def samples(self) -> list[str]:
        """Return the samples."""
        return [one for one in generate_latest(self.registry).decode().splitlines() if not one.startswith("#")]

    def look(self, seconds: float, **brokers: BrokerSnapshot) -> None:
        """Look at brokers, and at nothing else."""
        self.table.observe(ClusterSnapshot(brokers=brokers), int(seconds * 1000), seconds)

    def test_states(self) -> None:
        """An alert is there with its value while it is pending or fires, and no longer once it is resolved."""
        self.look(0.0, a=BrokerSnapshot(True, 0.5, clock_offset=8.0))
        labels = 'rule="clock-differs",severity="warning"'
        self.assertEqual(self.samples(), [f'smartgo_alert{{{labels},state="pending",subject="a"}} 8.0'])
        self.look(60.0, a=BrokerSnapshot(True, 0.5, clock_offset=9.0))
        self.assertEqual(self.samples(), [f'smartgo_alert{{{labels},state="firing",subject="a"}} 9.0'])
        self.look(61.0, a=BrokerSnapshot(True, 0.5, clock_offset=0.0))
        self.assertEqual(self.samples(), [])

    def test_limit(self) -> None:
        """There are not more samples than the limit, and those that fire come first."""
        self.patch(alertmetrics, "LIMIT", 1)
        self.look(0.0, b=BrokerSnapshot(True, 0.5, clock_offset=8.0))
        late = {"a": BrokerSnapshot(True, 0.5, clock_offset=8.0), "b": BrokerSnapshot(True, 0.5, clock_offset=8.0)}
        self.look(60.0, **late)
        (one,) = self.samples()
        self.assertIn('state="firing",subject="b"', one)
