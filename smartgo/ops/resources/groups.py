"""The resource of consumer groups and their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from smartgo.client.administration.groups import is_built_in
from smartgo.ops.membership.grouplags import UnreachableLag
from smartgo.ops.problems import Problem
from smartgo.ops.reading.progress import Progress, ProgressReader
from smartgo.ops.reading.survey import UNKNOWN, GroupSurvey, SurveyedGroup
from smartgo.ops.reading.view import ClusterView, GroupEntry, each
from smartgo.ops.resources.changed import Done
from smartgo.ops.resources.groupmembers import Subscription, subscriptions_of
from smartgo.ops.resources.names import Brokers, GroupName, GroupPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import MissingBroker
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import SubscriptionGroupConfig
from smartgo.schema.topics import check_group

_GONE: Final = {404: "There is no such group, or no such broker."}
Small = Annotated[int, Meta(ge=0, le=1 << 20)]


class GroupRow(msgspec.Struct, rename="camel"):
    """
    One group.

    @ivar members: connected consumers; null if not requested.
    @ivar progress: null if not requested, or if brokers do not report it.
    @ivar system: whether every broker has it for itself.
    @ivar unreachable: messages that wait for it at brokers of which no process answers, as they were counted last.
    """

    name: str
    brokers: list[str]
    consume_enabled: bool
    retry_max: int
    members: int | None = None
    model: str | None = None
    progress: Progress | None = None
    system: bool = False
    unreachable: list[UnreachableLag] = []


class GroupSettings(msgspec.Struct, rename="camel"):
    """
    The settings of a group at one broker.

    @ivar retry_max: deliveries after which a message becomes a dead letter.
    @ivar broker_id: the broker id to pull from; C{slow_broker_id} for old messages.
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


class GroupView(GroupRow):
    """
    One group in full.

    @ivar starts: where it starts in a queue without a consumer offset.
    @ivar missing: brokers that did not answer: the group may have members and messages there.
    """

    settings: list[GroupSettings] = []
    subscriptions: list[Subscription] = []
    starts: str | None = None
    missing: list[MissingBroker] = []


GroupsBroker = Annotated[str, Meta(max_length=127, description="Only those of one broker.")]
GroupsProgress = Annotated[
    bool, Meta(description="Include members and progress (without putTps) of each group of the page.")
]
GroupsSystem = Annotated[bool, Meta(description="Include groups that every broker has for itself.")]


class GroupsQuery(ListQuery, kw_only=True):
    """Filters of groups."""

    broker: GroupsBroker = ""
    progress: GroupsProgress = False
    system: GroupsSystem = True


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
    """A new group."""

    name: GroupName


DeleteGroupPositions = Annotated[bool, Meta(description="Also delete its consumer offsets.")]
DeleteGroupTopics = Annotated[
    bool, Meta(description="Also delete its retry and dead-letter topics with their messages.")
]


class DeleteGroupQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Data to delete along with the group."""

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

        For the last four all groups are measured periodically; C{progress} is then always present, some seconds old,
        and groups whose brokers did not answer come last. An account sees the groups that it may consume in.
        """
        query = call.query
        view = self._view.partial(call.missing)
        entries = [one for one in (await view.groups.get()).values() if call.sees(one.name)]
        if query.broker:
            entries = [one for one in entries if query.broker in one.configs]
        if not query.system:
            entries = [one for one in entries if not is_built_in(one.name)]
        if query.sort.removeprefix("-") in _SURVEYED:
            survey = await self._survey.all.get(call.missing)
            known = [_filled(_row(one), survey.get(one.name, UNKNOWN)) for one in entries]
            sorted_rows = page_of(known, query, _SURVEYED, lambda one: one.name, "name")
            self._add_unreachable(sorted_rows.items)
            return sorted_rows
        page = page_of(entries, query, _SORTS, lambda one: one.name, "name")
        rows = [_row(one) for one in page.items]
        if query.progress:
            states = await each(rows, lambda row: self._survey.one(row.name, view))
            for row, state in zip(rows, states, strict=True):
                _filled(row, state)
        self._add_unreachable(rows)
        return Page(rows, page.total, page.next)

    def _add_unreachable(self, rows: Iterable[GroupRow]) -> None:
        for row in rows:
            row.unreachable = self._view.membership.unreachable_lag(row.name)

    @route(
        "POST",
        "/groups",
        scope=ADMIN,
        body=NewGroup,
        answer=Done,
        status=201,
        refuses={409: "The name is taken, or a broker refused."},
    )
    async def create(self, call: RouteCall[None, None, NewGroup]) -> Done:
        """Create a group."""
        body = call.body
        check_group(body.name)
        self._view.groups.forget()
        if body.name in await self._view.groups.get():
            raise Problem(409, f"group {body.name} exists already", "group-exists")
        await self._view.note_unreached(call.missing, body.brokers)
        return await self._write(body.name, body, body.brokers)

    @route("GET", "/groups/{name}", scope=READ, path_type=GroupPath, answer=GroupView, refuses=_GONE)
    async def show(self, call: RouteCall[GroupPath, None, None]) -> GroupView:
        """Show a group: its settings at each broker, its subscriptions and its lag."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        row = _row(entry)
        shown = GroupView(row.name, row.brokers, row.consume_enabled, row.retry_max, system=row.system)
        connection = await view.admin.groups.connections(entry.name)
        shown.members = 0 if connection is None else len(connection.connection_set)
        shown.model = None if connection is None else str(connection.message_model)
        shown.progress = await self._progress.progress(entry.name, view)
        self._add_unreachable([shown])
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
            shown.subscriptions = subscriptions_of(connection.subscription_table.values())
        return shown

    @route("PUT", "/groups/{name}", scope=ADMIN, path_type=GroupPath, body=GroupBody, answer=Done, refuses=_GONE)
    async def update(self, call: RouteCall[GroupPath, None, GroupBody]) -> Done:
        """Replace the settings of a group."""
        self._view.groups.forget()
        entry = await self._view.group(call.path.name)
        call.noted["before"] = msgspec.to_builtins(_row(entry))
        await self._view.note_unreached(call.missing, call.body.brokers)
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
        await self._view.note_unreached(call.missing)
        try:
            return Done(await self._view.admin.groups.delete(entry.name, call.query.positions, call.query.topics))
        finally:
            self._view.forget()


def _row(entry: GroupEntry) -> GroupRow:
    configs = entry.configs.values()
    return GroupRow(
        entry.name,
        sorted(entry.configs),
        any(one.consume_enable for one in configs),
        max(one.retry_max_times for one in configs),
        system=is_built_in(entry.name),
    )


def _filled(row: GroupRow, state: SurveyedGroup) -> GroupRow:
    row.members, row.model, row.progress, _ = state
    return row


_SORTS: Final = {
    "name": lambda one: one.name,
    "retryMax": lambda one: max(each.retry_max_times for each in one.configs.values()),
    "brokers": lambda one: len(one.configs),
}
_SURVEYED: Final[Mapping[str, Callable[[GroupRow], float]]] = {
    "lag": lambda one: -1 if one.progress is None else one.progress.lag,
    "lagMs": lambda one: -1 if one.progress is None or one.progress.lag_ms is None else one.progress.lag_ms,
    "consumeTps": lambda one: -1 if one.progress is None else one.progress.consume_tps,
    "members": lambda one: -1 if one.members is None else one.members,
}
