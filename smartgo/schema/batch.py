"""
The body of a batch send: several messages for one queue.

Each item, big-endian, one after another::

    0   size              int32  whole item, in bytes
    4   magic             int32  sent as 0, ignored
    8   crc               int32  sent as 0, ignored
    12  flag              int32  the application's
    16  body_length       int32
    20  body              bytes
        properties_length int16
        properties        bytes  UTF-8, see L{smartgo.schema.properties}

Topic, queue, sys flag and birth come from the request's header; its properties follow those of each item
(L{smartgo.schema.properties.join}).

Source: C{common/message/MessageDecoder.java}, C{encodeMessages}; C{store/CommitLog.java}, C{MessageExtBatchEncoder}.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

from construct import Bytes, Int16sb, Int32sb, Struct, this

from smartgo.errors import MessageIllegal
from smartgo.schema import properties
from smartgo.schema.fixed import fixed

HEAD: Final = Struct("size" / Int32sb, "magic" / Int32sb, "crc" / Int32sb, "flag" / Int32sb, "body_length" / Int32sb)
ITEM: Final = Struct(
    *HEAD.subcons,
    "body" / Bytes(this.body_length),
    "properties_length" / Int16sb,
    "properties" / Bytes(this.properties_length),
)

SIZE_LIMIT: Final = 4 * 1024 * 1024
"""A batch, in bytes (L6); a store's setting may say otherwise."""
COUNT_LIMIT: Final = 4096
"""Messages of a batch (L6)."""

_head: Final = fixed(HEAD)
_length: Final = fixed(Struct("length" / Int16sb))
_MINIMUM: Final = _head.size + _length.size


def decode_items(body: bytes | memoryview, limit_count: int = COUNT_LIMIT) -> list[tuple[int, bytes, bytes]]:
    """
    Return flag, body and stored properties of each message of a batch.

    @raise MessageIllegal: no message, more than C{limit_count}, or bytes that are no items.
    """
    data = bytes(body)
    end = len(data)
    at = 0
    items: list[tuple[int, bytes, bytes]] = []
    while at < end:
        if len(items) == limit_count:
            raise MessageIllegal(f"the batch holds more than {limit_count} messages")
        if end - at < _MINIMUM:
            raise MessageIllegal(f"the batch ends within a message, at byte {at}")
        size, _, _, flag, length = _head.unpack_from(data, at)
        begin = at + _head.size
        middle = begin + length
        if length < 0 or not _MINIMUM + length <= size <= end - at:
            raise MessageIllegal(f"the message at byte {at} of the batch has sizes that do not add up")
        (length,) = _length.unpack_from(data, middle)
        at += size
        if length < 0 or middle + _length.size + length != at:
            raise MessageIllegal(f"the message before byte {at} of the batch has sizes that do not add up")
        items.append((flag, data[begin:middle], data[middle + _length.size : at]))
    if not items:
        raise MessageIllegal("the batch is empty")
    return items


def encode_items(items: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """
    Return the body of a batch send.

    @param items: flag, body and stored properties of each message.
    @raise MessageIllegal: properties over their limit, or a flag that is no int32.
    """
    parts: list[bytes] = []
    for flag, body, raw in items:
        if len(raw) > properties.SIZE_LIMIT:
            raise MessageIllegal(f"properties of {len(raw)} B exceed the limit of {properties.SIZE_LIMIT} B")
        try:
            parts.append(_head.pack(_MINIMUM + len(body) + len(raw), 0, 0, flag, len(body)))
        except struct.error as error:
            raise MessageIllegal(f"a field of the message is out of its range: {error}") from None
        parts += (body, _length.pack(len(raw)), raw)
    return b"".join(parts)
