"""
The partitions of a read: ranges of log files, one task each.

A record belongs to the range in which it starts, wherever it ends. No index is needed to begin in the middle: a record
states its own physical offset, see L{smartgo.spark.walk}. But behind the blank of a full file, and behind the end of
the log in the newest, may lie records of an earlier life: RocketMQ cuts a log after a crash without clearing what it
cuts, and such a record states its offset too. No range begins there, so what comes before tells that they do not
count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, NamedTuple

from smartgo.schema.record import BLANK_SIZE, MESSAGE_MAGICS, SIZE_LIMIT, decode, start_struct
from smartgo.schema.recordscan import find_record
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import LogGap, find_gaps, lost
from smartgo.spark.keylookup import by_index
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import Position, ReadOptions
from smartgo.spark.queues import newest_end, oldest_begin
from smartgo.spark.stores import NamedFile, Store, check_named, check_topics, looked_again
from smartgo.spark.walk import PROMISED

CLOCK_SLACK_MS: Final = 3_600_000
"""A broker's clock may have been set back by that much, and files are still not passed over wrongly."""
_PROBED: Final = 65536
_SEARCHED: Final = 32 << 20
_PIECE: Final = 1 << 20
_NEVER: Final = 1 << 62


def plan(stores: Iterable[Store], options: ReadOptions, conditions: Conditions) -> list[LogRange | LogGap]:
    """
    Cut the logs of some stores into ranges, leaving out what the options and conditions do not ask for; what is missing
    of the logs stands between them.

    @raise SettingError: the options give an offset of a store that is none of these, or of a topic that none has.
    @raise DataLost: something is missing, and C{failOnDataLoss} is set.
    """
    stores = list(stores)
    check_named(stores, options.starting.by_store, "startingOffsets")
    check_named(stores, options.ending.by_store, "endingOffsets")
    for name, position in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        check_topics(stores, (topic for topic, _ in position.by_queue), options.topics, name)
    found = [part for store in stores for part in plan_store(store, options, conditions)]
    if options.fail_on_data_loss:
        for part in found:
            if isinstance(part, LogGap) and not part.is_tail:
                raise lost(part)
    return found


def plan_store(store: Store, options: ReadOptions, conditions: Conditions) -> list[LogRange | LogGap]:
    """Cut the log of one store into ranges, with the gaps between them."""
    return looked_again(lambda: _plan_store(store, options, conditions))


def _plan_store(store: Store, options: ReadOptions, conditions: Conditions) -> list[LogRange | LogGap]:
    # Before the files are listed, else a file that is made meanwhile would be missing.
    queues_end = newest_end(store) if options.use_queues else 0
    logs = store.log_files()
    low, high = conditions.span("physical_offset")
    begin = max(low, _bound(options.starting, store, 0))
    end = min(high + 1, _bound(options.ending, store, _NEVER))
    parts = log_parts(
        store, logs, begin, end, options.partition_bytes, OpenEnd(newest_base(logs, queues_end), queues_end)
    )
    times = conditions.span("store_timestamp")
    if times != Conditions().span("store_timestamp"):
        parts = _in_time(parts, *times)
    return by_index(store, parts, options.index_slots, conditions)


class OpenEnd(NamedTuple):
    """
    The end of a log whose last record is not known.

    @ivar newest: base of the newest file that anything was written to.
    @ivar queues_end: physical offset up to which the ConsumeQueues name records, 0 where they do not tell.
    """

    newest: int
    queues_end: int


def log_parts(
    store: Store, logs: Sequence[NamedFile], begin: int, end: int, most: int, log_end: OpenEnd | None
) -> list[LogRange | LogGap]:
    """
    Cut a part of a log into ranges, and tell what is missing between them: one rule for batch reads and for streams.

    @param logs: the files of the log, in the order of their offsets; empty ones included.
    @param begin: physical offset from which on records may start; C{end} before which they do.
    @param most: bytes of a range, about.
    @param log_end: where the log ends; C{None} if it is known to hold whole records up to C{end}.
    """
    known = store.regions()
    known_end, known_by = (end, "the log was to be read up to") if log_end is None else (log_end.queues_end, PROMISED)
    gaps = find_gaps(store.root, logs, known_end, known_by) if logs else _all_gone(store, known_end, known_by)
    parts: list[LogRange | LogGap] = [
        replace(gap, begin=max(gap.begin, begin), end=min(gap.end, end))
        for gap in gaps
        if gap.begin < end and gap.end > begin
    ]
    length = max((file.size for file in logs), default=0)
    firsts = {file.base: after for file, after in pairwise(logs)}
    for file in logs:
        if file.end <= begin or file.base >= end:
            continue
        inside = tuple(one for one in known if one.end > file.base and one.offset < file.end)
        if log_end is not None and file.base >= log_end.newest:
            ranges = _cut_last(store, file, begin, end, most, log_end.queues_end)
        else:
            safe = file.end - blank_limit(firsts.get(file.base))
            ranges = _cut(store, file, begin, min(file.end, end), end, most, safe)
        for part in ranges:
            limit = part.limit if log_end is not None else min(part.limit, end)
            parts.append(replace(part, limit=limit, known=inside, is_short=file.size < length))
    parts.sort(key=lambda part: part.begin)
    return parts


def newest_base(logs: Sequence[NamedFile], queues_end: int) -> int:
    """
    Return the base of the newest file that anything was written to; brokers make files ahead.

    @param queues_end: see L{OpenEnd}: what queues name was written, even if the file holds nothing but zeros now.
    """
    for file in reversed(logs):
        if file.base < queues_end or _first_byte(file, file.base) is not None:
            return file.base
    return 0


def written_behind(logs: Sequence[NamedFile], offset: int) -> int | None:
    """
    Return the physical offset of the first byte from some offset on that is not zero, in that file or in newer ones.

    @return: C{None} if there is none within the first MiBs of each.
    """
    for file in logs:
        if file.end > offset:
            found = _first_byte(file, max(offset, file.base))
            if found is not None:
                return found
    return None


def _first_byte(file: NamedFile, begin: int) -> int | None:
    first = begin - file.base
    for low, high in files.data_ranges(file.path, first, min(file.size, first + _SEARCHED)):
        for at in range(low, high, _PIECE):
            piece = files.read_at(file.path, at, min(_PIECE, high - at))
            if rest := piece.lstrip(b"\0"):
                return file.base + at + len(piece) - len(rest)
    return None


def _all_gone(store: Store, end: int, known_by: str) -> list[LogGap]:
    """Return what is missing of a log that has no files."""
    begin = oldest_begin(store)
    return [LogGap(store.root, store.log, begin, end, f"there is no file, {known_by} {end}")] if begin < end else []


def _bound(position: Position, store: Store, otherwise: int) -> int:
    if position.physical is not None:
        return position.physical
    return position.by_store.get(store.root, otherwise)


def blank_limit(after: NamedFile | None) -> int:
    """Return the longest blank that may close a file: what the next file begins with did not fit."""
    head = b"" if after is None else files.read_at(after.path, 0, BLANK_SIZE)
    size, magic = start_struct.unpack(head) if len(head) == BLANK_SIZE else (0, 0)
    return BLANK_SIZE + (max(size, SIZE_LIMIT) if magic in MESSAGE_MAGICS else SIZE_LIMIT)


def _cut_last(store: Store, file: NamedFile, begin: int, end: int, most: int, queues_end: int) -> Iterable[LogRange]:
    """Cut a file that the log may end in, torn or not."""
    data = files.data_ranges(file.path, 0, file.size)
    written = max(file.base + data[-1][1] if data else 0, min(queues_end, file.end))
    for part in _cut(store, file, begin, min(written, end), end, most, queues_end):
        yield replace(part, is_last=True, promised=queues_end)


def _cut(store: Store, file: NamedFile, begin: int, last: int, end: int, most: int, safe: int) -> Iterable[LogRange]:
    """Cut a file from C{begin} to C{last}; behind C{safe} no range begins by searching."""
    first = max(file.base, begin)
    while first < last:
        after = min(first + most, last)
        if after > safe:
            after = last
        looks_on = after < last or end > last
        is_aligned = first == file.base
        yield LogRange(
            store.root, file.path, file.base, first, after, file.end, is_aligned, is_last=False, looks_on=looks_on
        )
        first = after


def _in_time(parts: list[LogRange | LogGap], low: int, high: int) -> list[LogRange | LogGap]:
    """
    Leave out ranges whose records were all stored at other times, and gaps between such.

    Times grow from record to record but where a clock was set back, so a range holds times between that of its first
    record and that of the next range's.
    """
    firsts: list[int | None] = []
    for part in parts:
        if isinstance(part, LogRange):
            firsts.append(_first_stored_ms(part))
        else:
            firsts.append(firsts[-1] if firsts else None)
    kept = []
    for number, part in enumerate(parts):
        first = firsts[number]
        follows = number + 1 < len(parts) and parts[number + 1].store == part.store
        following = firsts[number + 1] if follows else None
        if first is not None and first - CLOCK_SLACK_MS > high:
            continue
        if first is not None and following is not None and following + CLOCK_SLACK_MS < low:
            continue
        kept.append(part)
    return kept


def _first_stored_ms(part: LogRange) -> int | None:
    """Return when the first record of a range was stored, C{None} where it is not found near its begin."""
    head = files.read_at(part.path, part.begin - part.base, _PROBED)
    at = find_record(head, 0, part.begin, 1 if part.is_aligned else None, verify_crc=False)
    return None if at is None else decode(head, at).stored_ms
