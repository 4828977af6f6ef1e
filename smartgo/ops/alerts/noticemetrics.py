"""Metrics of the alerts: messages by receiver and outcome, notices that wait, open dead letters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from smartgo.ops.alerts.notices import NoticeQueue


class DeadLetterMetrics(Collector):
    """Metrics of dead letters that nobody has seen to."""

    def __init__(self, counts: Callable[[], Mapping[str, int | None]]) -> None:
        """@param counts: returns how many each group has; C{None} for a group of which brokers do not tell."""
        self._counts = counts

    def collect(self) -> Iterator[Metric]:
        """Yield the metric family; a group of which brokers do not tell is left out."""
        family = GaugeMetricFamily(
            "smartgo_dead_letters_open",
            "Dead letters of a group that were neither sent again nor acknowledged.",
            labels=("consumer_group",),
        )
        for group, count in self._counts().items():
            if count is not None:
                family.add_metric((group,), count)
        yield family


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
