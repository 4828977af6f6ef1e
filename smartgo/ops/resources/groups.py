"""Resources about consumer groups: settings, members, and how far they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from smartgo.ops.reading.progress import Progress, ProgressReader, ProgressView
from smartgo.ops.reading.survey import UNKNOWN, GroupSurvey, SurveyedGroup
from smartgo.ops.reading.view import ClusterView, GroupEntry, each
from smartgo.ops.resources.names import Brokers, GroupName, GroupPath, MemberPath
from smartgo.ops.resources.topics import Done
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import MissingBroker
from smartgo.ops.web.problems import Problem
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import MessageQueue, SubscriptionGroupConfig
from smartgo.schema.topics import RETRY_PREFIX, check_group

_GONE: Final = {404: "There is no such group, or no such broker."}
Small = Annotated[int, Meta(ge=0, le=1 << 20)]


class GroupRow(msgspec.Struct, rename="camel"):
    """
    One group.

    @ivar members: connected consumers; null where not asked for.
    @ivar progress: null where not asked for, or where brokers do not tell.
    """

    name: str
    brokers: list[str]
    consume_enabled: bool
    retry_max: int
    members: int | None = None
    model: str | None = None
    progress: Progress | None = None


class GroupSettings(msgspec.Struct, rename="camel"):
    """
    The settings of a group at one broker.

    @ivar retry_max: deliveries after which a message is dead.
    @ivar broker_id: whom to pull from, C{slow_broker_id} for what lies far back.
    """

    broker: str
    consume_enabled: bool
    from_min_enabled: bool
    broadcast_enabled: bool
    retry_queues: int
    retry_max: int
    broker_id: int
    slow_broker_id: int
    notify_changes: bool


class Subscription(msgspec.Struct, rename="camel"):
    """What a group wants of a topic; C{type} is C{TAG} or C{SQL92}."""

    topic: str
    expression: str
    type: str


class GroupView(GroupRow):
    """
    One group in full.

    @ivar starts: where it begins in a queue that it does not know.
    @ivar missing: brokers that did not tell: the group may have members and messages there.
    """

    settings: list[GroupSettings] = []
    subscriptions: list[Subscription] = []
    starts: str | None = None
    missing: list[MissingBroker] = []


class LagRow(msgspec.Struct, rename="camel"):
    """
    How far a group is in one queue.

    @ivar last_ms: when the message was stored that it consumed last, wall clock; null where there is none.
    @ivar owner: the member that has the queue, where it was asked for and says so.
    """

    topic: str
    broker: str
    queue_id: int
    max_offset: int
    offset: int
    lag: int
    last_ms: int | None
    owner: str | None = None


class TopicLag(msgspec.Struct, rename="camel"):
    """How far a group is in one topic."""

    topic: str
    queues: int
    lag: int
    last_ms: int | None


class MemberRow(msgspec.Struct, rename="camel"):
    """One connected consumer."""

    client_id: str
    address: str
    language: str
    version: int


class MemberQueue(msgspec.Struct, rename="camel"):
    """What a member holds of one queue; times are wall clock."""

    topic: str
    broker: str
    queue_id: int
    offset: int
    cached: int
    locked: bool
    dropped: bool
    last_pull_ms: int
    last_consume_ms: int


class MemberTopic(msgspec.Struct, rename="camel"):
    """How a member does with one topic: milliseconds of a pull or a message, and counts a second."""

    topic: str
    pull_ms: float
    pull_tps: float
    consume_ms: float
    consume_tps: float
    failed_tps: float


class MemberView(msgspec.Struct, rename="camel"):
    """What a member tells about itself."""

    properties: dict[str, str]
    subscriptions: list[Subscription]
    queues: list[MemberQueue]
    topics: list[MemberTopic]


GroupsBroker = Annotated[str, Meta(max_length=127, description="Those of one broker alone.")]
GroupsProgress = Annotated[
    bool, Meta(description="Add members and progress, without putTps, of each group of the page.")
]


class GroupsQuery(ListQuery, kw_only=True):
    """Which groups."""

    broker: GroupsBroker = ""
    progress: GroupsProgress = False


LagTopic = Annotated[str, Meta(max_length=127, description="Those of one topic alone.")]
LagBehind = Annotated[bool, Meta(description="Those alone where there is lag.")]
LagOwners = Annotated[bool, Meta(description="Ask members which queues they have.")]


class LagQuery(ListQuery, kw_only=True):
    """Which queues; C{q} is looked for in the topic."""

    topic: LagTopic = ""
    behind: LagBehind = False
    owners: LagOwners = False


GroupRetryQueues = Annotated[int, Meta(ge=0, le=64)]
GroupRetryMax = Annotated[int, Meta(ge=-1, le=10_000)]


class GroupBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """The settings of a group."""

    consume_enabled: bool = True
    from_min_enabled: bool = True
    broadcast_enabled: bool = True
    retry_queues: GroupRetryQueues = 1
    retry_max: GroupRetryMax = 16
    broker_id: Small = 0
    slow_broker_id: Small = 1
    notify_changes: bool = True
    brokers: Brokers = None


class NewGroup(GroupBody, kw_only=True):
    """A group to be made."""

    name: GroupName


DeleteGroupPositions = Annotated[bool, Meta(description="Also where it stands in its topics.")]
DeleteGroupTopics = Annotated[bool, Meta(description="Also its retry and dead-letter topics, with what is in them.")]


class DeleteGroupQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """What goes with it."""

    positions: DeleteGroupPositions = True
    topics: DeleteGroupTopics = True


class GroupsApi:
    """Consumer groups."""

    def __init__(self, view: ClusterView, progress: ProgressReader, survey: GroupSurvey) -> None:
        self._view = view
        self._progress = progress
        self._survey = survey

    @route("GET", "/groups", scope=READ, query=GroupsQuery, answer=Page[GroupRow])
    async def list(self, call: RouteCall[None, GroupsQuery, None]) -> Page[GroupRow]:
        """
        List groups; sorted by name, retryMax, brokers, lag, lagMs, consumeTps or members.

        By one of the last four all groups are asked how they are, now and then; then C{progress} is there anyway, some
        seconds old, and groups of which brokers do not tell stand at the lower end.
        """
        query = call.query
        view = self._view.partial(call.missing)
        entries = list((await view.groups.get()).values())
        if query.broker:
            entries = [one for one in entries if query.broker in one.configs]
        if query.sort.removeprefix("-") in _SURVEYED:
            survey = await self._survey.all.get(call.missing)
            known = [_filled(_row(one), survey.get(one.name, UNKNOWN)) for one in entries]
            return page_of(known, query, _SURVEYED, lambda one: one.name, "name")
        page = page_of(entries, query, _SORTS, lambda one: one.name, "name")
        rows = [_row(one) for one in page.items]
        if query.progress:
            states = await each(rows, lambda row: self._survey.one(row.name, view))
            for row, state in zip(rows, states, strict=True):
                _filled(row, state)
        return Page(rows, page.total, page.next)

    @route(
        "POST",
        "/groups",
        scope=ADMIN,
        body=NewGroup,
        answer=Done,
        status=201,
        refuses={409: "There is one of that name, or a broker declined."},
    )
    async def create(self, call: RouteCall[None, None, NewGroup]) -> Done:
        """Make a group."""
        body = call.body
        check_group(body.name)
        self._view.groups.forget()
        if body.name in await self._view.groups.get():
            raise Problem(409, f"there is a group {body.name} already", "group-exists")
        return await self._write(body.name, body, body.brokers)

    @route("GET", "/groups/{name}", scope=READ, path_type=GroupPath, answer=GroupView, refuses=_GONE)
    async def show(self, call: RouteCall[GroupPath, None, None]) -> GroupView:
        """Show a group: its settings at each broker, what it wants, and how far it is."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        self._progress.watch(entry.name)
        row = _row(entry)
        shown = GroupView(row.name, row.brokers, row.consume_enabled, row.retry_max)
        connection = await view.admin.groups.connections(entry.name)
        shown.members = 0 if connection is None else len(connection.connection_set)
        shown.model = None if connection is None else str(connection.message_model)
        shown.progress = await self._progress.progress(entry.name, view)
        shown.settings = [
            GroupSettings(
                broker,
                one.consume_enable,
                one.consume_from_min_enable,
                one.consume_broadcast_enable,
                one.retry_queue_nums,
                one.retry_max_times,
                one.broker_id,
                one.which_broker_when_consume_slowly,
                one.notify_consumer_ids_changed_enable,
            )
            for broker, one in sorted(entry.configs.items())
        ]
        if connection is not None:
            shown.starts = str(connection.consume_from_where)
            shown.subscriptions = _subscriptions(connection.subscription_table.values())
        return shown

    @route("PUT", "/groups/{name}", scope=ADMIN, path_type=GroupPath, body=GroupBody, answer=Done, refuses=_GONE)
    async def update(self, call: RouteCall[GroupPath, None, GroupBody]) -> Done:
        """Replace the settings of a group."""
        self._view.groups.forget()
        entry = await self._view.group(call.path.name)
        call.noted["before"] = msgspec.to_builtins(_row(entry))
        return await self._write(entry.name, call.body, call.body.brokers or sorted(entry.configs))

    async def _write(self, name: str, body: GroupBody, brokers: Any) -> Done:
        if brokers is not None:
            await self._view.check_brokers(brokers)
        config = SubscriptionGroupConfig(
            group_name=name,
            consume_enable=body.consume_enabled,
            consume_from_min_enable=body.from_min_enabled,
            consume_broadcast_enable=body.broadcast_enabled,
            retry_queue_nums=body.retry_queues,
            retry_max_times=body.retry_max,
            broker_id=body.broker_id,
            which_broker_when_consume_slowly=body.slow_broker_id,
            notify_consumer_ids_changed_enable=body.notify_changes,
        )
        try:
            return Done(await self._view.admin.groups.update(config, brokers))
        finally:
            self._view.forget()

    @route(
        "DELETE",
        "/groups/{name}",
        scope=ADMIN,
        path_type=GroupPath,
        query=DeleteGroupQuery,
        answer=Done,
        refuses=_GONE,
    )
    async def delete(self, call: RouteCall[GroupPath, DeleteGroupQuery, None]) -> Done:
        """Delete a group at all brokers."""
        self._view.groups.forget()
        entry = await self._view.group(call.path.name)
        call.noted["before"] = msgspec.to_builtins(_row(entry))
        try:
            done = await self._view.admin.groups.delete(entry.name, call.query.positions, call.query.topics)
            self._progress.forget(entry.name)
            return Done(done)
        finally:
            self._view.forget()

    # -- how far it is -----------------------------------------------------------------------------------------

    @route("GET", "/groups/{name}/progress", scope=READ, path_type=GroupPath, answer=ProgressView, refuses=_GONE)
    async def progress(self, call: RouteCall[GroupPath, None, None]) -> ProgressView:
        """Say how far a group is, and when it will be done; from then on its lag is in the history."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        self._progress.watch(entry.name)
        found = await self._progress.progress(entry.name, view)
        return ProgressView(**msgspec.structs.asdict(found))

    @route(
        "GET",
        "/groups/{name}/topics",
        scope=READ,
        path_type=GroupPath,
        query=ListQuery,
        answer=Page[TopicLag],
        refuses=_GONE,
    )
    async def topics(self, call: RouteCall[GroupPath, ListQuery, None]) -> Page[TopicLag]:
        """List how far a group is in each topic; sorted by topic, lag, queues or lastMs."""
        entry = await self._view.partial(call.missing).group(call.path.name)
        found: dict[str, TopicLag] = {}
        for queue, one in (await self._progress.stats(entry.name, call.missing)).offset_table.items():
            row = found.setdefault(queue.topic, TopicLag(queue.topic, 0, 0, None))
            row.queues += 1
            row.lag += max(0, one.broker_offset - one.consumer_offset)
            row.last_ms = max(row.last_ms or 0, one.last_timestamp) or None
        return page_of(found.values(), call.query, _TOPIC_SORTS, lambda one: one.topic, "topic")

    @route(
        "GET",
        "/groups/{name}/lag",
        scope=READ,
        path_type=GroupPath,
        query=LagQuery,
        answer=Page[LagRow],
        refuses=_GONE,
    )
    async def lag(self, call: RouteCall[GroupPath, LagQuery, None]) -> Page[LagRow]:
        """List how far a group is in each queue; sorted by queue, lag, offset or lastMs."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        query = call.query
        stats = await self._progress.stats(entry.name, call.missing)
        owners: dict[MessageQueue, str] = {}
        if query.owners:
            owners = await view.admin.groups.owners(entry.name)
        rows = []
        for queue, one in stats.offset_table.items():
            behind = max(0, one.broker_offset - one.consumer_offset)
            if (query.behind and not behind) or (query.topic and queue.topic != query.topic):
                continue
            rows.append(
                LagRow(
                    queue.topic,
                    queue.broker_name,
                    queue.queue_id,
                    one.broker_offset,
                    one.consumer_offset,
                    behind,
                    one.last_timestamp or None,
                    owners.get(queue),
                )
            )
        return page_of(rows, query, _LAG_SORTS, lambda one: one.topic, "queue")

    # -- members -----------------------------------------------------------------------------------------------

    @route(
        "GET",
        "/groups/{name}/clients",
        scope=READ,
        path_type=GroupPath,
        query=ListQuery,
        answer=Page[MemberRow],
        refuses=_GONE,
    )
    async def clients(self, call: RouteCall[GroupPath, ListQuery, None]) -> Page[MemberRow]:
        """List the connected consumers of a group; sorted by clientId, address or language."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        connection = await view.admin.groups.connections(entry.name)
        rows = [
            MemberRow(one.client_id, one.client_addr, one.language, one.version)
            for one in (() if connection is None else connection.connection_set)
        ]
        return page_of(rows, call.query, _MEMBER_SORTS, lambda one: one.client_id, "clientId")

    @route("GET", "/groups/{name}/clients/{client}", scope=READ, path_type=MemberPath, answer=MemberView, refuses=_GONE)
    async def client(self, call: RouteCall[MemberPath, None, None]) -> MemberView:
        """Ask a member about itself."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        connection = await view.admin.groups.connections(entry.name)
        known = () if connection is None else [one.client_id for one in connection.connection_set]
        if call.path.client not in known:
            what = f"connected member {call.path.client} of group {entry.name}"
            raise call.missing.absent(what, "client-not-found")
        info = await view.admin.groups.running_info(entry.name, call.path.client)
        return MemberView(
            info.properties,
            _subscriptions(info.subscription_set),
            [
                MemberQueue(
                    queue.topic,
                    queue.broker_name,
                    queue.queue_id,
                    one.commit_offset,
                    one.cached_msg_count,
                    one.locked,
                    one.dropped,
                    one.last_pull_timestamp,
                    one.last_consume_timestamp,
                )
                for queue, one in sorted(info.mq_table.items())
            ],
            [
                MemberTopic(
                    topic, one.pull_rt, one.pull_tps, one.consume_rt, one.consume_ok_tps, one.consume_failed_tps
                )
                for topic, one in sorted(info.status_table.items())
            ],
        )


def _row(entry: GroupEntry) -> GroupRow:
    configs = entry.configs.values()
    return GroupRow(
        entry.name,
        sorted(entry.configs),
        any(one.consume_enable for one in configs),
        max(one.retry_max_times for one in configs),
    )


def _filled(row: GroupRow, state: SurveyedGroup) -> GroupRow:
    row.members, row.model, row.progress = state
    return row


def _subscriptions(data: Any) -> list[Subscription]:
    return sorted(
        (
            Subscription(one.topic, one.sub_string, one.expression_type)
            for one in data
            if not one.topic.startswith(RETRY_PREFIX)
        ),
        key=lambda one: one.topic,
    )


_SORTS: Final = {
    "name": lambda one: one.name,
    "retryMax": lambda one: max(each.retry_max_times for each in one.configs.values()),
    "brokers": lambda one: len(one.configs),
}
_TOPIC_SORTS: Final = {
    "topic": lambda one: one.topic,
    "lag": lambda one: one.lag,
    "queues": lambda one: one.queues,
    "lastMs": lambda one: one.last_ms or 0,
}
_SURVEYED: Final[Mapping[str, Callable[[GroupRow], float]]] = {
    "lag": lambda one: -1 if one.progress is None else one.progress.lag,
    "lagMs": lambda one: -1 if one.progress is None else one.progress.lag_ms,
    "consumeTps": lambda one: -1 if one.progress is None else one.progress.consume_tps,
    "members": lambda one: -1 if one.members is None else one.members,
}
_LAG_SORTS: Final = {
    "queue": lambda one: (one.topic, one.broker, one.queue_id),
    "lag": lambda one: one.lag,
    "offset": lambda one: one.offset,
    "lastMs": lambda one: one.last_ms or 0,
}
_MEMBER_SORTS: Final = {
    "clientId": lambda one: one.client_id,
    "address": lambda one: one.address,
    "language": lambda one: one.language,
}
