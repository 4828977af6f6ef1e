"""The table C{consumequeue}: a row for each used unit of the ConsumeQueue files, and what is missing of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.schema.columns import table
from smartgo.schema.consumequeue import PREFILL, UNIT, UNIT_SIZE
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import QueueGap, find_gaps, lost
from smartgo.spark.options import ReadOptions
from smartgo.spark.plainrows import plain_batch
from smartgo.spark.reader import read_gap
from smartgo.spark.stores import NamedFile, Store, looked_again, named_files

_ROWS: Final = 100_000
"""Rows of a batch."""
_UNITS: Final = 3_000_000
"""About as many units as one task reads, queues together: most of a file may never have been written."""


class QueueTableFile(NamedTuple):
    """
    One file of a queue.

    @ivar is_closed: another one follows, so all of its units were written.
    """

    file: NamedFile
    topic: str
    queue_id: int
    is_closed: bool


@dataclass(frozen=True)
class QueueFiles:
    """A part of the ConsumeQueue files."""

    store: str
    files: tuple[QueueTableFile, ...]


def plan_queues(store: Store, options: ReadOptions, conditions: Conditions) -> list[QueueFiles | QueueGap]:
    """
    Cut the queues of a store that are wanted into parts; what is missing of them stands beside these.

    @raise DataLost: something is missing, and C{failOnDataLoss} is set.
    """
    return looked_again(lambda: list(_planned(store, options, conditions)))


def _planned(store: Store, options: ReadOptions, conditions: Conditions) -> Iterator[QueueFiles | QueueGap]:
    pending: list[QueueTableFile] = []
    units = 0
    for topic, queue_id, directory in store.queues():
        if not conditions.allows_queue(topic, queue_id):
            continue
        low, high = conditions.queue_span(topic, queue_id)
        there = named_files(directory)
        for gap in find_gaps(store.root, there, 0):
            if gap.is_tail or gap.end // UNIT_SIZE <= low or gap.begin // UNIT_SIZE > high:
                continue
            if options.fail_on_data_loss:
                raise lost(gap)
            yield QueueGap(**vars(gap), topic=topic, queue_id=queue_id)
        for file in there:
            if file.end // UNIT_SIZE <= low or file.base // UNIT_SIZE > high:
                continue
            pending.append(QueueTableFile(file, topic, queue_id, is_closed=file.base < there[-1].base))
            units += sum(end - begin for begin, end in files.data_ranges(file.path, 0, file.size)) // UNIT_SIZE
            if units >= _UNITS:
                yield QueueFiles(store.root, tuple(pending))
                pending, units = [], 0
    if pending:
        yield QueueFiles(store.root, tuple(pending))


def read_queues(
    part: QueueFiles, columns: pa.Schema, options: ReadOptions, conditions: Conditions
) -> Iterator[pa.RecordBatch]:
    """
    Read some files of queues.

    @raise DataLost: a file was removed meanwhile, or has empty units before used ones, and C{failOnDataLoss} is set.
    """
    for one in part.files:
        try:
            yield from _read_file(part.store, one, columns, options, conditions)
        except FileNotFoundError:
            begin, end = one.file.base, one.file.end
            yield from _report(
                part.store, one, begin, end, "it was removed after the read was planned", columns, options
            )


def _read_file(
    store: str, one: QueueTableFile, columns: pa.Schema, options: ReadOptions, conditions: Conditions
) -> Iterator[pa.RecordBatch]:
    reader = files.FileReader(one.file.path)
    base = one.file.base
    try:
        at = used_end = 0
        for low, high in reader.data_ranges(0, one.file.size):
            at = max(at, low // UNIT_SIZE * UNIT_SIZE)
            while at < high:
                units = table(bytes(reader.read(at, min(_ROWS * UNIT_SIZE, high + UNIT_SIZE - at))), UNIT)
                if not len(units):
                    break
                used = at + np.flatnonzero(units["size"] > 0) * UNIT_SIZE
                for begin, end in _holes(used_end, used):
                    reason = "the units are empty, and used ones follow"
                    yield from _report(store, one, base + begin, base + end, reason, columns, options)
                used_end = int(used[-1]) + UNIT_SIZE if len(used) else used_end
                first = (base + at) // UNIT_SIZE
                at += len(units) * UNIT_SIZE
                yield from _queue_batch(store, one.topic, one.queue_id, first, units, columns, conditions, options)
        if one.is_closed and used_end < one.file.size:
            reason = "the units are empty, and the next file has begun"
            yield from _report(store, one, base + used_end, one.file.end, reason, columns, options)
    finally:
        reader.close()


def _holes(end: int, used: ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Return the parts between used units, from the end of those before them on."""
    ends = np.append(end, used + UNIT_SIZE)
    return [(int(ends[number]), int(used[number])) for number in np.flatnonzero(ends[:-1] < used).tolist()]


def _report(
    store: str, one: QueueTableFile, begin: int, end: int, reason: str, columns: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    gap = QueueGap(store, one.file.path, begin, end, reason, topic=one.topic, queue_id=one.queue_id)
    return read_gap(gap, columns, options)


def _queue_batch(
    store: str,
    topic: str,
    queue_id: int,
    first: int,
    units: ndarray[Any, Any],
    columns: pa.Schema,
    conditions: Conditions,
    options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    chosen = np.flatnonzero((units["size"] > 0) & (units["size"] != PREFILL.size))
    plain = {
        "queue_id": np.full(len(chosen), queue_id, "i4"),
        "queue_offset": first + chosen,
        "physical_offset": units["commitlog_offset"][chosen].astype("i8"),
        "size": units["size"][chosen].astype("i4"),
        "tag_hash": units["tag_hash"][chosen].astype("i8"),
    }
    return plain_batch({"store": store, "topic": topic}, plain, columns, conditions, options.corrupt_column)
