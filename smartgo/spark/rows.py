"""The columns of the table C{messages}, each made of a piece of the log when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.schema import properties
from smartgo.schema.message import BORN_V6, STORE_V6
from smartgo.spark.arrays import constant, numbers, texts, truths
from smartgo.spark.columns import CORRUPT, TIMESTAMP
from smartgo.spark.hosts import host_texts, id_texts
from smartgo.spark.pairs import Pairs
from smartgo.spark.walk import Piece

_EARLIEST_MS: Final = -62_135_596_800_000  # year 1, the first that Spark shows
_LATEST_MS: Final = 253_402_300_799_999  # the end of year 9999


class RecordOrigin(Protocol):
    """
    The origin of some records.

    @ivar store: what the column C{store} says.
    @ivar path: what the column for damage names.
    """

    @property
    def store(self) -> str:
        """The store."""

    @property
    def path(self) -> str:
        """The file."""


class Rows:
    """Records of one piece; C{len} tells how many."""

    def __init__(
        self, part: RecordOrigin, piece: Piece, bodies: pa.Array | None = None, holds: ndarray[Any, Any] | None = None
    ) -> None:
        """
        @param bodies: what to give out as bodies in place of the stored ones.
        @param holds: for which records the checksums hold.
        """
        self._part = part
        self._view = piece.view
        self._values = piece.columns.values
        self._spans = piece.columns.spans
        self._topics = piece.topics
        self._bodies = bodies
        self._holds = holds

    def __len__(self) -> int:
        return len(self._topics)

    def column(self, name: str) -> pa.Array:
        """Return a column of the table by its name."""
        return _MAKERS[name](self)

    def corrupt(self, failures: Mapping[int, str]) -> pa.Array:
        """Return the column for damage: null but for the rows named, with the reason for each."""
        if not failures:
            return pa.nulls(len(self), CORRUPT)
        offsets, sizes = self._values["physical_offset"], self._values["size"]
        found: list[dict[str, Any] | None] = [None] * len(self)
        for row, reason in failures.items():
            found[row] = {
                "file": self._part.path,
                "offset": int(offsets[row]),
                "length": int(sizes[row]),
                "reason": reason,
            }
        return pa.array(found, CORRUPT)

    # -- kinds of columns --------------------------------------------------------------------------------------

    def _number(self, name: str, kind: pa.DataType) -> pa.Array:
        return numbers(self._values[name], kind)

    def _time(self, name: str) -> pa.Array:
        """Return a moment; null where a client sent one that no calendar shows."""
        stamps = self._values[name]
        if stamps.min() >= _EARLIEST_MS and stamps.max() <= _LATEST_MS:
            return numbers(stamps * 1000, TIMESTAMP)
        strange = (stamps < _EARLIEST_MS) | (stamps > _LATEST_MS)
        return numbers(np.where(strange, 0, stamps) * 1000, TIMESTAMP, strange)

    def _host(self, name: str, flag: int) -> pa.Array:
        return host_texts(self._values[name], self._has(flag))

    def _has(self, flag: int) -> ndarray[Any, Any]:
        found: ndarray[Any, Any] = self._values["sys_flag"] & flag != 0
        return found

    def _body(self) -> pa.Array:
        return texts(self._view, *self._spans["body"], pa.binary()) if self._bodies is None else self._bodies

    @cached_property
    def _pairs(self) -> Pairs:
        return Pairs(self._view, *self._spans["properties"])

    @cached_property
    def _keys(self) -> tuple[pa.Array, pa.Array]:
        return self._pairs.keys


_MAKERS: Final[Mapping[str, Callable[[Any], pa.Array]]] = {
    "store": lambda rows: constant(rows._part.store, len(rows)),
    "topic": lambda rows: rows._topics,
    "queue_id": lambda rows: rows._number("queue_id", pa.int32()),
    "queue_offset": lambda rows: rows._number("queue_offset", pa.int64()),
    "physical_offset": lambda rows: rows._number("physical_offset", pa.int64()),
    "key": lambda rows: rows._keys[0],
    "keys": lambda rows: rows._keys[1],
    "tags": lambda rows: rows._pairs.value(properties.TAGS),
    "properties": lambda rows: rows._pairs.as_map(),
    "body": lambda rows: rows._body(),
    "body_size": lambda rows: rows._number("body_length", pa.int32()),
    "size": lambda rows: rows._number("size", pa.int32()),
    "flag": lambda rows: rows._number("flag", pa.int32()),
    "sys_flag": lambda rows: rows._number("sys_flag", pa.int32()),
    "born_timestamp": lambda rows: rows._time("born_ms"),
    "store_timestamp": lambda rows: rows._time("stored_ms"),
    "born_host": lambda rows: rows._host("born_host", BORN_V6),
    "store_host": lambda rows: rows._host("store_host", STORE_V6),
    "reconsume_times": lambda rows: rows._number("reconsume_times", pa.int32()),
    "prepared_transaction_offset": lambda rows: rows._number("prepared_offset", pa.int64()),
    "message_id": lambda rows: id_texts(
        rows._values["store_host"], rows._has(STORE_V6), rows._values["physical_offset"]
    ),
    "unique_id": lambda rows: rows._pairs.value(properties.UNIQ_KEY),
    "crc": lambda rows: rows._number("crc", pa.int32()),
    "crc_ok": lambda rows: truths(rows._holds),
}
