"""The metrics of transactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from smartgo.broker.stages.transactions import Transactions


def transaction_metrics(
    transactions: Transactions, labels: Sequence[str], node: Sequence[str], now_ms: int
) -> Iterator[Metric]:
    """
    Yield the metric families of one master's transactions.

    @param node: the values of C{labels}.
    @param now_ms: the wall clock.
    """
    pending = GaugeMetricFamily("rocketmq_half_messages", "Undecided transactions.", labels=labels)
    pending.add_metric(node, len(transactions.pending))
    yield pending
    oldest = GaugeMetricFamily(
        "smartgo_transactions_oldest_seconds",
        "Age of the oldest of what was undecided at the last round of check-backs.",
        labels=labels,
    )
    if transactions.oldest_ms is not None:
        oldest.add_metric(node, max(0.0, (now_ms - transactions.oldest_ms) / 1000))
    yield oldest
    for name, about, count in (
        ("smartgo_transaction_checks", "Check-backs that were sent to producers.", transactions.checked),
        (
            "smartgo_transaction_checks_unasked",
            "Check-backs for which no producer of the group was connected.",
            transactions.unasked,
        ),
        ("smartgo_transactions_given_up", "Transactions that are checked back no more.", transactions.given_up),
    ):
        family = CounterMetricFamily(name, about, labels=labels)
        family.add_metric(node, count)
        yield family
