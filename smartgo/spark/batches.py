"""Arrow batches of decoded records, from files or pulled: with bodies opened, and damage in its column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pyarrow as pa
from numpy import ndarray

from smartgo.spark.bodies import inflated
from smartgo.spark.rows import RecordOrigin, Rows
from smartgo.spark.walk import Piece

_INFLATED: Final = 32 << 20
"""Bytes of decompressed bodies in one batch."""


class BatchMaker:
    """Makes batches of exactly the columns asked for."""

    def __init__(
        self,
        origin: RecordOrigin,
        columns: pa.Schema,
        corrupt_column: str | None,
        decompress_limit: int | None,
    ) -> None:
        """
        @param columns: those asked for, in order.
        @param corrupt_column: the name of the column for damage; C{None} for none.
        @param decompress_limit: bytes that a decompressed body may have; C{None} to leave bodies as they are.
        """
        self._origin = origin
        self._columns = columns
        self._corrupt_column = corrupt_column
        self._decompress_limit = decompress_limit

    def batches(
        self,
        piece: Piece,
        holds: ndarray[Any, Any] | None,
        reasons: dict[int, str],
        complain: Callable[[Piece, dict[int, str]], None],
    ) -> Iterator[pa.RecordBatch]:
        """
        Make the batches of a piece: one, or several where its bodies are long once they are decompressed.

        @param holds: for which records the checksums hold; C{None} where they were not computed.
        @param reasons: what is wrong with records, by row.
        @param complain: gets a piece, and the reasons why bodies of its rows could not be decompressed, by row.
        """
        count, at = len(piece.topics), 0
        while at < count:
            part = piece.between(at, count) if at else piece
            bodies, failures = None, {row - at: reason for row, reason in reasons.items() if row >= at}
            if self._decompress_limit is not None:
                opened = inflated(part.view, part.columns, self._decompress_limit, _INFLATED)
                bodies, failures = opened.bodies, {**opened.failures, **failures}
                complain(part, opened.failures)
                if len(bodies) < count - at:
                    part = part.between(0, len(bodies))
            rows = len(part.topics)
            made = Rows(self._origin, part, bodies, None if holds is None else holds[at : at + rows])
            yield self._batch(made, {row: reason for row, reason in failures.items() if row < rows})
            at += rows

    def _batch(self, rows: Rows, failures: dict[int, str]) -> pa.RecordBatch:
        arrays = [
            rows.corrupt(failures) if name == self._corrupt_column else rows.column(name)
            for name in self._columns.names
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)
