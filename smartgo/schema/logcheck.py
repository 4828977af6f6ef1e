"""
Checking a CommitLog: the valid records of a range, and the bytes between them that are none.

A record holds its own physical offset, so the record behind damage is found without what lies before it (docs/spec/
reliability#S8). Where the head of a damaged record is intact, the damage is that record alone; else it reaches to the
next valid record or blank. No I/O: the bytes come from a function, so that the store, which reads its files in a
thread, and the tools, which read a directory without a broker, share this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from smartgo.errors import BadRecord
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import (
    BLANK_MAGICS,
    BLANK_SIZE,
    HEAD_SIZE,
    RECORD_MINIMUM,
    SIZE_LIMIT,
    check,
    decode,
    start_struct,
)
from smartgo.schema.recordscan import Scan, Stop, own_offsets, read_piece

CHUNK: Final = 256 << 10
"""Bytes that are asked for at once; more only for a longer record."""

ReadLog = Callable[[int, int], bytes]
"""Returns bytes of the log, given a physical offset and how many; fewer at the end of a file."""

_BLANK_PATTERNS: Final = tuple(magic.to_bytes(4, "big", signed=True) for magic in sorted(BLANK_MAGICS))


class DamagedBytes(NamedTuple):
    """
    Bytes of the log that are no valid record.

    @ivar offset: physical offset of the first one, where a record or a blank should begin.
    @ivar length: bytes, up to where the next record or blank begins.
    @ivar reason: the check that failed.
    @ivar message: what stands there, where its sizes add up: the damaged record; C{None} for anything else.
    """

    offset: int
    length: int
    reason: str
    message: StoredMessage | None = None

    @property
    def end(self) -> int:
        """Physical offset after the last byte."""
        return self.offset + self.length


class LogCheck:
    """
    The valid records that begin in a range of one log file, and the damage between them, in order; iterate once.

    Bodies are memoryviews.

    @ivar position: physical offset after what was given out last; after a blank the file's end.
    @ivar unwritten: the range ends in bytes that were never written, from C{position} on.
    """

    def __init__(
        self, read: ReadLog, begin: int, end: int, limit: int, file_end: int, search_end: int | None = None
    ) -> None:
        """
        @param begin: physical offset of a record's, or a blank's, first byte.
        @param end: give out what begins before this physical offset.
        @param limit: physical offset up to which bytes may be read: the end of the file, or of the log.
        @param file_end: physical offset of the file's end, where a blank has to end.
        @param search_end: damage ends here at the latest, unless it is one whole record; C{None}: at C{limit}.
        """
        self._read = read
        self._end = end
        self._limit = limit
        self._file_end = file_end
        self._search_end = limit if search_end is None else search_end
        self.position = begin
        self.unwritten = False

    def __iter__(self) -> Iterator[StoredMessage | DamagedBytes]:
        """Yield records and damage."""
        while self.position < self._end:
            begin = self.position
            data = read_piece(self._read, begin, CHUNK, self._limit - begin)
            scan = Scan(data, 0, begin)
            for message in scan:
                self.position = begin + scan.end
                yield message
                if self.position >= self._end:
                    return
            if (
                scan.stop is Stop.BLANK
                and start_struct.unpack_from(data, scan.end)[0] == self._file_end - self.position
            ):
                self.position = self._file_end
                return
            if scan.end and begin + len(data) < self._limit:
                continue  # what follows may only have been cut off
            damage = self._damage(data[scan.end :], scan)
            if damage is None:
                self.unwritten = True
                return
            self.position = damage.end
            yield damage

    def _damage(self, data: memoryview, scan: Scan) -> DamagedBytes | None:
        """Return what is damaged at C{position}, where C{data} begins; C{None} where nothing was written."""
        position = self.position
        reason = scan.reason
        if scan.stop is Stop.EMPTY:
            reason = "nothing is written there"
        elif not reason:
            reason = (
                "the blank at the end of the file has a wrong size" if len(data) >= BLANK_SIZE else "no blank follows"
            )
        message = _readable(data)
        if message is not None:
            return DamagedBytes(position, message.size, reason, message)
        end = self._search_end
        found = find_start(self._read, position + 1, end, self._limit, self._file_end)
        if found is None and scan.stop is Stop.EMPTY:
            return None
        return DamagedBytes(position, (end if found is None else found) - position, reason)


def _readable(data: memoryview) -> StoredMessage | None:
    """Return the record at the begin of some bytes if its sizes add up, whatever else is wrong with it."""
    try:
        return decode(data)
    except BadRecord:
        return None


def find_start(read: ReadLog, begin: int, end: int, limit: int, file_end: int) -> int | None:
    """
    Return the physical offset of the first valid record, or of the blank that fills the file, that begins at or behind
    C{begin} and before C{end}; C{None} where there is none.

    @param limit: see L{LogCheck}; C{file_end} too.
    """
    at = begin
    while at < end:
        data = memoryview(read(at, min(CHUNK, limit - at)))
        if not data:
            return None
        blank = _find_blank(bytes(data), at, min(end, at + CHUNK - BLANK_SIZE + 1), file_end)
        for place in own_offsets(data, 0, at, min(end, at + CHUNK - HEAD_SIZE + 1) - at):
            offset = at + place
            if blank is not None and blank < offset:
                return blank
            if _is_valid(read, offset, limit):
                return offset
        if blank is not None:
            return blank
        at += CHUNK - HEAD_SIZE + 1
    return None


def _find_blank(data: bytes, begin: int, end: int, file_end: int) -> int | None:
    """Return the physical offset of the blank that fills a file up to C{file_end}."""
    found: int | None = None
    for pattern in _BLANK_PATTERNS:
        at = data.find(pattern, 4)
        while at >= 0:
            offset = begin + at - 4
            if offset >= end:
                break
            if start_struct.unpack_from(data, at - 4)[0] == file_end - offset:
                found = offset if found is None else min(found, offset)
                break
            at = data.find(pattern, at + 1)
    return found


def _is_valid(read: ReadLog, offset: int, limit: int) -> bool:
    size = start_struct.unpack(read(offset, BLANK_SIZE))[0]
    if not RECORD_MINIMUM <= size <= min(SIZE_LIMIT, limit - offset):
        return False
    try:
        check(read(offset, size), 0, offset)
    except BadRecord:
        return False
    return True


class CheckedRange(NamedTuple):
    """
    The result of L{check_range}.

    @ivar next_start: physical offset at which the first record begins that was not checked: at the range's end or
        behind it.
    @ivar damage: all that touches the range.
    @ivar records: how many valid records begin in the range.
    """

    next_start: int
    damage: list[DamagedBytes]
    records: int


def check_range(
    read: ReadLog,
    begin: int,
    end: int,
    limit: int,
    file_end: int,
    starts: tuple[int, int | None],
    search_end: int | None = None,
    is_lost: Callable[[int, int], bool] | None = None,
) -> CheckedRange:
    """
    Check the records that begin in a range of one log file.

    @param begin: physical offset of the range's first byte, C{end} of that after its last.
    @param limit: see L{LogCheck}; C{file_end} too.
    @param starts: physical offset of the file's first byte; and of the first record that begins in the range, C{None}
        if that is not known: then it is found from a valid record before the range.
    @param search_end: see L{LogCheck}.
    @param is_lost: tells whether any byte between two physical offsets could not be read, and C{read} returned zeros
        in its place: the properties of a record have no CRC, so such a record may look valid.
    """
    base, start = starts
    if start is None:
        start = _start_before(read, begin, limit, file_end, base)
    walk = LogCheck(read, start, end, limit, file_end, search_end)
    damage: list[DamagedBytes] = []
    records = 0
    for one in walk:
        if isinstance(one, DamagedBytes):
            if one.end > begin:
                damage.append(one)
        elif is_lost is not None and walk.position > begin and is_lost(walk.position - one.size, walk.position):
            damage.append(DamagedBytes(walk.position - one.size, one.size, "a part of it could not be read", one))
        elif walk.position - one.size >= begin:
            records += 1
    next_start = walk.position
    if walk.unwritten:
        damage.append(DamagedBytes(next_start, end - next_start, "nothing is written there"))
        next_start = end
    return CheckedRange(max(next_start, end), damage, records)


def _start_before(read: ReadLog, begin: int, limit: int, file_end: int, base: int) -> int:
    """Return the physical offset of a record that begins before C{begin}, as near as is found quickly, or C{base}."""
    step = CHUNK
    while begin - step > base:
        found = find_start(read, begin - step, begin, limit, file_end)
        if found is not None:
            return found
        step *= 4
    return base
