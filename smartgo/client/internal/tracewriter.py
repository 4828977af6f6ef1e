"""
Writing message traces: records of sends and consumption, collected and sent to the trace topic.

Source: C{client/trace/AsyncTraceDispatcher.java} and the hooks beside it, of 4.9.7; docs/spec/search#trace.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import CancelledError, Deferred, DeferredList
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.client import Client
from smartgo.client.internal.events import Attempt, ClientEvents, Consuming, Sending
from smartgo.client.internal.sending import Sender
from smartgo.client.messages import Message, ReceivedMessage, SendStatus
from smartgo.errors import CallFailed, MessageIllegal
from smartgo.schema import messagetrace, properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.messagetrace import (
    DEFAULT_REGION,
    ConsumeBegun,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Published,
    TraceRecord,
    TransactionEnded,
)
from smartgo.schema.timers import DELAYED

FLUSH: Final = 0.5  # seconds after its first record that a trace message is sent
SIZE: Final = 118_000  # characters of a trace message after which it is sent
KEYS_SIZE: Final = 24_000  # characters of its keys after which it is sent: properties have 32,767 bytes in all
PENDING: Final = 4 << 20  # characters of records that are not sent yet; records beyond are dropped
TIMEOUT: Final = 5.0  # seconds for a trace message to be sent
STOP: Final = 2.0  # seconds for those that a stop sends

_GROUP: Final = "_INNER_TRACE_PRODUCER"


class _Segment:
    """The records of one producer or consumer that will be one trace message."""

    __slots__ = ("keys", "keys_size", "sender", "size", "texts", "timer")

    def __init__(self, sender: Sender) -> None:
        self.sender = sender
        self.texts: list[str] = []
        self.keys: dict[str, None] = {}
        self.size = self.keys_size = 0
        self.timer: IDelayedCall | None = None

    def add(self, text: str, keys: list[str]) -> None:
        """Add a record."""
        self.texts.append(text)
        self.size += len(text)
        for key in keys:
            if key not in self.keys and self.keys_size < KEYS_SIZE:  # the ids of a long batch do not all have room
                self.keys[key] = None
                self.keys_size += len(key) + 1

    def take(self) -> tuple[str, list[str]]:
        """Return the records and their keys, and begin anew."""
        taken = "".join(self.texts), list(self.keys)
        self.texts, self.keys = [], {}
        self.size = self.keys_size = 0
        timer, self.timer = self.timer, None
        if timer is not None and timer.active():
            timer.cancel()
        return taken


class TraceWriter(ClientEvents):
    """
    Writes the traces of a client.

    Sends and consumption never wait for it: records that find no room, and those of trace messages that no broker
    takes, are dropped and counted.

    @ivar topic: the topic of trace messages.
    @ivar dropped: records that were dropped since the start.
    """

    _log = Logger()

    def __init__(self, client: Client, topic: str) -> None:
        """@param topic: where trace messages go."""
        self.topic = topic
        self.dropped = 0
        self._client = client
        self._clock = client.env.clock
        self._segments: dict[tuple[str, str], _Segment] = {}
        self._pending = 0
        self._under_way: set[Deferred[None]] = set()
        self._stopped = False

    # -- events ----------------------------------------------------------------------------------------------

    def send_answered(self, sending: Sending, attempt: Attempt) -> None:
        """Note that a message was stored, unless the broker wants no traces."""
        if sending.topic.startswith(self.topic) or attempt.answer.trace_on is False:
            return
        first = {} if sending.batch else sending.messages[0]
        self._add(
            sending.group,
            "PRODUCE",
            Published(
                time_ms=attempt.begun_ms,
                region=attempt.answer.region or DEFAULT_REGION,
                group=sending.group,
                topic=sending.topic,
                message_ids=tuple(attempt.result.message_id.split(",")),
                tags=first.get(properties.TAGS, ""),
                keys=first.get(properties.KEYS, ""),
                store_host=attempt.address,
                body_length=sending.body_length,
                cost_ms=round(attempt.seconds * 1000),
                kind=_kind(first),
                offset_id=attempt.result.offset_id,
                success=attempt.result.status is SendStatus.SEND_OK,
            ),
        )

    def consume_begun(self, consuming: Consuming) -> None:
        """Note that a listener is called."""
        traced = [one for one in consuming.messages if _wanted(one, self.topic)]
        if not traced:
            return
        request_id = self._client.unique_ids.next()
        consuming.notes[self] = (request_id, traced)
        for one in traced:
            record = ConsumeBegun(
                time_ms=consuming.begun_ms,
                region=one.properties.get(properties.MSG_REGION, ""),
                group=consuming.group,
                request_id=request_id,
                message_id=one.message_id,
                retries=one.reconsume_times,
                keys=one.properties.get(properties.KEYS, ""),
            )
            self._add(consuming.group, "CONSUME", record)

    def consume_ended(self, consuming: Consuming) -> None:
        """Note the outcome of a listener call."""
        noted = consuming.notes.pop(self, None)
        if noted is None:
            return
        request_id, traced = noted
        cost_ms = round(consuming.seconds * 1000) // len(consuming.messages)
        now_ms = self._clock.wall_ms()
        for one in traced:
            record = ConsumeEnded(
                request_id=request_id,
                message_id=one.message_id,
                cost_ms=cost_ms,
                success=consuming.error is None,
                keys=one.properties.get(properties.KEYS, ""),
                code=_code(consuming),
                time_ms=now_ms,
                group=consuming.group,
            )
            self._add(consuming.group, "CONSUME", record)

    def received(self, group: str, queue: MessageQueue, messages: list[ReceivedMessage], seconds: float) -> None:
        """Note that a program was given messages, whose consumption counts as ended with that."""
        consuming = Consuming(group, messages, self._clock.wall_ms())
        self.consume_begun(consuming)
        self.consume_ended(consuming)

    def transaction_ended(
        self, group: str, topic: str, found: dict[str, str], address: str, id: str, state: str, from_check: bool
    ) -> None:
        """Note the outcome of a transaction."""
        if topic.startswith(self.topic):
            return
        record = TransactionEnded(
            time_ms=self._clock.wall_ms(),
            region=found.get(properties.MSG_REGION, DEFAULT_REGION),
            group=group,
            topic=topic,
            message_id=found.get(properties.UNIQ_KEY, ""),
            tags=found.get(properties.TAGS, ""),
            keys=found.get(properties.KEYS, ""),
            store_host=address,
            kind=MessageKind.COMMIT,
            transaction_id=id,
            state=state,
            from_check=from_check,
        )
        self._add(group, "PRODUCE", record)

    def stop(self) -> Deferred[None]:
        """Send what is kept, and wait for all trace messages under way, for L{STOP} seconds at most; never fails."""
        self._stopped = True
        for segment in self._segments.values():
            self._flush(segment, STOP)
        return Deferred.fromCoroutine(self._ended())

    async def _ended(self) -> None:
        waits = DeferredList(list(self._under_way), consumeErrors=True)
        waits.addTimeout(STOP, self._clock, lambda result, _: None)
        await waits

    # -- sending ---------------------------------------------------------------------------------------------

    def _add(self, group: str, kind: str, record: TraceRecord) -> None:
        text = messagetrace.encode(record)
        if self._pending + len(text) > PENDING or self._stopped:
            self.dropped += 1
            return
        self._pending += len(text)
        segment = self._segments.get((group, kind))
        if segment is None:
            name = f"{_GROUP}-{group}-{kind}-{len(self._segments) + 1}"
            segment = self._segments[group, kind] = _Segment(Sender(self._client, name, TIMEOUT))
        segment.add(text, messagetrace.search_keys(record))
        if segment.size >= SIZE or segment.keys_size >= KEYS_SIZE:
            self._flush(segment, TIMEOUT)
        elif segment.timer is None:
            segment.timer = self._clock.callLater(FLUSH, self._flush, segment, TIMEOUT)

    def _flush(self, segment: _Segment, timeout: float) -> None:
        count = len(segment.texts)
        text, keys = segment.take()
        if not count:
            return
        sending = Deferred.fromCoroutine(self._send(segment.sender, text, keys, count, timeout))
        self._under_way.add(sending)
        sending.addErrback(self._broke)
        sending.addBoth(lambda _: self._under_way.discard(sending))

    async def _send(self, sender: Sender, text: str, keys: list[str], count: int, timeout: float) -> None:
        try:
            message = Message(topic=self.topic, body=text.encode("utf-8", "replace"), keys=keys)
            await sender.send(sender.prepare(message), sender.deadline(timeout))
        except (CallFailed, MessageIllegal, CancelledError) as error:
            self.dropped += count
            self._log.warn("{count} records of message traces are dropped: {error!r}", count=count, error=error)
        finally:
            self._pending -= len(text)

    def _broke(self, failure: Failure) -> None:
        self._log.failure("message traces could not be sent", failure)


def _wanted(message: ReceivedMessage, topic: str) -> bool:
    """Tell whether a message's consumption is traced: its broker wants traces, and it is no trace itself."""
    return message.properties.get(properties.TRACE_ON) != "false" and not message.topic.startswith(topic)


def _kind(found: dict[str, str]) -> MessageKind:
    if found.get(properties.TRAN_MSG) == "true":
        return MessageKind.HALF
    return MessageKind.NORMAL if DELAYED.isdisjoint(found) else MessageKind.DELAY


def _code(consuming: Consuming) -> ConsumeCode:
    if consuming.error is not None and not consuming.asked_again:
        return ConsumeCode.EXCEPTION
    if consuming.late:
        return ConsumeCode.TIME_OUT
    return ConsumeCode.SUCCESS if consuming.error is None else ConsumeCode.FAILED
