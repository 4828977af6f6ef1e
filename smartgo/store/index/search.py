"""
Finding a key in the index files: newest file first, newest entry first.

Files are read through their descriptors, in a lane of their own: a page under a mapping that is not in memory would
hold up the reactor. What is found are places of messages with the same hash, as in C{IndexFile.selectPhyOffset}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from smartgo.env.interfaces import IFiles, IMapping
from smartgo.schema.index import FIRST_ENTRY, Entry, Geometry, IndexHeader, entry_struct, slot_struct

LANE: Final = "search"

VISITED: Final = 1 << 18
"""Entries that one search looks at, at most: a key that is everywhere must not keep the processor busy for long."""
_BLOCK: Final = 16384  # bytes that are read at once


def is_in_range(header: IndexHeader, begin_ms: int, end_ms: int) -> bool:
    """Tell whether a file may hold messages of a span of store times, as RocketMQ's C{isTimeMatched} does."""
    return begin_ms <= header.end_ms and end_ms >= header.begin_ms


class IndexSearch:
    """
    One search for a key, through files from the newest to the oldest.

    @ivar found: physical offsets of messages that may have the key: all that is known is that the hashes are equal.
    """

    def __init__(self, geometry: Geometry, wanted: int, limit: int, begin_ms: int, end_ms: int) -> None:
        """
        @param wanted: the hash of the key.
        @param limit: how many messages to find.
        @param begin_ms: the store times asked for; both ends count.
        """
        self._geometry = geometry
        self._wanted = wanted
        self._limit = limit
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._left = VISITED
        self.found: list[int] = []

    def run(self, files: IFiles, places: Iterable[tuple[str, IndexHeader]]) -> None:
        """
        Search the files; in the lane.

        @param places: path and header of each, the newest first.
        """
        for path, header in places:
            try:
                mapping = files.map(path, writable=False, scattered=True)
            except FileNotFoundError:  # removed meanwhile
                continue
            try:
                if not self.look(header, _by_blocks(mapping)):
                    return
            finally:
                mapping.close()

    def look(self, header: IndexHeader, read: Callable[[int, int], bytes]) -> bool:
        """
        Collect the matches of one file; return whether older files may have more.

        @param read: reads bytes of the file: from where, how many.
        """
        if is_in_range(header, self._begin_ms, self._end_ms):
            self._follow(header, read)
        return header.begin_ms >= self._begin_ms and len(self.found) < self._limit and self._left > 0

    def _follow(self, header: IndexHeader, read: Callable[[int, int], bytes]) -> None:
        """Go through the chain of a slot, newest first, to the first entry that is older than what is asked for."""
        geometry = self._geometry
        begin_ms, end_ms = self._begin_ms, self._end_ms
        raw = read(geometry.slot_at(self._wanted), slot_struct.size)
        if len(raw) < slot_struct.size:
            return
        (number,) = slot_struct.unpack(raw)
        before = geometry.entries  # a chain leads ever further back; one that does not is damaged
        while FIRST_ENTRY <= number < before and len(self.found) < self._limit and self._left > 0:
            self._left -= 1
            raw = read(geometry.entry_at(number), entry_struct.size)
            if len(raw) < entry_struct.size:
                return
            entry = Entry.unpack(raw)
            if entry.seconds < 0:
                return
            stored_ms = entry.stored_ms(header.begin_ms)
            if entry.key_hash == self._wanted and begin_ms <= stored_ms <= end_ms:
                self.found.append(entry.offset)
            if stored_ms < begin_ms:
                return
            before, number = number, entry.previous


def _by_blocks(mapping: IMapping) -> Callable[[int, int], bytes]:
    """Return a function that reads a file in blocks: the entries of a chain often lie close together."""
    block, base = b"", 0

    def read(at: int, size: int) -> bytes:
        nonlocal block, base
        if not base <= at <= base + len(block) - size:
            base = max(0, at + size - _BLOCK)  # chains lead back
            block = mapping.read_at(base, at + size - base)
        return block[at - base : at - base + size]

    return read
