"""The resource of the groups of a topic, each with its lag in this topic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.reading.survey import UNKNOWN, GroupSurvey
from smartgo.ops.reading.view import ClusterView, PartialView, each
from smartgo.ops.resources.names import TopicPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import READ, RouteCall, route
from smartgo.schema.lag import Lag, lag_over

_GONE: Final = {404: "There is no such topic."}
_NONE: Final = Lag(0, 0)


class TopicGroupRow(msgspec.Struct, rename="camel"):
    """
    One group of a topic.

    @ivar members: connected consumers; null if brokers do not report it.
    @ivar queues: of the topic in which it has offsets.
    @ivar lag: messages of the topic that wait for it; C{lag_ms} the age of the oldest; both null if brokers do not
        report it.
    @ivar last_ms: when the last message that it consumed was stored, wall clock; null if unknown.
    """

    group: str
    members: int | None = None
    queues: int | None = None
    lag: int | None = None
    lag_ms: int | None = None
    last_ms: int | None = None


class TopicGroupsApi:
    """The groups of topics."""

    def __init__(self, clock: IClock, view: ClusterView, survey: GroupSurvey) -> None:
        self._clock = clock
        self._view = view
        self._survey = survey

    @route(
        "GET",
        "/topics/{name}/lag",
        scope=READ,
        path_type=TopicPath,
        query=ListQuery,
        answer=Page[TopicGroupRow],
        refuses=_GONE,
    )
    async def lag(self, call: RouteCall[TopicPath, ListQuery, None]) -> Page[TopicGroupRow]:
        """
        List the groups of a topic with their lag in it; sorted by group, lag or lagMs.

        The order of the last two is that of the survey of all groups, some seconds old; the rows are measured now.
        """
        view = self._view.partial(call.missing)
        entry = await view.topic(call.path.name)
        names = await view.admin.topics.groups(entry.name)
        lags: dict[str, Lag] = {}
        if call.query.sort.removeprefix("-") in ("lag", "lagMs"):
            survey = await self._survey.all.get(call.missing)
            lags = {name: survey.get(name, UNKNOWN).parts.topics.get(entry.name, _NONE) for name in names}
        sorts: dict[str, Callable[[str], object]] = {
            "group": str,
            "lag": lambda name: lags[name].messages,
            "lagMs": lambda name: -(lags[name].oldest_ms or self._clock.wall_ms()),
        }
        page = page_of(names, call.query, sorts, str, "group")
        rows = await each(page.items, lambda name: self._row(name, entry.name, view))
        return Page(rows, page.total, page.next)

    async def _row(self, group: str, topic: str, view: PartialView) -> TopicGroupRow:
        """Measure one group; of one whose broker does not answer nothing is known."""
        try:
            queues = (await view.admin.groups.progress(group, topic)).offset_table
            connection = await view.admin.groups.connections(group)
        except CallFailed:
            return TopicGroupRow(group)
        own = [one for queue, one in queues.items() if queue.topic == topic]
        lag = lag_over(own)
        last_ms = max((one.last_timestamp for one in own), default=0)
        members = 0 if connection is None else len(connection.connection_set)
        waited_ms = lag.waited_ms(self._clock.wall_ms())
        return TopicGroupRow(group, members, len(own), lag.messages, waited_ms, last_ms or None)
