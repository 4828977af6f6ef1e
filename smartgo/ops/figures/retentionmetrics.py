"""The metrics of what retention removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, Metric

from smartgo.schema.topics import RETRY_PREFIX
from smartgo.store.filecleaner import RemovedFiles


def removals(
    labels: Sequence[str], values: Sequence[str], files: RemovedFiles, unread: Iterable[tuple[str, str, int]]
) -> Iterator[Metric]:
    """Yield all counters of retention; the arguments are those of L{removed_files} and L{removed_unread}."""
    yield from removed_files(labels, values, files)
    yield removed_unread(labels, values, unread)


def removed_files(labels: Sequence[str], values: Sequence[str], removed: RemovedFiles) -> Iterator[Metric]:
    """
    Yield the counters of removed files.

    @param labels: the labels that every metric of a broker has, C{values} their values.
    """
    files = CounterMetricFamily(
        "smartgo_store_log_files_removed", "Log files that retention removed.", labels=(*labels, "reason")
    )
    for reason, count in removed.by_reason.items():
        files.add_metric((*values, reason.value), count)
    yield files
    for name, about, value in (
        ("smartgo_store_log_bytes_removed", "Bytes of the log files that retention removed.", removed.log_bytes),
        ("smartgo_store_queue_files_removed", "Queue files that retention removed.", removed.queue_files),
    ):
        family = CounterMetricFamily(name, about, labels=labels)
        family.add_metric(values, value)
        yield family


def removed_unread(labels: Sequence[str], values: Sequence[str], counts: Iterable[tuple[str, str, int]]) -> Metric:
    """
    Return the counter of messages that went before a group read them, with the labels of a group's lag.

    @param counts: group, topic and number of messages.
    """
    family = CounterMetricFamily(
        "smartgo_group_messages_removed_unread",
        "Messages that retention removed before the group read them.",
        labels=(*labels, "topic", "consumer_group", "is_retry"),
    )
    for group, topic, count in counts:
        is_retry = "true" if topic.startswith(RETRY_PREFIX) else "false"
        family.add_metric((*values, topic, group, is_retry), count)
    return family
