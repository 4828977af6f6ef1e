"""Checking a queue unit against the record that it leads to, a record against a filter, records against a limit."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from smartgo.errors import BadRecord
from smartgo.schema.consumequeue import EXTENSION_LIMIT, PREFILL, unit_struct
from smartgo.schema.properties import decode as decode_properties
from smartgo.schema.record import HEAD_SIZE, decode
from smartgo.store.interfaces import IMessageFilter
from smartgo.store.queues.file import ConsumeQueue

_SCAN: Final = 800  # units that one read looks at, at least
_SCAN_CONTENT: Final = 200  # the same, for a filter that needs the messages
_PLACE: Final = struct.Struct(">i8xi4xqq")  # of a record's head: size, queue id, queue offset, physical offset
_BODY_LENGTH: Final = struct.Struct(">i")
_BODY_LENGTH_AT: Final = HEAD_SIZE - _BODY_LENGTH.size

place: Final = _PLACE.unpack_from
"""Returns size, queue id, queue offset and physical offset of the record at a position."""
_body_length = _BODY_LENGTH.unpack_from
_units = unit_struct.iter_unpack


def bears_out(queue: ConsumeQueue, number: int, view: memoryview, part: memoryview) -> bool:
    """Tell whether adjacent records are those that the units lead to."""
    queue_id = queue.queue_id
    topic = queue.topic_part
    length = len(topic)
    at = 0
    for physical, size, _ in _units(view):
        if size < HEAD_SIZE or place(part, at) != (size, queue_id, number, physical):
            return False
        begin = at + HEAD_SIZE + _body_length(part, at + _BODY_LENGTH_AT)[0]
        if part[begin : begin + length] != topic and not is_of(queue, part[at : at + size]):
            return False
        at += size
        number += 1
    return True


def is_of(queue: ConsumeQueue, part: memoryview) -> bool:
    """Tell whether the first record of C{part} is of the queue's topic; 5.x and IPv6 records need decoding."""
    begin = HEAD_SIZE + int(_body_length(part, _BODY_LENGTH_AT)[0])
    if part[begin : begin + len(queue.topic_part)] == queue.topic_part:
        return True
    try:
        return decode(part).topic == queue.topic
    except BadRecord:
        return False


def fits(queue: ConsumeQueue, number: int, physical: int, size: int, part: memoryview) -> bool:
    """Tell whether a record that was read is the one that a unit leads to."""
    if len(part) != size or size < HEAD_SIZE:
        return False
    found = place(part)
    if queue.shared:
        return (found[0], found[3]) == (size, physical)
    return found == (size, queue.queue_id, number, physical) and is_of(queue, part)


def to_scan(filter: IMessageFilter | None, left: int, count: int) -> int:
    """
    Return how many units one read looks at: fewer where the filter needs the messages.

    @param left: units until the end of the queue.
    @param count: messages asked for.
    """
    return min(left, max(_SCAN if filter is None or not filter.needs_content() else _SCAN_CONTENT, count))


def wanted_units(
    units: Iterable[tuple[int, int, int]], offset: int, hashes: Collection[int] | None
) -> list[tuple[int, int, int]]:
    """
    Return queue offset, physical offset and size of the units that stand for messages and that a filter lets in.

    @param offset: logical, of the first unit.
    @param hashes: of the tags; C{None}: all.
    """
    return [
        (offset + at, physical, size)
        for at, (physical, size, code) in enumerate(units)
        if size != PREFILL.size and (hashes is None or code in hashes or code < EXTENSION_LIMIT)
    ]


def matches(filter: IMessageFilter, record: memoryview) -> bool:
    """Tell whether a filter lets a record in by its content."""
    try:
        message = decode(record)
    except BadRecord:
        return False
    return bool(filter.by_content(decode_properties(message.properties), memoryview(message.body)))


def first_group(chosen: Sequence[tuple[int, int, int]], count: int, size: int) -> Sequence[tuple[int, int, int]]:
    """Return as many of the first records as one answer can take; at least one."""
    total = 0
    for at, one in enumerate(chosen[:count]):
        total += one[2]
        if at and total > size:
            return chosen[:at]
    return chosen[:count]
