"""The resource of the trace of a message: the events that clients traced."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.search import at_limit
from smartgo.client.internal.tracetimeline import MessageTrace, TraceMessage, timeline
from smartgo.errors import BadCompression, BodyTooLong
from smartgo.net.limits import MIB
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import OptionalBroker, OptionalTopic
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.lookup import Lookup
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.messages import MessagePath
from smartgo.ops.web.partial import Partial
from smartgo.ops.web.routes import READ, RouteCall, route
from smartgo.schema.message import unpack_host
from smartgo.schema.topics import TRACE_TOPIC

LONGEST: Final = MIB
"""Bytes of a trace message, decompressed, that are read: clients write 128,000."""

TraceTopic = Annotated[
    OptionalTopic, Meta(description="The topic that clients write traces to; RMQ_SYS_TRACE_TOPIC by default.")
]


class TraceQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Topic and broker of the message, which are needed for an offset id alone; the topic of traces."""

    topic: OptionalTopic = ""
    broker: OptionalBroker = ""
    trace_topic: TraceTopic = ""


class TraceEventRow(msgspec.Struct, rename="camel"):
    """
    An event in the life of a message.

    @ivar kind: C{produced}, C{consumed}, C{transaction} (its producer told the outcome) or C{recalled}.
    @ivar at_ms: when it began, by the client's clock.
    @ivar took_ms: ms until the broker answered or the listener ended; null where that is not known.
    @ivar group: the group of the producer or consumer; empty where that is not known.
    @ivar client: the host of the client.
    @ivar result: of C{produced}: C{stored}, or C{weak} (less durably than asked); of C{consumed}: C{success},
        C{failed} (asked for again), C{exception}, C{timeout}, C{null}, or C{open} (no end is known); of
        C{transaction}: C{committed}, C{rolledback} or C{unknown}; of C{recalled}: C{success} or C{failed}.
    @ivar retries: how often the group was given the message before; null where that is not known.
    @ivar broker: address of the broker that stored it; empty for consumption.
    @ivar checked: whether the broker had asked for the outcome of the transaction.
    """

    kind: str
    at_ms: int
    took_ms: int | None
    group: str
    client: str
    result: str
    retries: int | None
    broker: str
    checked: bool


class TraceView(Partial, rename="camel"):
    """
    The events that clients traced of a message, the oldest first.

    @ivar topic: the topic of traces; C{exists}: whether there is one.
    @ivar unreadable: records of traces that could not be read.
    @ivar more: whether a broker may have more trace messages of it than were read.
    """

    items: list[TraceEventRow]
    topic: str
    exists: bool
    unreadable: int = 0
    more: bool = False


class TraceApi:
    """Traces of messages."""

    def __init__(self, view: ClusterView, inflater: Inflater) -> None:
        self._view = view
        self._inflater = inflater

    @route("GET", "/messages/{id}/trace", scope=READ, path_type=MessagePath, query=TraceQuery, answer=TraceView)
    async def trace(self, call: RouteCall[MessagePath, TraceQuery, None]) -> TraceView:
        """
        Show the events that clients traced of a message: when it was sent, and which groups consumed it.

        Without traces, or without a topic of traces, the list is empty. At most 64 trace messages of each broker are
        read.
        """
        query, wanted = call.query, call.path.id
        topic = query.trace_topic or TRACE_TOPIC
        lookup = Lookup(self._view.partial(call.missing))
        try:
            found = await lookup.by_key(topic, wanted, 0, 0, limit=_ALL)
            if not found:
                unique = await self._unique_id(lookup, wanted, query)
                if unique != wanted:
                    wanted, found = unique, await lookup.by_key(topic, unique, 0, 0, limit=_ALL)
        except Problem as problem:
            if problem.status != 404:
                raise
            return TraceView([], topic, False)
        trace = await self._timeline(wanted, found)
        rows = [TraceEventRow(**msgspec.structs.asdict(one)) for one in trace.events]
        return TraceView(rows, topic, True, trace.unreadable, at_limit(found))

    async def _unique_id(self, lookup: Lookup, id: str, query: TraceQuery) -> str:
        """Return the unique id of a message that may have been named by its offset id."""
        try:
            return (await lookup.by_id(id, query.topic, query.broker)).message_id
        except Problem as problem:
            if problem.status != 404:
                raise
            return id

    async def _timeline(self, id: str, found: list[FoundMessage]) -> MessageTrace:
        messages = []
        unreadable = 0
        for one in found:
            try:
                body = await self._inflater.whole(one.stored, LONGEST)
            except (BadCompression, BodyTooLong):
                unreadable += 1
            else:
                messages.append(TraceMessage(body, unpack_host(one.stored.born_host)[0], one.stored.stored_ms))
        trace = timeline(id, messages)
        trace.unreadable += unreadable
        return trace


_ALL: Final = 1_000_000  # of what brokers bring, which have a limit of their own
