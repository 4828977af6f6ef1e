"""Resources that send messages."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from smartgo.client.administration.topics import TopicKind
from smartgo.client.client import Client
from smartgo.client.internal.copies import is_own
from smartgo.client.internal.route import WRITE
from smartgo.client.messages import Message, SendResult
from smartgo.client.producer import Producer
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import QueueId
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerName, TopicName
from smartgo.ops.security.principals import Principal
from smartgo.ops.web.routes import ADMIN, PUBLISH, PUBLISH_LIMIT, RouteCall, route
from smartgo.schema.bodies import MessageQueue

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
SendOrderFlag = Annotated[
    int, Meta(ge=-(1 << 31), le=(1 << 31) - 1, description="A number for the application's own use.")
]


class SendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    A message to send; its body is either C{text} or C{base64}.

    @ivar queue: the queue; null for any.
    """

    topic: TopicName
    text: SendOrderText = None
    base64: SendOrderBase64 = None
    tag: Tag = ""
    keys: Keys = []
    properties: Properties = {}
    delay_level: SendOrderDelayLevel = 0
    flag: SendOrderFlag = 0
    queue: QueueChoice | None = None


class SentMessage(msgspec.Struct, rename="camel"):
    """
    The outcome of sending a message.

    @ivar status: C{SEND_OK}; C{FLUSH_DISK_TIMEOUT}, C{FLUSH_SLAVE_TIMEOUT}, C{SLAVE_NOT_AVAILABLE}: it is stored, but
        not as durably as configured; C{DRY_RUN}: it was not sent.
    @ivar topic: where it was sent to.
    @ivar message_id: its unique id; null if it was not sent, like the members below.
    """

    schema_name: ClassVar = "Sent"

    status: str
    topic: str
    message_id: str | None = None
    offset_id: str | None = None
    broker: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None


class Outbox:
    """Sends messages. Its producer joins its group with the first message."""

    def __init__(self, client: Client, view: ClusterView) -> None:
        self._view = view
        self._producer = Producer(client, GROUP)
        self._started = False

    async def send(self, message: Message, queue: QueueChoice | None = None) -> SentMessage:
        """
        Send a message to an existing topic.

        @raise Problem: as L{check} does.
        @raise MessageIllegal: no broker would take the message.
        @raise PeerRefused: the broker declined; C{CallFailed}: it did not answer.
        """
        message.check()
        await self.check(message.topic, queue)
        if not self._started:
            self._started = True
            self._producer.start()  # its heartbeat need not be waited for
        if queue is None:
            return _sent(await self._producer.send(message))
        place = MessageQueue(message.topic, queue.broker, queue.queue_id)
        return _sent(await self._producer.send_to(message, place))

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
        result.queue_offset,
    )


class SendApi:
    """Test sends."""

    def __init__(self, outbox: Outbox) -> None:
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
        message = Message(
            topic=order.topic,
            body=body,
            tag=order.tag,
            keys=order.keys,
            delay_level=order.delay_level,
            flag=order.flag,
            properties=order.properties,
        )
        await self._outbox.check_open(order.topic, call.principal)
        sent = await self._outbox.send(message, order.queue)
        call.noted["sent"] = sent.offset_id
        return sent
