"""The lag and the members of all groups: measured periodically, shared by sorted lists and alerts."""

from __future__ import annotations

from typing import Final, NamedTuple

from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.reading.progress import Progress, ProgressReader
from smartgo.ops.reading.view import Cached, ClusterView, PartialView, each
from smartgo.ops.web.partial import Missing

FRESH: Final = 10.0
"""Seconds for which a survey is good; longer where it took long, see L{Cached}."""

_AT_ONCE: Final = 4


class SurveyedGroup(NamedTuple):
    """Members and lag of one group; C{None} if brokers do not report it."""

    members: int | None
    model: str | None
    progress: Progress | None


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
        return dict(zip(names, await each(names, lambda name: self.one(name, view), _AT_ONCE), strict=True))
