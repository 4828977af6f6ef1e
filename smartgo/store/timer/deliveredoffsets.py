"""
The delivered copies that a reading of all of the log finds, by what they are copies of.

They may be many more than memory holds. The log is divided into pieces; the offsets of each piece are kept in memory
until they are too many, and then in a file of the piece. On a full disk all stay in memory: retention makes room there
only once the timers are recovered. Messages of the timer topic are looked up in the order of the
log, so that one piece at a time has to be in memory.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Sequence
from sys import maxsize
from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IThreads
from smartgo.store.timer.slotstorage import LANE, SlotStorage

IN_MEMORY: Final = 1 << 20
"""Offsets of 8 bytes that are kept before they go to files."""

_SIZE: Final = 8  # bytes of an offset; a full disk may take less
_PIECE: Final = 64 << 20  # bytes of the log


class DeliveredOffsets:
    """Physical offsets of the records of delivered messages."""

    _log = Logger()

    def __init__(self, threads: IThreads, storage: SlotStorage, limit: int = IN_MEMORY) -> None:
        """@param limit: how many are kept in memory, beside one piece."""
        self._threads = threads
        self._storage = storage
        self._limit = limit
        self._pieces: dict[int, array[int]] = {}
        self._count = 0
        self._in_files: set[int] = set()
        self._found: set[int] = set()  # those of the pieces from the first number to the last
        self._first = self._last = -1

    async def add(self, offsets: Sequence[int]) -> None:
        """Add some. @raise OSError: through the Deferred: they cannot be written, though the disk is not full."""
        for offset in offsets:
            number = offset // _PIECE
            piece = self._pieces.get(number)
            if piece is None:
                piece = self._pieces[number] = array("q")
            piece.append(offset)
        self._count += len(offsets)
        if self._count > self._limit:
            pieces, self._pieces = self._pieces, {}
            self._count = 0
            try:
                await self._threads.run(LANE, self._write, pieces)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                self._pieces = pieces  # what is in a file as well, or only half, is of no harm
                self._limit = maxsize
                self._log.warn(
                    "no room for a file of delivered messages, which stay in memory: {error}", error=str(error)
                )
            else:
                self._in_files.update(pieces)

    def _write(self, pieces: dict[int, array[int]]) -> None:
        for number, piece in pieces.items():
            self._storage.append_delivered(number, piece.tobytes())

    async def among(self, offsets: Sequence[int]) -> set[int]:
        """
        Return which of some physical offsets are there; none may lie below one that was asked for before.

        @raise OSError: a file cannot be read.
        """
        if not offsets:
            return set()
        first, last = offsets[0] // _PIECE, offsets[-1] // _PIECE
        if last > self._last:
            if first > self._last:
                self._found = set()
            elif first > self._first:
                self._found = {offset for offset in self._found if offset // _PIECE >= first}
            for number in sorted(number for number in self._pieces.keys() | self._in_files if number <= last):
                piece = self._pieces.pop(number, None)
                if number in self._in_files:
                    self._in_files.discard(number)
                    data = await self._threads.run(LANE, self._storage.take_delivered, number)
                    if number >= first:
                        self._found.update(array("q", data[: len(data) // _SIZE * _SIZE]))
                if piece is not None and number >= first:
                    self._found.update(piece)
            self._last = last
        self._first = first
        return self._found.intersection(offsets)
