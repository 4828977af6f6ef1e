"""
The index file: from a key to the messages that carry it.

A header, C{slots} slots and C{entries} entries; how many there are of each is a setting and stands nowhere in the file.

Header, big-endian, 40 bytes::

    0   begin_ms      int64  store timestamp of the first message indexed
    8   end_ms        int64  of the last
    16  begin_offset  int64  physical offset of the first
    24  end_offset    int64  of the last
    32  used_slots    int32  slots that lead somewhere
    36  index_count   int32  number of the next entry; the first is 1, entry 0 is never used

Slot, 4 bytes::

    0   newest        int32  number of the newest entry with a hash of this slot; 0 for none

Entry, 20 bytes::

    0   key_hash      int32  of C{topic#key}, not negative; its slot is this modulo C{slots}
    4   offset        int64  physical offset of the message
    12  seconds       int32  store time, from the file's begin
    16  previous      int32  number of the entry before it in the same slot; 0 for none

Source: C{store/index/IndexFile.java}, C{IndexHeader.java}, C{IndexService.java} of RocketMQ 4.9; docs/spec/store#index.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from construct import Int32sb, Int64sb, Struct

from smartgo.schema import properties
from smartgo.schema.columns import java_hashes
from smartgo.schema.fixed import fixed
from smartgo.schema.message import ROLLBACK, TRANSACTION_MASK
from smartgo.schema.properties import java_hash

HEADER: Final = Struct(
    "begin_ms" / Int64sb,
    "end_ms" / Int64sb,
    "begin_offset" / Int64sb,
    "end_offset" / Int64sb,
    "used_slots" / Int32sb,
    "index_count" / Int32sb,
)
SLOT: Final = Struct("newest" / Int32sb)
ENTRY: Final = Struct("key_hash" / Int32sb, "offset" / Int64sb, "seconds" / Int32sb, "previous" / Int32sb)

header_struct: Final = fixed(HEADER)
slot_struct: Final = fixed(SLOT)
entry_struct: Final = fixed(ENTRY)
HEADER_SIZE: Final = header_struct.size
SLOT_SIZE: Final = slot_struct.size
ENTRY_SIZE: Final = entry_struct.size

FIRST_ENTRY: Final = 1
_LONGEST: Final = 0x7FFFFFFF
_NAME: Final = re.compile("[0-9]{17}")


class IndexHeader(NamedTuple):
    """The header, decoded; a new file's is all zero but for C{index_count}."""

    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    index_count: int = FIRST_ENTRY

    @classmethod
    def unpack(cls, data: bytes | memoryview, at: int = 0) -> IndexHeader:
        """
        Read the header that starts at byte C{at}.

        @raise struct.error: fewer than C{HEADER_SIZE} bytes remain.
        """
        return cls._make(header_struct.unpack_from(data, at))

    def pack(self) -> bytes:
        """Return the C{HEADER_SIZE} bytes of this header."""
        return header_struct.pack(*self)


class Entry(NamedTuple):
    """One entry, decoded."""

    key_hash: int
    offset: int
    seconds: int
    previous: int

    @classmethod
    def unpack(cls, data: bytes | memoryview, at: int = 0) -> Entry:
        """
        Read the entry that starts at byte C{at}.

        @raise struct.error: fewer than C{ENTRY_SIZE} bytes remain.
        """
        return cls._make(entry_struct.unpack_from(data, at))

    def pack(self) -> bytes:
        """Return the C{ENTRY_SIZE} bytes of this entry."""
        return entry_struct.pack(*self)

    def stored_ms(self, begin_ms: int) -> int:
        """Return when the message was stored, to the second."""
        return begin_ms + self.seconds * 1000


class Geometry(NamedTuple):
    """
    The numbers of slots and entries of an index file (C{maxHashSlotNum}, C{maxIndexNum}).

    >>> Geometry().size
    420000040
    """

    slots: int = 5_000_000
    entries: int = 20_000_000

    @property
    def size(self) -> int:
        """The size of a file in bytes."""
        return HEADER_SIZE + self.slots * SLOT_SIZE + self.entries * ENTRY_SIZE

    def slot_at(self, key_hash: int) -> int:
        """Return the position in the file of the slot for a hash."""
        return HEADER_SIZE + key_hash % self.slots * SLOT_SIZE

    def entry_at(self, number: int) -> int:
        """Return the position in the file of an entry."""
        return HEADER_SIZE + self.slots * SLOT_SIZE + number * ENTRY_SIZE

    def is_full(self, index_count: int) -> bool:
        """Tell whether a file whose header says so takes no more: its last usable number is C{entries} - 1."""
        return index_count >= self.entries


def key_text(topic: str, key: str) -> str:
    """Return what is hashed for a key."""
    return f"{topic}#{key}"


def key_hash(text: str) -> int:
    """Return the index hash of a L{key_text}: not negative; the one hash that has no absolute value becomes 0."""
    return _positive(java_hash(text))


def key_hashes(texts: Sequence[str]) -> list[int]:
    """Return the index hashes of many key texts at once, which is much cheaper where numpy is installed."""
    return [_positive(value) for value in java_hashes(texts)]


def _positive(value: int) -> int:
    return 0 if value == -(2**31) else abs(value)


def keys_of(raw: bytes, sys_flag: int) -> list[str]:
    """
    Return the keys under which a message is indexed: its unique key, then the words of KEYS; none for a rollback.

    @param raw: its properties, in stored form.
    """
    if sys_flag & TRANSACTION_MASK == ROLLBACK:
        return []
    unique = properties.find(raw, properties.UNIQ_KEY)
    words = properties.split_keys(properties.find(raw, properties.KEYS) or "")
    return [unique, *words] if unique else words


def seconds_since(begin_ms: int, stored_ms: int) -> int:
    """Return what an entry holds for a store time, in a file that began at C{begin_ms}; 0 while that is 0."""
    if begin_ms <= 0 or stored_ms <= begin_ms:
        return 0
    return min((stored_ms - begin_ms) // 1000, _LONGEST)


def chain(view: bytes | memoryview, geometry: Geometry, wanted: int) -> Iterator[Entry]:
    """
    Go through the entries of one hash, newest first.

    A chain that does not lead ever further back is damaged: it ends there.

    @param view: the whole file.
    @param wanted: the hash, as of L{key_hash}.
    """
    count = IndexHeader.unpack(view).index_count
    (number,) = slot_struct.unpack_from(view, geometry.slot_at(wanted))
    before = min(count, geometry.entries)
    while FIRST_ENTRY <= number < before:
        entry = Entry.unpack(view, geometry.entry_at(number))
        if entry.key_hash == wanted:
            yield entry
        before, number = number, entry.previous


def file_name(created_ms: int, utc_offset: float = 0.0) -> str:
    """
    Return the name of an index file: the local time of its creation, as C{yyyyMMddHHmmssSSS}.

    @param utc_offset: seconds that local time is ahead of UTC.
    """
    seconds, rest = divmod(created_ms + round(utc_offset * 1000), 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%d%H%M%S}{rest:03d}"


def is_file_name(name: str) -> bool:
    """Tell whether a file may be an index file, by its name."""
    return _NAME.fullmatch(name) is not None
