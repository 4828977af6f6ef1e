"""Resources that send messages."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from smartgo.ops.content import QueueId
from smartgo.ops.names import BrokerName, TopicName

Key = Annotated[str, Meta(min_length=1, max_length=255, description="A word without blanks.")]
Tag = Annotated[str, Meta(max_length=255, description="One word by which consumers may filter.")]
PropertyName = Annotated[str, Meta(min_length=1, max_length=255)]
PropertyValue = Annotated[str, Meta(max_length=32767)]
Properties = Annotated[dict[PropertyName, PropertyValue], Meta(max_length=128, description="The application's own.")]
Keys = Annotated[list[Key], Meta(max_length=64, description="Words by which it can be searched for.")]


class QueueChoice(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One queue of one broker."""

    broker: BrokerName
    queue_id: QueueId


class SendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    A message to be sent; its body is C{text} or C{base64}, one of the two.

    @ivar queue: the queue; null for any.
    """

    topic: TopicName
    text: Annotated[str | None, Meta(description="The body as text; it is sent as UTF-8.")] = None
    base64: Annotated[str | None, Meta(description="The body's bytes.")] = None
    tag: Tag = ""
    keys: Keys = []
    properties: Properties = {}
    delay_level: Annotated[int, Meta(ge=0, le=64, description="Deliver later: 1 is 1 s, 2 is 5 s, …; 0 at once.")] = 0
    flag: Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1, description="A number of the application's own.")] = 0
    queue: QueueChoice | None = None


class Sent(msgspec.Struct, rename="camel"):
    """
    What became of a message that was sent.

    @ivar status: C{SEND_OK}; C{FLUSH_DISK_TIMEOUT}, C{FLUSH_SLAVE_TIMEOUT}, C{SLAVE_NOT_AVAILABLE}: it is stored, but
        not as durably as the broker is set up to; C{DRY_RUN}: it was not sent.
    @ivar topic: where it was sent to.
    @ivar message_id: its unique id; null where it was not sent, as are the rest.
    """

    status: str
    topic: str
    message_id: str | None = None
    offset_id: str | None = None
    broker: str | None = None
    queue_id: int | None = None
    queue_offset: int | None = None
