"""The resource of the members of consumer groups: connected consumers and the state that each reports."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import GroupPath, MemberPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import READ, RouteCall, route
from smartgo.schema.topics import RETRY_PREFIX

_GONE: Final = {404: "There is no such group, or no such broker."}


class Subscription(msgspec.Struct, rename="camel"):
    """A group's subscription to a topic; C{type} is C{TAG} or C{SQL92}."""

    topic: str
    expression: str
    type: str


class MemberRow(msgspec.Struct, rename="camel"):
    """One connected consumer."""

    client_id: str
    address: str
    language: str
    version: int


class MemberQueue(msgspec.Struct, rename="camel"):
    """The state of one queue at a member; times are wall clock, 0 for never."""

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
    """The rates of a member in one topic: milliseconds per pull or message, and counts per second."""

    topic: str
    pull_ms: float
    pull_tps: float
    consume_ms: float
    consume_tps: float
    failed_tps: float


class MemberView(msgspec.Struct, rename="camel"):
    """The state that a member reports."""

    properties: dict[str, str]
    subscriptions: list[Subscription]
    queues: list[MemberQueue]
    topics: list[MemberTopic]


class GroupMembersApi:
    """Members of consumer groups."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

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
        """Ask a connected consumer for its state: subscriptions, queues, rates."""
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
            subscriptions_of(info.subscription_set),
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
                    0 if one.never_consumed else one.last_consume_timestamp,
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


def subscriptions_of(data: Any) -> list[Subscription]:
    """Return subscriptions by topic, those of retry topics left out: every group has these."""
    return sorted(
        (
            Subscription(one.topic, one.sub_string, one.expression_type)
            for one in data
            if not one.topic.startswith(RETRY_PREFIX)
        ),
        key=lambda one: one.topic,
    )


_MEMBER_SORTS: Final = {
    "clientId": lambda one: one.client_id,
    "address": lambda one: one.address,
    "language": lambda one: one.language,
}
