"""
The places in a log where a stream begins that starts at a time, or at offsets of queues: found by bisection, so that
what lies before is not read.

What a place is found by is never believed more than the log: where queues or probes do not lead to the record that they
name, the log is read from its beginning, and conditions leave out what nobody asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smartgo.errors import BadRecord
from smartgo.schema.consumequeue import UNIT_SIZE
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import believed_size, check, decode, start_struct
from smartgo.schema.recordscan import find_record
from smartgo.spark import files
from smartgo.spark.conditions import Conditions
from smartgo.spark.partitions import blank_limit
from smartgo.spark.queues import QueueFile
from smartgo.spark.stores import NamedFile, Store, named_files

SLACK_MS: Final = 60_000
"""A broker's clock may have been set back by that much, and nothing of a stream that begins at a time is missed."""
_PROBED: Final = 1 << 20
_LONGEST_HEAD: Final = 128


def begin_of_queues(store: Store, conditions: Conditions, logs: Sequence[NamedFile]) -> int:
    """
    Return the physical offset before which no record lies that conditions want, as the ConsumeQueues tell.

    Only topics that are named one by one can be looked up: queues of a topic that was deleted are gone, and its records
    are not.

    @param logs: the files of the log, in the order of their offsets.
    @return: where a record begins, or the log.
    """
    minimum = logs[0].base if logs else 0
    if conditions.topics is None or not logs:
        return minimum
    begins = []
    known = set()
    for topic, queue_id, directory in store.queues():
        if not conditions.allows_queue(topic, queue_id):
            continue
        known.add(topic)
        begin = _begin_in(directory, topic, queue_id, conditions.queue_span(topic, queue_id)[0], logs)
        if begin is None:
            return minimum
        begins.append(begin)
    if known != conditions.topics:
        return minimum
    return max(min(begins), minimum)


def _begin_in(directory: str, topic: str, queue_id: int, offset: int, logs: Sequence[NamedFile]) -> int | None:
    """Return where the records of a queue lie from an offset on, C{None} where its units do not tell."""
    listed = named_files(directory)
    for file in reversed(listed):
        if file is not listed[0] and file.base > offset * UNIT_SIZE:
            continue
        with QueueFile(file) as queue:
            number = max(offset - file.base // UNIT_SIZE, 0)
            if not queue.used or number > queue.used:
                return None  # of what comes after the last unit nothing is known yet
            is_end = number == queue.used
            unit = queue.unit(number - is_end)
            if unit.is_filler:
                return None
            message = _record_at(logs, unit.commitlog_offset)
            own = file.base // UNIT_SIZE + number - is_end
            if message is None or (message.topic, message.queue_id, message.queue_offset) != (topic, queue_id, own):
                return None
            return unit.commitlog_offset + (message.size if is_end else 0)
    return None


def _record_at(logs: Sequence[NamedFile], offset: int) -> StoredMessage | None:
    """Return the valid record at a physical offset."""
    for file in logs:
        if file.base <= offset < file.end:
            head = files.read_at(file.path, offset - file.base, _LONGEST_HEAD)
            if len(head) < start_struct.size:
                return None
            size = start_struct.unpack_from(head)[0]
            if not 0 < size <= min(believed_size(head, 0, offset), file.end - offset):
                return None
            try:
                return check(files.read_at(file.path, offset - file.base, size), 0, offset, limit=size)
            except BadRecord:
                return None
    return None


def begin_at_time(logs: Sequence[NamedFile], end: int, stored_ms: int) -> int:
    """
    Return the physical offset of a record, or the log's begin, before which all were stored before a time: by clocks of
    brokers that were never set back by more than L{SLACK_MS}.

    @param logs: the files of the log, in the order of their offsets.
    @param end: physical offset up to which the log holds records.
    """
    limit_ms = stored_ms - SLACK_MS
    found, chosen = (logs[0].base if logs else 0), -1
    for number, file in enumerate(logs):
        first = _first_record(file, file.base, _PROBED) if file.base < end else None
        if first is not None and first.stored_ms >= limit_ms:
            break
        if first is not None:
            found, chosen = first.physical_offset, number
    if chosen < 0:
        return found
    file = logs[chosen]
    after = logs[chosen + 1] if chosen + 1 < len(logs) else None
    # In the blank at a file's end may lie records of an earlier life.
    high = end if end <= file.end else file.end - blank_limit(after)
    while high - found > _PROBED:
        middle = (found + high) // 2
        record = _first_record(file, middle, high - middle)
        if record is None or record.stored_ms >= limit_ms:
            high = middle
        else:
            found = record.physical_offset
    return found


def _first_record(file: NamedFile, begin: int, count: int) -> StoredMessage | None:
    """Return the first valid record behind some physical offset, C{None} if none is near, or only a long one."""
    data = files.read_at(file.path, begin - file.base, min(count, _PROBED))
    at = find_record(data, 0, begin)
    return None if at is None else decode(data, at)
