"""
Records that take the place of a damaged range of the log, so that every reader of the log goes over it.

A damaged range of one file becomes one record, or several, and the shortest blank if it reaches to the file's end. The
records are valid ones of topic L{TOPIC}, marked as rolled back, so that no queue, no index and no consumer ever gets
them, neither with smartgo nor with RocketMQ. Physical offsets of all other records stay as they are.
"""

from __future__ import annotations

from typing import Final

from smartgo.schema import properties
from smartgo.schema.message import ROLLBACK, TRANSACTION_MASK, NewMessage, StoredMessage
from smartgo.schema.record import BLANK_SIZE, encode, encode_blank

TOPIC: Final = "SMARTGO_DAMAGED"
"""The topic of records that stand for damaged bytes."""
SHORT_TOPIC: Final = "_"
"""The same where there is room for no longer name."""
REASON: Final = "SMARTGO_REASON"
"""The property that says what was wrong with the bytes."""

_LONGEST: Final = 4 << 20  # bytes of a record, which RocketMQ's settings allow as they are
_LEAST_LEFT: Final = 1024  # bytes that are left for another record


def fill(offset: int, size: int, to_file_end: bool, reason: str, stored_ms: int) -> bytes | None:
    """
    Return the bytes for a damaged range of one file.

    @param offset: physical offset of its first byte; C{size} in bytes.
    @param to_file_end: it reaches to the end of its file.
    @param stored_ms: store timestamp for the records.
    @return: C{None} if there is room for neither a record nor a blank.
    """
    if to_file_end:
        if size < BLANK_SIZE:
            return None
        before = fill(offset, size - BLANK_SIZE, False, reason, stored_ms)
        # Where no record has room, the damage was a blank, and none was lost.
        return encode_blank(size) + bytes(size - BLANK_SIZE) if before is None else before + encode_blank(BLANK_SIZE)
    parts = []
    while size:
        part = size if size <= _LONGEST else min(_LONGEST, size - _LEAST_LEFT)
        record = _record(offset, part, reason, stored_ms)
        if record is None:
            return None
        parts.append(record)
        offset += part
        size -= part
    return b"".join(parts)


def is_fill(message: StoredMessage) -> bool:
    """Tell whether a record stands for damaged bytes."""
    return message.topic in (TOPIC, SHORT_TOPIC) and message.sys_flag & TRANSACTION_MASK == ROLLBACK


def _record(offset: int, size: int, reason: str, stored_ms: int) -> bytes | None:
    """Return a record of exactly this size, C{None} if that is too small."""
    described = properties.encode({REASON: reason[:100]})
    for topic, raw in ((TOPIC, described), (TOPIC, b""), (SHORT_TOPIC, b"")):
        message = NewMessage(topic, 0, b"", raw, sys_flag=ROLLBACK, born_ms=stored_ms)
        room = size - len(encode(message, 0, offset, stored_ms))
        if room >= 0:
            message.body = bytes(room)
            return encode(message, 0, offset, max(stored_ms, 1))
    return None
