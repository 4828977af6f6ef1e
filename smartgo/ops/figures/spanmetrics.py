"""The metrics of OpenTelemetry spans, where a broker makes some."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, Metric

from smartgo.broker.spans.sink import SpanSink


def span_metrics(spans: SpanSink, labels: Sequence[str], node: Sequence[str]) -> Iterator[Metric]:
    """Yield the metric families of one broker's spans; C{node} are the values of C{labels}."""
    for name, about, value in (
        ("smartgo_spans_exported", "OpenTelemetry spans that were exported.", spans.exported),
        ("smartgo_spans_lost", "OpenTelemetry spans that could not be exported, or found no room.", spans.lost),
        ("smartgo_spans_skipped_bytes", "Bytes of log whose messages got no spans, as too many came.", spans.skipped),
    ):
        family = CounterMetricFamily(name, about, labels=labels)
        family.add_metric(node, value)
        yield family
