"""The metrics of timed messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from smartgo.broker.figures.lateness import STEPS_MS
from smartgo.broker.stages.timerdelivery import TimerDelivery


def timer_metrics(timed: TimerDelivery, labels: Sequence[str], node: Sequence[str]) -> Iterator[Metric]:
    """Yield the metric families of one broker's timed messages; C{node} are the values of C{labels}."""
    waiting = GaugeMetricFamily("rocketmq_timing_messages", "Timed messages that are not due yet.", labels=labels)
    if timed.waiting is not None:
        waiting.add_metric(node, timed.waiting)
    yield waiting
    recalled = CounterMetricFamily("smartgo_timers_recalled", "Timed messages that were recalled.", labels=labels)
    recalled.add_metric(node, timed.recalled)
    yield recalled
    lateness = timed.lateness
    late = HistogramMetricFamily(
        "smartgo_timer_lateness_seconds", "Seconds from the time of a message to its delivery.", labels=labels
    )
    steps = [*(str(step / 1000) for step in STEPS_MS), "+Inf"]
    counts = accumulate(map(float, lateness.counts))
    late.add_metric(node, list(zip(steps, counts, strict=True)), lateness.total_ms / 1000)
    yield late
