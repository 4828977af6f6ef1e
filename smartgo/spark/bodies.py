"""Bodies by columns: verification of checksums, and decompression."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.errors import BadCompression, BadRecord, BodyTooLong
from smartgo.schema.columns import Columns
from smartgo.schema.compression import decompress_body
from smartgo.schema.message import COMPRESSED
from smartgo.schema.record import SEAL_BEGIN, SEAL_SIZE, check
from smartgo.spark.arrays import merged, texts

_LOW_31: Final = 0x7FFFFFFF
_SEAL_END: Final = 2


def checksums_hold(view: memoryview, columns: Columns) -> ndarray[Any, Any]:
    """Verify the checksums of bodies, and of whole records where they have one; return the rows that hold."""
    begin, end = columns.spans["body"]
    found = [crc32(view[low:high]) for low, high in zip(begin.tolist(), end.tolist(), strict=True)]
    holds: ndarray[Any, Any] = (np.array(found, "u4") ^ columns.values["crc"].view("u4")) & _LOW_31 == 0
    begin = columns.spans["properties"][1] - columns.values["size"]
    for row in np.flatnonzero(holds & _may_be_sealed(view, columns)).tolist():
        try:
            check(view, int(begin[row]), int(columns.values["physical_offset"][row]))
        except BadRecord:
            holds[row] = False
    return holds


def _may_be_sealed(view: memoryview, columns: Columns) -> ndarray[Any, Any]:
    """Tell which records may end with a checksum of the whole record: their properties end as if they had one."""
    data = np.frombuffer(view, "u1")
    begin, end = columns.spans["properties"]
    long = end - begin >= SEAL_SIZE
    first = np.where(long, end - SEAL_SIZE, 0)
    digits = first + len(SEAL_BEGIN)
    # Properties that came in a batch end with a separator, too.
    sealed: ndarray[Any, Any] = long & (data[end - 1] == _SEAL_END)
    sealed &= (data[first] == SEAL_BEGIN[0]) & (data[digits - 1] == SEAL_BEGIN[-1])
    return sealed


class Inflated(NamedTuple):
    """
    Bodies as their producers wrote them, of the first rows.

    @ivar bodies: null where that cannot be told.
    @ivar failures: by row, the reason why its body could not be decompressed.
    """

    bodies: pa.Array
    failures: dict[int, str]


def inflated(view: memoryview, columns: Columns, limit: int, most: int) -> Inflated:
    """
    Decompress the bodies that are flagged as compressed.

    @param limit: the most bytes one body may grow to.
    @param most: end after the row with which the bodies decompressed exceed this many bytes together.
    """
    flags = columns.values["sys_flag"]
    packed = np.flatnonzero(flags & COMPRESSED)
    count = len(flags)
    failures: dict[int, str] = {}
    opened: list[bytes | None] = []
    total = 0
    begin, end = columns.spans["body"]
    for row in packed.tolist():
        try:
            plain = decompress_body(bytes(view[begin[row] : end[row]]), int(flags[row]), limit)
            total += len(plain)
            opened.append(plain)
        except (BadCompression, BodyTooLong) as error:
            opened.append(None)
            failures[row] = f"the body cannot be decompressed: {error}"
        if total > most:
            count = row + 1
            break
    stored = np.flatnonzero(flags[:count] & COMPRESSED == 0)
    parts = [(stored, texts(view, begin[stored], end[stored], pa.binary()))]
    if opened:
        parts.append((packed[: len(opened)], pa.array(opened, pa.binary())))
    return Inflated(merged(parts, count), failures)
