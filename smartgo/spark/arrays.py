"""Arrow arrays out of pieces of a buffer: each row's piece is copied once, by Arrow, with no Python in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy import ndarray


def texts(data: Any, begin: ndarray[Any, Any], end: ndarray[Any, Any], kind: pa.DataType) -> pa.Array:
    """
    Return pieces of a buffer as an array of strings or byte strings.

    @param data: a buffer of less than 2 GiB, or a C{pa.Buffer}.
    @param begin: where each piece begins, C{end} where it ends; pieces do not overlap and come in the buffer's order.
    @param kind: C{pa.string()} or C{pa.binary()}.
    """
    # One array over the whole buffer in which every second entry is what lies between two pieces.
    bounds = np.empty(2 * len(begin), "i4")
    bounds[0::2] = begin
    bounds[1::2] = end
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    if not len(begin):
        return pa.nulls(0, kind)
    whole = pa.Array.from_buffers(kind, len(bounds) - 1, [None, pa.py_buffer(bounds), buffer])
    return whole.take(numbers(np.arange(0, len(bounds) - 1, 2, dtype="i4"), pa.int32()))


def of_even_texts(raw: ndarray[Any, Any]) -> pa.Array:
    """Return ASCII strings of one length as an array: a row of bytes for each."""
    count, width = raw.shape
    bounds = np.arange(0, (count + 1) * width, width, dtype="i4") if width else np.zeros(count + 1, "i4")
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(bounds), pa.py_buffer(raw)])


def numbers(values: ndarray[Any, Any], kind: pa.DataType, missing: ndarray[Any, Any] | None = None) -> pa.Array:
    """
    Return numbers as an array of a type of the same width.

    C{pa.array} does the same, but brings in pandas first, which costs a worker more than many a file.

    @param missing: true for rows that are to be null, C{None} for none.
    """
    return pa.Array.from_buffers(
        kind,
        len(values),
        [None if missing is None else _bits(~missing), pa.py_buffer(np.ascontiguousarray(values))],
    )


def values_of(array: pa.Array) -> ndarray[Any, Any]:
    """Return the numbers of an array of 32-bit integers without nulls; C{np.asarray} would bring in pandas."""
    found: ndarray[Any, Any] = np.frombuffer(array.buffers()[1] or b"", "i4")
    return found[array.offset : array.offset + len(array)]


def truths(values: ndarray[Any, Any]) -> pa.Array:
    """Return truth values as an array."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def _bits(values: ndarray[Any, Any]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def strings(values: Sequence[str]) -> pa.Array:
    """Return a few strings as an array."""
    encoded = [value.encode() for value in values]
    bounds = np.cumsum([0, *map(len, encoded)], dtype="i4")
    return pa.Array.from_buffers(
        pa.string(), len(encoded), [None, pa.py_buffer(bounds), pa.py_buffer(b"".join(encoded))]
    )


def constant(value: str, count: int) -> pa.Array:
    """Return one string many times."""
    return strings([value]).take(numbers(np.zeros(count, "i4"), pa.int32()))


def lists(counts: ndarray[Any, Any]) -> pa.Array:
    """Return the offsets of lists of so many items each."""
    offsets = np.zeros(len(counts) + 1, "i4")
    np.cumsum(counts, out=offsets[1:])
    return numbers(offsets, pa.int32())


def merged(parts: Sequence[tuple[ndarray[Any, Any], pa.Array]], count: int) -> pa.Array:
    """
    Merge arrays, each row at its position.

    @param parts: which rows, as numbers, and their values; together all rows once.
    """
    if len(parts) == 1:
        return parts[0][1]
    place = np.empty(count, "i4")
    place[np.concatenate([rows for rows, _ in parts])] = np.arange(count, dtype="i4")
    return pa.concat_arrays([values for _, values in parts]).take(numbers(place, pa.int32()))
