"""Reading of a log range into Arrow batches, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy import ndarray

from smartgo.errors import StoreError
from smartgo.schema.record import SIZE_LIMIT
from smartgo.spark import files
from smartgo.spark.arrays import values_of
from smartgo.spark.batches import BatchMaker
from smartgo.spark.bodies import checksums_hold
from smartgo.spark.conditions import Conditions, of_options
from smartgo.spark.decoder import Decoder, is_possible
from smartgo.spark.gaps import LogGap, lost
from smartgo.spark.keyfilter import rows_of_key
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import ReadOptions
from smartgo.spark.queues import Located, locate
from smartgo.spark.walk import CHUNK, Damage, Piece, Walk, piece_of

_log: Final = logging.getLogger("smartgo.spark")
_FIELDS: Final = {"store_timestamp": "stored_ms"}
_NEAR: Final = 65536
"""Records with fewer bytes than that between them are read together."""


class LogDamaged(StoreError):
    """
    A region of a CommitLog cannot be read, and valid records follow.

    @ivar offset: physical, of its first byte.
    """

    def __init__(self, damage: Damage) -> None:
        super().__init__(
            f"{damage.path} is damaged at physical offset {damage.offset}, {damage.length} B ({damage.reason}); set"
            " failOnCorrupt to false to read what is valid"
        )
        self.offset = damage.offset


def read_messages(
    part: LogRange, columns: pa.Schema, options: ReadOptions, conditions: Conditions | None = None
) -> Iterator[pa.RecordBatch]:
    """
    Read the records of a range.

    @param columns: those asked for, in order; see L{smartgo.spark.columns.check_columns}.
    @param conditions: what rows are wanted, those of the options included; C{None} for those of the options alone.
    @return: batches of exactly these columns.
    @raise LogDamaged: something cannot be read, and C{failOnCorrupt} is set.
    """
    return _Reading(part, columns, options, of_options(options) if conditions is None else conditions).batches()


def read_gap(gap: LogGap, columns: pa.Schema, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """
    Report a part of the log that no file holds, as the options say.

    @raise DataLost: it held records, and C{failOnDataLoss} is set.
    """
    if options.fail_on_data_loss and not gap.is_tail:
        raise lost(gap)
    damage = Damage(gap.path, gap.begin, gap.end - gap.begin, gap.reason, gap.is_tail)
    yield from _told(damage, gap.row, columns, options)


def tell(damage: Damage, store: str, columns: pa.Schema, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """
    Report a region that cannot be read: in the column of damaged regions if there is one, else by a warning.

    @raise LogDamaged: it is not the end of the log, and C{failOnCorrupt} is set.
    @raise DataLost: it is what is left of something that was longer, and C{failOnDataLoss} is set.
    """
    if damage.is_loss:
        if options.fail_on_data_loss:
            raise lost(LogGap(store, damage.path, damage.offset, damage.offset + damage.length, damage.reason))
    elif not damage.is_tail and options.fail_on_corrupt:
        raise LogDamaged(damage)
    yield from _told(damage, {"store": store, "physical_offset": damage.offset}, columns, options)


def _told(
    damage: Damage, known: Mapping[str, str | int], columns: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    if options.corrupt_column in columns.names:
        region = {"file": damage.path, "offset": damage.offset, "length": damage.length, "reason": damage.reason}
        arrays = [
            pa.array([region if field.name == options.corrupt_column else known.get(field.name)], field.type)
            for field in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=columns)
    else:
        _log.warning("%s: %d B at offset %d left out: %s", damage.path, damage.length, damage.offset, damage.reason)


class _Reading:
    """One range being read."""

    def __init__(self, part: LogRange, columns: pa.Schema, options: ReadOptions, conditions: Conditions) -> None:
        self._part = part
        self._columns = columns
        self._options = options
        self._conditions = conditions
        asked = set(columns.names)
        self._tells = options.corrupt_column in asked
        self._verifies = options.verify_crc
        self._checks = self._verifies or "crc_ok" in asked
        self._decompresses = options.decompress_body and "body" in asked
        limit = options.decompress_limit if self._decompresses else None
        self._maker = BatchMaker(part, columns, options.corrupt_column, limit)
        self._torn: Damage | None = None
        self._decoder: Decoder | None = None
        if is_possible() and not conditions.names_keys:
            choose = None if conditions.is_empty else self._wanted
            self._decoder = Decoder(columns, part.store, self._checks, self._decompresses, choose)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read the range."""
        reader = files.FileReader(self._part.path)
        try:
            for found in self._found(reader):
                if isinstance(found, Damage):
                    yield from self._report(found)
                elif isinstance(found, Piece):
                    yield from self._take(found)
                else:
                    if self._verifies:
                        self._confirm()
                    yield found
            self._settle(reader)
        finally:
            reader.close()
            self._decoder = None  # with its memory, which its way back to here would keep

    # -- finding records ---------------------------------------------------------------------------------------

    def _found(self, reader: files.FileReader) -> Iterator[Piece | Damage | pa.RecordBatch]:
        part = self._part
        steps = None
        if self._options.use_queues and not self._conditions.is_empty and part.end - part.begin > 1:
            with suppress(FileNotFoundError):  # of a queue: retention removed it meanwhile
                steps = locate(part, self._conditions)
            if steps is not None and not all(_is_sound(step, part, reader) for step in steps):
                steps = None
        for step in [part] if steps is None else steps:
            if isinstance(step, LogRange):
                yield from Walk(step, reader, self._decoder)
                continue
            for piece in _pick(step, part, reader):
                if isinstance(piece, int):  # the queues are wrong: from here on, see for ourselves
                    yield from Walk(replace(part, begin=piece, is_aligned=True), reader, self._decoder)
                    return
                yield piece

    # -- what becomes of them ----------------------------------------------------------------------------------

    def _take(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        """Make batches of those records of a piece that are wanted and sound."""
        chosen = self._chosen(piece)
        if chosen is not None:
            piece = piece.take(chosen)
        if not len(piece.topics):
            return
        holds = checksums_hold(piece.view, piece.columns) if self._checks else None
        reasons: dict[int, str] = {}
        if self._verifies and holds is not None:
            wrong = np.flatnonzero(~holds).tolist()
            reasons = dict.fromkeys(wrong, "a checksum differs")
            self._judge(piece, wrong)
            if wrong and not self._tells:
                sound = np.flatnonzero(holds)
                piece = piece.take(sound)
                holds, reasons = holds[sound], {}
        yield from self._maker.batches(piece, holds, reasons, self._complain)

    def _chosen(self, piece: Piece) -> ndarray[Any, Any] | None:
        """Return the numbers of the rows wanted, C{None} for all."""
        if self._conditions.is_empty:
            return None
        mask = self._wanted(piece.columns.values, piece.topics)
        if self._conditions.names_keys:
            having = rows_of_key(piece, self._conditions.key, self._conditions.unique_key)
            mask = having if mask is None else mask & having
        return None if mask is None or mask.all() else np.flatnonzero(mask)

    def _wanted(self, values: Mapping[str, ndarray[Any, Any]], topics: pa.Array) -> ndarray[Any, Any] | None:
        """
        Tell which rows are wanted, C{None} for all.

        @param values: columns by the names of a record's fields.
        """
        conditions = self._conditions
        mask = conditions.select(
            {one.column: values[_FIELDS.get(one.column, one.column)] for one in conditions.numbers}
        )
        if conditions.names_topics or conditions.first_offsets or conditions.end_offsets:
            return self._of_topics(values, topics, np.ones(len(topics), bool) if mask is None else mask)
        return mask

    def _of_topics(
        self, values: Mapping[str, ndarray[Any, Any]], topics: pa.Array, mask: ndarray[Any, Any]
    ) -> ndarray[Any, Any]:
        conditions = self._conditions
        coded = topics.dictionary_encode()
        codes, names = values_of(coded.indices), coded.dictionary.to_pylist()
        if conditions.names_topics:
            mask = mask & np.array([conditions.allows_topic(name) for name in names])[codes]
        queues, offsets = values["queue_id"], values["queue_offset"]
        for bounds, is_out in ((conditions.first_offsets, np.less), (conditions.end_offsets, np.greater_equal)):
            for (topic, queue_id), offset in bounds.items():
                if topic in names:
                    inside = (codes == names.index(topic)) & (queues == queue_id)
                    mask = mask & ~(inside & is_out(offsets, offset))
        return mask

    # -- damage ------------------------------------------------------------------------------------------------

    def _report(self, damage: Damage) -> Iterator[pa.RecordBatch]:
        """Tell of a region, in the way that the options ask for."""
        if not damage.is_tail:
            self._confirm()
        yield from tell(damage, self._part.store, self._columns, self._options)

    def _judge(self, piece: Piece, wrong: list[int]) -> None:
        """
        Take note of records whose checksum is wrong.

        In the newest file they may be the torn end of the log; that they are not shows with the next sound record.
        """
        values = piece.columns.values
        for row in wrong:
            if self._torn is None:
                offset, size = int(values["physical_offset"][row]), int(values["size"][row])
                self._torn = Damage(self._part.path, offset, size, "a checksum differs", is_tail=False)
            if not self._options.fail_on_corrupt and not self._tells:
                _log.warning(
                    "%s: %d B at physical offset %d left out: a checksum differs",
                    self._part.path,
                    values["size"][row],
                    values["physical_offset"][row],
                )
        if self._torn is not None and (
            not self._part.is_last or self._torn.offset < self._part.promised or wrong[-1:] != [len(piece.topics) - 1]
        ):
            self._confirm()

    def _confirm(self) -> None:
        """Treat the noted record as damaged, because something sound follows it."""
        if self._torn is not None and self._options.fail_on_corrupt:
            raise LogDamaged(self._torn)

    def _settle(self, reader: files.FileReader) -> None:
        """Find out whether the wrong checksums at the end of this range are the end of the log."""
        if self._torn is not None and self._options.fail_on_corrupt:
            part = self._part
            begin = self._torn.offset + self._torn.length
            follows = Walk(part, reader).next_record(begin, part.limit, verify_crc=True)
            if follows is not None:
                self._confirm()

    def _complain(self, piece: Piece, failures: dict[int, str]) -> None:
        """Tell of bodies that cannot be decompressed; the records are sound, so only the body is missing."""
        if not self._tells:
            for row, reason in failures.items():
                _log.warning(
                    "%s: the message at physical offset %d has no body here: %s",
                    self._part.path,
                    piece.columns.values["physical_offset"][row],
                    reason,
                )


def _is_sound(step: Located | LogRange, part: LogRange, reader: files.FileReader) -> bool:
    """Tell whether a gap begins where the queues say: a unit with a wrong size would have it begin inside a record."""
    if isinstance(step, Located) or not step.is_aligned or step.begin == part.begin:
        return True
    return Walk(step, reader).begins_well()


def _pick(located: Located, part: LogRange, reader: files.FileReader) -> Iterator[Piece | int]:
    """Read records at known places; the physical offset of the first that is not there ends it."""
    offsets, sizes = located
    ends = offsets + sizes
    at = 0
    far = np.flatnonzero(offsets[1:] - ends[:-1] > _NEAR) + 1
    for stop in [*far.tolist(), len(offsets)]:
        while at < stop:
            begin = int(offsets[at])
            last = max(int(np.searchsorted(ends[at:stop], begin + CHUNK, "right")), 1) + at
            count = int(ends[last - 1]) - begin
            if sizes[at] > SIZE_LIMIT:
                yield begin
                return
            view = reader.read(begin - part.base, count)
            piece = piece_of(view, begin, offsets[at:last] - begin)
            good = 0 if piece is None else len(piece.topics)
            if piece is not None:
                agree = piece.columns.values["size"] == sizes[at : at + good]
                if not agree.all():
                    yield begin
                    return
                yield piece
            if good < last - at:
                yield int(offsets[at + good])
                return
            at = last
