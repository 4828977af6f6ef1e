"""Resources about messages: to look them up and search for them, to see all of one, to have it consumed or sent again."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from smartgo.ops.content import MessageId, OptionalBroker, OptionalTopic, QueueId, QueueOffset, TimeMs
from smartgo.ops.names import BrokerName, ClientId, GroupName, TopicName

Word = Annotated[str, Meta(max_length=255, description="A key of the message, whole.")]
Needle = Annotated[str, Meta(max_length=255)]


class MessagePath(msgspec.Struct):
    """One message."""

    id: MessageId


class WhichQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What else says which message is meant: a unique id alone is found with its topic only."""

    topic: OptionalTopic = ""
    broker: OptionalBroker = ""


class PlaceQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """One place in a queue."""

    topic: TopicName
    broker: BrokerName
    queue_id: QueueId
    offset: QueueOffset


class FindQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Which messages: give C{key} or C{uniqueKey}, one of the two."""

    topic: TopicName
    key: Word = ""
    unique_key: Annotated[str, Meta(max_length=255, description="The id that its producer gave it.")] = ""
    from_ms: TimeMs = 0
    until_ms: Annotated[int, Meta(ge=0, le=253_402_300_799_999, description="0: until now.")] = 0
    limit: Annotated[int, Meta(ge=1, le=64, description="Messages at most.")] = 64


class SearchOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    What to search for.

    With C{key}, C{uniqueKey} or C{offsetId} (one of them) brokers' indexes are asked; without, the topic is read from
    C{fromMs} to C{untilMs}. The other filters hold for what was found.
    """

    topic: TopicName
    key: Word = ""
    unique_key: Annotated[str, Meta(max_length=255, description="The id that its producer gave it.")] = ""
    offset_id: Annotated[str, Meta(max_length=56, pattern="^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})?$")] = ""
    from_ms: TimeMs = 0
    until_ms: Annotated[int, Meta(ge=0, le=253_402_300_799_999, description="0: until now.")] = 0
    broker: OptionalBroker = ""
    queue_id: Annotated[int | None, Meta(ge=0, le=65535, description="This queue of each broker alone.")] = None
    tag: Annotated[Needle, Meta(description="Messages with this tag alone; `A || B`: with either.")] = ""
    body: Annotated[Needle, Meta(description="Text that the body holds.")] = ""
    property: Annotated[Needle, Meta(description="The name of a property that it has.")] = ""
    value: Annotated[Needle, Meta(description="Text that this property holds, or any where none is named.")] = ""
    limit: Annotated[int, Meta(ge=1, le=10_000, description="End after so many were found.")] = 1000
    scan: Annotated[int, Meta(ge=1, le=1_000_000, description="End after so many were read.")] = 100_000


class SearchResult(msgspec.Struct, rename="camel"):
    """
    What came out of a search; the messages are the job's rows.

    @ivar found: messages; C{scanned}: how many were read for it.
    @ivar ended: C{complete}; C{found-enough} and C{scanned-enough}: there may be more.
    """

    found: int
    scanned: int
    ended: str


class GroupState(msgspec.Struct, rename="camel"):
    """
    What became of a message in one group.

    @ivar state: C{consumed}, C{filtered} (consumed, without the group's having seen it), C{waiting} (not consumed
        yet), C{pull} (its members pull by hand), C{broadcast}, C{offline} (no member is connected), C{unknown}.
    @ivar detail: why it is unknown, else null.
    """

    group: str
    state: str
    detail: str | None = None


class ConsumeOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Who is to consume a message."""

    group: GroupName
    client_id: ClientId
    seconds: Annotated[int, Meta(ge=1, le=25, description="To wait for its answer.")] = 15


class Consumed(msgspec.Struct, rename="camel"):
    """
    How a client did with a message.

    @ivar result: C{CR_SUCCESS}, C{CR_LATER}, C{CR_ROLLBACK}, C{CR_COMMIT}, C{CR_THROW_EXCEPTION} or C{CR_RETURN_NULL}.
    @ivar well: whether that is a success.
    @ivar spent_ms: that it took.
    """

    result: str
    well: bool
    order: bool
    auto_commit: bool
    remark: str | None
    spent_ms: int


class ResendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A copy to be sent."""

    topic: Annotated[OptionalTopic, Meta(description="Where to; by default the topic it was first sent to.")] = ""
    dry_run: bool = False
