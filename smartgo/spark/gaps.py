"""
Detection of missing bytes in a CommitLog or a ConsumeQueue: a file that is gone, emptied or shortened.

Brokers name a file by the offset of its first byte and make it at its full length, so the names and lengths alone tell.
How far the newest file of a log went they do not tell; the ConsumeQueues do, which name the records that were stored.
What is missing is data loss, as in Spark's Kafka source: C{failOnDataLoss} says what becomes of the read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from smartgo.errors import StoreError
from smartgo.schema.consumequeue import UNIT_SIZE
from smartgo.spark.stores import NamedFile


@dataclass(frozen=True)
class LogGap:
    """
    A part of a CommitLog or of a ConsumeQueue that no file holds.

    @ivar store: root directory of the store.
    @ivar path: the file that is missing or too short.
    @ivar begin: offset of the first byte that is missing, physical or in the queue; C{end} after the last.
    @ivar is_tail: it may hold nothing: nothing shows that the log or queue went that far.
    """

    store: str
    path: str
    begin: int
    end: int
    reason: str
    is_tail: bool = False

    @property
    def row(self) -> Mapping[str, str | int]:
        """Values of a row that reports the gap, by column of its table."""
        return {"store": self.store, "physical_offset": self.begin}


@dataclass(frozen=True)
class QueueGap(LogGap):
    """A part of a ConsumeQueue that no file holds; its offsets are bytes of the queue."""

    topic: str = ""
    queue_id: int = 0

    @property
    def row(self) -> Mapping[str, str | int]:
        """Values of a row that reports the gap, by column of its table."""
        return {
            "store": self.store,
            "topic": self.topic,
            "queue_id": self.queue_id,
            "queue_offset": self.begin // UNIT_SIZE,
        }


class DataLost(StoreError):
    """
    The error of a read that finds a part of a store missing.

    @ivar store: the directory.
    """

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store}: {reason}; set the option failOnDataLoss to false to go on with what there is")
        self.store = store


def lost(gap: LogGap) -> DataLost:
    """Return the error of a gap."""
    return DataLost(
        gap.store,
        f"{gap.end - gap.begin} B between offsets {gap.begin} and {gap.end} of {gap.path} are missing ({gap.reason})",
    )


def find_gaps(store: str, logs: Sequence[NamedFile], known_end: int, known_by: str = "") -> list[LogGap]:
    """
    Return what is missing between the files of a log, and after the newest.

    The first file that is there is the log's beginning: older ones may have been removed because of their age.

    @param logs: the files of the log, in the order of their offsets; empty ones included.
    @param known_end: offset up to which the log is known to have gone, 0 where that is not known; for the CommitLog of
        a running broker, take it before the files are listed.
    @param known_by: what tells so.
    """
    if not logs:
        return []
    length = max(file.size for file in logs)
    found = []
    for file, after in pairwise(logs):
        found += _missing(store, file, length, after.base, f"the next file begins at {after.base}", is_tail=False)
    last = logs[-1]
    if known_end > last.end:
        reason = f"{known_by} {known_end}"
        found += _missing(store, last, length, known_end, reason, is_tail=False)
    elif 0 < last.size < length:
        found += _missing(store, last, length, last.base + length, f"other files have {length} B", is_tail=True)
    return found


def _missing(store: str, file: NamedFile, length: int, end: int, why: str, is_tail: bool) -> list[LogGap]:
    """Return what is missing from a file's last byte up to an offset: of the file itself, and of files after it."""
    found = []
    own_end = min(file.base + length, end)
    if file.end < own_end:
        reason = f"the file ends after {file.size} B, {why}"
        found.append(LogGap(store, file.path, file.end, own_end, reason, is_tail))
    if own_end < end:
        begin = max(file.end, own_end)
        path = f"{file.path[:-20]}{begin:020d}"
        if begin < end:
            found.append(LogGap(store, path, begin, end, f"the file is missing, {why}", is_tail))
    return found
