r"""
Message traces: the records that clients write about sends and consumption, as text in the bodies of trace messages.

A record is a list of fields with C{\x01} between them and C{\x02} at its end; a body holds any number of records. A
value that is absent is written as the word C{null}. Fields in order, C{?} for those that some clients leave out::

    Pub            type, time, region, group, topic, message id, tags, keys, store host, body length, cost,
                   message type, offset id?, success, client host?
    SubBefore      type, time, region, group, request id, message id, retry times, keys
    SubAfter       type, request id, message id, cost, success, keys, context code?, time?, group?
    EndTransaction type, time, region, group, topic, message id, tags, keys, store host, message type,
                   transaction id, state, from check
    Recall         type, time, region, group, topic, message id, success (clients of 5.3)

Times are wall-clock ms, costs ms, lengths bytes. The message id of a batch is that of all its
messages, joined by commas.

Source: C{client/trace/TraceDataEncoder.java} of 4.9.7 and 5.3.3; docs/spec/search#trace.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, TypeAlias

import msgspec

from smartgo.errors import BadTrace
from smartgo.schema.headerfields import INT32_MAX, INT64_MAX

FIELD_END: Final = "\x01"
RECORD_END: Final = "\x02"
DEFAULT_REGION: Final = "DefaultRegion"

_ABSENT: Final = "null"
_LONGEST: Final = 19  # digits of an int64
_SHOWN: Final = 40  # characters of a wrong value in a message


class MessageKind(IntEnum):
    """The kind of a message to its producer: the ordinals of Java's C{MessageType}; C{ORDER} is of 5.x."""

    NORMAL = 0
    HALF = 1
    COMMIT = 2
    DELAY = 3
    ORDER = 4


class ConsumeCode(IntEnum):
    """The outcome of a listener call: the ordinals of Java's C{ConsumeReturnType}."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """
    C{Pub}: a broker answered the send of a message or a batch.

    @ivar time_ms: when the send began; C{cost_ms} later it was answered.
    @ivar message_ids: the unique id; of a batch those of all its messages.
    @ivar store_host: C{host:port} of the broker.
    @ivar body_length: in bytes, as it was sent.
    @ivar success: whether the broker stored it as durably as its settings ask.
    @ivar client_host: the client, where the record names it.
    """

    time_ms: int
    region: str
    group: str
    topic: str
    message_ids: tuple[str, ...]
    tags: str
    keys: str
    store_host: str
    body_length: int
    cost_ms: int
    kind: MessageKind
    offset_id: str
    success: bool
    client_host: str = ""


class ConsumeBegun(msgspec.Struct, frozen=True, kw_only=True):
    """
    C{SubBefore}: a listener was called with a message.

    @ivar request_id: the same as of the L{ConsumeEnded} of this call.
    @ivar retries: how often the group was given the message before.
    """

    time_ms: int
    region: str
    group: str
    request_id: str
    message_id: str
    retries: int
    keys: str


class ConsumeEnded(msgspec.Struct, frozen=True, kw_only=True):
    """
    C{SubAfter}: a listener call ended.

    @ivar cost_ms: the duration of the call, divided by the number of its messages.
    @ivar time_ms: when it ended; C{None} where the record does not say.
    @ivar group: the consumer group; C{""} where the record does not say.
    """

    request_id: str
    message_id: str
    cost_ms: int
    success: bool
    keys: str
    code: ConsumeCode = ConsumeCode.SUCCESS
    time_ms: int | None = None
    group: str = ""


class TransactionEnded(msgspec.Struct, frozen=True, kw_only=True):
    """
    C{EndTransaction}: a producer told the broker the outcome of a transaction.

    @ivar state: C{COMMIT_MESSAGE}, C{ROLLBACK_MESSAGE} or C{UNKNOW}.
    @ivar from_check: whether the broker had asked for it.
    """

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    tags: str
    keys: str
    store_host: str
    kind: MessageKind
    transaction_id: str
    state: str
    from_check: bool


class Recalled(msgspec.Struct, frozen=True, kw_only=True):
    """C{Recall}: a producer recalled a message with a delivery time."""

    time_ms: int
    region: str
    group: str
    topic: str
    message_id: str
    success: bool


TraceRecord: TypeAlias = Published | ConsumeBegun | ConsumeEnded | TransactionEnded | Recalled


def ids_of(record: TraceRecord) -> tuple[str, ...]:
    """Return the ids of the messages that a record is about."""
    return record.message_ids if isinstance(record, Published) else (record.message_id,)


def search_keys(record: TraceRecord) -> list[str]:
    """
    Return the keys of a trace message by which this record is found: the ids and the keys of its messages.

    Java writes the joined ids of a batch as one key, so that nobody finds it by the id of one message.
    """
    return [*ids_of(record), *([] if isinstance(record, Recalled) else record.keys.split())]


def encode(record: TraceRecord) -> str:
    r"""
    Return a record as clients of 4.9 write it.

    >>> encode(ConsumeBegun(time_ms=1, region="R", group="g", request_id="Q", message_id="M", retries=0, keys=""))
    'SubBefore\x011\x01R\x01g\x01Q\x01M\x010\x01null\x02'
    """
    fields: tuple[object, ...]
    if isinstance(record, Published):
        fields = (
            "Pub", record.time_ms, record.region, record.group, record.topic, ",".join(record.message_ids), record.tags,
            record.keys, record.store_host, record.body_length, record.cost_ms, record.kind.value, record.offset_id,
            record.success,
        )  # fmt: skip
        if record.client_host:
            fields += (record.client_host,)
    elif isinstance(record, ConsumeBegun):
        fields = (
            "SubBefore", record.time_ms, record.region, record.group, record.request_id, record.message_id,
            record.retries, record.keys,
        )  # fmt: skip
    elif isinstance(record, ConsumeEnded):
        fields = (
            "SubAfter", record.request_id, record.message_id, record.cost_ms, record.success, record.keys,
            record.code.value,
        )  # fmt: skip
        if record.time_ms is not None:
            fields += (record.time_ms, record.group)
    elif isinstance(record, TransactionEnded):
        fields = (
            "EndTransaction", record.time_ms, record.region, record.group, record.topic, record.message_id, record.tags,
            record.keys, record.store_host, record.kind.value, record.transaction_id, record.state, record.from_check,
        )  # fmt: skip
    else:
        fields = (
            "Recall", record.time_ms, record.region, record.group, record.topic, record.message_id, record.success,
        )  # fmt: skip
    return FIELD_END.join([_text(one) for one in fields]) + RECORD_END


def decode(text: str) -> list[TraceRecord]:
    """
    Return the records of a trace message's body. Records of types that are not known are left out, as in Java.

    @raise BadTrace: a record of a known type cannot be read.
    """
    return [record for one in text.split(RECORD_END) if one and (record := decode_record(one)) is not None]


def decode_readable(text: str) -> tuple[list[TraceRecord], int]:
    """Return the records of a body that can be read, and the number of those that cannot."""
    records: list[TraceRecord] = []
    broken = 0
    for one in text.split(RECORD_END):
        try:
            record = decode_record(one) if one else None
        except BadTrace:
            broken += 1
        else:
            if record is not None:
                records.append(record)
    return records, broken


def decode_record(text: str) -> TraceRecord | None:
    """
    Return one record, given without C{RECORD_END}; C{None} if its type is not known.

    @raise BadTrace: it has too few fields, or a field that cannot be read.
    """
    line = text.split(FIELD_END)
    known = _READERS.get(line[0])
    if known is None:
        return None
    read, fewest = known
    if len(line) < fewest:
        raise BadTrace(f"a trace record {line[0]} has {len(line)} fields, and should have {fewest} at least")
    return read([None if one == _ABSENT else one for one in line])


def _published(line: _Line) -> Published:
    short = len(line) == 13  # of clients without the offset id
    return Published(
        time_ms=_number(line, 1),
        region=line[2] or "",
        group=line[3] or "",
        topic=line[4] or "",
        message_ids=tuple(one for one in (line[5] or "").split(",") if one),
        tags=line[6] or "",
        keys=line[7] or "",
        store_host=line[8] or "",
        body_length=_number(line, 9, INT32_MAX),
        cost_ms=_number(line, 10),
        kind=_kind(line, 11),
        offset_id="" if short else line[12] or "",
        success=_truth(line, 12 if short else 13),
        client_host="" if len(line) < 15 else line[14] or "",
    )


def _begun(line: _Line) -> ConsumeBegun:
    return ConsumeBegun(
        time_ms=_number(line, 1),
        region=line[2] or "",
        group=line[3] or "",
        request_id=line[4] or "",
        message_id=line[5] or "",
        retries=_number(line, 6, INT32_MAX),
        keys=(line[7] if len(line) > 7 else None) or "",  # Java's split drops an empty field at the end
    )


def _ended(line: _Line) -> ConsumeEnded:
    code = _number(line, 6) if len(line) > 6 and line[6] else 0
    try:
        known = ConsumeCode(code)
    except ValueError:
        raise BadTrace(f"field 6 of a trace record SubAfter is {code}, and should be 0 to 4") from None
    return ConsumeEnded(
        request_id=line[1] or "",
        message_id=line[2] or "",
        cost_ms=_number(line, 3),
        success=_truth(line, 4),
        keys=line[5] or "",
        code=known,
        time_ms=_number(line, 7) if len(line) > 7 else None,
        group=(line[8] if len(line) > 8 else None) or "",
    )


def _transaction(line: _Line) -> TransactionEnded:
    return TransactionEnded(
        time_ms=_number(line, 1),
        region=line[2] or "",
        group=line[3] or "",
        topic=line[4] or "",
        message_id=line[5] or "",
        tags=line[6] or "",
        keys=line[7] or "",
        store_host=line[8] or "",
        kind=_kind(line, 9),
        transaction_id=line[10] or "",
        state=line[11] or "",
        from_check=_truth(line, 12),
    )


def _recalled(line: _Line) -> Recalled:
    return Recalled(
        time_ms=_number(line, 1),
        region=line[2] or "",
        group=line[3] or "",
        topic=line[4] or "",
        message_id=line[5] or "",
        success=_truth(line, 6),
    )


_Line: TypeAlias = "list[str | None]"
_READERS: Final[dict[str | None, tuple[Callable[[_Line], TraceRecord], int]]] = {
    "Pub": (_published, 13),
    "SubBefore": (_begun, 7),
    "SubAfter": (_ended, 6),
    "EndTransaction": (_transaction, 13),
    "Recall": (_recalled, 7),
}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) or _ABSENT


def _number(line: _Line, at: int, limit: int = INT64_MAX) -> int:
    text = line[at] or ""
    digits = text.removeprefix("-")  # a cost is negative where the clock was set back
    if len(digits) <= _LONGEST and digits.isascii() and digits.isdecimal() and int(digits) <= limit:
        return int(text)
    raise _wrong(line, at, f"a number up to {limit}")


def _truth(line: _Line, at: int) -> bool:
    if line[at] not in ("true", "false"):
        raise _wrong(line, at, "true or false")
    return line[at] == "true"


def _kind(line: _Line, at: int) -> MessageKind:
    value = _number(line, at)
    if value > max(MessageKind):
        raise _wrong(line, at, "0 to 4")
    return MessageKind(max(value, 0))


def _wrong(line: _Line, at: int, wanted: str) -> BadTrace:
    value = line[at] or _ABSENT
    shown = repr(value[:_SHOWN]) + ("..." if len(value) > _SHOWN else "")
    return BadTrace(f"field {at} of a trace record {line[0]} is {shown}, and should be {wanted}")
