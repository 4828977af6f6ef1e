"""
Detection of missing bytes in a CommitLog: a file that is gone, emptied or shortened.

Brokers name a log file by the offset of its first byte and make it at its full length, so the names and lengths alone
tell. How far the newest file went they do not tell; the ConsumeQueues do, which name the records that were stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from smartgo.spark.stores import NamedFile


@dataclass(frozen=True)
class LogGap:
    """
    A part of a CommitLog that no file holds.

    @ivar store: root directory of the store.
    @ivar path: the file that is missing or too short.
    @ivar begin: physical offset of the first byte that is missing; C{end} after the last.
    @ivar is_tail: it may hold no record: nothing shows that the log went that far.
    """

    store: str
    path: str
    begin: int
    end: int
    reason: str
    is_tail: bool = False


def find_gaps(store: str, logs: Sequence[NamedFile], queues_end: int) -> list[LogGap]:
    """
    Return what is missing between the files of a log, and after the newest.

    The first file that is there is the log's beginning: older ones may have been removed because of their age.

    @param logs: the files of the log, in the order of their offsets; empty ones included.
    @param queues_end: physical offset after the newest record that the queues name, 0 where they cannot tell. Take it
        before the files are listed: a broker may be writing.
    """
    if not logs:
        return []
    length = max(file.size for file in logs)
    found = []
    for file, after in pairwise(logs):
        found += _missing(store, file, length, after.base, f"the next file begins at {after.base}", is_tail=False)
    last = logs[-1]
    if queues_end > last.end:
        reason = f"the consume queues name records up to {queues_end}"
        found += _missing(store, last, length, queues_end, reason, is_tail=False)
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
