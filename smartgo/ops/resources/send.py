"""Resources that send messages, and recall those that wait for their time."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from smartgo.client.administration.topics import TopicKind
from smartgo.client.client import Client
from smartgo.client.internal.copies import is_own
from smartgo.client.internal.deadletterjournal import JournalWriter
from smartgo.client.internal.route import WRITE
from smartgo.client.messages import Message, SendResult
from smartgo.client.producer import Producer
from smartgo.client.timedrefusals import late_recall_ms, limit_in_words
from smartgo.env.interfaces import IClock
from smartgo.errors import IllegalOperation, PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import QueueId
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerName, TopicName
from smartgo.ops.security.principals import Principal
from smartgo.ops.web.routes import ADMIN, PUBLISH, PUBLISH_LIMIT, RouteCall, route
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.recallhandle import RecallHandle

GROUP: Final = "smartgo-ops"
"""The producer group of what is sent over the API."""

Key = Annotated[str, Meta(min_length=1, max_length=255, description="A word without blanks.")]
Tag = Annotated[str, Meta(max_length=255, description="A tag by which consumers may filter.")]
PropertyName = Annotated[str, Meta(min_length=1, max_length=255)]
PropertyValue = Annotated[str, Meta(max_length=32767)]
Properties = Annotated[dict[PropertyName, PropertyValue], Meta(max_length=128, description="The application's own.")]
Keys = Annotated[list[Key], Meta(max_length=64, description="Keys to search for the message by.")]


class QueueChoice(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One queue of one broker."""

    broker: BrokerName
    queue_id: QueueId


SendOrderText = Annotated[str | None, Meta(description="The body as text; it is sent as UTF-8.")]
SendOrderBase64 = Annotated[str | None, Meta(description="The body's bytes.")]
SendOrderDelayLevel = Annotated[int, Meta(ge=0, le=64, description="Deliver later: 1 is 1 s, 2 is 5 s, …; 0 at once.")]
SendOrderDelayMs = Annotated[
    int, Meta(ge=0, le=(1 << 53), description="Deliver so many milliseconds after the broker stored it; 0 at once.")
]
SendOrderDeliverAtMs = Annotated[
    int, Meta(ge=0, le=(1 << 53), description="Deliver at this time, wall clock in ms; a time that is past: at once.")
]
SendOrderFlag = Annotated[
    int, Meta(ge=-(1 << 31), le=(1 << 31) - 1, description="A number for the application's own use.")
]


class SendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    A message to send; its body is either C{text} or C{base64}.

    At most one of C{delay_level}, C{delay_ms} and C{deliver_at_ms} may be given. Brokers take times up to 40 days
    ahead, unless their C{timerMaxDelaySec} says otherwise.

    @ivar queue: the queue; null for any.
    """

    topic: TopicName
    text: SendOrderText = None
    base64: SendOrderBase64 = None
    tag: Tag = ""
    keys: Keys = []
    properties: Properties = {}
    delay_level: SendOrderDelayLevel = 0
    delay_ms: SendOrderDelayMs = 0
    deliver_at_ms: SendOrderDeliverAtMs = 0
    flag: SendOrderFlag = 0
    queue: QueueChoice | None = None


class SentMessage(msgspec.Struct, rename="camel"):
    """
    The outcome of sending a message.

    @ivar status: C{SEND_OK}; C{FLUSH_DISK_TIMEOUT}, C{FLUSH_SLAVE_TIMEOUT}, C{SLAVE_NOT_AVAILABLE}: it is stored, but
        not as durably as configured; C{DRY_RUN}: it was not sent.
    @ivar topic: where it was sent to.
    @ivar message_id: its unique id; null if it was not sent, like the members below.
    @ivar queue_offset: null for a message that waits for its time: it gets its place when it is delivered.
    @ivar recall_handle: of a message that waits for its time: what C{POST /recall} takes; null for others.
    @ivar due_ms: when it is delivered, wall clock; null for others.
    """

    schema_name: ClassVar = "Sent"

    status: str
    topic: str
    message_id: str | None = None
    offset_id: str | None = None
    broker: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
    recall_handle: str | None = None
    due_ms: int | None = None


class Outbox:
    """Sends messages. Its producer joins its group with the first message."""

    def __init__(self, client: Client, view: ClusterView) -> None:
        self._view = view
        self._producer = Producer(client, GROUP)
        self._started = False
        self._journal: JournalWriter | None = None

    async def send(self, message: Message, queue: QueueChoice | None = None) -> SentMessage:
        """
        Send a message to an existing topic.

        @raise Problem: as L{check} does.
        @raise MessageIllegal: no broker would take the message.
        @raise PeerRefused: the broker declined; C{CallFailed}: it did not answer.
        """
        message.check()
        await self.check(message.topic, queue)
        producer = self._producer_started()
        try:
            if queue is None:
                return _sent(await producer.send(message))
            place = MessageQueue(message.topic, queue.broker, queue.queue_id)
            return _sent(await producer.send_to(message, place))
        except PeerRefused as error:
            words = limit_in_words(error)
            if words is None:
                raise
            raise Problem(400, words, "too-far-ahead") from None

    async def recall_message(self, handle: str, now_ms: int) -> str:
        """
        Recall a message that waits for its time; return its unique id.

        @param now_ms: the wall clock.
        @raise Problem: 409, it is too late.
        @raise IllegalOperation: it is no handle. @raise CallFailed: the broker declined, or did not answer.
        """
        try:
            return await self._producer_started().recall(handle)
        except PeerRefused as error:
            due_ms = late_recall_ms(error, handle, now_ms)
            if due_ms is None:
                raise
            text = datetime.fromtimestamp(due_ms / 1000, UTC).isoformat(timespec="milliseconds")
            raise Problem(409, f"it is too late to recall it: it was due at {text}", "too-late") from None

    def journal(self) -> JournalWriter:
        """Return what notes in the journal of dead letters what is done about them."""
        if self._journal is None:
            self._journal = JournalWriter(self._producer_started(), self._view.admin.topics)
        return self._journal

    def _producer_started(self) -> Producer:
        if not self._started:
            self._started = True
            self._producer.start()  # its heartbeat need not be waited for
        return self._producer

    async def check_open(self, topic: str, principal: Principal) -> None:
        """
        Check that a sender may use a topic: system topics are for admins.

        @raise Problem: 404, there is no such topic; 403, the sender may not.
        """
        if (await self._view.topic(topic)).kind == TopicKind.SYSTEM and not principal.may(ADMIN):
            raise Problem(403, f"{topic} is a system topic; sending to it needs the scope admin", "scope-missing")

    async def check(self, topic: str, queue: QueueChoice | None = None) -> None:
        """
        Check that a topic accepts messages and has that queue.

        @raise Problem: 404, there is no such topic or queue; 403, it cannot be written.
        """
        configs = (await self._view.topic(topic)).configs
        if queue is not None:
            config = configs.get(queue.broker)
            if config is None or queue.queue_id >= config.write_queue_nums:
                where = f"topic {topic} has no queue {queue.queue_id} to write at broker {queue.broker}"
                raise Problem(404, where, "queue-not-found")
            configs = {queue.broker: config}
        if not any(one.perm & WRITE and one.write_queue_nums for one in configs.values()):
            raise Problem(403, f"topic {topic} does not accept messages", "no-permission")


def body_of(text: str | None, encoded: str | None) -> bytes:
    """
    Return the body of a request, given as text or as base64.

    @raise Problem: 400, it holds both, or none, or no base64.
    """
    if (text is None) == (encoded is None):
        raise Problem(400, "give the body either as text or as base64", "invalid-value")
    try:
        return text.encode() if text is not None else base64.b64decode(encoded or "", validate=True)
    except (binascii.Error, ValueError):
        raise Problem(400, "the body is not valid text or base64", "invalid-value") from None


def check_own(named: dict[str, str]) -> None:
    """Check that no property is reserved. @raise Problem: 400, one is."""
    for name in named:
        if not is_own(name):
            raise Problem(400, f"property {name!r} is reserved and cannot be set", "invalid-value")


def _sent(result: SendResult) -> SentMessage:
    return SentMessage(
        result.status.name,
        result.queue.topic,
        result.message_id,
        result.offset_id,
        result.queue.broker_name,
        result.queue.queue_id,
        None if result.recall_handle is not None else result.queue_offset,
        result.recall_handle,
        None if result.recall_handle is None else _due_ms(result.recall_handle),
    )


def _due_ms(handle: str) -> int | None:
    """Return the delivery time in a recall handle, in ms; C{None} where it cannot be read."""
    try:
        return int(RecallHandle.parse(handle).due_ms)
    except (IllegalOperation, ValueError):
        return None


class RecallOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A message to recall, by the C{recallHandle} that its send was answered with."""

    handle: Annotated[str, Meta(min_length=1, max_length=4096)]


class RecalledMessage(msgspec.Struct, rename="camel"):
    """A recalled message, by its unique id."""

    message_id: str


class SendApi:
    """Test sends, and recalls of timed messages."""

    def __init__(self, clock: IClock, outbox: Outbox) -> None:
        self._clock = clock
        self._outbox = outbox

    @route(
        "POST",
        "/send",
        scope=PUBLISH,
        body=SendOrder,
        answer=SentMessage,
        body_limit=PUBLISH_LIMIT,
        refuses={404: "There is no such topic, or it has no such queue."},
    )
    async def send(self, call: RouteCall[None, None, SendOrder]) -> SentMessage:
        """
        Send a message to an existing topic.

        The body may have up to 4 MiB as text, or 3 MiB as base64. System topics need the scope admin.
        """
        order = call.body
        body = body_of(order.text, order.base64)
        check_own(order.properties)
        if bool(order.delay_level) + bool(order.delay_ms) + bool(order.deliver_at_ms) > 1:
            raise Problem(400, "give one of delayLevel, delayMs and deliverAtMs", "invalid-value")
        message = Message(
            topic=order.topic,
            body=body,
            tag=order.tag,
            keys=order.keys,
            delay_level=order.delay_level,
            delay=order.delay_ms / 1000,
            deliver_at=_moment(order.deliver_at_ms),
            flag=order.flag,
            properties=order.properties,
        )
        await self._outbox.check_open(order.topic, call.principal)
        sent = await self._outbox.send(message, order.queue)
        call.noted["sent"] = sent.offset_id
        return sent

    @route(
        "POST",
        "/recall",
        scope=PUBLISH,
        body=RecallOrder,
        answer=RecalledMessage,
        refuses={
            404: "There is no such topic.",
            409: "It is no handle, or it is too late: the message was due.",
        },
    )
    async def recall_message(self, call: RouteCall[None, None, RecallOrder]) -> RecalledMessage:
        """
        Recall a message that waits for its delivery time: the broker drops it when it is due.

        The answer does not tell whether the broker still has the message. One that is due within milliseconds may be
        delivered all the same. Messages of system topics need the scope admin.
        """
        handle = RecallHandle.parse(call.body.handle)
        call.noted.update(topic=handle.topic, recalled=handle.unique_id)
        await self._outbox.check_open(handle.topic, call.principal)
        return RecalledMessage(await self._outbox.recall_message(call.body.handle, self._clock.wall_ms()))


def _moment(ms: int) -> datetime | None:
    """Return a time. @raise Problem: 400, no calendar has it."""
    try:
        return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
    except (ValueError, OverflowError, OSError):
        raise Problem(400, "deliverAtMs is no time in milliseconds", "invalid-value") from None
