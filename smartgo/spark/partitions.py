"""
The partitions of a read: ranges of log files, one task each.

A record belongs to the range in which it starts, wherever it ends. No index is needed to begin in the middle: a record
states its own physical offset, see L{smartgo.spark.walk}. But behind the blank of a full file, and behind the end of
the log in the newest, may lie records of an earlier life: RocketMQ cuts a log after a crash without clearing what it
cuts, and such a record states its offset too. No range begins there, so what comes before tells that they do not
count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from smartgo.schema.record import BLANK_SIZE, SIZE_LIMIT, decode
from smartgo.schema.recordscan import find_record
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.gaps import LogGap, find_gaps
from smartgo.spark.logrange import LogRange
from smartgo.spark.options import Position, ReadOptions
from smartgo.spark.queues import newest_end
from smartgo.spark.stores import NamedFile, Store, check_named

CLOCK_SLACK_MS: Final = 3_600_000
"""A broker's clock may have been set back by that much, and files are still not passed over wrongly."""
_PROBED: Final = 65536
_NEVER: Final = 1 << 62


def plan(stores: Iterable[Store], options: ReadOptions, conditions: Conditions) -> list[LogRange | LogGap]:
    """
    Cut the logs of some stores into ranges, leaving out what the options and conditions do not ask for; what is missing
    of the logs stands between them.

    @raise SettingError: the options give an offset of a store that is none of these.
    """
    stores = list(stores)
    check_named(stores, options.starting.by_store, "startingOffsets")
    check_named(stores, options.ending.by_store, "endingOffsets")
    return [part for store in stores for part in plan_store(store, options, conditions)]


def plan_store(store: Store, options: ReadOptions, conditions: Conditions) -> list[LogRange | LogGap]:
    """Cut the log of one store into ranges, with the gaps between them."""
    queues_end = newest_end(store)  # before the files are listed, else a file that is made meanwhile would be missing
    logs = store.log_files()
    if not logs:
        return []
    known = store.regions()
    low, high = conditions.span("physical_offset")
    begin = max(low, _bound(options.starting, store, 0))
    end = min(high + 1, _bound(options.ending, store, _NEVER))
    parts: list[LogRange | LogGap] = [
        replace(gap, begin=max(gap.begin, begin), end=min(gap.end, end))
        for gap in find_gaps(store.root, logs, queues_end)
        if gap.begin < end and gap.end > begin
    ]
    newest = _newest(logs)
    for file in logs:
        is_last = file.base >= newest
        if file.end <= begin or file.base >= end:
            continue
        for part in _cut(store, file, is_last, begin, end, options.partition_bytes, queues_end):
            inside = tuple(one for one in known if one.end > file.base and one.offset < file.end)
            parts.append(replace(part, known=inside))
    parts.sort(key=lambda part: part.begin)
    times = conditions.span("store_timestamp")
    return _in_time(parts, *times) if times != Conditions().span("store_timestamp") else parts


def _newest(logs: list[NamedFile]) -> int:
    """Return the base of the newest file that anything was written to; brokers make files ahead."""
    for file in reversed(logs):
        if any(files.read_at(file.path, 0, BLANK_SIZE)):
            return file.base
    return 0


def _bound(position: Position, store: Store, otherwise: int) -> int:
    if position.physical is not None:
        return position.physical
    return position.by_store.get(store.root, otherwise)


def _cut(
    store: Store, file: NamedFile, is_last: bool, begin: int, end: int, most: int, queues_end: int
) -> Iterable[LogRange]:
    data = files.data_ranges(file.path, 0, file.size) if is_last else [(0, file.size)]
    if not data:
        return
    first = max(file.base, begin)
    last = min(file.base + data[-1][1], end)
    if is_last:
        safe = queues_end
    else:
        safe = file.end - SIZE_LIMIT - BLANK_SIZE
    while first < last:
        after = min(first + most, last)
        if after > safe:
            after = last
        looks_on = after < last or end > last
        is_aligned = first == file.base
        yield LogRange(store.root, file.path, file.base, first, after, file.end, is_aligned, is_last, looks_on=looks_on)
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
