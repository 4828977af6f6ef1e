"""
Batches of rows by the compiled core: one pass over records writes all columns that are asked for; compiled only.

The core takes a record only when it is sure of all of it. It ends at any other, such as one with IPv6 hosts, with text
that is not UTF-8, with a name twice among its properties, with a wrong checksum, or damage; these are left to
L{smartgo.spark.walk} and L{smartgo.spark.rows}, which make the same rows. Without the core there is nothing to gain.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.core import choose
from smartgo.spark import files
from smartgo.spark.arrays import constant
from smartgo.spark.columns import CORRUPT, KEYS, MESSAGES, PROPERTIES

ROWS: Final = 16384
"""The most rows of a batch."""
CAPACITY: Final = 8 << 20
"""The most bytes of records in a batch, without their bodies where these are not asked for."""
READ: Final = 1 << 20
"""Bytes of log read at a time: they are still in the processor's cache when they are decoded."""

Choose = Callable[[Mapping[str, ndarray[Any, Any]], pa.Array], ndarray[Any, Any] | None]
"""Tells which rows are wanted, C{None} for all: of columns by the names of a record's fields, and of topics."""


class WalkEnd(IntEnum):
    """The reason why the core ended, as C{logcolumns.h} has it."""

    BOUND = 0
    FULL = 1
    SHORT = 2
    ODD = 3


class _Role(IntEnum):
    """The parts of a column that have a region of memory each, as C{logcolumns.h} has them."""

    VALUES = 0
    VALID = 1
    ENDS = 2
    DATA = 3
    ITEM_ENDS = 4
    ITEM_DATA = 5
    OTHER_ENDS = 6
    OTHER_DATA = 7


class NoLogColumns:
    """
    The interface of the core's part; takes nothing.

    @ivar size: bytes of a block of memory for all columns.
    @ivar layout: its regions, as column, role, first byte and bytes.
    @ivar rows: how many are in the block.
    @ivar stored_ms: of the last record that was walked over.
    """

    size: int
    layout: list[tuple[int, int, int, int]]
    rows: int
    stored_ms: int

    def __init__(self, wanted: int, rows: int, capacity: int, checks: bool, opens: bool) -> None:
        """
        @param wanted: a bit for each column, by its place in L{MESSAGES}.
        @param rows: the most that a block has room for, and C{capacity} bytes of their records.
        @param checks: checksums are verified.
        @param opens: compressed bodies are out of the ordinary.
        """

    def empty(self, block: memoryview) -> None:
        """Go on with another block, without rows."""

    def read(
        self, view: memoryview, at: int, bound: int, base: int, mask: ndarray[Any, Any] | None
    ) -> tuple[int, int, int]:
        """
        Write the rows of the records that lie from a position of the view on.

        @param bound: bytes from there on before which records begin.
        @param base: physical offset of the first record; negative where they need not lie at their own.
        @param mask: a byte for each record, zero where it is not wanted; C{None} for all.
        @return: records and bytes that were walked over, and L{WalkEnd}.
        """
        return 0, 0, WalkEnd.ODD

    def nulls(self, column: int) -> int:
        """Return how many rows are null in a column."""
        return 0


LogColumns: Final[type[NoLogColumns]] = choose("LogColumns", NoLogColumns)


class _BatchMemory:
    """Memory of a batch, which serves for another one when nothing holds the batch any more."""

    def __init__(self, size: int) -> None:
        self._memory = files.scratch(size)
        self.view = memoryview(self._memory)

    def is_free(self) -> bool:
        """Tell whether no array is left that lies in this block."""
        try:
            self.view.release()
        except BufferError:
            return False
        self.view = memoryview(self._memory)
        return True


_BLOCKS: Final = 4
"""Blocks that are kept: Spark holds the first batch, the one it has sent and the one it is given."""
_SCANNED: Final[Mapping[str, str]] = {
    "queue_id": "queue_id",
    "queue_offset": "queue_offset",
    "physical_offset": "physical_offset",
    "stored_ms": "store_timestamp",
}


_NARROW: Final = 32
_US_IN_MS: Final = 1000


class Taken(NamedTuple):
    """
    The outcome of one look at a view.

    @ivar size: bytes that were walked over.
    """

    size: int
    end: WalkEnd


class _ScannedRun(NamedTuple):
    """
    Records that were looked at.

    @ivar size: their bytes.
    @ivar mask: a byte for each, zero where it is not wanted; C{None}: all are.
    @ivar stored_ms: of the last one.
    """

    records: int
    size: int
    end: WalkEnd
    mask: ndarray[Any, Any] | None
    stored_ms: int


class _Scanner:
    """Chooses records by the columns that conditions are about."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._columns = LogColumns(_bits(["topic", *_SCANNED.values()]), ROWS, CAPACITY, False, False)
        self._regions = _regions(self._columns)
        self._block = _BatchMemory(self._columns.size)

    def look(self, view: memoryview, at: int, bound: int, base: int) -> _ScannedRun:
        """Choose among the records from a position of the view on; for the arguments see L{Decoder.take}."""
        self._columns.empty(self._block.view)
        records, size, end = self._columns.read(view, at, bound, base, None)
        mask = self._mask(records) if records else None
        return _ScannedRun(records, size, WalkEnd(end), mask, self._columns.stored_ms)

    def _mask(self, records: int) -> ndarray[Any, Any] | None:
        values = {}
        for field, name in _SCANNED.items():
            place = MESSAGES.get_field_index(name)
            kind = "i4" if MESSAGES.field(place).type.bit_width == _NARROW else "i8"
            found = np.frombuffer(self._block.view, kind, records, self._regions[place, _Role.VALUES][0])
            values[field] = found // _US_IN_MS if field == "stored_ms" else found
        place = MESSAGES.get_field_index("topic")
        whole = pa.py_buffer(self._block.view)
        return self._choose(values, _text(pa.string(), whole, self._regions, place, _Role.ENDS, records))


class Decoder:
    """
    Makes batches of records that lie back to back.

    The memory of a batch is used again as soon as nothing refers to the batch.

    @ivar stored_ms: store time of the last record walked over.
    """

    def __init__(
        self,
        columns: pa.Schema,
        store: str,
        checks: bool = True,
        opens: bool = False,
        choose: Choose | None = None,
    ) -> None:
        """
        @param columns: those of the batches, of L{MESSAGES}, and one of type L{CORRUPT}, which is null.
        @param store: what the column C{store} says.
        @param checks: end before a record whose checksums do not hold.
        @param opens: end before a record with a compressed body.
        @param choose: which rows are wanted; C{None} for all.
        """
        self._columns = columns
        self._store = store
        self._writer = LogColumns(_bits(columns.names), ROWS, CAPACITY, checks, opens)
        self._regions = _regions(self._writer)
        self._blocks: list[_BatchMemory] = []
        self._scan = None if choose is None else _Scanner(choose)
        self._constants: dict[str, pa.Array] = {}
        self.stored_ms = 0
        self._next_block()

    @property
    def rows(self) -> int:
        """Return how many rows the next batch has so far."""
        return self._writer.rows

    def take(self, view: memoryview, at: int, bound: int, base: int, mask: ndarray[Any, Any] | None = None) -> Taken:
        """
        Take records from a position of a view on, up to the first that is out of the ordinary.

        @param bound: bytes from there on before which records begin.
        @param base: physical offset of the first record; negative where they need not lie at their own.
        @param mask: a byte for each record, zero where it is not wanted; only without C{choose}.
        """
        if self._scan is None:
            records, size, end = self._writer.read(view, at, bound, base, mask)
            if records:
                self.stored_ms = self._writer.stored_ms
            return Taken(size, WalkEnd(end))
        return self._take_chosen(self._scan, view, at, bound, base)

    def _take_chosen(self, scan: _Scanner, view: memoryview, at: int, bound: int, base: int) -> Taken:
        """Take the records that are wanted, which a scan of all records tells."""
        done = 0
        while True:
            first = base if base < 0 else base + done
            found = scan.look(view, at + done, bound - done, first)
            if found.records and (found.mask is None or found.mask.any()):
                records, size, end = self._writer.read(view, at + done, found.size, first, found.mask)
                if size < found.size:
                    self.stored_ms = self._writer.stored_ms if records else self.stored_ms
                    return Taken(done + size, WalkEnd(end))
            if found.records:
                self.stored_ms = found.stored_ms
            done += found.size
            if found.end != WalkEnd.FULL:
                return Taken(done, found.end)

    def batch(self) -> pa.RecordBatch:
        """Return the rows taken so far, and begin another batch."""
        arrays = [self._array(field) for field in self._columns]
        made = pa.RecordBatch.from_arrays(arrays, schema=self._columns)
        del arrays
        self._next_block()
        return made

    def _next_block(self) -> None:
        block = next((one for one in self._blocks if one.is_free()), None)
        if block is None:
            block = _BatchMemory(self._writer.size)
            self._blocks = [*self._blocks[1 - _BLOCKS :], block]
        self._block = block
        self._writer.empty(block.view)

    def _array(self, field: pa.Field) -> pa.Array:
        rows, name, kind = self._writer.rows, field.name, field.type
        if name == "store" or kind == CORRUPT:
            if name not in self._constants:
                self._constants[name] = pa.nulls(ROWS, CORRUPT) if kind == CORRUPT else constant(self._store, ROWS)
            return self._constants[name].slice(0, rows)
        place = MESSAGES.get_field_index(name)
        whole = pa.py_buffer(self._block.view)
        if (place, _Role.VALUES) in self._regions:
            size = (rows + 7) // 8 if kind == pa.bool_() else rows * kind.bit_width // 8
            values = whole.slice(self._regions[place, _Role.VALUES][0], size)
            return pa.Array.from_buffers(kind, rows, [None, values], 0)
        if kind not in (KEYS, PROPERTIES):
            return _text(kind, whole, self._regions, place, _Role.ENDS, rows, self._writer.nulls(place))
        begin, _ = self._regions[place, _Role.ENDS]
        items = _last(whole, begin, rows)
        ends = whole.slice(begin, 4 * (rows + 1))
        inner = _text(pa.string(), whole, self._regions, place, _Role.ITEM_ENDS, items)
        if kind == PROPERTIES:
            values = _text(pa.string(), whole, self._regions, place, _Role.OTHER_ENDS, items)
            inner = pa.StructArray.from_arrays([inner, values], fields=[PROPERTIES.key_field, PROPERTIES.item_field])
        return pa.Array.from_buffers(kind, rows, [None, ends], 0, 0, [inner])


def is_possible() -> bool:
    """Tell whether there is a compiled core."""
    return LogColumns is not NoLogColumns


def _bits(names: Iterable[str]) -> int:
    """Return the set of columns that the core is to write."""
    places = [MESSAGES.get_field_index(name) for name in names if name in MESSAGES.names and name != "store"]
    return sum(1 << place for place in places)


def _regions(columns: NoLogColumns) -> dict[tuple[int, int], tuple[int, int]]:
    return {(column, role): (begin, size) for column, role, begin, size in columns.layout}


def _last(whole: pa.Buffer, begin: int, count: int) -> int:
    """Return the last of so many ends, which stand behind a zero."""
    return int.from_bytes(whole.slice(begin + 4 * count, 4).to_pybytes(), sys.byteorder)


def _text(
    kind: pa.DataType,
    whole: pa.Buffer,
    regions: Mapping[tuple[int, int], tuple[int, int]],
    place: int,
    role: int,
    count: int,
    nulls: int = 0,
) -> pa.Array:
    """Return texts, whose ends are the region of a role, and whose bytes that of the next."""
    ends, data = regions[place, role][0], regions[place, role + 1][0]
    valid = None
    if nulls:
        valid = whole.slice(regions[place, _Role.VALID][0], (count + 7) // 8)
    buffers = [valid, whole.slice(ends, 4 * (count + 1)), whole.slice(data, _last(whole, ends, count))]
    return pa.Array.from_buffers(kind, count, buffers, nulls)
