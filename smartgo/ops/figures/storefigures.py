"""The figures of a broker's store for Prometheus: how far its log and its index go, and what is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.progress import RecoveredSoFar


def recovery_metrics(labels: Sequence[str], node: Sequence[str], now: RecoveredSoFar | None) -> Iterator[Metric]:
    """
    Yield the metrics of a store that is being recovered; nothing of another.

    @param labels: names of the labels; C{node}: their values.
    """
    if now is None:
        return
    for name, about, value in (
        ("read_bytes", "Bytes of the log that the recovery has read.", float(now.read_bytes)),
        ("total_bytes", "Bytes of the log that it reads at most.", float(now.total_bytes)),
        ("left_seconds", "Time that it will still take at most.", now.seconds_left),
    ):
        if value is not None:
            family = GaugeMetricFamily(f"smartgo_store_recovery_{name}", about, labels=labels)
            family.add_metric(node, value)
            yield family


StoreFigure = tuple[str, str, float]
"""Name, help text and value of one gauge."""


def store_figures(store: OpenStore) -> Iterator[StoreFigure]:
    """Give out the gauges of a store."""
    first, end = store.log_bounds()
    damage, scrub = store.damage, store.scrub
    yield "smartgo_store_index_behind_bytes", "Bytes of the log not indexed yet.", store.index_behind
    yield "smartgo_store_log_begin_bytes", "Physical offset of the beginning of the log.", first
    yield "smartgo_store_damaged_regions", "Damaged regions of the log.", len(damage)
    yield "smartgo_store_damaged_bytes", "Bytes in damaged regions of the log.", damage.size
    yield "smartgo_store_scrub_left_seconds", "Time that the scrub will still take.", scrub.seconds_left
    yield "smartgo_store_scrub_ended_seconds", "End of the last complete scrub.", scrub.state.ended_ms / 1000
    yield "smartgo_store_log_end_bytes", "Physical offset of the end of the log.", end
    yield "smartgo_store_refusing", "1 while the store takes no messages.", store.refusal is not None
