"""
Search and iteration of CommitLog records in the bytes of a log file.

A record states its own physical offset, so the next record can be found from any position. For the layout of records
see L{smartgo.schema.record}.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from construct import Int64sb, Struct

from smartgo.errors import BadRecord
from smartgo.schema.fixed import fixed
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import (
    BLANK_MAGICS,
    BLANK_SIZE,
    HEAD,
    HEAD_SIZE,
    MESSAGE_MAGICS,
    SIZE_LIMIT,
    check,
    start_struct,
)

_OFFSET_AT: Final = fixed(Struct(*HEAD.subcons[:6]), {"sys_flag": 0}).size
_unpack_offset: Final = fixed(Struct("physical_offset" / Int64sb)).unpack_from
_ANY_MAGIC: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big", signed=True)) for magic in sorted(MESSAGE_MAGICS))
)


class Stop(Enum):
    """The reason why a L{Scan} ended."""

    END = "no room for another record or blank"
    EMPTY = "nothing was written there"
    BLANK = "the file was closed there"
    BAD = "what is there is no valid record"


class Scan:
    """
    An iterator over the valid records of a log file; C{stop} says afterwards why it ended.

    @ivar end: position in the view after the last record given out.
    @ivar stop: why there is no more; C{None} while there may be.
    @ivar reason: for L{Stop.BAD}, which check failed.
    """

    __slots__ = ("_base", "_limit", "_verify_crc", "_view", "end", "reason", "stop")

    def __init__(
        self, view: bytes | memoryview, begin: int, base: int, verify_crc: bool = True, limit: int = SIZE_LIMIT
    ) -> None:
        """
        @param begin: position in the view of the first record.
        @param base: physical offset of the view's first byte.
        @param verify_crc: as in L{check}; C{limit} too.
        """
        self._view = view
        self._base = base
        self._verify_crc = verify_crc
        self._limit = limit
        self.end = begin
        self.stop: Stop | None = None
        self.reason = ""

    def __iter__(self) -> Iterator[StoredMessage]:
        """Give out the records after the last one given out."""
        view, base, verify_crc, limit = self._view, self._base, self._verify_crc, self._limit
        last = len(view) - BLANK_SIZE
        at = self.end
        self.stop = None
        while at <= last:
            try:
                message = check(view, at, base + at, verify_crc, limit)
            except BadRecord as error:
                self._judge(at, str(error))
                return
            at += message[0]
            self.end = at
            yield message
        self.stop = Stop.END

    def _judge(self, at: int, reason: str) -> None:
        size, magic = start_struct.unpack_from(self._view, at)
        if magic in BLANK_MAGICS:
            self.stop = Stop.BLANK
        elif size == magic == 0:
            self.stop = Stop.EMPTY
        else:
            self.stop = Stop.BAD
            self.reason = reason


def scan(view: bytes | memoryview, begin: int, base: int, verify_crc: bool = True, limit: int = SIZE_LIMIT) -> Scan:
    """Walk over the valid records of a log file, see L{Scan}."""
    return Scan(view, begin, base, verify_crc, limit)


def read_piece(read: Callable[[int, int], bytes], begin: int, size: int, room: int) -> memoryview:
    """
    Read some bytes of a log file, or all of the record that begins there where that is longer.

    @param read: returns bytes of the log, given a physical offset and how many; fewer at the end of a file.
    @param begin: physical offset of the first byte.
    @param room: bytes from there on that may be read.
    """
    data = memoryview(read(begin, min(size, room)))
    if BLANK_SIZE <= len(data) < room:
        length, magic = start_struct.unpack_from(data)
        if magic in MESSAGE_MAGICS and len(data) < length <= min(SIZE_LIMIT, room):
            data = memoryview(read(begin, length))
    return data


def own_offsets(view: bytes | memoryview, begin: int, base: int, end: int | None = None) -> Iterator[int]:
    """
    Give out the positions at or after C{begin} of possible records: a record's magic and the physical offset of that
    very place stand there. Nothing else is checked.

    @param base: physical offset of the view's first byte.
    @param end: look no further than what begins before this position.
    """
    stop = len(view) if end is None else min(end + BLANK_SIZE - 1, len(view))
    last = len(view) - HEAD_SIZE
    for found in _ANY_MAGIC.finditer(view, begin + 4, stop):
        at = found.start() - 4
        if at <= last and _unpack_offset(view, at + _OFFSET_AT)[0] == base + at:
            yield at


def find_record(
    view: bytes | memoryview,
    begin: int,
    base: int,
    end: int | None = None,
    limit: int = SIZE_LIMIT,
    verify_crc: bool = True,
) -> int | None:
    """
    Return the position of the next valid record at or after C{begin}, C{None} where there is none.

    A record holds its own physical offset, so it is known without what lies before it, and a body that looks like a
    record is not taken for one (S8).

    @param base: physical offset of the view's first byte.
    @param end: look no further than records that begin before this position: lets a caller take breaks.
    @param verify_crc: as in L{check}.
    """
    for at in own_offsets(view, begin, base, end):
        try:
            check(view, at, base + at, verify_crc, limit)
        except BadRecord:
            continue
        return at
    return None
