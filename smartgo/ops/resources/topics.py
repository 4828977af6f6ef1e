"""The resource of topics: settings, queues, the groups that read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.client.administration.topics import DEFAULT_QUEUES, kind_of
from smartgo.client.internal.route import READ as READABLE
from smartgo.client.internal.route import WRITE as WRITABLE
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.membership.members import TopicContent
from smartgo.ops.problems import Problem
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView, PartialView, TopicEntry, each
from smartgo.ops.resources.changed import Done
from smartgo.ops.resources.names import Brokers, QueueCount, TopicName, TopicPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import MissingBroker
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import MessageQueue, TopicConfig
from smartgo.schema.topics import check_topic

Perm = Literal["read-write", "read", "write", "none"]
Kind = Literal["normal", "retry", "dead", "system"]
Lost = Mapping[str, Mapping[str, TopicContent]]
"""What cannot be reached, by topic, then by broker."""

_BITS: Final[dict[str, int]] = {"read-write": READABLE | WRITABLE, "read": READABLE, "write": WRITABLE, "none": 0}
_GONE: Final = {404: "There is no such topic, or no such broker."}


def perm_of(bits: int) -> Perm:
    """Return what the permission bits allow, in a word."""
    if bits & READABLE:
        return "read-write" if bits & WRITABLE else "read"
    return "write" if bits & WRITABLE else "none"


class Amounts(msgspec.Struct, rename="camel"):
    """
    The messages in a topic.

    @ivar messages: number of stored messages in all queues.
    @ivar last_ms: when the newest was stored, wall clock; null if there is none.
    @ivar put_tps: messages stored per second in the last minute; null if brokers do not report it.
    """

    messages: int
    last_ms: int | None
    put_tps: float | None


class LostAtBroker(msgspec.Struct, rename="camel"):
    """The part of a topic at a missing broker, as counted last; C{messages} is null for unknown."""

    broker: str
    queues: int
    messages: int | None


class TopicRow(msgspec.Struct, rename="camel"):
    """
    One topic.

    @ivar kind: an application's (C{normal}), a group's (C{retry}, C{dead}), or the brokers' own (C{system}).
    @ivar read_queues: at all its brokers together; C{write_queues} likewise.
    @ivar perm: of all its brokers together; each broker's may differ.
    @ivar amounts: if requested.
    @ivar unreachable: what cannot be reached, by broker: those of its brokers of which no process answers. A topic that
        is at no other broker has no C{brokers} and no queues.
    """

    name: str
    kind: Kind
    brokers: list[str]
    read_queues: int
    write_queues: int
    perm: Perm
    order: bool
    amounts: Amounts | None = None
    unreachable: list[LostAtBroker] = []


class TopicSettings(msgspec.Struct, rename="camel"):
    """The settings of a topic at one broker."""

    broker: str
    read_queues: int
    write_queues: int
    perm: Perm
    order: bool
    filter_type: str
    unit_flags: int
    attributes: dict[str, str]


class TopicView(TopicRow):
    """
    One topic in full.

    @ivar missing: brokers that did not answer: they may have more of the topic.
    """

    settings: list[TopicSettings] = []
    missing: list[MissingBroker] = []


class QueueRow(msgspec.Struct, rename="camel"):
    """
    One queue.

    @ivar min_offset: offset of the oldest message; C{max_offset} that of the next message.
    @ivar last_ms: when the newest message was stored, wall clock; null if there is none.
    @ivar first_ms: when the oldest message was stored; null if there is none, or if not requested.
    """

    broker: str
    queue_id: int
    min_offset: int
    max_offset: int
    messages: int
    last_ms: int | None
    first_ms: int | None = None


TopicsKind = Annotated[list[Kind], Meta(max_length=4, description="Only those of these kinds.")]
TopicsBroker = Annotated[str, Meta(max_length=127, description="Only those of one broker.")]
TopicsAmounts = Annotated[bool, Meta(description="Include the number of messages of each topic of the page.")]


class TopicsQuery(ListQuery, kw_only=True):
    """Filters of topics."""

    kind: TopicsKind = []
    broker: TopicsBroker = ""
    amounts: TopicsAmounts = False


QueuesAges = Annotated[bool, Meta(description="Include when the oldest message of each queue of the page was stored.")]


class QueuesQuery(ListQuery, kw_only=True):
    """Filters of queues."""

    ages: QueuesAges = False


class TopicBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The settings of a topic."""

    read_queues: QueueCount = DEFAULT_QUEUES
    write_queues: QueueCount = DEFAULT_QUEUES
    perm: Perm = "read-write"
    order: bool = False
    brokers: Brokers = None


class NewTopic(TopicBody, kw_only=True):
    """A new topic."""

    name: TopicName


class TopicsApi:
    """Topics."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route("GET", "/topics", scope=READ, query=TopicsQuery, answer=Page[TopicRow])
    async def list(self, call: RouteCall[None, TopicsQuery, None]) -> Page[TopicRow]:
        """List topics, an account's own ones; sorted by name, kind, readQueues, writeQueues or brokers."""
        query = call.query
        view = self._view.partial(call.missing)
        topics = await view.topics.get()
        lost = self._view.membership.table.topics_lost()
        entries = [one for one in _with_lost(topics, lost).values() if call.sees(one.name)]
        if query.kind:
            entries = [one for one in entries if one.kind in query.kind]
        if query.broker:
            entries = [one for one in entries if query.broker in one.configs or query.broker in lost.get(one.name, ())]
        page = page_of(entries, query, _SORTS, _name, "name")
        rows = [_row(one, lost) for one in page.items]
        if query.amounts:
            reachable = [row for row in rows if row.brokers]
            asked = await each(reachable, lambda row: _amounts(view, row.name))
            for row, amounts in zip(reachable, asked, strict=True):
                row.amounts = amounts
        return Page(rows, page.total, page.next)

    @route(
        "POST",
        "/topics",
        scope=ADMIN,
        body=NewTopic,
        answer=Done,
        status=201,
        refuses={409: "The name is taken, or a broker refused."},
    )
    async def create(self, call: RouteCall[None, None, NewTopic]) -> Done:
        """Create a topic."""
        body = call.body
        check_topic(body.name)
        self._view.topics.forget()
        if body.name in await self._view.topics.get():
            raise Problem(409, f"topic {body.name} exists already", "topic-exists")
        await self._view.note_unreached(call.missing, body.brokers)
        return await self._write(body.name, body, body.brokers)

    @route("GET", "/topics/{name}", scope=READ, path_type=TopicPath, answer=TopicView, refuses=_GONE)
    async def show(self, call: RouteCall[TopicPath, None, None]) -> TopicView:
        """Show a topic: its settings at each broker and its messages."""
        view = self._view.partial(call.missing)
        topics = await view.topics.get()
        lost = self._view.membership.table.topics_lost()
        topics = _with_lost(topics, lost)
        entry = topics[call.path.name] if call.path.name in topics else await view.topic(call.path.name)
        row = _row(entry, lost)
        return TopicView(
            row.name,
            row.kind,
            row.brokers,
            row.read_queues,
            row.write_queues,
            row.perm,
            row.order,
            await _amounts(view, entry.name) if row.brokers else None,
            row.unreachable,
            [
                TopicSettings(
                    broker,
                    one.read_queue_nums,
                    one.write_queue_nums,
                    perm_of(one.perm),
                    one.order,
                    one.topic_filter_type,
                    one.topic_sys_flag,
                    one.attributes or {},
                )
                for broker, one in sorted(entry.configs.items())
            ],
        )

    @route("PUT", "/topics/{name}", scope=ADMIN, path_type=TopicPath, body=TopicBody, answer=Done, refuses=_GONE)
    async def update(self, call: RouteCall[TopicPath, None, TopicBody]) -> Done:
        """Replace the settings of a topic."""
        self._view.topics.forget()
        entry = await self._view.topic(call.path.name)
        call.noted["before"] = msgspec.to_builtins(_row(entry))
        await self._view.note_unreached(call.missing, call.body.brokers)
        return await self._write(entry.name, call.body, call.body.brokers or sorted(entry.configs))

    async def _write(self, name: str, body: TopicBody, brokers: Any) -> Done:
        if brokers is not None:
            await self._view.check_brokers(brokers)
        config = TopicConfig(
            topic_name=name,
            read_queue_nums=body.read_queues,
            write_queue_nums=body.write_queues,
            perm=_BITS[body.perm],
            order=body.order,
        )
        try:
            return Done(await self._view.admin.topics.update(config, brokers))
        finally:
            self._view.forget()

    @route("DELETE", "/topics/{name}", scope=ADMIN, path_type=TopicPath, answer=Done, refuses=_GONE)
    async def delete(self, call: RouteCall[TopicPath, None, None]) -> Done:
        """
        Delete a topic and its messages at all brokers.

        Groups keep their offsets in it.
        """
        self._view.topics.forget()
        entry = await self._view.topic(call.path.name)
        call.noted["before"] = msgspec.to_builtins(_row(entry))
        await self._view.note_unreached(call.missing)
        try:
            return Done(await self._view.admin.topics.delete(entry.name))
        finally:
            self._view.forget()

    @route(
        "GET",
        "/topics/{name}/queues",
        scope=READ,
        path_type=TopicPath,
        query=QueuesQuery,
        answer=Page[QueueRow],
        refuses=_GONE,
    )
    async def queues(self, call: RouteCall[TopicPath, QueuesQuery, None]) -> Page[QueueRow]:
        """List the queues of a topic; sorted by queue, messages, maxOffset or lastMs."""
        view = self._view.partial(call.missing)
        entry = await view.topic(call.path.name)
        stats = await view.admin.topics.stats(entry.name)
        rows = [
            QueueRow(
                queue.broker_name,
                queue.queue_id,
                one.min_offset,
                one.max_offset,
                one.max_offset - one.min_offset,
                one.last_update_timestamp or None,
            )
            for queue, one in stats.offset_table.items()
        ]
        page = page_of(rows, call.query, _QUEUE_SORTS, lambda one: one.broker, "queue")
        if call.query.ages:
            await each([one for one in page.items if one.messages], lambda row: _add_first(view, entry.name, row))
        return page

    @route(
        "GET",
        "/topics/{name}/groups",
        scope=READ,
        path_type=TopicPath,
        query=ListQuery,
        answer=Page[str],
        refuses=_GONE,
    )
    async def groups(self, call: RouteCall[TopicPath, ListQuery, None]) -> Page[str]:
        """List the groups that subscribe to a topic or have offsets in it."""
        view = self._view.partial(call.missing)
        entry = await view.topic(call.path.name)
        names = await view.admin.topics.groups(entry.name)
        return page_of(names, call.query, {"name": str}, str, "name")


async def _amounts(view: PartialView, topic: str) -> Amounts | None:
    try:
        stats = await view.admin.topics.stats(topic)
    except CallFailed:
        return None  # gone since the list was made, or its broker does not answer: the rest of the page counts
    bounds = stats.offset_table.values()
    last = max((one.last_update_timestamp for one in bounds), default=0)
    return Amounts(sum(one.max_offset - one.min_offset for one in bounds), last or None, stats.topic_put_tps)


async def _add_first(view: PartialView, topic: str, row: QueueRow) -> None:
    try:
        first = await ClusterQueueReader(view).pull(MessageQueue(topic, row.broker, row.queue_id), row.min_offset, 1)
    except PeerRefused:
        return  # one that cannot be read does not keep the others from being shown
    except CallFailed as error:
        view.missing.note(row.broker, error)
        return
    row.first_ms = first.messages[0].stored.stored_ms if first.messages else None


def _with_lost(topics: dict[str, TopicEntry], lost: Lost) -> dict[str, TopicEntry]:
    """Return topics by name, and with them those that only brokers had of which no process answers."""
    return {**{name: TopicEntry(name, str(kind_of(name))) for name in lost}, **topics}


def _row(entry: TopicEntry, lost: Lost | None = None) -> TopicRow:
    configs = entry.configs.values()
    bits = 0
    for one in configs:
        bits |= one.perm
    return TopicRow(
        entry.name,
        entry.kind,  # type: ignore[arg-type]  # a TopicKind's text
        sorted(entry.configs),
        sum(one.read_queue_nums for one in configs),
        sum(one.write_queue_nums for one in configs),
        perm_of(bits),
        any(one.order for one in configs),
        None,
        [
            LostAtBroker(name, one.queues, one.messages)
            for name, one in sorted((lost or {}).get(entry.name, {}).items())
        ],
    )


def _name(entry: TopicEntry) -> str:
    return entry.name


_SORTS: Final = {
    "name": _name,
    "kind": lambda one: one.kind,
    "readQueues": lambda one: sum(each.read_queue_nums for each in one.configs.values()),
    "writeQueues": lambda one: sum(each.write_queue_nums for each in one.configs.values()),
    "brokers": lambda one: len(one.configs),
}
_QUEUE_SORTS: Final = {
    "queue": lambda one: (one.broker, one.queue_id),
    "messages": lambda one: one.messages,
    "maxOffset": lambda one: one.max_offset,
    "lastMs": lambda one: one.last_ms or 0,
}
