"""The lag and the members of all groups: measured periodically, shared by sorted lists and alerts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.reading.progress import Progress, ProgressReader
from smartgo.ops.reading.view import Cached, ClusterView, PartialView, each
from smartgo.ops.web.partial import Missing
from smartgo.schema.bodies import ConsumeStats
from smartgo.schema.lag import Lag, lag_over

FRESH: Final = 10.0
"""Seconds for which a survey is good; longer where it took long, see L{Cached}."""

_AT_ONCE: Final = 4


class GroupParts(NamedTuple):
    """
    The lag of one group by topic and by broker.

    @ivar ends: the sum of the ends of a topic's queues at a broker, by broker and topic.
    """

    topics: Mapping[str, Lag] = {}
    brokers: Mapping[str, Lag] = {}
    ends: Mapping[tuple[str, str], int] = {}


class SurveyedGroup(NamedTuple):
    """
    Members and lag of one group; C{None} if brokers do not report it.

    @ivar parts: from a survey of all groups alone.
    """

    members: int | None
    model: str | None
    progress: Progress | None
    parts: GroupParts = GroupParts()


class LagParts:
    """
    The lag of several groups, or of several queues, added up.

    @ivar lag: of all that was added.
    """

    __slots__ = ("lag",)

    def __init__(self) -> None:
        self.lag = Lag(0, 0)

    def add(self, more: Lag) -> None:
        """Add messages that wait; the oldest of all counts, of those whose age is known."""
        if not more.messages:
            return
        messages, oldest_ms = self.lag
        both = [one for one in (oldest_ms if messages else None, more.oldest_ms) if one]
        self.lag = Lag(messages + more.messages, min(both, default=None))


UNKNOWN: Final = SurveyedGroup(None, None, None)


class GroupSurvey:
    """
    Measures all groups.

    @ivar all: a L{Cached} of L{SurveyedGroup} by group.
    """

    def __init__(self, clock: IClock, view: ClusterView, progress: ProgressReader) -> None:
        self._view = view
        self._progress = progress
        self.all: Cached[dict[str, SurveyedGroup]] = Cached(clock, self._ask, FRESH)

    async def one(self, group: str, view: PartialView) -> SurveyedGroup:
        """Ask how one group is: one that is gone meanwhile, or whose broker does not answer, is unknown."""
        try:
            connection = await view.admin.groups.connections(group)
            progress = await self._progress.progress(group, view, rates=False)
        except CallFailed:
            return UNKNOWN
        if connection is None:
            return SurveyedGroup(0, None, progress)
        return SurveyedGroup(len(connection.connection_set), str(connection.message_model), progress)

    async def _ask(self, missing: Missing) -> dict[str, SurveyedGroup]:
        view = self._view.partial(missing, None)
        names = list(await view.groups.get())
        found = dict(zip(names, await each(names, lambda name: self._parted(name, view), _AT_ONCE), strict=True))
        self._view.brokers.forget()  # one that died meanwhile did not tell of the groups that were asked for then
        registered = {one.name for one in await self._view.brokers.get()}
        lags = {name: _lags_of(one) for name, one in found.items()}
        self._view.membership.groups_counted(lags, registered - {one.broker for one in missing.rows})
        return found

    async def _parted(self, group: str, view: PartialView) -> SurveyedGroup:
        found = await self.one(group, view)
        if found.progress is None:
            return found
        try:
            stats = await self._progress.stats(group, view.missing)
        except CallFailed:
            return found
        return found._replace(parts=_parts_of(stats))


def _lags_of(group: SurveyedGroup) -> dict[str, int] | None:
    """Return the messages that wait for a group, by broker; C{None} if that could not be measured."""
    brokers = group.parts.brokers
    if group.progress is None or (group.progress.lag and not brokers):
        return None
    return {broker: lag.messages for broker, lag in brokers.items()}


def _parts_of(stats: ConsumeStats) -> GroupParts:
    topics: dict[str, LagParts] = {}
    brokers: dict[str, LagParts] = {}
    ends: dict[tuple[str, str], int] = {}
    for queue, one in stats.offset_table.items():
        place = (queue.broker_name, queue.topic)
        ends[place] = ends.get(place, 0) + one.broker_offset
        lag = lag_over((one,))
        topics.setdefault(queue.topic, LagParts()).add(lag)
        brokers.setdefault(queue.broker_name, LagParts()).add(lag)
    return GroupParts(
        {name: parts.lag for name, parts in topics.items()}, {name: parts.lag for name, parts in brokers.items()}, ends
    )
