"""Metrics of the alerts: each that fires or is pending, as Prometheus has its own in C{ALERTS}."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from smartgo.ops.alerts.table import AlertTable

LIMIT: Final = 500
"""Alerts with a sample of their own; of more, those that fire come first."""


class AlertMetrics(Collector):
    """Metrics of the alerts of a process; C{docs/metrics.rst} has them."""

    def __init__(self, alerts: AlertTable) -> None:
        self._alerts = alerts

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        family = GaugeMetricFamily(
            "smartgo_alert",
            "The measured value of an alert that fires or is pending; the subject of the process itself is empty.",
            labels=("rule", "subject", "severity", "state"),
        )
        shown = [one for one in self._alerts.alerts() if one.state != "resolved"]
        shown.sort(key=lambda one: (one.state != "firing", one.rule, one.subject))
        for one in shown[:LIMIT]:
            family.add_metric((one.rule, one.subject, self._alerts.severity(one), one.state), one.value)
        yield family
