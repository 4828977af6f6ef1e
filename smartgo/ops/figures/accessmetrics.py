"""Metrics of the access control of a process (C{docs/metrics.rst})."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from smartgo.auth.connections import AccessControl


class AccessMetrics(Collector):
    """Metrics of the rules in force; a process without access control has none."""

    def __init__(self, control: AccessControl) -> None:
        self._control = control

    def collect(self) -> Iterator[Metric]:
        """Yield the one family."""
        yield GaugeMetricFamily(
            "smartgo_access_files_refused",
            "1 while the files of access control cannot be used, and the rules from before are in force.",
            float(bool(self._control.problem)),
        )
