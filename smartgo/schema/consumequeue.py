"""
The ConsumeQueue unit: where one message of one queue lies in the CommitLog.

Layout, big-endian, 20 bytes::

    0   commitlog_offset  int64  byte offset of the record
    8   size              int32  whole record, in bytes; 0 in a unit never written
    12  tag_hash          int64  Java hash of the tag; the delivery time in ms for a delayed message

Source: C{store/ConsumeQueue.java}, C{CQ_STORE_UNIT_SIZE}.

A queue whose first file begins above offset 0 is filled up to its first unit with L{PREFILL}.

The optional extension (off by default), big-endian, 20 bytes and a bitmap::

    0   size              int16  whole unit, in bytes; -1 where the rest of the file is empty
    2   tag_hash          int64  as above
    10  stored_ms         int64  store timestamp of the message
    18  bitmap_size       int16  in bytes
    20  bitmap            bytes  one bit a SQL92 filter

Source: C{store/ConsumeQueueExt.java}. The queue's unit then holds an address in place of the tag hash: byte offset in
the extension's files plus -2^63, so every value below L{EXTENSION_LIMIT} is an address and never a hash.
"""

from __future__ import annotations

from typing import NamedTuple

from construct import Bytes, Int16sb, Int32sb, Int64sb, Struct, this

from smartgo.schema.fixed import fixed

UNIT = Struct("commitlog_offset" / Int64sb, "size" / Int32sb, "tag_hash" / Int64sb)
UNIT_SIZE: int = UNIT.sizeof()
unit_struct = fixed(UNIT)
"""The packer of one unit, for loops that have no time for L{Unit}."""

EXTENSION_HEAD = Struct("size" / Int16sb, "tag_hash" / Int64sb, "stored_ms" / Int64sb, "bitmap_size" / Int16sb)
EXTENSION_UNIT = Struct(*EXTENSION_HEAD.subcons, "bitmap" / Bytes(this.bitmap_size))
EXTENSION_LIMIT = -(2**31)
_LOWEST = -(2**63)
_NO_MESSAGE = 0x7FFFFFFF  # size in a filler


class Unit(NamedTuple):
    """
    One unit, decoded.

    >>> Unit.unpack(Unit(1024, 235, 0).pack())
    Unit(commitlog_offset=1024, size=235, tag_hash=0)
    """

    commitlog_offset: int
    size: int
    tag_hash: int

    @classmethod
    def unpack(cls, data: bytes | memoryview, at: int = 0) -> Unit:
        """
        Read the unit that starts at byte C{at}.

        @raise struct.error: fewer than L{UNIT_SIZE} bytes remain.
        """
        return cls._make(unit_struct.unpack_from(data, at))

    def pack(self) -> bytes:
        """Return the L{UNIT_SIZE} bytes of this unit."""
        return unit_struct.pack(*self)

    @property
    def is_filler(self) -> bool:
        """
        Tell whether this unit stands where its queue has no message: L{PREFILL}, or one with the place of the next
        message.

        The record at that place belongs to another unit, so a filler is never to be resolved.
        """
        return self.size == _NO_MESSAGE


PREFILL = Unit(0, _NO_MESSAGE, 0)
"""Stands where a queue has no message because its first file begins in the middle."""


def extension_offset(tag_hash: int) -> int | None:
    """Return the byte offset in the extension's files that a unit points to, C{None} where it holds a real hash."""
    return tag_hash - _LOWEST if tag_hash < EXTENSION_LIMIT else None


def extension_address(offset: int) -> int:
    """Return what a unit holds in place of its tag hash for the extension unit at byte C{offset}."""
    return offset + _LOWEST
