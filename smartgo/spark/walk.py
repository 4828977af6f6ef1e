"""
The valid records of a range of a log file, in pieces of some MiB, and what is damaged between them.

Where a record is not valid, the next one is searched for: it has a record's magic, states its own physical offset, and
was stored no earlier than the last one before the damage; an older one is left over from a log that was cut (S8).
Damage is told of by the range that walks into it, up to the next valid record, wherever that is; the range in which
that record lies finds it by itself. Without any further record, in the newest file, it is the log's torn end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.errors import BadRecord, StoreError
from smartgo.schema.columns import Columns, record_positions, records
from smartgo.schema.record import (
    BLANK_MAGICS,
    BLANK_SIZE,
    HEAD_SIZE,
    MESSAGE_MAGICS,
    RECORD_MINIMUM,
    believed_size,
    check,
    decode,
    start_struct,
)
from smartgo.schema.recordscan import own_offsets
from smartgo.schema.topics import is_topic
from smartgo.spark import files
from smartgo.spark.arrays import numbers, texts, values_of
from smartgo.spark.decoder import READ, Decoder, WalkEnd
from smartgo.spark.logrange import LogRange

CHUNK: Final = 8 << 20
"""Bytes of log read at a time."""
_GLANCE: Final = 65536
"""Bytes read first where something is searched for that is usually near."""
_LONGEST_HEAD: Final = 128
_NOTHING: Final = "nothing was written there"
PROMISED: Final = "the consume queues name records up to"
_RUN: Final = 65536
"""Bytes of log that are read without the decoder where it ended; twice as many where that happens again soon."""
_RARE: Final = 4 << 20
"""Bytes that the decoder takes between two such places where these are rare."""


class Piece(NamedTuple):
    """
    Records that lie in one buffer, which is used again for the next piece.

    @ivar view: the buffer.
    @ivar columns: of valid records only.
    @ivar topics: one for each of them.
    """

    view: memoryview
    columns: Columns
    topics: pa.Array

    @property
    def end(self) -> int:
        """Physical offset after the last record."""
        values = self.columns.values
        return int(values["physical_offset"][-1]) + int(values["size"][-1])

    def take(self, rows: ndarray[Any, Any]) -> Piece:
        """Return the records with these numbers."""
        return Piece(self.view, self.columns.take(rows), self.topics.take(numbers(rows, pa.int64())))

    def between(self, begin: int, end: int) -> Piece:
        """Return the records from one number up to another."""
        return Piece(self.view, self.columns.take(np.arange(begin, end)), self.topics.slice(begin, end - begin))


class Damage(NamedTuple):
    """
    A region that holds no valid record where there should be some.

    @ivar offset: physical, of its first byte; C{length} in bytes.
    @ivar is_tail: the log ends here; nothing that was promised to anybody need be missing.
    @ivar is_loss: something was there, and the file or the log ends before its end now: no matter of wrong bytes.
    """

    path: str
    offset: int
    length: int
    reason: str
    is_tail: bool
    is_loss: bool = False


class Walk:
    """
    A walk over the records of a range; can be iterated once.

    @ivar at: physical offset after what was given out.
    """

    def __init__(self, part: LogRange, reader: files.FileReader, decoder: Decoder | None = None) -> None:
        """
        @param decoder: makes batches of what it takes; C{None}: there are pieces alone.
        """
        self._part = part
        self._reader = reader
        self._decoder = decoder
        self._run = _RUN
        self._stored_ms = 0
        self.at = part.begin

    def __iter__(self) -> Iterator[Piece | Damage | pa.RecordBatch]:
        """Give out pieces, batches and damage, in order of their offsets."""
        part = self._part
        if not part.is_aligned:
            first = self._first()
            if first is None:
                return
            self.at = first
        seen_whole = -1
        while self.at < part.limit:
            known = next((one for one in part.known if one.offset <= self.at < one.end), None)
            if known is not None:
                if known.offset >= part.end:
                    return  # the next range tells of it, and looks behind it
                if known.offset >= part.begin:
                    yield Damage(part.path, known.offset, known.length, known.reason, is_tail=False)
                self.at = known.end
                continue
            if self.at >= part.end:
                if not part.looks_on or self._goes_on():
                    return
            else:
                if self._decoder is not None:
                    begin = self.at
                    yield from self._decoded(self._decoder)
                    if self.at > begin:
                        self._run = _RUN if self.at - begin >= _RARE else self._run
                        if self.at >= min(self._bounds()):
                            continue
                piece = self._piece()
                if piece is not None:
                    yield piece
                    self.at = piece.end
                    self._stored_ms = int(piece.columns.values["stored_ms"][-1])
                    continue
                if self._is_closed():
                    return
            damage = self._damage()
            if self.at != seen_whole and self._is_record(self.at):
                seen_whole = self.at  # a broker was writing it
                continue
            if damage is None:
                return
            yield damage
            self.at += damage.length
            if damage.is_tail or self.at >= part.end:
                return

    def begins_well(self) -> bool:
        """Tell whether a record lies where this range begins, or a file's end, or nothing at all."""
        return self._fault(self.at) in ("", _NOTHING) or self._is_closed()

    def _first(self) -> int | None:
        """
        Return where a range takes over that begins anywhere: its first valid record, or the first region that begins
        in it. A region that began before, and what follows that, is told of by an earlier range.
        """
        part = self._part
        begin = max([part.begin, *[one.end for one in part.known if one.offset < part.begin]])
        region = next((one.offset for one in part.known if part.begin <= one.offset < part.end), None)
        found = self.next_record(begin, part.end if region is None else region)
        return region if found is None else found

    # -- what is valid -----------------------------------------------------------------------------------------

    def _bounds(self) -> list[int]:
        """Return the physical offsets before which the records from here on begin."""
        part = self._part
        return [part.end, *[one.offset for one in part.known if one.offset > self.at]]

    def _decoded(self, decoder: Decoder) -> Iterator[pa.RecordBatch]:
        """Give out what the decoder takes from here on."""
        bound = min(self._bounds())
        begin = self.at
        while self.at < bound:
            first = self.at
            view = self._read(first, min(READ, self._part.limit - first))
            end = WalkEnd.FULL
            while end == WalkEnd.FULL:
                size, end = decoder.take(view, self.at - first, bound - self.at, self.at)
                self.at += size
                if end == WalkEnd.FULL:
                    yield decoder.batch()
            if end != WalkEnd.SHORT or self.at == first:
                break
        if self.at > begin:
            self._stored_ms = decoder.stored_ms
        if decoder.rows:
            yield decoder.batch()

    def _piece(self) -> Piece | None:
        """Return the valid records from here on, as many as one read brings; C{None} if the first is not valid."""
        part = self._part
        count = CHUNK
        if self._decoder is not None:
            count, self._run = min(CHUNK, self._run), min(CHUNK, 2 * self._run)
        count = min(count, part.limit - self.at)
        view = self._read(self.at, count)
        if len(view) >= BLANK_SIZE:
            size, magic = start_struct.unpack_from(view)
            longest = min(believed_size(view, 0, self.at), part.limit - self.at)
            if magic in MESSAGE_MAGICS and len(view) < size <= longest:
                view = self._read(self.at, size)
        positions = record_positions(view, 0, self.at)
        positions = positions[positions < min(self._bounds()) - self.at]
        return piece_of(view, self.at, positions)

    def _is_closed(self) -> bool:
        """Tell whether the file was closed here: by a blank that fills what is left of it."""
        view = self._read(self.at, BLANK_SIZE)
        if len(view) < BLANK_SIZE:
            return False
        size, magic = start_struct.unpack_from(view)
        room = self._part.limit - self.at
        return magic in BLANK_MAGICS and room <= size

    def _goes_on(self) -> bool:
        """
        Tell whether the next range can find its first record by itself, or there is nothing more in this file.

        @raise StoreError: it would find another one, which lies inside a body.
        """
        if self._is_closed():
            return True
        if not self._is_record(self.at):
            return False
        found = self.at if self._part.known else self.next_record(self._part.end, self.at + 1)
        if found != self.at:
            raise StoreError(
                f"{self._part.path}: what lies at physical offset {found} looks like a record and is part of a body;"
                " set partitionBytes to the size of a log file"
            )
        return True

    def _is_record(self, at: int) -> bool:
        """Tell whether a valid record lies at a physical offset; its checksum is not looked at."""
        return not self._fault(at)

    def _fault(self, at: int) -> str:
        """Return what is wrong with the record at a physical offset, nothing if it is valid."""
        room = self._part.limit - at
        view = self._read(at, min(RECORD_MINIMUM, room))
        if len(view) >= BLANK_SIZE:
            size, magic = start_struct.unpack_from(view)
            if size == magic == 0:
                return _NOTHING
            if magic in MESSAGE_MAGICS and RECORD_MINIMUM <= size <= room:
                view = self._read(at, min(size, _LONGEST_HEAD))
                if size <= believed_size(view, 0, at):
                    view = self._read(at, size)
        try:
            check(view, 0, at, verify_crc=False, limit=room)
        except BadRecord as error:
            return str(error)
        return ""

    # -- what is not -------------------------------------------------------------------------------------------

    def _damage(self) -> Damage | None:
        """Return the extent of what is not valid; C{None} if it is the log's clean end."""
        part = self._part
        reason = self._fault(self.at) or "the record cannot be read"
        after = self.next_record(self.at + 1, part.limit, self._stored_ms)
        if after is not None:
            return Damage(part.path, self.at, after - self.at, reason, is_tail=False)
        if not part.is_last:
            return Damage(part.path, self.at, part.limit - self.at, reason, is_tail=False, is_loss=part.is_short)
        written = self._written_end()
        if self.at < part.promised:
            reason = f"{reason}; {PROMISED} {part.promised}"
            end = max(written, min(part.promised, part.limit))
            return Damage(part.path, self.at, end - self.at, reason, is_tail=False, is_loss=True)
        if written <= self.at:
            return None
        return Damage(part.path, self.at, written - self.at, f"the log ends here: {reason}", is_tail=True)

    def next_record(self, begin: int, end: int, stored_ms: int = 0, verify_crc: bool = False) -> int | None:
        """
        Return the physical offset of the first valid record that starts in a range, C{None} without one.

        @param stored_ms: it must not have been stored earlier.
        """
        for base, view in self._chunks(begin, end):
            for at in own_offsets(view, 0, base, min(len(view), end - base)):
                offset = base + at
                size, _ = start_struct.unpack_from(view, at)
                head = self._reader.copy(offset - self._part.base, _LONGEST_HEAD)
                longest = min(believed_size(head, 0, offset), self._part.limit - offset)
                if not RECORD_MINIMUM <= size <= longest:
                    continue
                try:
                    record = self._reader.copy(offset - self._part.base, size)
                    check(record, 0, offset, verify_crc, limit=longest)
                except BadRecord:
                    continue
                if decode(record).stored_ms >= stored_ms:
                    return offset
        return None

    def _written_end(self) -> int:
        """Return the physical offset after the last byte from here on that is not zero."""
        last = self.at
        for base, view in self._chunks(self.at, self._part.limit):
            used = np.flatnonzero(np.frombuffer(view, "u1"))
            last = max(last, base + int(used[-1]) + 1)
        return min(last, self._part.limit)

    def _chunks(self, begin: int, end: int) -> Iterator[tuple[int, memoryview]]:
        """Go through a physical range, leaving out what is all zeros; chunks overlap by what a record's head needs."""
        base = self._part.base
        for low, high in self._reader.data_ranges(begin - base, end - base):
            # A record's first bytes may be zero and lie in a hole.
            low = max(low - BLANK_SIZE, begin - base)
            count = _GLANCE
            while low < high:
                room = self._part.limit - base - low
                view = self._read(base + low, min(count + HEAD_SIZE, high - low + HEAD_SIZE, room))
                if len(view) == 0:
                    break
                if np.frombuffer(view, "u1").max():
                    yield base + low, view
                low += count
                count = min(4 * count, CHUNK)

    def _read(self, at: int, count: int) -> memoryview:
        return self._reader.read(at - self._part.base, count)


def piece_of(view: memoryview, base: int, positions: ndarray[Any, Any]) -> Piece | None:
    """
    Return the records at some positions of a buffer, up to the first that is not valid; C{None} if that is the first.

    Valid means all of L{check} but the checksums.

    @param base: physical offset of the buffer's first byte.
    """
    if not len(positions):
        return None
    columns = records(view, positions)
    values = columns.values
    good = columns.valid & (values["physical_offset"] == positions + base)
    good &= (values["queue_id"] >= 0) & (values["queue_offset"] >= 0) & (values["stored_ms"] > 0)
    count = len(good) if good.all() else int(np.argmin(good))
    if count < len(good):
        return piece_of(view, base, positions[:count])
    topics = texts(view, *columns.spans["topic"], pa.binary())
    known = topics.dictionary_encode()
    strange = [number for number, raw in enumerate(known.dictionary.to_pylist()) if not _is_topic(raw)]
    if strange:
        count = int(np.flatnonzero(np.isin(values_of(known.indices), strange))[0])
        return piece_of(view, base, positions[:count])
    return Piece(view, columns, topics.view(pa.string()))


def _is_topic(raw: bytes) -> bool:
    try:
        return is_topic(raw.decode())
    except UnicodeDecodeError:
        return False
