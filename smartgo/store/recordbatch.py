"""
The records of one append that is not the usual one message with IPv4 hosts: batches, and messages with IPv6 hosts.

The bytes are computed here; L{smartgo.store.commitlog.CommitLog.append} gives them their place, and writes them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from smartgo.errors import MessageIllegal
from smartgo.schema.consumequeue import unit_struct
from smartgo.schema.message import HOSTS_MASK, PREPARED, NewMessage, StoredMessage
from smartgo.schema.record import MAGIC, SEAL_BEGIN, encode, pack_head

CONTINUES: Final = b"\x02"
"""What the properties of a record end with when the next record belongs to the same batch."""
HOSTS_SIZE: Final = 16
"""Bytes of the two hosts of a record where both are IPv4: what the overhead of a queue counts."""

RARE: Final = SEAL_BEGIN[-2]
"""A byte that properties seldom hold, and always where they hold the CRC: looked for ten times as fast as all of it."""

pack_length: Final = struct.Struct(">h").pack

_NO_HOST_FLAGS: Final = ~HOSTS_MASK
_unit_pack = unit_struct.pack


class EncodedBatch(NamedTuple):
    """
    A batch at its place in the log.

    @ivar data: its records, back to back.
    @ivar offsets: physical offset of each record.
    @ivar units: the packed units of a queue that lead to them, and in C{codes} their third fields.
    """

    data: bytes
    offsets: list[int]
    units: bytes
    codes: list[int]


def check_properties(properties: bytes) -> None:
    """@raise MessageIllegal: a record with these properties could not be read again, see L{smartgo.store.commitlog}."""
    if 0 in properties:
        raise MessageIllegal("the properties hold a NUL character")
    if SEAL_BEGIN in properties:
        raise MessageIllegal("the properties hold the CRC of another record")


class RecordBatch:
    """
    Messages that are appended together, to the queue of the first one.

    @ivar size: bytes of all records.
    @ivar body_size: bytes of all bodies.
    @ivar longest: bytes of the longest properties.
    """

    __slots__ = ("_messages", "_sizes", "_tails", "body_size", "longest", "size")

    def __init__(self, messages: Sequence[NewMessage], overhead: int) -> None:
        """
        @param overhead: see L{IQueue<smartgo.store.interfaces.IQueue>}.
        @raise MessageIllegal: properties that cannot be taken, or transactional messages in a batch.
        """
        tails = [one if (one := message.properties).endswith(CONTINUES) else one + CONTINUES for message in messages]
        tails[-1] = tails[-1].rstrip(CONTINUES)
        overhead -= HOSTS_SIZE
        sizes: list[int] = []
        body_size = 0
        for message, tail in zip(messages, tails, strict=True):
            if 0 in tail or RARE in tail:
                check_properties(tail)
            if message.sys_flag & PREPARED and len(messages) > 1:
                raise MessageIllegal("a batch may not hold transactional messages")
            size = len(message.body)
            body_size += size
            sizes.append(overhead + len(message.born_host) + len(message.store_host) + size + len(tail))
        self._messages = messages
        self._tails = tails
        self._sizes = sizes
        self.size = sum(sizes)
        self.body_size = body_size
        self.longest = max(map(len, tails))

    def encode(self, topic_part: bytes, offset: int, queue_offset: int, stored_ms: int) -> EncodedBatch:
        """
        Return the records as they are stored from a physical offset on.

        @param topic_part: see L{IQueue<smartgo.store.interfaces.IQueue>}.
        @param queue_offset: logical offset of the first one.
        @raise struct.error: a field is out of range.
        @raise MessageIllegal: likewise, or a record is too long.
        """
        first = self._messages[0]
        queue_id = first.queue_id
        offsets: list[int] = []
        codes: list[int] = []
        units: list[bytes] = []
        parts: list[bytes | memoryview] = []
        for message, properties, size in zip(self._messages, self._tails, self._sizes, strict=True):
            body = message.body
            if len(message.born_host) + len(message.store_host) == HOSTS_SIZE:
                parts += (
                    pack_head(
                        size,
                        MAGIC,
                        crc32(body) & 0x7FFFFFFF,
                        queue_id,
                        message.flag,
                        queue_offset,
                        offset,
                        message.sys_flag & _NO_HOST_FLAGS,
                        message.born_ms,
                        message.born_host,
                        stored_ms,
                        message.store_host,
                        message.reconsume_times,
                        message.prepared_offset,
                        len(body),
                    ),
                    body,
                    topic_part,
                    pack_length(len(properties)),
                    properties,
                )
            else:
                placed = msgspec.structs.replace(message, topic=first.topic, queue_id=queue_id, properties=properties)
                parts.append(encode(placed, queue_offset, offset, stored_ms))
            offsets.append(offset)
            codes.append(message.tag_code)
            units.append(_unit_pack(offset, size, message.tag_code))
            offset += size
            queue_offset += 1
        return EncodedBatch(b"".join(parts), offsets, b"".join(units), codes)


def continues(before: StoredMessage, message: StoredMessage) -> bool:
    """Tell whether a record is the next of a batch. RocketMQ 5 ends all properties as we end those within a batch."""
    return (
        message.physical_offset == before.physical_offset + before.size
        and message.queue_offset == before.queue_offset + 1
        and message.queue_id == before.queue_id
        and message.stored_ms == before.stored_ms
        and message.topic == before.topic
    )
