"""
The tables beside C{messages}: units of the ConsumeQueues, entries of the index files; and what reads which table.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from smartgo.schema.columns import table
from smartgo.schema.index import ENTRY, ENTRY_SIZE, FIRST_ENTRY, HEADER_SIZE, Geometry, IndexHeader
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import DataLost, LogGap
from smartgo.spark.indexfiles import geometry_of
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import ReadOptions
from smartgo.spark.partitions import plan
from smartgo.spark.plainrows import plain_batch
from smartgo.spark.queuetable import QueueFiles, plan_queues, read_queues
from smartgo.spark.reader import read_gap, read_messages
from smartgo.spark.stores import Store, looked_again

_log: Final = logging.getLogger("smartgo.spark")
_ROWS: Final = 100_000
"""Rows of a batch."""
_ENTRIES: Final = 3_000_000
"""Entries that one task reads."""


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
    every = list(stores)
    if options.table == "consumequeue":
        return [part for store in every for part in plan_queues(store, options, conditions)]
    if options.table == "index":
        return looked_again(lambda: _plan_indexes(every, options))
    return list(plan(every, options, conditions))


def read_part(part: Part, columns: pa.Schema, options: ReadOptions, conditions: Conditions) -> Iterator[pa.RecordBatch]:
    """Read one part; batches of exactly the columns asked for."""
    if isinstance(part, LogRange):
        return _read_range(part, columns, options, conditions)
    if isinstance(part, LogGap):
        return read_gap(part, columns, options)
    if isinstance(part, QueueFiles):
        return read_queues(part, columns, options, conditions)
    return _read_index(part, columns, options, conditions)


def _read_range(
    part: LogRange, columns: pa.Schema, options: ReadOptions, conditions: Conditions
) -> Iterator[pa.RecordBatch]:
    """Read one range of a log; its file may have been removed since the read was planned."""
    try:
        yield from read_messages(part, columns, options, conditions)
    except FileNotFoundError:
        gap = LogGap(part.store, part.path, part.begin, part.end, "it was removed after the read was planned")
        yield from read_gap(gap, columns, options)


# -- index ---------------------------------------------------------------------------------------------------


def _plan_indexes(stores: Iterable[Store], options: ReadOptions) -> list[Part]:
    return [part for store in stores for path in store.index_files() for part in _plan_index(store, path, options)]


def _plan_index(store: Store, path: str, options: ReadOptions) -> Iterator[IndexPart]:
    size = files.size(path)
    head = files.read_at(path, 0, HEADER_SIZE)
    if len(head) < HEADER_SIZE:
        return
    header = IndexHeader.unpack(head)
    geometry = geometry_of(path, size, options.index_slots)
    end = min(header.index_count, geometry.entries)
    for begin in range(FIRST_ENTRY, end, _ENTRIES):
        yield IndexPart(store.root, path, geometry, begin, min(begin + _ENTRIES, end), header.begin_ms)


def _read_index(
    part: IndexPart, columns: pa.Schema, options: ReadOptions, conditions: Conditions
) -> Iterator[pa.RecordBatch]:
    try:
        reader = files.FileReader(part.path)
    except FileNotFoundError:
        if options.fail_on_data_loss:
            raise DataLost(part.store, f"{part.path} was removed after the read was planned") from None
        _log.warning("%s left out: it was removed after the read was planned", part.path)
        return
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
            yield from plain_batch(names, plain, columns, conditions)
    finally:
        reader.close()
