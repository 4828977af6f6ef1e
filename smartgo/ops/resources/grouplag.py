"""The resource of the lag of consumer groups: in total, by topic, by queue."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from smartgo.env.interfaces import IClock
from smartgo.ops.reading.progress import ProgressReader, ProgressView
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import GroupPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import READ, RouteCall, route
from smartgo.schema.bodies import MessageQueue, OffsetWrapper
from smartgo.schema.lag import lag_over

_GONE: Final = {404: "There is no such group, or no such broker."}


class LagRow(msgspec.Struct, rename="camel"):
    """
    The lag of a group in one queue.

    @ivar last_ms: when the last message below the group's offset was stored, wall clock, whether it was consumed, given
        back or skipped; null if there is none.
    @ivar lag_ms: the age of the oldest message that waits; 0 if none waits; null if the broker does not tell.
    @ivar owner: the member that consumes the queue, if requested and known.
    """

    topic: str
    broker: str
    queue_id: int
    max_offset: int
    offset: int
    lag: int
    last_ms: int | None
    lag_ms: int | None
    owner: str | None = None


class TopicLag(msgspec.Struct, rename="camel"):
    """
    The lag of a group in one topic.

    @ivar last_ms: when the last message below the group's offset was stored, wall clock, whether it was consumed, given
        back or skipped; null if there is none.
    @ivar lag_ms: the age of the oldest message that waits; 0 if none waits; null if brokers do not tell.
    """

    topic: str
    queues: int
    lag: int
    last_ms: int | None
    lag_ms: int | None


LagTopic = Annotated[str, Meta(max_length=127, description="Only those of one topic.")]
LagBehind = Annotated[bool, Meta(description="Only those with lag.")]
LagOwners = Annotated[bool, Meta(description="Ask members which queues they consume.")]


class LagQuery(ListQuery, kw_only=True):
    """Filters of queues; C{q} is searched in the topic."""

    topic: LagTopic = ""
    behind: LagBehind = False
    owners: LagOwners = False


class GroupLagApi:
    """The progress and the lag of consumer groups."""

    def __init__(self, clock: IClock, view: ClusterView, progress: ProgressReader) -> None:
        self._clock = clock
        self._view = view
        self._progress = progress

    @route("GET", "/groups/{name}/progress", scope=READ, path_type=GroupPath, answer=ProgressView, refuses=_GONE)
    async def progress(self, call: RouteCall[GroupPath, None, None]) -> ProgressView:
        """Show the lag of a group and the estimated time to catch up."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        found = await self._progress.progress(entry.name, view)
        lost = self._view.membership.unreachable_lag(entry.name)
        return ProgressView(**msgspec.structs.asdict(found), unreachable=lost)

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
        """List the lag of a group by topic; sorted by topic, lag, queues, lastMs or lagMs."""
        entry = await self._view.partial(call.missing).group(call.path.name)
        found: dict[str, list[OffsetWrapper]] = {}
        for queue, one in (await self._progress.stats(entry.name, call.missing)).offset_table.items():
            found.setdefault(queue.topic, []).append(one)
        now_ms = self._clock.wall_ms()
        rows = []
        for topic, queues in found.items():
            lag = lag_over(queues)
            last_ms = max(one.last_timestamp for one in queues) or None
            rows.append(TopicLag(topic, len(queues), lag.messages, last_ms, lag.waited_ms(now_ms)))
        return page_of(rows, call.query, _TOPIC_SORTS, lambda one: one.topic, "topic")

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
        """List the lag of a group by queue; sorted by queue, lag, offset, lastMs or lagMs."""
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        query = call.query
        stats = await self._progress.stats(entry.name, call.missing)
        owners: dict[MessageQueue, str] = {}
        if query.owners:
            owners = await view.admin.groups.owners(entry.name)
        now_ms = self._clock.wall_ms()
        rows = []
        for queue, one in stats.offset_table.items():
            lag = lag_over((one,))
            if (query.behind and not lag.messages) or (query.topic and queue.topic != query.topic):
                continue
            rows.append(
                LagRow(
                    queue.topic,
                    queue.broker_name,
                    queue.queue_id,
                    one.broker_offset,
                    one.consumer_offset,
                    lag.messages,
                    one.last_timestamp or None,
                    lag.waited_ms(now_ms),
                    owners.get(queue),
                )
            )
        return page_of(rows, query, _LAG_SORTS, lambda one: one.topic, "queue")


_TOPIC_SORTS: Final = {
    "topic": lambda one: one.topic,
    "lag": lambda one: one.lag,
    "queues": lambda one: one.queues,
    "lastMs": lambda one: one.last_ms or 0,
    "lagMs": lambda one: -1 if one.lag_ms is None else one.lag_ms,
}
_LAG_SORTS: Final = {
    "queue": lambda one: (one.topic, one.broker, one.queue_id),
    "lag": lambda one: one.lag,
    "offset": lambda one: one.offset,
    "lastMs": lambda one: one.last_ms or 0,
    "lagMs": lambda one: -1 if one.lag_ms is None else one.lag_ms,
}
