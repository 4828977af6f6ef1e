"""Records that were pulled, as batches of the table of messages: the same columns as those of files."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.errors import CallFailed, StoreError
from smartgo.schema.columns import record_positions, records
from smartgo.spark.arrays import texts
from smartgo.spark.batches import BatchMaker
from smartgo.spark.bodies import checksums_hold
from smartgo.spark.decoder import Decoder, WalkEnd, is_possible
from smartgo.spark.network.networkoptions import NetworkOptions
from smartgo.spark.network.pulling import lose
from smartgo.spark.network.pullwindow import PulledPart
from smartgo.spark.network.queueranges import QueueRange
from smartgo.spark.rows import Rows
from smartgo.spark.walk import Piece

_log: Final = logging.getLogger("smartgo.spark")
_CHUNK: Final = 4 << 20
"""Bytes of records decoded together, about."""


@dataclass(frozen=True)
class PulledFrom:
    """
    The origin of records, as L{Rows} and messages to people name it.

    @ivar store: the broker's name.
    @ivar path: the queue.
    """

    store: str
    path: str


class RecordDamaged(StoreError):
    """A record that was pulled has a wrong checksum."""


class PulledRows:
    """The batches of one range."""

    def __init__(self, part: QueueRange, columns: pa.Schema, options: NetworkOptions) -> None:
        """@param columns: those asked for, in order; see L{smartgo.spark.columns.check_columns}."""
        self._part = part
        self._columns = columns
        self._options = options
        self._origin = PulledFrom(part.queue.broker, str(part.queue))
        asked = set(columns.names)
        self._tells = options.corrupt_column in asked
        self._verifies = options.verify_crc
        self._checks = self._verifies or "crc_ok" in asked
        self._decompresses = options.decompress_body and "body" in asked
        limit = options.decompress_limit if self._decompresses else None
        self._maker = BatchMaker(self._origin, columns, options.corrupt_column, limit)
        self._decoder: Decoder | None = None
        if is_possible():
            self._decoder = Decoder(columns, part.queue.broker, self._checks, self._decompresses)

    def batches(self, pulled: Iterable[PulledPart]) -> Iterator[pa.RecordBatch]:
        """
        Make batches of exactly the columns asked for.

        @raise DataLost: the broker left messages out, and that is to be an error.
        @raise RecordDamaged: a checksum is wrong, and C{failOnCorrupt} is set.
        @raise CallFailed: the broker sent what are no records of this queue.
        """
        waiting: list[PulledPart] = []
        size = 0
        for one in pulled:
            waiting.append(one)
            size += len(one.body)
            if size >= _CHUNK:
                yield from self._decoded(waiting)
                waiting, size = [], 0
        if waiting:
            yield from self._decoded(waiting)

    # -- decoding ----------------------------------------------------------------------------------------------

    def _decoded(self, parts: list[PulledPart]) -> Iterator[pa.RecordBatch]:
        view = memoryview(b"".join([one.body for one in parts]))
        whole = self._piece(view)
        mask = self._inside(whole, parts)
        piece = self._taken(whole, mask)
        if not self._options.is_filtered:
            self._check_whole(piece, parts)
        if self._options.tags is not None and len(piece.topics):
            # Brokers compare hashes of tags only.
            tags = Rows(self._origin, piece).column("tags").to_pylist()
            mask[mask] = [tag in self._options.tags for tag in tags]
        if self._decoder is not None and mask.any():
            done = yield from self._by_core(self._decoder, whole, mask)
            mask[:done] = False
        if mask.any():
            yield from self._verified(self._taken(whole, mask))

    def _by_core(self, decoder: Decoder, piece: Piece, mask: ndarray[Any, Any]) -> Generator[pa.RecordBatch, None, int]:
        """Make batches by the compiled core as far as it goes; return how many records that are."""
        ends = np.cumsum(piece.columns.values["size"], dtype="i8")
        at = done = 0
        while done < len(ends):
            size, end = decoder.take(piece.view, at, len(piece.view) - at, -1, mask[done:])
            at += size
            done = int(np.searchsorted(ends, at, "right"))
            if decoder.rows:
                yield decoder.batch()
            if end != WalkEnd.FULL:
                break
        return done

    def _piece(self, view: memoryview) -> Piece:
        positions = record_positions(view)
        columns = records(view, positions)
        values = columns.values
        good = bool(columns.valid.all())
        if len(positions):
            good &= int(positions[-1]) + int(values["size"][-1]) == len(view)
        elif len(view):
            good = False
        if not good:
            raise CallFailed(f"{self._part.queue}: the broker sent what is no record")
        topics = texts(view, *columns.spans["topic"], pa.binary()).view(pa.string())
        queue = self._part.queue
        if len(positions) and not (
            bool((values["queue_id"] == queue.queue_id).all()) and topics.unique().to_pylist() == [queue.topic]
        ):
            raise CallFailed(f"{queue}: the broker sent records of another queue")
        return Piece(view, columns, topics)

    def _inside(self, piece: Piece, parts: list[PulledPart]) -> ndarray[Any, Any]:
        """Tell which records count: a filtering broker may answer with some that lie behind what was asked for."""
        sizes = np.array([len(one.body) for one in parts], "i8")
        starts = np.cumsum(sizes) - sizes
        values = piece.columns.values
        places = np.cumsum(values["size"].astype("i8")) - values["size"]
        # Of parts without records the last one at a place is found, which is the one that has them.
        owner = np.searchsorted(starts, places, "right") - 1
        offsets = values["queue_offset"]
        begins, ends = np.array([one.begin for one in parts]), np.array([one.end for one in parts])
        inside: ndarray[Any, Any] = (offsets >= begins[owner]) & (offsets < ends[owner])
        return inside

    def _check_whole(self, piece: Piece, parts: list[PulledPart]) -> None:
        """See to it that every offset asked for is there, once."""
        expected = np.concatenate([np.arange(one.begin, one.end) for one in parts if one.body] or [np.empty(0, "i8")])
        found = piece.columns.values["queue_offset"]
        if len(found) != len(expected) or not (found == expected).all():
            missing = np.setdiff1d(expected, found)
            if len(found) + len(missing) != len(expected) or not len(missing):
                raise CallFailed(f"{self._part.queue}: the broker sent messages twice, or in another order")
            lose(
                self._part.queue,
                f"{len(missing)} of the offsets {missing[0]} to {missing[-1] + 1} are not there",
                self._options,
            )

    def _taken(self, piece: Piece, mask: ndarray[Any, Any]) -> Piece:
        if mask.all():
            return piece
        return piece.take(np.flatnonzero(mask))

    # -- batches -----------------------------------------------------------------------------------------------

    def _verified(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        holds = checksums_hold(piece.view, piece.columns) if self._checks else None
        reasons: dict[int, str] = {}
        if self._verifies and holds is not None and not holds.all():
            wrong = np.flatnonzero(~holds).tolist()
            self._judge(piece, wrong)
            if self._tells:
                reasons = dict.fromkeys(wrong, "a checksum differs")
            else:
                piece, holds = self._taken(piece, holds), holds[holds]
        yield from self._maker.batches(piece, holds, reasons, self._complain)

    def _judge(self, piece: Piece, wrong: list[int]) -> None:
        for row in wrong:
            offset = piece.columns.values["queue_offset"][row]
            if self._options.fail_on_corrupt:
                raise RecordDamaged(
                    f"{self._part.queue}: the message at offset {offset} is damaged (a checksum differs); set"
                    " failOnCorrupt to false to read what is valid"
                )
            if not self._tells:
                _log.warning("%s: the message at offset %d is left out: a checksum differs", self._part.queue, offset)

    def _complain(self, piece: Piece, failures: dict[int, str]) -> None:
        if not self._tells:
            for row, reason in failures.items():
                offset = piece.columns.values["queue_offset"][row]
                _log.warning("%s: the message at offset %d has no body here: %s", self._part.queue, offset, reason)
