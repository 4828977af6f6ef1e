"""
The ConsumeQueues as an index of the log: where a topic's records lie, without reading what lies between them.

Queues may lack records: those of a topic that was deleted, those a broker had no time for before it died. So they are
believed only where the units of all queues together cover the log without a gap, and gaps are walked record by record.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy import ndarray

from smartgo.schema.columns import table
from smartgo.schema.consumequeue import PREFILL, UNIT, UNIT_SIZE, Unit
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.logrange import LogRange
from smartgo.spark.stores import NamedFile, Store, named_files, queues_below

_MOST_QUEUES: Final = 5000
"""With more than these it takes longer to ask the queues than to read the log."""
_WORTH: Final = 0.5
"""The share of a range's bytes up to which it is worth to pick records instead of reading all."""


class Located(NamedTuple):
    """
    Records located by queue units.

    @ivar offsets: physical, in order; C{sizes} in bytes.
    """

    offsets: ndarray[Any, Any]
    sizes: ndarray[Any, Any]


def newest_end(store: Store) -> int:
    """Return the physical offset after the newest record that any queue has; 0 where the queues cannot tell."""
    queues = list(islice(store.queues(), _MOST_QUEUES + 1))
    if len(queues) > _MOST_QUEUES:
        return 0
    return max((_last_end(directory) for _, _, directory in queues), default=0)


def oldest_begin(store: Store) -> int:
    """Return the physical offset of the oldest record that any queue has; 0 where the queues cannot tell."""
    queues = list(islice(store.queues(), _MOST_QUEUES + 1))
    if len(queues) > _MOST_QUEUES:
        return 0
    return min((begin for _, _, directory in queues if (begin := _first_begin(directory)) is not None), default=0)


def _first_begin(directory: str) -> int | None:
    for file in named_files(directory):
        with QueueFile(file) as queue:
            number = queue.first(lambda unit: not unit.is_filler)
            if number < queue.used:
                return queue.unit(number).commitlog_offset
    return None


def _last_end(directory: str) -> int:
    for file in reversed(named_files(directory)):
        with QueueFile(file) as queue:
            if queue.used:
                unit = queue.unit(queue.used - 1)
                if not unit.is_filler:
                    return unit.commitlog_offset + unit.size
                if unit != PREFILL:
                    return unit.commitlog_offset  # the queue's records lie before what stands in for the next one
    return 0


class QueueFile:
    """
    A file of one queue; a context manager.

    @ivar used: how many of its units were ever written.
    """

    def __init__(self, file: NamedFile) -> None:
        self._reader = files.FileReader(file.path)
        self._units = file.size // UNIT_SIZE
        self.used = self._units
        self.used = self.first(lambda unit: unit.size <= 0)

    def __enter__(self) -> QueueFile:
        return self

    def __exit__(self, *ignored: object) -> None:
        self._reader.close()

    def unit(self, number: int) -> Unit:
        """Return a unit, numbered from 0 within the file."""
        return Unit.unpack(self._reader.read(number * UNIT_SIZE, UNIT_SIZE))

    def first(self, is_behind: Any) -> int:
        """Return the number of the first used unit for which a predicate holds, as it does for all behind it."""
        low, high = 0, self.used
        while low < high:
            middle = (low + high) // 2
            if is_behind(self.unit(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def units(self, begin: int, end: int) -> ndarray[Any, Any]:
        """Return units from number C{begin} up to C{end}, as of L{table}."""
        return table(bytes(self._reader.read(begin * UNIT_SIZE, (end - begin) * UNIT_SIZE)), UNIT)


def locate(part: LogRange, conditions: Conditions) -> list[Located | LogRange] | None:
    """
    Locate the records of a range that conditions may want, by the queues; return with them what must be walked.

    @return: in order of offsets; C{None} if the queues do not help here.
    """
    if part.known:
        return None
    queues = list(islice(queues_below(part.store), _MOST_QUEUES + 1))
    wanted = [conditions.allows_queue(topic, queue_id) for topic, queue_id, _ in queues]
    if not queues or len(queues) > _MOST_QUEUES or all(wanted):
        return None
    offsets, sizes, chosen = [], [], []
    for (topic, queue_id, directory), is_wanted in zip(queues, wanted, strict=True):
        low, high = conditions.queue_span(topic, queue_id)
        for numbers, units in _units_near(directory, part.begin, part.end):
            offsets.append(units["commitlog_offset"].astype("i8"))
            sizes.append(units["size"].astype("i8"))
            chosen.append((numbers >= low) & (numbers <= high) & is_wanted)
    if not offsets:
        return None
    return _segments(part, np.concatenate(offsets), np.concatenate(sizes), np.concatenate(chosen))


def _units_near(directory: str, begin: int, end: int) -> Iterator[tuple[ndarray[Any, Any], ndarray[Any, Any]]]:
    """Yield the units of records that start in a range and of the last one before it, with their queue offsets."""
    logs = named_files(directory)
    behind = bisect_left(logs, True, key=lambda file: _begins_behind(file, begin))
    for file in logs[max(behind - 1, 0) :]:
        with QueueFile(file) as queue:
            if not queue.used:
                continue
            low = queue.first(lambda unit: unit.commitlog_offset >= begin)
            high = queue.first(lambda unit: unit.commitlog_offset >= end)
            low = max(low - 1, 0)
            units = queue.units(low, high)
            real = np.flatnonzero(units["size"] != PREFILL.size)
            yield file.base // UNIT_SIZE + low + real, units[real]
            if high < queue.used:
                return


def _begins_behind(file: NamedFile, offset: int) -> bool:
    """Tell whether a queue's file has nothing of records before an offset; one that nothing was written to has not."""
    raw = files.read_at(file.path, 0, UNIT_SIZE)
    if len(raw) < UNIT_SIZE:
        return True
    unit = Unit.unpack(raw)
    return unit.size <= 0 or unit.commitlog_offset >= offset


def _segments(
    part: LogRange, offsets: ndarray[Any, Any], sizes: ndarray[Any, Any], chosen: ndarray[Any, Any]
) -> list[Located | LogRange] | None:
    order = np.argsort(offsets, kind="stable")
    offsets, sizes, chosen = offsets[order], sizes[order], chosen[order]
    first = np.flatnonzero(np.append(True, offsets[1:] != offsets[:-1]))
    if not len(offsets):
        return None
    if len(first) < len(offsets):  # a light queue's units lead to records that are in a queue of their own too
        if (np.minimum.reduceat(sizes, first) != np.maximum.reduceat(sizes, first)).any():
            return None
        chosen = np.logical_or.reduceat(chosen, first)
        offsets, sizes = offsets[first], sizes[first]
    ends = offsets + sizes
    if (ends[:-1] > offsets[1:]).any() or sizes[chosen].sum() > _WORTH * (part.end - part.begin):
        return None
    inside = offsets >= part.begin
    before = int(ends[~inside].max(initial=-1))
    found: list[Located | LogRange] = []
    at, is_aligned = (before, True) if before >= part.begin else (part.begin, part.is_aligned)
    offsets, ends, sizes, chosen = offsets[inside], ends[inside], sizes[inside], chosen[inside]
    gaps = np.flatnonzero(np.append(at, ends[:-1]) != offsets).tolist() if len(offsets) else []
    for low, high in pairwise([0, *[gap for gap in gaps if gap], len(offsets)]):
        if low in gaps:
            gap_begin = int(ends[low - 1]) if low else at
            if gap_begin < offsets[low]:
                found.append(_gap(part, gap_begin, int(offsets[low]), is_aligned or low > 0))
        mask = chosen[low:high]
        if mask.any():
            found.append(Located(offsets[low:high][mask], sizes[low:high][mask]))
    last = int(ends[-1]) if len(ends) else at
    if last < part.end:
        found.append(_gap(part, last, part.end, is_aligned or len(ends) > 0))
    return found


def _gap(part: LogRange, begin: int, end: int, is_aligned: bool) -> LogRange:
    return replace(part, begin=begin, end=end, is_aligned=is_aligned)
