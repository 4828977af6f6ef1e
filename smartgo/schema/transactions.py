"""
The records of transactions: half messages, op messages, commits, check-backs (docs/spec/broker#transactions).

A half message waits in C{RMQ_SYS_TRANS_HALF_TOPIC}, queue 0, with its own topic and queue in REAL_TOPIC and REAL_QID.
An op message in C{RMQ_SYS_TRANS_OP_HALF_TOPIC}, queue 0, names those that were committed or rolled back: its TAGS are
C{d}, its body is the decimal offset of one in the half queue (RocketMQ 5: of several, separated by commas).
A committed message is a copy under its own topic, with the sys flag's C{COMMIT} and, in the head field
C{prepared_offset}, the physical offset of the half message that the producer named. Each check-back appends a copy of
the half message to the half queue, with a higher TRANSACTION_CHECK_TIMES.

All records are, byte for byte, those of RocketMQ 4.9.7 (C{TransactionalMessageBridge}, C{EndTransactionProcessor},
C{DefaultTransactionalMessageCheckListener}), with one exception: a copy of a half message keeps the application's flag
and the number of redeliveries, which RocketMQ sets to 0.

 - Committed messages keep TRAN_MSG, REAL_TOPIC and REAL_QID: RocketMQ removes them after it built the stored string.
 - A message is checked back with C{WAIT=false}, though C{WAIT} is stored as the producer set it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from sys import intern
from typing import Final, NamedTuple

import msgspec

from smartgo.schema import properties as names
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.transaction import CheckTransactionRequest
from smartgo.schema.message import COMMIT, TRANSACTION_MASK, NewMessage, StoredMessage, message_id
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.record import encode as encode_record
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, CLOSED_TO_SENDS, HALF_TOPIC, OP_HALF_TOPIC, is_topic

TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets in the half and the op queue say how far transactions are decided."""

FINISHED: Final = "d"
"""The TAGS of an op message."""

_LONG: Final = re.compile("[+-]?[0-9]{1,18}")
_INT: Final = re.compile("[+-]?[0-9]{1,9}")


class HalfMessage(NamedTuple):
    """
    The fields of a half message by which transactions are tracked.

    @ivar offset: in the half queue, of the latest copy.
    @ivar physical_offset: of that copy's record.
    @ivar key: what all copies of a half message have in common: producer group, topic and UNIQ_KEY; C{None} without a
        UNIQ_KEY.
    @ivar checks: how often it was checked back.
    @ivar immunity_ms: CHECK_IMMUNITY_TIME_IN_SECONDS in milliseconds, which replaces C{transactionTimeOut}.
    @ivar first_offset: TRAN_PREPARED_QUEUE_OFFSET: the first copy, where RocketMQ moved an immune message.
    """

    offset: int
    physical_offset: int
    key: tuple[str, str, str] | None
    group: str
    topic: str
    checks: int
    born_ms: int
    immunity_ms: int | None
    first_offset: int | None


def _number(text: str | None, pattern: re.Pattern[str]) -> int | None:
    """Return the number that a property holds, -1 for anything else (as RocketMQ), C{None} where there is none."""
    if text is None:
        return None
    return int(text) if pattern.fullmatch(text) else -1


def read_half(stored: StoredMessage) -> HalfMessage:
    """Return what is kept in memory of a record of the half queue."""
    properties = decode(stored.properties)
    group = intern(properties.get(names.PGROUP, ""))
    topic = intern(properties.get(names.REAL_TOPIC, ""))
    unique = properties.get(names.UNIQ_KEY)
    immunity = _number(properties.get(names.CHECK_IMMUNITY_TIME), _LONG)
    first = _number(properties.get(names.TRAN_PREPARED_QUEUE_OFFSET), _LONG)
    return HalfMessage(
        stored.queue_offset,
        stored.physical_offset,
        None if unique is None else (group, topic, unique),
        group,
        topic,
        _number(properties.get(names.TRANSACTION_CHECK_TIMES), _INT) or 0,
        stored.born_ms,
        None if immunity is None or immunity == -1 else immunity * 1000,
        first if first is not None and first >= 0 else None,
    )


def half_properties(topic: str, queue_id: int, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties with which a message for C{topic} waits in the half queue."""
    return {**properties, names.REAL_TOPIC: topic, names.REAL_QID: str(queue_id)}


def finished_offsets(stored: StoredMessage) -> list[int]:
    """Return the offsets in the half queue that an op message names; empty for what is no op message."""
    if names.find(stored.properties, names.TAGS) != FINISHED:
        return []
    parts = str(bytes(stored.body), "utf-8", "replace").split(",")
    return [int(part) for part in parts if part.isascii() and part.isdigit() and len(part) <= 18]


def op_message(offset: int, now_ms: int, host: bytes) -> NewMessage:
    """
    Return the op message that a half message is decided.

    @param offset: of its latest copy in the half queue.
    @param now_ms: the wall clock.
    @param host: address of this broker, as a record stores it.
    """
    properties = encode({names.TAGS: FINISHED, names.WAIT: "true"})
    return NewMessage(
        OP_HALF_TOPIC,
        0,
        str(offset).encode(),
        properties,
        0,
        0,
        now_ms,
        host,
        host,
        tag_code=tag_code(FINISHED),
        copied=True,
    )


def committed_copy(stored: StoredMessage) -> NewMessage | None:
    """
    Return what a commit appends; C{None} for a half message without a topic and queue that it could go to.

    @param stored: the copy of the half message that the producer named.
    """
    properties = decode(stored.properties)
    topic = properties.get(names.REAL_TOPIC, "")
    queue = properties.get(names.REAL_QID, "")
    if topic in CLOSED_TO_SENDS or not is_topic(topic) or not (queue.isascii() and queue.isdigit()) or len(queue) > 9:
        return None
    tags = tag_code(properties.get(names.TAGS))
    copy = stored.copy_to(topic, int(queue), encode(properties), stored.physical_offset, tags)
    return msgspec.structs.replace(copy, sys_flag=stored.sys_flag & ~TRANSACTION_MASK | COMMIT)


def half_copy(stored: StoredMessage, checks: int) -> NewMessage:
    """Return the copy of a half message, or of one that was given up, that is appended to the half queue."""
    return _copy(stored, HALF_TOPIC, checks)


def moved_copy(stored: StoredMessage) -> NewMessage:
    """
    Return the copy of a half message that takes its place because its log file goes; it was not checked back.

    Without a UNIQ_KEY it names the first copy, as RocketMQ does where it moves an immune message.
    """
    half = read_half(stored)
    properties = decode(stored.properties)
    if half.key is None:
        first = half.offset if half.first_offset is None else half.first_offset
        properties[names.TRAN_PREPARED_QUEUE_OFFSET] = str(first)
    return stored.copy_to(HALF_TOPIC, 0, encode(properties), 0, tag_code(properties.get(names.TAGS)))


def given_up_copy(stored: StoredMessage, checks: int | None) -> NewMessage:
    """
    Return the copy of a half message that is checked back no more.

    @param checks: C{None}: its number of check-backs stays as it is.
    """
    return _copy(stored, CHECK_MAX_TIME_TOPIC, checks)


def _copy(stored: StoredMessage, topic: str, checks: int | None) -> NewMessage:
    properties = decode(stored.properties)
    if checks is not None:
        properties[names.TRANSACTION_CHECK_TIMES] = str(checks)
    return stored.copy_to(topic, 0, encode(properties), 0, tag_code(properties.get(names.TAGS)))


def check_request(copy: NewMessage, offset: int, physical_offset: int, stored_ms: int) -> Command:
    """
    Return the request (39) that asks a producer what became of a transaction.

    @param copy: of the half message, as L{half_copy} made it.
    @param offset: of this copy in the half queue; C{physical_offset} is that of its record.
    @param stored_ms: store timestamp of the copy before, as RocketMQ sends it.
    @raise MessageIllegal: the message cannot be encoded.
    """
    properties = decode(copy.properties)
    unique = properties.get(names.UNIQ_KEY)
    queue = properties.get(names.REAL_QID, "")
    asked = msgspec.structs.replace(
        copy,
        topic=properties.get(names.REAL_TOPIC, ""),
        queue_id=int(queue) if queue.isascii() and queue.isdigit() else 0,
        properties=encode({**properties, names.WAIT: "false"}),
    )
    header = CheckTransactionRequest(
        tran_state_table_offset=offset,
        commit_log_offset=physical_offset,
        msg_id=unique,
        transaction_id=unique,
        offset_msg_id=message_id(copy.store_host, physical_offset),
    )
    body = encode_record(asked, offset, physical_offset, stored_ms)
    return Command.request(RequestCode.CHECK_TRANSACTION_STATE, header, body, one_way=True)
