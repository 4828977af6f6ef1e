"""Resources that read queues: a live tail by server-sent events, and a look at a piece of a queue."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from smartgo.ops.content import MessageRow, OptionalBroker, QueueId, QueueOffset
from smartgo.ops.names import BrokerName, TopicName

PEEK_LIMIT = 64


class PeekQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which piece of a queue."""

    topic: TopicName
    broker: BrokerName
    queue_id: QueueId
    offset: Annotated[int | None, Meta(ge=0, le=(1 << 63) - 1, description="Where to begin; by default the last.")] = (
        None
    )
    count: Annotated[int, Meta(ge=1, le=PEEK_LIMIT, description="Messages at most.")] = 32


class PeekPage(msgspec.Struct, rename="camel"):
    """
    A piece of a queue.

    @ivar offset: where it begins: as asked for, moved into the queue's bounds.
    @ivar next_offset: where the next piece begins; null at the end of the queue.
    @ivar previous_offset: where the piece before begins; null at its beginning.
    @ivar minimum: the offset of the first message there, C{maximum} that of the next to come.
    """

    items: list[MessageRow]
    offset: QueueOffset
    next_offset: int | None
    previous_offset: int | None
    minimum: int
    maximum: int


class TailQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What to follow."""

    topic: TopicName
    broker: OptionalBroker = ""
    queue_id: Annotated[int | None, Meta(ge=0, le=65535, description="This queue of each broker alone.")] = None
    tag: Annotated[str, Meta(max_length=255, description="With this tag alone; `A || B`: with either.")] = ""
    key: Annotated[str, Meta(max_length=255, description="With this key alone.")] = ""
    body: Annotated[str, Meta(max_length=255, description="Text that the body holds.")] = ""
    last: Annotated[int, Meta(ge=0, le=PEEK_LIMIT, description="Begin so many before the end of each queue.")] = 0
    count: Annotated[int, Meta(ge=1, le=10_000, description="End after so many messages.")] = 1000
    rate: Annotated[int, Meta(ge=1, le=100, description="Messages a second at most; the rest is counted.")] = 50


class TailBegun(msgspec.Struct, rename="camel"):
    """Event C{begun}: what is followed."""

    topic: str
    queues: int


class TailSkipped(msgspec.Struct, rename="camel"):
    """Event C{skipped}: messages that came too fast to be shown, since the last such event."""

    count: int


class TailTrouble(msgspec.Struct, rename="camel"):
    """Event C{trouble}: a broker did not answer; it is asked again."""

    broker: str
    error: str


class TailEnded(msgspec.Struct, rename="camel"):
    """Event C{ended}, the last: C{count} (so many were shown), C{time} (an hour has passed), C{declined}."""

    why: str
    detail: str | None
