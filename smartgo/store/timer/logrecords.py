"""
The records of the CommitLog that the timer log reads: those of waiting messages, and their delivered copies.

All of it blocks, and runs in the lane of the timer log, except L{entry_of}.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted.logger import Logger

from smartgo.env.interfaces import IFiles
from smartgo.errors import BadRecord
from smartgo.schema import properties as names
from smartgo.schema.consumequeue import Unit
from smartgo.schema.message import BORN_V6, STORE_V6, StoredMessage
from smartgo.schema.properties import decode as decode_properties
from smartgo.schema.record import (
    BLANK_MAGICS,
    BLANK_SIZE,
    MESSAGE_MAGICS,
    RECORD_MINIMUM,
    SIZE_LIMIT,
    check,
    decode,
    start_struct,
)
from smartgo.schema.recordscan import read_piece
from smartgo.schema.timers import MESSAGE_ENTRY, RECALL_ENTRY, TimerEntry, original_of, waiting_due_ms, wheel_ms
from smartgo.store.filequeue import FileQueue
from smartgo.store.recovery.logscan import record_after

_SLICE: Final = 4 << 20
_HEAD: Final = struct.Struct(">ii28xi")  # size, magic, sys flag
_PREPARED: Final = struct.Struct(">q")
_PREPARED_AT: Final = 76
_LONGER_HOST: Final = 12

_log = Logger()


class Arrival(NamedTuple):
    """
    A message of the timer topic.

    @ivar entry: its entry.
    @ivar recalled: of a recall: a number for the message that is recalled, the same until the process ends.
    """

    entry: bytes
    recalled: int | None


def entry_of(record: StoredMessage) -> Arrival:
    """
    Return the entry for a record of the timer topic.

    @raise BadRecord: it says no delivery time.
    """
    properties = decode_properties(record.properties)
    due_ms = max(1, waiting_due_ms(properties, record.stored_ms))
    kind, recalled = MESSAGE_ENTRY, None
    if names.TIMER_DEL_UNIQKEY in properties:
        kind, due_ms = RECALL_ENTRY, wheel_ms(due_ms) + 1  # before all that is due in that second
        recalled = hash((properties.get(names.REAL_TOPIC, ""), properties[names.TIMER_DEL_UNIQKEY], due_ms))
    return Arrival(TimerEntry(due_ms, kind, record.physical_offset, record.size).pack(), recalled)


def entries_of(files: IFiles, log_files: FileQueue, units: Sequence[Unit]) -> list[Arrival | None]:
    """
    Return the entries for messages of the timer topic, by their units; C{None} for each that cannot be read.

    @raise OSError: as the system says.
    """
    return [None if unit.is_filler else _entry(files, log_files, unit) for unit in units]


def _entry(files: IFiles, log_files: FileQueue, unit: Unit) -> Arrival | None:
    data = read_record(files, log_files, unit.commitlog_offset, unit.size)
    try:
        return entry_of(decode(data))
    except BadRecord as error:
        complain(unit.commitlog_offset, error)
        return None


def complain(offset: int, error: BadRecord) -> None:
    """Say in the log that a message of the timer topic has no entry."""
    _log.error("the timed message at {offset} is discarded: {error}", offset=offset, error=str(error))


def read_record(files: IFiles, log_files: FileQueue, offset: int, size: int) -> bytes:
    """Return the bytes of a record, unchecked; empty where they are gone. @raise OSError"""
    file = log_files.find(offset)
    if file is None or not 0 < size <= SIZE_LIMIT:
        return b""
    try:
        return files.read_at(file.path, offset - file.base, size)
    except FileNotFoundError:
        return b""


def read_records(files: IFiles, log_files: FileQueue, entries: Sequence[TimerEntry]) -> list[bytes | OSError | None]:
    """Return records, checked; C{None} for each that is gone or damaged, the error for each that cannot be read."""
    found: list[bytes | OSError | None] = []
    for entry in entries:
        try:
            data = read_record(files, log_files, entry.commitlog_offset, entry.size)
        except OSError as error:
            found.append(error)
        else:
            found.append(data if is_whole(data, entry.commitlog_offset) else None)
    return found


def is_whole(data: bytes, offset: int) -> bool:
    """Tell whether these are the bytes of the record at a physical offset."""
    try:
        return check(data, 0, offset).size == len(data)
    except BadRecord:
        return False


class DeliveredScan(NamedTuple):
    """
    The result of reading one piece of the log for delivered copies.

    @ivar position: physical offset to go on at.
    @ivar delivered: physical offsets of waiting records that have a copy there.
    """

    position: int
    delivered: list[int]


def scan_delivered(
    files: IFiles, log_files: FileQueue, position: int, end: int, check_cancelled: Callable[[], None]
) -> DeliveredScan:
    """
    Find the delivered copies in some megabytes of the log.

    @param position: physical offset of a record.
    @param end: physical offset at which to stop at the latest.
    @raise OSError: as the system says.
    """
    file = log_files.find(position)
    if file is None:  # removed meanwhile, or nothing follows
        begin = log_files.begin
        return DeliveredScan(begin if position < begin else end, [])
    base, path = file.base, file.path
    room = min(file.end, end) - position
    data = read_piece(lambda offset, size: files.read_at(path, offset - base, size), position, _SLICE, room)
    found: list[int] = []
    at = _walk(data, found)
    if at == 0:
        size, magic = start_struct.unpack_from(data) if len(data) >= BLANK_SIZE else (0, 0)
        if magic in BLANK_MAGICS and size == file.end - position:
            return DeliveredScan(file.end, found)
        later = record_after(files, log_files, position, check_cancelled)
        return DeliveredScan(end if later is None else min(later, end), found)
    return DeliveredScan(position + at, found)


def _walk(data: memoryview, found: list[int]) -> int:
    """Add what the records at the beginning of C{data} are copies of; return where the last whole one ends."""
    at = 0
    last = len(data) - RECORD_MINIMUM
    unpack, prepared_at = _HEAD.unpack_from, _PREPARED.unpack_from
    while at <= last:
        size, magic, sys_flag = unpack(data, at)
        if magic not in MESSAGE_MAGICS or size < RECORD_MINIMUM or at + size > len(data):
            break
        place = at + _PREPARED_AT
        if sys_flag & (BORN_V6 | STORE_V6):
            place += _LONGER_HOST * ((sys_flag >> 4 & 1) + (sys_flag >> 5 & 1))
        (mark,) = prepared_at(data, place)
        if mark < 0:
            found.append(original_of(mark))
        at += size
    return at
