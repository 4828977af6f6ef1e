"""Tests of L{smartgo.ops.figures.retentionmetrics}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.figures.retentionmetrics import removals, removed_files, removed_unread
from smartgo.store.filecleaner import RemovedFiles
from smartgo.store.retention import RemovalReason

LABELS, VALUES = ("cluster",), ("c",)


class RetentionMetricsTests(SynchronousTestCase):
    def test_files(self) -> None:
        """Files are told by reason, bytes and queue files in all."""
        removed = RemovedFiles(3, 3000, 7, {RemovalReason.EXPIRED: 1, RemovalReason.DISK: 2, RemovalReason.SIZE: 0})
        samples = [one for family in removed_files(LABELS, VALUES, removed) for one in family.samples]
        self.assertEqual(
            [(one.name, one.labels.get("reason"), one.value) for one in samples],
            [
                ("smartgo_store_log_files_removed_total", "expired", 1),
                ("smartgo_store_log_files_removed_total", "disk", 2),
                ("smartgo_store_log_files_removed_total", "size", 0),
                ("smartgo_store_log_bytes_removed_total", None, 3000),
                ("smartgo_store_queue_files_removed_total", None, 7),
            ],
        )

    def test_unread(self) -> None:
        """Messages that a group lost have the labels of its lag."""
        (sample, retry) = removed_unread(LABELS, VALUES, [("g", "T", 5), ("g", "%RETRY%g", 6)]).samples
        self.assertEqual((sample.name, sample.value), ("smartgo_group_messages_removed_unread_total", 5))
        self.assertEqual(sample.labels, {"cluster": "c", "topic": "T", "consumer_group": "g", "is_retry": "false"})
        self.assertEqual((retry.labels["is_retry"], retry.value), ("true", 6))

    def test_all(self) -> None:
        """Both kinds are told together."""
        names = [one.name for one in removals(LABELS, VALUES, RemovedFiles(0, 0, 0, {}), [])]
        self.assertEqual(len(names), 4)
