"""The life of one message, put together from the records of message traces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from smartgo.schema.messagetrace import (
    ConsumeBegun,
    ConsumeCode,
    ConsumeEnded,
    Published,
    Recalled,
    TransactionEnded,
    decode_readable,
)

_FAILURES: Final = {
    ConsumeCode.SUCCESS: "failed",
    ConsumeCode.TIME_OUT: "timeout",
    ConsumeCode.EXCEPTION: "exception",
    ConsumeCode.RETURN_NULL: "null",
    ConsumeCode.FAILED: "failed",
}
_STATES: Final = {"COMMIT_MESSAGE": "committed", "ROLLBACK_MESSAGE": "rolledback"}


class TraceMessage(NamedTuple):
    """A trace message: its body, decompressed, the host of the client that wrote it, and when it was stored."""

    body: bytes
    client: str
    stored_ms: int


class TraceEvent(msgspec.Struct, kw_only=True):
    """
    An event in the life of a message.

    @ivar kind: C{produced}, C{consumed}, C{transaction} (its producer told the outcome) or C{recalled}.
    @ivar at_ms: when it began, by the client's wall clock, in ms.
    @ivar took_ms: ms until the broker answered or the listener ended; C{None} where that is not known.
    @ivar group: the group of the producer or consumer; C{""} where that is not known.
    @ivar client: the host of the client.
    @ivar result: of C{produced}: C{stored}, or C{weak}: stored, but less durably than the broker's settings ask. Of
        C{consumed}: C{success}, C{failed} (the message was asked for again), C{exception}, C{timeout}, C{null}, or
        C{open}: no end is known. Of C{transaction}: C{committed}, C{rolledback} or C{unknown}. Of C{recalled}:
        C{success} or C{failed}.
    @ivar retries: how often the group was given the message before; C{None} where that is not known.
    @ivar broker: C{host:port} of the broker that stored it; C{""} for consumption.
    @ivar checked: whether the broker had asked for the outcome of the transaction.
    """

    kind: str
    at_ms: int
    took_ms: int | None = None
    group: str = ""
    client: str = ""
    result: str = ""
    retries: int | None = None
    broker: str = ""
    checked: bool = False


class MessageTrace(msgspec.Struct, kw_only=True):
    """
    The trace of one message.

    @ivar events: the events, the oldest first.
    @ivar unreadable: records that could not be read, of this or other messages.
    @ivar more: whether a broker has as many trace messages of it as it returns, so that there may be more.
    """

    events: list[TraceEvent]
    unreadable: int = 0
    more: bool = False


def timeline(id: str, messages: Iterable[TraceMessage]) -> MessageTrace:
    """
    Put together what trace messages tell of one message.

    @param id: its unique id.
    """
    events: list[TraceEvent] = []
    calls: dict[str, TraceEvent] = {}  # by request id
    ended: list[tuple[ConsumeEnded, TraceMessage]] = []
    unreadable = 0
    for message in messages:
        records, broken = decode_readable(message.body.decode("utf-8", "replace"))
        unreadable += broken
        for record in records:
            if isinstance(record, ConsumeEnded):
                if record.message_id == id:
                    ended.append((record, message))
            elif (event := _event(id, record, message)) is not None:
                if isinstance(record, ConsumeBegun):
                    if record.request_id in calls:
                        continue  # the trace message was sent twice
                    calls[record.request_id] = event
                if event not in events:
                    events.append(event)
    seen: set[str] = set()
    for end, message in ended:
        if end.request_id in seen:
            continue
        seen.add(end.request_id)
        call = calls.get(end.request_id)
        if call is None:
            at_ms = message.stored_ms if end.time_ms is None else end.time_ms - end.cost_ms
            call = TraceEvent(kind="consumed", at_ms=at_ms, group=end.group, client=message.client)
            events.append(call)
        call.took_ms = end.cost_ms
        call.result = _outcome(end)
    events.sort(key=lambda one: one.at_ms)
    return MessageTrace(events=events, unreadable=unreadable)


def _event(
    id: str, record: Published | ConsumeBegun | TransactionEnded | Recalled, message: TraceMessage
) -> TraceEvent | None:
    """Return the event of a record; C{None} if it is about another message."""
    if isinstance(record, Published):
        if id not in record.message_ids:
            return None
        return TraceEvent(
            kind="produced",
            at_ms=record.time_ms,
            took_ms=record.cost_ms,
            group=record.group,
            client=record.client_host or message.client,
            result="stored" if record.success else "weak",
            broker=record.store_host,
        )
    if record.message_id != id:
        return None
    event = TraceEvent(kind="", at_ms=record.time_ms, group=record.group, client=message.client)
    if isinstance(record, ConsumeBegun):
        event.kind, event.result, event.retries = "consumed", "open", record.retries
    elif isinstance(record, TransactionEnded):
        event.kind, event.result = "transaction", _STATES.get(record.state, "unknown")
        event.broker, event.checked = record.store_host, record.from_check
    elif isinstance(record, Recalled):
        event.kind, event.result = "recalled", "success" if record.success else "failed"
    return event


def _outcome(end: ConsumeEnded) -> str:
    if end.success:
        return "timeout" if end.code is ConsumeCode.TIME_OUT else "success"
    return _FAILURES[end.code]
