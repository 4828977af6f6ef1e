"""Messages as the API shows them: a row of a list, everything about one, its body in several forms, its bytes."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.client.internal.records import FoundMessage
from smartgo.errors import BadCompression, BodyTooLong
from smartgo.ops.web.partial import MissingBroker
from smartgo.schema import properties
from smartgo.schema.annotate import fields_of, flags_in_words, hex_lines, in_a_line
from smartgo.schema.compression import LZ4, ZLIB, ZSTD, beginning, decompress_body
from smartgo.schema.message import COMPRESSED, COMPRESSION_MASK, StoredMessage, host_text

PREVIEW: Final = 200
"""Characters of a body in a row."""
SHOWN: Final = 64 * 1024
"""
Bytes of a body, unpacked, that are shown as text, JSON and base64; more come by its download (reliability B7).
"""
DUMPED: Final = 4096
"""Bytes of a body that are shown in hex."""
FIELD_BYTES: Final = 1024
"""Bytes of one field of a record that are shown."""

_BEGINNING: Final = PREVIEW * 4  # bytes
_COMPRESSION: Final[Mapping[int, str]] = {0: "zlib", ZLIB: "zlib", LZ4: "lz4", ZSTD: "zstd"}
_UNSIGNED: Final = 0xFFFFFFFF
_UNREADABLE: Final = (BadCompression, BodyTooLong)

MessageId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern="^[!-.0-~]+$",
        description="A message's offset id, or the unique id that its producer assigned.",
    ),
]
OptionalTopic = Annotated[str, Meta(max_length=127, pattern="^[%|a-zA-Z0-9_-]*$", description="The message's topic.")]
OptionalBroker = Annotated[
    str, Meta(max_length=127, pattern="^[%|a-zA-Z0-9_.-]*$", description="Ask only this broker.")
]
QueueId = Annotated[int, Meta(ge=0, le=65535, description="A queue's id.")]
QueueOffset = Annotated[int, Meta(ge=0, le=(1 << 63) - 1, description="An offset in a queue.")]
TimeMs = Annotated[int, Meta(ge=0, le=253_402_300_799_999, description="Wall clock, in milliseconds since 1970.")]


class MessageRow(msgspec.Struct, rename="camel"):
    """
    One message in a list.

    @ivar topic: where it is stored, C{%RETRY%} and C{%DLQ%} topics too.
    @ivar origin_topic: the topic it was first sent to, if that differs.
    @ivar message_id: the unique id that its producer assigned, else C{offset_id}.
    @ivar offset_id: the broker's id of this copy.
    @ivar reconsume_times: how often consumption failed before.
    @ivar size_bytes: of its body as it is stored, perhaps compressed.
    @ivar preview: the beginning of its body, decompressed, as text; other bytes are escaped.
    """

    topic: str
    origin_topic: str | None
    broker: str
    queue_id: int
    queue_offset: int
    message_id: str
    offset_id: str
    tag: str
    keys: list[str]
    born_ms: int
    stored_ms: int
    reconsume_times: int
    size_bytes: int
    preview: str


class BodyView(msgspec.Struct, rename="camel"):
    """
    A message body in every form that fits it.

    @ivar kind: C{json} is an object or a list.
    @ivar size_bytes: as its producer wrote it; null where it is compressed and longer than what is shown, as no more
        is unpacked than that. C{stored_bytes}: as it is stored.
    @ivar compression: C{zlib}, C{lz4}, C{zstd}; null where it is not compressed.
    @ivar truncated: it is shortened: base64, text and JSON hold its first 65536 bytes alone;
        C{GET /messages/{id}/body} gives all.
    @ivar base64: its bytes.
    @ivar text: where it is UTF-8, else null.
    @ivar json: the body indented, with numbers as written, if it is JSON; else null.
    @ivar hex: a hex dump of its first 4096 bytes: 16 bytes a line with position, hex and readable characters.
    @ivar error: why it cannot be decompressed; the other members then describe the stored bytes.
    """

    kind: Literal["empty", "json", "text", "binary"]
    size_bytes: int | None
    stored_bytes: int
    compression: str | None
    truncated: bool
    base64: str
    text: str | None
    json: str | None
    hex: str
    error: str | None


class RecordField(msgspec.Struct, rename="camel"):
    """
    One field of a stored record.

    @ivar offset: its position in the record, C{size} its length, in bytes.
    @ivar hex: its first 1024 bytes.
    @ivar value: its value as text.
    """

    name: str
    offset: int
    size: int
    value: str
    hex: str


class MessageView(MessageRow):
    """
    One message with all its fields.

    @ivar log_offset: the position of its record in the broker's commitlog, in bytes.
    @ivar flag: the application's number; C{sys_flag} the system's.
    @ivar flags: what C{sys_flag} says, in words.
    @ivar born_host: C{address:port} of its producer, C{store_host} of its broker.
    @ivar prepared_offset: log offset of the half message that it came from; 0 for none.
    @ivar crc: of the stored body, as hex.
    @ivar properties: all properties, including the system's.
    @ivar record: its stored bytes, field by field.
    @ivar record_bytes: how long the record is.
    @ivar missing: brokers that did not answer and may have another copy.
    """

    log_offset: int
    flag: int
    sys_flag: int
    flags: list[str]
    born_host: str
    store_host: str
    prepared_offset: int
    crc: str
    properties: dict[str, str]
    body: BodyView
    record: list[RecordField]
    record_bytes: int
    missing: list[MissingBroker] = []


# -- rows ------------------------------------------------------------------------------------------------------


def row_of(one: FoundMessage) -> MessageRow:
    """Return the row of a message."""
    return MessageRow(**_members(one))


def _members(one: FoundMessage) -> dict[str, Any]:
    stored, named = one.stored, one.properties
    origin = named.get(properties.RETRY_TOPIC) or named.get(properties.REAL_TOPIC)
    return {
        "topic": stored.topic,
        "origin_topic": None if origin == stored.topic else origin,
        "broker": one.broker,
        "queue_id": stored.queue_id,
        "queue_offset": stored.queue_offset,
        "message_id": named.get(properties.UNIQ_KEY, stored.message_id),
        "offset_id": stored.message_id,
        "tag": named.get(properties.TAGS, ""),
        "keys": properties.split_keys(named.get(properties.KEYS, "")),
        "born_ms": stored.born_ms,
        "stored_ms": stored.stored_ms,
        "reconsume_times": stored.reconsume_times,
        "size_bytes": len(stored.body),
        "preview": in_a_line(_beginning(stored), PREVIEW),
    }


def _beginning(stored: StoredMessage) -> bytes:
    """
    The beginning of a body, unpacked, or of its stored bytes where it cannot be.

    Nothing more is unpacked: rows are many, and a short body may grow very long.
    """
    body = bytes(stored.body)
    try:
        return beginning(body, stored.sys_flag, _BEGINNING)
    except BadCompression:
        return body[:_BEGINNING]


# -- one -------------------------------------------------------------------------------------------------------


def view_of(one: FoundMessage) -> MessageView:
    """Return everything about a message."""
    stored = one.stored
    return MessageView(
        **_members(one),
        log_offset=stored.physical_offset,
        flag=stored.flag,
        sys_flag=stored.sys_flag,
        flags=flags_in_words(stored.sys_flag),
        born_host=host_text(stored.born_host),
        store_host=host_text(stored.store_host),
        prepared_offset=stored.prepared_offset,
        crc=f"{stored.crc & _UNSIGNED:08X}",
        properties=one.properties,
        body=_body_view(stored),
        record=list(record_fields(one.raw)),
        record_bytes=stored.size,
    )


def _shown(stored: StoredMessage) -> tuple[bytes, int | None, str | None]:
    """
    Return what of a body is shown, how long all of it is (C{None}: longer, nobody knows), and why it is not unpacked.

    A body that cannot be unpacked is shown as it is stored.
    """
    body = bytes(stored.body)
    size: int | None = len(body)
    error = None
    if stored.sys_flag & COMPRESSED:
        try:
            plain = beginning(body, stored.sys_flag, SHOWN + 1)
            if len(plain) > SHOWN:
                size = None
            else:
                plain = decompress_body(body, stored.sys_flag, SHOWN)  # sees that none of it is missing
                size = len(plain)
            body = plain
        except _UNREADABLE as reason:
            error = str(reason)
    return body[:SHOWN], size, error


def _body_view(stored: StoredMessage) -> BodyView:
    begin, size, error = _shown(stored)
    truncated = size is None or size > SHOWN
    text = _text(begin, truncated)
    pretty = None if truncated or text is None else _pretty(begin)
    kind: Literal["empty", "json", "text", "binary"] = "binary"
    if not begin:
        kind = "empty"
    elif pretty is not None:
        kind = "json"
    elif text is not None:
        kind = "text"
    method = _COMPRESSION.get(stored.sys_flag & COMPRESSION_MASK, "unknown")
    return BodyView(
        kind,
        size,
        len(stored.body),
        method if stored.sys_flag & COMPRESSED else None,
        truncated,
        base64.b64encode(begin).decode(),
        text,
        pretty,
        "\n".join(hex_lines(begin[:DUMPED])),
        error,
    )


def _text(data: bytes, cut: bool) -> str | None:
    """Return bytes as text if they are UTF-8 without control characters; C{cut}: the last one may be there by half."""
    for end in range(len(data), max(0, len(data) - (4 if cut else 1)), -1):
        try:
            text = data[:end].decode()
        except UnicodeDecodeError:
            continue
        return None if "\0" in text else text
    return None if data else ""


def _pretty(body: bytes) -> str | None:
    """Return an object or a list indented; C{None}: it is none."""
    if body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return msgspec.json.format(body, indent=2).decode()
    except (msgspec.MsgspecError, RecursionError):
        return None


# -- its bytes -------------------------------------------------------------------------------------------------


def record_fields(record: bytes) -> Iterator[RecordField]:
    """Yield the fields of a record in their order."""
    for one in fields_of(record):
        words = one.in_words(PREVIEW)[:FIELD_BYTES]
        yield RecordField(one.name, one.at, one.size, words, one.raw[:FIELD_BYTES].hex())
