"""
One index file, and keys put into it by the run.

The bytes are those that RocketMQ 4.9 would write for the same keys in the same order, C{IndexFile.putKey}. A run's
entries are written before the slots that lead to them, and those before the header, so that whoever reads along in
another thread finds whole chains.
"""

from __future__ import annotations

import posixpath
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from smartgo.schema.columns import numpy_or_none, table
from smartgo.schema.index import (
    ENTRY,
    ENTRY_SIZE,
    FIRST_ENTRY,
    HEADER_SIZE,
    SLOT_SIZE,
    Geometry,
    IndexHeader,
    header_struct,
    seconds_since,
)
from smartgo.schema.indexkeys import FEWEST, Keys
from smartgo.store.index.runkeys import index_put

if TYPE_CHECKING:
    from numpy import ndarray

_LONGEST_SECONDS: Final = 0x7FFFFFFF


class IndexFile:
    """
    A file of keys.

    @ivar header: as it stands in the file.
    @ivar since: physical offset of a record: no key of a record before it is in this file.
    @ivar ready: keys up to this entry number, exclusive, can be put: there are blocks for them (reliability S1).
    @ivar synced: all that was put is on the disk.
    """

    __slots__ = ("_entries", "_geometry", "_heads", "_slots", "_view", "header", "path", "ready", "since", "synced")

    def __init__(self, path: str, geometry: Geometry, header: IndexHeader, since: int) -> None:
        self.path = path
        self.header = header
        self.since = since
        self.ready = FIRST_ENTRY
        self.synced = True
        self._geometry = geometry
        self._view = self._heads = memoryview(b"")
        self._slots: ndarray[Any, Any] | None = None
        self._entries: ndarray[Any, Any] | None = None

    @property
    def name(self) -> str:
        """The file's name, which sorts by age."""
        return posixpath.basename(self.path)

    @property
    def begin(self) -> int | None:
        """Physical offset of the first record with a key in this file; C{None}: there is none yet."""
        return None if self.header.index_count == FIRST_ENTRY else max(self.since, self.header.begin_offset)

    @property
    def is_full(self) -> bool:
        """Tell whether the next key needs another file."""
        return self._geometry.is_full(self.header.index_count)

    @property
    def room(self) -> int:
        """The number of keys that can be put now."""
        return max(0, min(self.ready, self._geometry.entries) - self.header.index_count)

    def wants_room(self, size: int) -> bool:
        """Tell whether less than C{size} bytes are ready, of more that there could be."""
        return self.ready < self._geometry.entries and self.room * ENTRY_SIZE < size

    @property
    def ready_end(self) -> int:
        """Position in the file up to which there are blocks."""
        return self._geometry.entry_at(self.ready)

    def make_ready(self, end: int) -> None:
        """Note that there are blocks up to a position in the file."""
        self.ready = (end - self._geometry.entry_at(0)) // ENTRY_SIZE

    def open(self, view: memoryview) -> None:
        """Begin to write, through a mapping of the whole file."""
        self._view = view
        self._heads = view[HEADER_SIZE : HEADER_SIZE + self._geometry.slots * SLOT_SIZE].cast("i")

    def close(self) -> None:
        """Release the views into the mapping; the file is not written any more."""
        self._view = self._heads = memoryview(b"")
        self._slots = self._entries = None

    def begin_after(self, before: IndexHeader) -> None:
        """Set the header of a new file as RocketMQ does: from where the file before it ended, until the first key."""
        self.header = IndexHeader(before.end_ms, before.end_ms, before.end_offset, before.end_offset)
        self._view[:HEADER_SIZE] = self.header.pack()

    # -- writing -----------------------------------------------------------------------------------------------

    def put(self, keys: Keys) -> int:
        """
        Add keys, as many as there is L{room} for; return how many.

        The file must be open.
        """
        count = min(len(keys.hashes), self.room)
        if not count:
            return 0
        self.synced = False
        hashes, offsets, stored = keys.hashes[:count], keys.offsets[:count], keys.stored_ms[:count]
        if self.header.index_count == FIRST_ENTRY:
            self._put_few(hashes[:1], offsets[:1], stored[:1])
            hashes, offsets, stored = hashes[1:], offsets[1:], stored[1:]
        header, geometry = self.header, self._geometry
        first, after = header.index_count, header.index_count + len(hashes)
        rest = Keys(hashes, offsets, stored)
        unused = index_put(self._view, HEADER_SIZE, geometry.slots, first, header.begin_ms, rest) if rest else None
        if unused is not None:
            used = header.used_slots + unused
            self._end(self._view, after, used, int(offsets[0]), int(stored[0]), int(offsets[-1]), int(stored[-1]))
            return count
        np = numpy_or_none() if count >= FEWEST else None
        if np is None:
            self._put_few(hashes, offsets, stored)
        else:
            self._put_many(np, np.asarray(hashes, "i4"), np.asarray(offsets, "i8"), np.asarray(stored, "i8"))
        return count

    def _put_few(self, hashes: Any, offsets: Any, stored: Any) -> None:
        if not len(hashes):
            return
        hashes, offsets, stored = _listed(hashes), _listed(offsets), _listed(stored)
        header, geometry = self.header, self._geometry
        first, count = header.index_count, len(hashes)
        slots = [key_hash % geometry.slots for key_hash in hashes]
        heads = self._heads
        found = _big_endian("i", [heads[slot] for slot in slots])
        previous = [number if 0 < number <= first else 0 for number in found]
        if len(set(slots)) < count:
            newest: dict[int, int] = {}
            for place, slot in enumerate(slots):
                previous[place] = newest.get(slot, previous[place])
                newest[slot] = first + place
        # Column by column, each of them a number of words: several times as fast as entry by entry.
        entries = array("i", bytes(count * ENTRY_SIZE))
        words = ENTRY_SIZE // entries.itemsize
        halves = array("i", _big_endian("q", offsets).tobytes())
        seconds = {stored_ms: seconds_since(header.begin_ms, stored_ms) for stored_ms in set(stored)}
        entries[0::words] = _big_endian("i", hashes)
        entries[1::words] = halves[0::2]
        entries[2::words] = halves[1::2]
        entries[3::words] = _big_endian("i", [seconds[stored_ms] for stored_ms in stored])
        entries[4::words] = _big_endian("i", previous)
        at = geometry.entry_at(first)
        self._view[at : at + count * ENTRY_SIZE] = entries.tobytes()
        for slot, number in zip(slots, _big_endian("i", range(first, first + count)), strict=True):
            heads[slot] = number
        used = header.used_slots + previous.count(0)
        self._end(self._view, first + count, used, offsets[0], stored[0], offsets[-1], stored[-1])

    def _put_many(self, np: Any, hashes: Any, offsets: Any, stored: Any) -> None:
        if not len(hashes):
            return
        view = self._view
        geometry, header = self._geometry, self.header
        if self._slots is None or self._entries is None:
            self._slots = np.frombuffer(view, ">i4", geometry.slots, HEADER_SIZE)
            self._entries = table(view[geometry.entry_at(0) :], ENTRY)
        first = header.index_count
        end = first + len(hashes)
        numbers = np.arange(first, end, dtype="i4")
        slots = hashes % np.int32(geometry.slots)
        order = np.argsort(slots, kind="stable")
        in_order = slots[order]
        is_first = np.ones(len(order), bool)
        np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
        heads = self._slots[in_order[is_first]].astype("i4")
        heads[(heads <= 0) | (heads > first)] = 0
        before = np.empty(len(order), "i4")
        before[1:] = numbers[order[:-1]]
        before[is_first] = heads
        entries = self._entries[first:end]
        entries["key_hash"] = hashes
        entries["offset"] = offsets
        if header.begin_ms > 0:
            entries["seconds"] = np.clip((stored - header.begin_ms) // 1000, 0, _LONGEST_SECONDS)
        else:
            entries["seconds"] = 0
        previous = np.empty(len(order), "i4")
        previous[order] = before
        entries["previous"] = previous
        is_last = np.ones(len(order), bool)
        is_last[:-1] = is_first[1:]
        self._slots[in_order[is_last]] = numbers[order[is_last]]
        used = header.used_slots + int(np.count_nonzero(heads == 0))
        self._end(view, end, used, int(offsets[0]), int(stored[0]), int(offsets[-1]), int(stored[-1]))

    def _end(self, view: memoryview, count: int, used: int, first: int, first_ms: int, last: int, last_ms: int) -> None:
        """Write the header after a run of keys."""
        header = self.header
        if header.index_count == FIRST_ENTRY:
            header = header._replace(begin_ms=first_ms, begin_offset=first)
        self.header = header._replace(end_ms=last_ms, end_offset=last, used_slots=used, index_count=count)
        view[:HEADER_SIZE] = header_struct.pack(*self.header)


def _big_endian(code: str, values: Iterable[int]) -> array[int]:
    """Return numbers with their bytes turned round, or back, where this machine has them the other way."""
    found = array(code, values)
    if sys.byteorder == "little":
        found.byteswap()
    return found


def _listed(column: Any) -> Sequence[int]:
    """Return a column as a sequence of Python integers."""
    found: Sequence[int] = column if isinstance(column, list) else column.tolist()
    return found
