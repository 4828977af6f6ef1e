"""
The tables beside C{messages}: units of the ConsumeQueues, entries of the index files; and what reads which table.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.errors import SettingError
from smartgo.schema.columns import table
from smartgo.schema.consumequeue import PREFILL, UNIT, UNIT_SIZE
from smartgo.schema.index import ENTRY, ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, SLOT_SIZE, Geometry, IndexHeader
from smartgo.spark import files
from smartgo.spark.arrays import constant, numbers
from smartgo.spark.columns import TIMESTAMP
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import LogGap
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import ReadOptions
from smartgo.spark.partitions import plan
from smartgo.spark.reader import read_gap, read_messages
from smartgo.spark.stores import Store, named_files

_ROWS: Final = 100_000
"""Rows of a batch."""
_UNITS: Final = 3_000_000
"""About as many units as one task reads, queues together: most of a file may never have been written."""
_RATIO: Final = 4
"""Entries of an index file for each slot, as RocketMQ's defaults have it."""


@dataclass(frozen=True)
class QueueFiles:
    """
    A part of the ConsumeQueue files.

    @ivar files: path, topic, queue id, and the byte offset at which the file begins.
    """

    store: str
    files: tuple[tuple[str, str, int, int], ...]


@dataclass(frozen=True)
class IndexPart:
    """
    Entries of one index file.

    @ivar geometry: how many slots and entries it has.
    @ivar begin: number of the first entry; C{end} after the last.
    @ivar begin_ms: what the entries' times count from.
    """

    store: str
    path: str
    geometry: Geometry
    begin: int
    end: int
    begin_ms: int


Part = LogRange | LogGap | QueueFiles | IndexPart


def plan_table(stores: Iterable[Store], options: ReadOptions, conditions: Conditions) -> list[Part]:
    """Cut the table that the options name into parts, a task each."""
    if options.table == "consumequeue":
        return [part for store in stores for part in _plan_queues(store, conditions)]
    if options.table == "index":
        return [part for store in stores for path in store.index_files() for part in _plan_index(store, path, options)]
    return list(plan(stores, options, conditions))


def read_part(part: Part, columns: pa.Schema, options: ReadOptions, conditions: Conditions) -> Iterator[pa.RecordBatch]:
    """Read one part; batches of exactly the columns asked for."""
    if isinstance(part, LogRange):
        return _read_range(part, columns, options, conditions)
    if isinstance(part, LogGap):
        return read_gap(part, columns, options)
    if isinstance(part, QueueFiles):
        return _read_queues(part, columns, conditions)
    return _read_index(part, columns, conditions)


def _read_range(
    part: LogRange, columns: pa.Schema, options: ReadOptions, conditions: Conditions
) -> Iterator[pa.RecordBatch]:
    """Read one range of a log; its file may have been removed since the read was planned."""
    try:
        yield from read_messages(part, columns, options, conditions)
    except FileNotFoundError:
        reason = "the file was removed after the read was planned"
        yield from read_gap(LogGap(part.store, part.path, part.begin, part.end, reason), columns, options)


# -- queues --------------------------------------------------------------------------------------------------


def _plan_queues(store: Store, conditions: Conditions) -> Iterator[QueueFiles]:
    pending: list[tuple[str, str, int, int]] = []
    units = 0
    for topic, queue_id, directory in store.queues():
        if not conditions.allows_queue(topic, queue_id):
            continue
        low, high = conditions.queue_span(topic, queue_id)
        for file in named_files(directory):
            if file.end // UNIT_SIZE <= low or file.base // UNIT_SIZE > high:
                continue
            pending.append((file.path, topic, queue_id, file.base))
            units += sum(end - begin for begin, end in files.data_ranges(file.path, 0, file.size)) // UNIT_SIZE
            if units >= _UNITS:
                yield QueueFiles(store.root, tuple(pending))
                pending, units = [], 0
    if pending:
        yield QueueFiles(store.root, tuple(pending))


def _read_queues(part: QueueFiles, columns: pa.Schema, conditions: Conditions) -> Iterator[pa.RecordBatch]:
    for path, topic, queue_id, base in part.files:
        reader = files.FileReader(path)
        try:
            at = 0
            for low, high in files.data_ranges(path, 0, files.size(path)):
                at = max(at, low // UNIT_SIZE * UNIT_SIZE)
                while at < high:
                    units = table(bytes(reader.read(at, min(_ROWS * UNIT_SIZE, high + UNIT_SIZE - at))), UNIT)
                    if not len(units):
                        break
                    first = (base + at) // UNIT_SIZE
                    at += len(units) * UNIT_SIZE
                    yield from _queue_batch(part.store, topic, queue_id, first, units, columns, conditions)
        finally:
            reader.close()


def _queue_batch(
    store: str,
    topic: str,
    queue_id: int,
    first: int,
    units: ndarray[Any, Any],
    columns: pa.Schema,
    conditions: Conditions,
) -> Iterator[pa.RecordBatch]:
    chosen = np.flatnonzero((units["size"] > 0) & (units["size"] != PREFILL.size))
    plain = {
        "queue_id": np.full(len(chosen), queue_id, "i4"),
        "queue_offset": first + chosen,
        "physical_offset": units["commitlog_offset"][chosen].astype("i8"),
        "size": units["size"][chosen].astype("i4"),
        "tag_hash": units["tag_hash"][chosen].astype("i8"),
    }
    yield from _batch({"store": store, "topic": topic}, plain, columns, conditions)


# -- index ---------------------------------------------------------------------------------------------------


def _plan_index(store: Store, path: str, options: ReadOptions) -> Iterator[IndexPart]:
    size = files.size(path)
    head = files.read_at(path, 0, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return
    header = IndexHeader.unpack(head)
    geometry = _geometry(path, size, options.index_slots)
    end = min(header.index_count, geometry.entries)
    for begin in range(FIRST_ENTRY, end, _UNITS):
        yield IndexPart(store.root, path, geometry, begin, min(begin + _UNITS, end), header.begin_ms)


def _geometry(path: str, size: int, slots: int | None) -> Geometry:
    if slots is None:
        slots, rest = divmod(size - HEADER_SIZE, SLOT_SIZE + _RATIO * ENTRY_SIZE)
        if rest:
            raise SettingError(
                f"{path} has {size} B, which is not {_RATIO} entries for each slot: set option indexSlots to"
                " maxHashSlotNum of its broker"
            )
    entries, rest = divmod(size - HEADER_SIZE - slots * SLOT_SIZE, ENTRY_SIZE)
    if rest or entries < 0:
        raise SettingError(f"option indexSlots: {path} has {size} B, which do not fit {slots} slots")
    return Geometry(slots, entries)


def _read_index(part: IndexPart, columns: pa.Schema, conditions: Conditions) -> Iterator[pa.RecordBatch]:
    reader = files.FileReader(part.path)
    try:
        for first in range(part.begin, part.end, _ROWS):
            count = min(_ROWS, part.end - first)
            entries = table(bytes(reader.read(part.geometry.entry_at(first), count * ENTRY_SIZE)), ENTRY)
            stamps = part.begin_ms + entries["seconds"].astype("i8") * 1000
            plain = {
                "number": np.arange(first, first + len(entries), dtype="i4"),
                "key_hash": entries["key_hash"].astype("i4"),
                "physical_offset": entries["offset"].astype("i8"),
                "store_timestamp": stamps,
                "previous": entries["previous"].astype("i4"),
            }
            names = {"store": part.store, "file": posixpath.basename(part.path)}
            yield from _batch(names, plain, columns, conditions)
    finally:
        reader.close()


# -- both ----------------------------------------------------------------------------------------------------


def _batch(
    names: dict[str, str], plain: dict[str, ndarray[Any, Any]], columns: pa.Schema, conditions: Conditions
) -> Iterator[pa.RecordBatch]:
    """Make a batch of columns of numbers, and of names that are the same for all rows."""
    mask = conditions.select(plain)
    if mask is not None:
        plain = {name: values[mask] for name, values in plain.items()}
    count = len(next(iter(plain.values())))
    if not count:
        return
    arrays = []
    for field in columns:
        if field.name in names:
            arrays.append(constant(names[field.name], count))
        else:
            values = plain[field.name]
            arrays.append(numbers(values * 1000 if field.type == TIMESTAMP else values, field.type))
    yield pa.RecordBatch.from_arrays(arrays, schema=columns)
