"""
The CommitLog record: one stored message; and the blank that fills the end of a log file.

Layout, big-endian, for IPv4 hosts::

    0   size             int32  whole record, in bytes
    4   magic            int32  L{MAGIC}; L{MAGIC_V2} (5.x) has a topic length of 16 bits
    8   crc              int32  CRC-32 of the stored body, 31 bits of it
    12  queue_id         int32
    16  flag             int32  the application's
    20  queue_offset     int64  logical, in messages
    28  physical_offset  int64  of this record's first byte in the log
    36  sys_flag         int32  see L{smartgo.schema.message}
    40  born_ms          int64  producer's clock
    48  born_host        8      4 address bytes, port as int32; 16 address bytes under sys flag 0x10
    56  stored_ms        int64  broker's clock
    64  store_host       8      as above, under sys flag 0x20
    72  reconsume_times  int32
    76  prepared_offset  int64  physical offset of the half message a commit belongs to
    84  body_length      int32
    88  body             bytes
        topic_length     int8   at most 127
        topic            bytes  UTF-8
        properties_length int16
        properties       bytes  UTF-8, see L{smartgo.schema.properties}

The blank, at least 8 bytes::

    0   size             int32  all the room that is left in the file
    4   magic            int32  L{BLANK_MAGIC}; what follows means nothing

Source: C{store/CommitLog.java} (C{checkMessageAndReturnSize}, C{DefaultAppendMessageCallback}) of RocketMQ 4.9;
docs/spec/store#record. Fewer than C{HEAD_SIZE} bytes may follow a blank's first: read L{start_struct} before all else.

Two dialects are read: RocketMQ's and BoltMQ's (the public SmartGo descendant), whose magics differ in one byte and
whose CRC keeps its top bit; CRCs are compared on 31 bits. Only RocketMQ's, with L{MAGIC}, is written.

RocketMQ 5 may end the properties with C{__CRC32# 0x01}, ten decimal digits, lowest first, and 0x02: the CRC-32
(31 bits) of the record up to there (C{MessageDecoder.createCrc32}). It is checked where present; L{encode} writes it
on request.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from zlib import crc32

from construct import Bytes, IfThenElse, Int8sb, Int16sb, Int32sb, Int64sb, Struct, this

from smartgo.errors import BadRecord, MessageIllegal
from smartgo.schema import properties, topics
from smartgo.schema.fixed import fixed
from smartgo.schema.message import BORN_V6, HOSTS_MASK, STORE_V6, NewMessage, StoredMessage

MAGIC: Final = -626843481  # DA A3 20 A7
MAGIC_V2: Final = -626843477  # DA A3 20 AB
SMARTGO_MAGIC: Final = -626843465  # DA A3 20 B7
BLANK_MAGIC: Final = -875286124  # CB D4 31 94
SMARTGO_BLANK_MAGIC: Final = -875286108  # CB D4 31 A4

MESSAGE_MAGICS: Final = frozenset({MAGIC, MAGIC_V2, SMARTGO_MAGIC})
BLANK_MAGICS: Final = frozenset({BLANK_MAGIC, SMARTGO_BLANK_MAGIC})

TOPIC_LIMIT: Final = topics.TOPIC_LIMIT
PROPERTIES_LIMIT: Final = properties.SIZE_LIMIT
SIZE_LIMIT: Final = 16 * 1024 * 1024 + 65536
"""No record is longer, in bytes: a request's frame (L1) with what a broker adds. The body's limit is a setting (L3)."""
RECORD_MAXIMUM_BODY: Final = 16 * 1024 * 1024
"""A body of that many bytes fits into a record whatever goes with it."""

_LONGER_HOST: Final = 12

HEAD: Final = Struct(
    "size" / Int32sb,
    "magic" / Int32sb,
    "crc" / Int32sb,
    "queue_id" / Int32sb,
    "flag" / Int32sb,
    "queue_offset" / Int64sb,
    "physical_offset" / Int64sb,
    "sys_flag" / Int32sb,
    "born_ms" / Int64sb,
    "born_host" / Bytes(8 + _LONGER_HOST * ((this.sys_flag >> 4) & 1)),
    "stored_ms" / Int64sb,
    "store_host" / Bytes(8 + _LONGER_HOST * ((this.sys_flag >> 5) & 1)),
    "reconsume_times" / Int32sb,
    "prepared_offset" / Int64sb,
    "body_length" / Int32sb,
)
RECORD: Final = Struct(
    *HEAD.subcons,
    "body" / Bytes(this.body_length),
    "topic_length" / IfThenElse(this.magic == MAGIC_V2, Int16sb, Int8sb),
    "topic" / Bytes(this.topic_length),
    "properties_length" / Int16sb,
    "properties" / Bytes(this.properties_length),
)
BLANK: Final = Struct("size" / Int32sb, "magic" / Int32sb)

HEAD_STRUCT: Final = fixed(HEAD, {"sys_flag": 0})
"""Packs the head of a record with two IPv4 hosts, each as its 8 bytes."""
HEAD_SIZE: Final = HEAD_STRUCT.size
pack_head: Final = HEAD_STRUCT.pack
_HEADS: Final = {flags: fixed(HEAD, {"sys_flag": flags}) for flags in (0, BORN_V6, STORE_V6, HOSTS_MASK)}

start_struct: Final = fixed(BLANK)
"""Size and magic of whatever starts at a place: a record, a blank, or nothing (0, 0)."""
BLANK_SIZE: Final = start_struct.size
RECORD_MINIMUM: Final = HEAD_SIZE + 1 + 2

_pack_length: Final = fixed(Struct("length" / Int16sb)).pack
_V4_HOST: Final = 8
_V6_HOST: Final = 20
_LOW_31: Final = 0x7FFFFFFF
_LENGTH_LIMIT: Final = 0x7FFF

SEAL_BEGIN: Final = f"{properties.RECORD_CRC}\x01".encode()
"""What the whole-record CRC begins with, at the end of the properties."""
_SEAL_DIGITS: Final = 10
_SEAL_DIGITS_BEGIN: Final = -_SEAL_DIGITS - 1
SEAL_SIZE: Final = len(SEAL_BEGIN) + _SEAL_DIGITS + 1
"""Bytes of the whole-record CRC property."""


# -- writing -----------------------------------------------------------------------------------------------


def _topic_tail(topic: str) -> bytes:
    """
    Return topic length and topic as a record holds them.

    @raise MessageIllegal: longer than L{TOPIC_LIMIT} bytes.
    """
    raw = topic.encode("utf-8", "replace")
    if len(raw) > TOPIC_LIMIT:
        raise MessageIllegal(f"topic of {len(raw)} B exceeds the limit of {TOPIC_LIMIT} B")
    return bytes((len(raw),)) + raw


def encode(message: NewMessage, queue_offset: int, physical_offset: int, stored_ms: int, seal: bool = False) -> bytes:
    """
    Return the record of a message.

    @param seal: append the whole-record CRC to the properties.
    @raise MessageIllegal: topic, properties or the whole over a limit, or a number out of its range.
    @raise ValueError: a host that is not 8 or 20 bytes.
    """
    body = message.body
    raw = message.properties
    born_host = message.born_host
    store_host = message.store_host
    tail = _topic_tail(message.topic)
    if seal:
        raw = (raw + b"\x02" if raw and not raw.endswith(b"\x02") else raw) + bytes(SEAL_SIZE)
    if len(raw) > PROPERTIES_LIMIT:
        raise MessageIllegal(f"properties of {len(raw)} B exceed the limit of {PROPERTIES_LIMIT} B")
    if len(born_host) == len(store_host) == _V4_HOST:
        head, hosts = HEAD_STRUCT, 0
    else:
        hosts = _host_flag(born_host, BORN_V6) | _host_flag(store_host, STORE_V6)
        head = _HEADS[hosts]
    size = head.size + len(body) + len(tail) + 2 + len(raw)
    if size > SIZE_LIMIT:
        raise MessageIllegal(f"message of {size} B exceeds the limit of {SIZE_LIMIT} B")
    try:
        first = head.pack(
            size,
            MAGIC,
            crc32(body) & _LOW_31,
            message.queue_id,
            message.flag,
            queue_offset,
            physical_offset,
            message.sys_flag & ~HOSTS_MASK | hosts,
            message.born_ms,
            born_host,
            stored_ms,
            store_host,
            message.reconsume_times,
            message.prepared_offset,
            len(body),
        )
    except struct.error as error:
        raise MessageIllegal(f"a field of the message is out of its range: {error}") from None
    record = b"".join((first, body, tail, _pack_length(len(raw)), raw))
    return record[:-SEAL_SIZE] + _seal(record[:-SEAL_SIZE]) if seal else record


def encode_blank(room: int) -> bytes:
    """Return the C{BLANK_SIZE} bytes that close a file with C{room} bytes left."""
    return start_struct.pack(room, BLANK_MAGIC)


def _host_flag(host: bytes, flag: int) -> int:
    if len(host) == _V4_HOST:
        return 0
    if len(host) == _V6_HOST:
        return flag
    raise ValueError(f"a host of {len(host)} B")


def _seal(record: bytes | memoryview) -> bytes:
    return SEAL_BEGIN + f"{crc32(record) & _LOW_31:010d}"[::-1].encode() + b"\x02"


# -- reading -----------------------------------------------------------------------------------------------


def decode(view: bytes | memoryview, at: int = 0) -> StoredMessage:
    """
    Read the record that starts at byte C{at}; magic and sizes are checked, nothing else.

    @raise BadRecord: no record starts there, or not all of one, or its sizes do not add up.
    """
    room = len(view) - at
    if room < RECORD_MINIMUM:
        raise BadRecord(f"{room} B are too few for a record")
    head = HEAD_STRUCT
    fields = head.unpack_from(view, at)
    if fields[7] & HOSTS_MASK:
        head = _HEADS[fields[7] & HOSTS_MASK]
        if room < head.size:
            raise BadRecord(f"{room} B are too few for a record with IPv6 hosts")
        fields = head.unpack_from(view, at)
    *first, body_length = fields
    size, magic = first[0], first[1]
    if magic not in MESSAGE_MAGICS:
        raise BadRecord(f"magic {magic & 0xFFFFFFFF:08x} is not a record's")
    if not RECORD_MINIMUM <= size <= room:
        raise BadRecord(f"size of {size} B with {room} B left")
    end = at + size
    body_begin = at + head.size
    body_end = body_begin + body_length
    if body_length < 0 or body_end + 3 > end:
        raise BadRecord(f"body of {body_length} B in a record of {size} B")
    topic_begin = body_end + 1
    topic_length = view[body_end]
    if magic == MAGIC_V2:
        topic_begin += 1
        topic_length = topic_length << 8 | view[body_end + 1]
    properties_begin = topic_begin + topic_length + 2
    if properties_begin > end:
        raise BadRecord(f"topic of {topic_length} B in a record of {size} B")
    properties_length = view[properties_begin - 2] << 8 | view[properties_begin - 1]
    if properties_begin + properties_length != end:
        raise BadRecord(f"sizes add up to {properties_begin + properties_length - at} B, not {size} B")
    if properties_length > PROPERTIES_LIMIT or topic_length > (_LENGTH_LIMIT if magic == MAGIC_V2 else TOPIC_LIMIT):
        raise BadRecord("a length is negative")
    try:
        topic = str(view[topic_begin : properties_begin - 2], "utf-8")
    except UnicodeDecodeError:
        raise BadRecord("topic is not UTF-8") from None
    return _new(StoredMessage, (*first, view[body_begin:body_end], topic, bytes(view[properties_begin:end])))


_new = tuple.__new__


def believed_size(view: bytes | memoryview, at: int, physical_offset: int) -> int:
    """
    Return the longest size that is believed of what starts at byte C{at}: L{SIZE_LIMIT}, or what a longer record states
    that lies where it says and whose body accounts for its size. Brokers with a larger frame limit store such records.
    """
    if len(view) - at < HEAD_SIZE:
        return SIZE_LIMIT
    head = _HEADS[HEAD_STRUCT.unpack_from(view, at)[7] & HOSTS_MASK]
    if len(view) - at < head.size:
        return SIZE_LIMIT
    fields = head.unpack_from(view, at)
    size, magic, body_length = fields[0], fields[1], fields[14]
    rest = size - head.size - body_length
    longest = 2 + _LENGTH_LIMIT + 2 + PROPERTIES_LIMIT
    is_record = magic in MESSAGE_MAGICS and fields[6] == physical_offset and body_length >= 0 and 3 <= rest <= longest
    return max(SIZE_LIMIT, size) if is_record else SIZE_LIMIT


def check(
    view: bytes | memoryview, at: int, physical_offset: int, verify_crc: bool = True, limit: int = SIZE_LIMIT
) -> StoredMessage:
    """
    Read the record that starts at byte C{at} and is to lie at C{physical_offset} of the log; check all of it.

    These are the rules of reliability S7, but for the birth timestamp, which is whatever the client sent.

    @param verify_crc: false leaves out the CRCs of body and whole record.
    @param limit: the longest record believed, in bytes.
    @raise BadRecord: it is not valid; the message says why.
    """
    message = decode(view, at)
    if message[6] != physical_offset:
        raise BadRecord(f"physical offset {message[6]} at {physical_offset}")
    if message[0] > limit:
        raise BadRecord(f"size of {message[0]} B exceeds the limit of {limit} B")
    if message[3] < 0:
        raise BadRecord(f"queue id {message[3]}")
    if message[5] < 0:
        raise BadRecord(f"queue offset {message[5]}")
    if message[10] <= 0:
        raise BadRecord(f"store timestamp {message[10]}")
    if not _is_topic(message[15]):
        raise BadRecord(f"topic {message[15]!r}")
    if verify_crc:
        if (crc32(message[14]) ^ message[2]) & _LOW_31:
            raise BadRecord("body CRC differs")
        if not _seal_holds(view, at, message):
            raise BadRecord("record CRC differs")
    return message


_is_topic = lru_cache(maxsize=4096)(topics.is_topic)


def _seal_holds(view: bytes | memoryview, at: int, message: StoredMessage) -> bool:
    raw = message[16]
    if raw[-SEAL_SIZE:_SEAL_DIGITS_BEGIN] != SEAL_BEGIN or raw[-1] != 2:
        return True
    digits = raw[_SEAL_DIGITS_BEGIN:-1]
    if not digits.isdigit() or not (expected := int(digits[::-1])):
        return True  # a writer that had no CRC left the digits zero
    return crc32(view[at : at + message[0] - SEAL_SIZE]) & _LOW_31 == expected
