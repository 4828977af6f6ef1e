"""Resources about messages: find them, show one, let a consumer consume it, send a copy."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from smartgo.client.internal.copies import copy_to
from smartgo.client.internal.records import FoundMessage
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import (
    MessageId,
    MessageRow,
    MessageView,
    OptionalBroker,
    OptionalTopic,
    QueueId,
    QueueOffset,
    TimeMs,
    row_of,
    view_of,
)
from smartgo.ops.reading.deliveries import MessageDeliveries
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.lookup import Lookup
from smartgo.ops.reading.newest import NewestMessages
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerName, ClientId, GroupName, TopicName
from smartgo.ops.resources.send import Outbox, SentMessage
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import Partial
from smartgo.ops.web.routes import ADMIN, PUBLISH, READ, Raw, RouteCall, route

Word = Annotated[str, Meta(max_length=255, description="A complete key of the message.")]


class MessagePath(msgspec.Struct):
    """One message."""

    id: MessageId


class WhichQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Topic and broker of the message: a unique id is found at once with its topic, else in one topic after another."""

    topic: OptionalTopic = ""
    broker: OptionalBroker = ""


class StatesQuery(ListQuery, kw_only=True):
    """Filter of groups, by C{q} in their names; topic and broker of the message."""

    topic: OptionalTopic = ""
    broker: OptionalBroker = ""


class PlaceQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """One offset in a queue."""

    topic: TopicName
    broker: BrokerName
    queue_id: QueueId
    offset: QueueOffset


FindUniqueKey = Annotated[str, Meta(max_length=255, description="The unique id that its producer assigned.")]
FindUntilMs = Annotated[int, Meta(ge=0, le=253_402_300_799_999, description="0: until now.")]
FindLimit = Annotated[int, Meta(ge=1, le=64, description="The most messages to return.")]


class FindQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Messages to find: give either C{key} or C{uniqueKey}."""

    topic: TopicName
    key: Word = ""
    unique_key: FindUniqueKey = ""
    from_ms: TimeMs = 0
    until_ms: FindUntilMs = 0
    limit: FindLimit = 64


NewestCount = Annotated[int, Meta(ge=1, le=64, description="The most messages to return.")]


class NewestQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Topic whose newest messages to return."""

    topic: TopicName
    count: NewestCount = 32


class NewestView(Partial, rename="camel"):
    """The newest messages of a topic, of all its queues together, the newest first."""

    items: list[MessageRow]


AnywhereWord = Annotated[str, Meta(min_length=1, max_length=255, description="A complete key, or a unique id.")]


class AnywhereQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Key or unique id to find in any topic."""

    word: AnywhereWord
    limit: FindLimit = 20


class AnywhereView(Partial, rename="camel"):
    """
    Messages of any topic, the newest first.

    @ivar searched: topics that were searched: all of them, or until enough was found, 500 were searched or 3 s had
        passed.
    @ivar topics: topics that there are.
    """

    items: list[MessageRow]
    searched: int
    topics: int


class GroupState(msgspec.Struct, rename="camel"):
    """
    The delivery state of a message in one group.

    @ivar state: C{consumed}, C{filtered} (skipped by the subscription), C{waiting} (not consumed
        yet), C{retrying} (refused, and tried again), C{dead} (given up: a dead letter of the group), C{pull} (its
        members pull by themselves), C{broadcast}, C{offline} (no member is connected), C{unknown}.
    @ivar detail: more about the state, such as why it is unknown; null where there is none.
    """

    group: str
    state: str
    detail: str | None = None


ConsumeOrderSeconds = Annotated[
    int, Meta(ge=1, le=10, description="Seconds to wait for the answer; brokers wait for 10 s.")
]


class ConsumeOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Consumer that shall consume a message."""

    group: GroupName
    client_id: ClientId
    seconds: ConsumeOrderSeconds = 10


class Consumed(msgspec.Struct, rename="camel"):
    """
    The result of consuming a message at a client.

    @ivar result: C{CR_SUCCESS}, C{CR_LATER}, C{CR_ROLLBACK}, C{CR_COMMIT}, C{CR_THROW_EXCEPTION} or C{CR_RETURN_NULL}.
    @ivar well: whether the consumption succeeded.
    @ivar spent_ms: how long it took.
    """

    result: str
    well: bool
    order: bool
    auto_commit: bool
    remark: str | None
    spent_ms: int


ResendOrderTopic = Annotated[
    OptionalTopic, Meta(description="The destination; by default the topic it was first sent to.")
]


class ResendOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Destination and properties of the copy."""

    topic: ResendOrderTopic = ""
    dry_run: bool = False


_GONE: Final = {404: "There is no such message, topic or broker."}
_WELL: Final = frozenset({"CR_SUCCESS", "CR_COMMIT"})


class MessagesApi:
    """Messages."""

    def __init__(self, view: ClusterView, outbox: Outbox, inflater: Inflater) -> None:
        self._view = view
        self._outbox = outbox
        self._inflater = inflater

    # -- at once -----------------------------------------------------------------------------------------------

    @route("GET", "/messages", scope=READ, query=FindQuery, answer=Page[MessageRow], refuses=_GONE)
    async def find(self, call: RouteCall[None, FindQuery, None]) -> Page[MessageRow]:
        """List messages of a topic with a key, or a unique id, the oldest first."""
        query = call.query
        if bool(query.key) == bool(query.unique_key):
            raise Problem(400, "give either key or uniqueKey", "invalid-value")
        lookup = self._lookup(call)
        if query.key:
            messages = await lookup.by_key(query.topic, query.key, query.from_ms, query.until_ms, query.limit)
        else:
            messages = (await lookup.by_unique_key(query.topic, query.unique_key))[: query.limit]
        return Page([row_of(one) for one in messages], len(messages))

    @route("GET", "/messages/at", scope=READ, query=PlaceQuery, answer=MessageView, refuses=_GONE)
    async def at(self, call: RouteCall[None, PlaceQuery, None]) -> MessageView:
        """Show the message at one offset of a queue."""
        query = call.query
        return view_of(await self._lookup(call).at(query.topic, query.broker, query.queue_id, query.offset))

    @route("GET", "/messages/newest", scope=READ, query=NewestQuery, answer=NewestView, refuses=_GONE)
    async def newest(self, call: RouteCall[None, NewestQuery, None]) -> NewestView:
        """Show the newest messages of a topic, of all its queues together, the newest first."""
        found = await NewestMessages(self._view.partial(call.missing)).of(call.query.topic, call.query.count)
        return NewestView([row_of(one) for one in found])

    @route("GET", "/messages/anywhere", scope=READ, query=AnywhereQuery, answer=AnywhereView)
    async def anywhere(self, call: RouteCall[None, AnywhereQuery, None]) -> AnywhereView:
        """Find messages with a key or a unique id in any topic; topics of applications are searched first."""
        query = call.query
        swept = await self._lookup(call).anywhere(query.word, query.limit)
        rows = [row_of(one) for one in reversed(swept.messages)][: query.limit]
        return AnywhereView(rows, swept.searched, swept.topics)

    @route(
        "GET", "/messages/{id}", scope=READ, path_type=MessagePath, query=WhichQuery, answer=MessageView, refuses=_GONE
    )
    async def show(self, call: RouteCall[MessagePath, WhichQuery, None]) -> MessageView:
        """Show one message: all fields, the body in every form that fits, and the stored bytes field by field."""
        return view_of(await self._found(call))

    @route(
        "GET",
        "/messages/{id}/body",
        scope=READ,
        path_type=MessagePath,
        query=WhichQuery,
        answer=Raw,
        media="application/octet-stream",
        refuses={**_GONE, 409: "The body cannot be decompressed, or a broker refused."},
    )
    async def body(self, call: RouteCall[MessagePath, WhichQuery, None]) -> Raw:
        """Download the body of a message, decompressed."""
        one = await self._found(call)
        name = f'attachment; filename="{one.stored.message_id}.bin"'
        whole = await self._inflater.opened(one)
        return Raw(whole.body, "application/octet-stream", {"Content-Disposition": name})

    @route(
        "GET",
        "/messages/{id}/groups",
        scope=READ,
        path_type=MessagePath,
        query=StatesQuery,
        answer=Page[GroupState],
        refuses=_GONE,
    )
    async def groups(self, call: RouteCall[MessagePath, StatesQuery, None]) -> Page[GroupState]:
        """
        Show the delivery state of a message in the groups that read its topic; sorted by group. Only the groups of the
        page are checked.
        """
        message = await self._found(call)
        deliveries = MessageDeliveries(self._view.partial(call.missing))
        groups = await deliveries.groups(message)
        page = page_of(groups, call.query, {"group": str}, str, "group")
        states = await deliveries.states(message, page.items)
        return Page([GroupState(group, state, detail) for group, state, detail in states], page.total, page.next)

    def _lookup(self, call: RouteCall[Any, Any, Any]) -> Lookup:
        return Lookup(self._view.partial(call.missing))

    async def _found(self, call: RouteCall[MessagePath, Any, Any]) -> FoundMessage:
        return await self._lookup(call).by_id(call.path.id, call.query.topic, call.query.broker)

    # -- again -------------------------------------------------------------------------------------------------

    @route(
        "POST",
        "/messages/{id}/consume",
        scope=ADMIN,
        path_type=MessagePath,
        query=WhichQuery,
        body=ConsumeOrder,
        answer=Consumed,
        refuses=_GONE,
    )
    async def consume(self, call: RouteCall[MessagePath, WhichQuery, ConsumeOrder]) -> Consumed:
        """
        Let a connected consumer of a group consume a message now.

        Its listener is called with the message, outside the queues; no consumer offset changes.
        """
        order = call.body
        one = await self._found(call)
        result = await MessageDeliveries(self._view.partial(call.missing)).consume(
            one, order.group, order.client_id, order.seconds
        )
        word = result.consume_result or "CR_RETURN_NULL"
        return Consumed(
            word, word in _WELL, result.order, result.auto_commit, result.remark, int(result.spent_time_mills)
        )

    @route(
        "POST",
        "/messages/{id}/resend",
        scope=PUBLISH,
        path_type=MessagePath,
        query=WhichQuery,
        body=ResendOrder,
        answer=SentMessage,
        refuses={
            **_GONE,
            409: "The body cannot be decompressed, the original topic is unknown, or a broker refused.",
        },
    )
    async def resend(self, call: RouteCall[MessagePath, WhichQuery, ResendOrder]) -> SentMessage:
        """Send a copy of a message under a new id; all groups of the topic receive it."""
        copy = copy_to(await self._inflater.opened(await self._found(call)), call.body.topic)
        await self._outbox.check_open(copy.topic, call.principal)
        if call.body.dry_run:
            await self._outbox.check(copy.topic)
            return SentMessage("DRY_RUN", copy.topic)
        sent = await self._outbox.send(copy)
        call.noted["sent"] = sent.offset_id
        return sent
