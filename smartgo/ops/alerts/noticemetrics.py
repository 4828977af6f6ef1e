"""Metrics of the notices of alerts: messages by receiver and outcome, notices that wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from smartgo.ops.alerts.notices import NoticeQueue


class NoticeMetrics(Collector):
    """Metrics of the receivers of alert notices."""

    def __init__(self, queues: Mapping[str, NoticeQueue]) -> None:
        """@param queues: the notices, by the name of their receiver."""
        self._queues = queues

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        messages = CounterMetricFamily(
            "smartgo_alert_notifications",
            "Messages to a receiver of alert notices: sent, attempts that failed, notices that were given up.",
            labels=("receiver", "outcome"),
        )
        pending = GaugeMetricFamily(
            "smartgo_alert_notices_pending", "Notices of alerts that are not delivered yet.", labels=("receiver",)
        )
        for name, queue in self._queues.items():
            messages.add_metric((name, "sent"), queue.counts.sent)
            messages.add_metric((name, "failed"), queue.counts.failed)
            messages.add_metric((name, "dropped"), queue.counts.dropped)
            pending.add_metric((name,), queue.pending)
        yield messages
        yield pending
