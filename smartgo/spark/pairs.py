"""
Properties by columns: the names and values of many records at once.

The same as L{smartgo.schema.properties.decode} of each: pairs are separated by 0x02, a name ends at the first 0x01, a
pair whose name or value is empty is dropped, of a name that occurs twice the last value counts, at the place of the
first.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy import ndarray

from smartgo.schema import properties
from smartgo.spark.arrays import lists, numbers, texts, truths, values_of
from smartgo.spark.columns import KEYS, PROPERTIES

_MIDDLE: Final = 1
_OUTER: Final = 2
_FIRST: Final = 0
_SEPARATORS: Final = 3  # what is below is 0x02, 0x01, or the byte put before each record's properties


class Pairs:
    """The properties of some records, found when they are first asked for."""

    def __init__(self, view: memoryview, begin: ndarray[Any, Any], end: ndarray[Any, Any]) -> None:
        """
        @param begin: where each record's properties begin in the buffer, C{end} where they end; before each lies their
            length, of which the last byte gives its place to a mark.
        """
        self._count = len(begin)
        taken = texts(view, begin - 1, end, pa.binary())
        self._starts = np.frombuffer(taken.buffers()[1], "i4")[: self._count + 1]
        self._data = np.frombuffer(taken.buffers()[2], "u1")[: self._starts[-1]]
        self._data[self._starts[:-1]] = _FIRST
        if self._is_utf8():
            self._find(self._data < _SEPARATORS)
        else:
            self._repair()
        if len(self._leads) != self._count:  # there is NUL in somebody's property
            found = (self._data == _MIDDLE) | (self._data == _OUTER)
            found[self._starts[:-1]] = True
            self._find(found)

    def _is_utf8(self) -> bool:
        if self._data.max() < 0x80:
            return True
        try:
            str(self._data.data, "utf-8")
        except UnicodeDecodeError:
            return False
        return True

    def _repair(self) -> None:
        """Replace what is not UTF-8, as Java does."""
        bounds = self._starts.tolist()
        raw = self._data.tobytes()
        parts = [raw[begin:end].decode("utf-8", "replace").encode() for begin, end in pairwise(bounds)]
        self._starts = np.cumsum([0, *map(len, parts)])
        self._data = np.frombuffer(b"".join(parts), "u1")
        self._find(self._data < _SEPARATORS)

    def _find(self, is_separator: ndarray[Any, Any]) -> None:
        """Locate names and values."""
        separators = np.append(np.flatnonzero(is_separator).astype("i4"), np.int32(len(self._data)))
        kinds = np.append(self._data[separators[:-1]], np.uint8(_FIRST))
        if len(kinds) % 2 and (kinds[1::2] == _MIDDLE).all() and not (kinds[::2] == _MIDDLE).any():
            self._leads = np.flatnonzero(kinds[:-1:2] == _FIRST)
            self._begin, self._middle, self._end = separators[:-1:2] + 1, separators[1::2], separators[2::2]
            self._keep((self._middle > self._begin) & (self._end > self._middle + 1))
            return
        outer = np.flatnonzero(kinds != _MIDDLE)  # what lies before a pair, and the end
        inner = outer[:-1] + 1
        self._leads = np.flatnonzero(kinds[outer[:-1]] == _FIRST)
        self._begin = separators[outer[:-1]] + 1
        self._middle = separators[inner]
        self._end = separators[outer[1:]]
        self._keep((kinds[inner] == _MIDDLE) & (self._middle > self._begin) & (self._end > self._middle + 1))

    def _keep(self, kept: ndarray[Any, Any]) -> None:
        """Keep the chosen pairs alone."""
        if kept.all():
            self._counts = np.diff(np.append(self._leads, len(kept)))
        else:
            self._counts = np.add.reduceat(kept, self._leads, dtype="i8")
            self._begin, self._middle, self._end = self._begin[kept], self._middle[kept], self._end[kept]

    # -- columns ---------------------------------------------------------------------------------------------------

    @cached_property
    def _buffer(self) -> pa.Buffer:
        return pa.py_buffer(self._data)

    @cached_property
    def _names(self) -> pa.Array:
        return texts(self._buffer, self._begin, self._middle, pa.string())

    @cached_property
    def _coded(self) -> tuple[ndarray[Any, Any], list[str]]:
        """Return each pair's name as a number, and the names."""
        coded = self._names.dictionary_encode()
        return values_of(coded.indices), coded.dictionary.to_pylist()

    @cached_property
    def _rows(self) -> ndarray[Any, Any]:
        """Return each pair's record."""
        return np.repeat(np.arange(self._count), self._counts)

    def value(self, name: str) -> pa.Array:
        """Return one property, null where a record has it not."""
        chosen = self._chosen(name)
        missing = chosen < 0
        if missing.all():
            return pa.nulls(self._count, pa.string())
        if missing.any():
            there = chosen[~missing]
            found = texts(self._buffer, self._middle[there] + 1, self._end[there], pa.string())
            place = np.cumsum(~missing, dtype="i4") - 1
            return found.take(numbers(place, pa.int32(), missing))
        return texts(self._buffer, self._middle[chosen] + 1, self._end[chosen], pa.string())

    def _chosen(self, name: str) -> ndarray[Any, Any]:
        """Return each record's last pair of a name, -1 without one."""
        codes, names = self._coded
        chosen = np.full(self._count, -1)
        if name in names:
            pairs = np.flatnonzero(codes == names.index(name))
            chosen[self._rows[pairs]] = pairs
        return chosen

    @cached_property
    def keys(self) -> tuple[pa.Array, pa.Array]:
        """The first key of each record, null without one; and all its keys, as a list."""
        raw = self.value(properties.KEYS)
        filled = raw.drop_null()
        if not pc.any(pc.match_substring(filled, " ")).as_py():
            return raw, pa.ListArray.from_arrays(lists(_is_there(raw)), filled, KEYS)
        split = pc.split_pattern(filled, " ")
        words = split.flatten()
        there = values_of(pc.binary_length(words)) > 0
        begins = values_of(split.offsets)[:-1]
        counts = np.zeros(self._count, "i4")
        counts[_is_there(raw)] = np.add.reduceat(there, begins, dtype="i4")
        words = words.filter(truths(there))
        offsets = lists(counts)
        firsts = numbers(values_of(offsets)[:-1], pa.int32(), counts == 0)
        return words.take(firsts), pa.ListArray.from_arrays(offsets, words, KEYS)

    def as_map(self) -> pa.Array:
        """Return all properties of each record as a map."""
        codes, names = self._coded
        counts, order = self._counts, None
        width = max(len(names), 1)
        if np.bincount(self._rows * width + codes, minlength=1).max(initial=0) > 1:
            counts, order = self._without_repeats()
        keys = self._names
        values = texts(self._buffer, self._middle + 1, self._end, pa.string())
        if order is not None:
            keys, values = (keys.take(numbers(order[0], pa.int64())), values.take(numbers(order[1], pa.int64())))
        return pa.MapArray.from_arrays(lists(counts), keys, values, PROPERTIES)

    def _without_repeats(self) -> tuple[ndarray[Any, Any], tuple[ndarray[Any, Any], ndarray[Any, Any]]]:
        """Return counts, and which pairs' names and values stay, where a name occurs in a record more than once."""
        codes, names = self._coded
        told = self._rows * len(names) + codes
        _, first, group = np.unique(told, return_index=True, return_inverse=True)
        last = np.empty(len(first), "i8")
        last[group] = np.arange(len(told))
        order = np.argsort(first)
        return np.bincount(self._rows[first], minlength=self._count), (first[order], last[order])


def _is_there(values: pa.Array) -> ndarray[Any, Any]:
    found: ndarray[Any, Any] = values_of(values.is_valid().cast(pa.int32())) != 0
    return found
