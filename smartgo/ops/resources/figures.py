"""Resources of rates and lag: live, and as time series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.ops.figures.sampler import FigureListener, FigureSampler
from smartgo.ops.figures.subjectsampler import Coverage, SubjectSampler
from smartgo.ops.resources.names import GroupName, TopicName
from smartgo.ops.web.routes import READ, RouteCall, StreamAnswer, route
from smartgo.ops.web.streams import EventStream, IStreamSource

_WANTED: Final = 16

_DAY_MS: Final = 86_400_000
_EVER: Final = 1 << 53

WallMs = Annotated[int, Meta(ge=0, le=_EVER)]


EventsTopic = Annotated[list[TopicName], Meta(max_length=_WANTED, description="Include the rates of these topics.")]
EventsGroup = Annotated[list[GroupName], Meta(max_length=_WANTED, description="Include the progress of these groups.")]


class EventsQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Additional subjects of the stream, besides brokers."""

    topic: EventsTopic = []
    group: EventsGroup = []


HistorySeries = Annotated[
    str,
    Meta(
        max_length=300,
        pattern="^(cluster|broker:[^/]+|group:[^/]+|topic:[^/]+|broker-lag:[^/]+)$",
        description="`cluster`, `broker:ADDRESS`, `group:NAME`, `topic:NAME` or `broker-lag:NAME`.",
    ),
]
HistoryBeginMs = Annotated[WallMs | None, Meta(description="Begin of the range; by default an hour ago.")]
HistoryEndMs = Annotated[WallMs | None, Meta(description="End of the range; by default now.")]
HistoryPoints = Annotated[int, Meta(ge=1, le=2000, description="The most points to return; more are averaged.")]


class HistoryQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Range and resolution of a series."""

    series: HistorySeries = "cluster"
    begin_ms: HistoryBeginMs = None
    end_ms: HistoryEndMs = None
    points: HistoryPoints = 300


class HistoryView(msgspec.Struct, rename="camel"):
    """
    A range of a time series.

    @ivar step_ms: milliseconds between two points; 0 if the points are not evenly spaced.
    @ivar values: by figure, one a point: C{putTps}, C{getTps}, C{putBytes}, C{getBytes} (a second), C{diskRatio} and
        C{logBytes} of brokers; C{lag}, C{lagSeconds}, C{consumeTps}, C{putTps} of groups; C{putTps}, and C{lag} and
        C{lagSeconds} of all its groups, of topics; C{lag}, C{lagSeconds} of what waits at a broker (C{broker-lag}).
    @ivar sampled: whether the series is sampled now; false for a group or topic that is left out as there are more
        active ones, or that does not exist. Asking for it lets it be sampled from now on.
    """

    series: str
    step_ms: int
    at_ms: list[int]
    values: dict[str, list[float]]
    sampled: bool = True


class CoverageView(msgspec.Struct, rename="camel"):
    """The number of groups and topics that are sampled for charts, of all there are."""

    groups: Coverage
    topics: Coverage


@implementer(IStreamSource)
class FiguresSource:
    """Feeds samples to one client."""

    def __init__(self, sampler: FigureSampler, topics: Sequence[str], groups: Sequence[str]) -> None:
        self._sampler = sampler
        self._topics = topics
        self._groups = groups
        self._listener: FigureListener | None = None

    def started(self, stream: EventStream) -> None:
        """Start listening to the sampler."""
        self._listener = FigureListener(stream.send, self._topics, self._groups)
        self._sampler.listen(self._listener)

    def stopped(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._sampler.leave(self._listener)


class EventsApi:
    """Rates and lag."""

    def __init__(self, clock: IClock, sampler: FigureSampler, subjects: SubjectSampler) -> None:
        self._clock = clock
        self._sampler = sampler
        self._subjects = subjects

    @route("GET", "/events", scope=READ, query=EventsQuery, answer=StreamAnswer, tag="figures")
    def events(self, call: RouteCall[None, EventsQuery, None]) -> Any:
        """
        Stream rates and lag as they are measured (server-sent events).

        Every second C{event: cluster}, the rates of all brokers (atMs, putTps, getTps, putBytes, getBytes, brokers);
        if topics are given C{event: topics}, a list of name and putTps; if groups are given C{event: groups} every five
        seconds, a list of name and progress. C{event: dropped} tells a slow client how many events it missed.
        """
        query = call.query
        return FiguresSource(self._sampler, query.topic, query.group)

    @route("GET", "/history", scope=READ, query=HistoryQuery, answer=HistoryView, remote=False, tag="figures")
    def history(self, call: RouteCall[None, HistoryQuery, None]) -> HistoryView:
        """
        Give the points of a series, for charts.

        Samples (every 10 s of brokers, every 30 s of groups and topics) are kept for 15 minutes at least, minutes for a
        day, hours for a month; minutes and hours over a restart too. At most 500 groups and 500 topics are sampled: the
        most active, and those asked for last.
        """
        query = call.query
        kind, _, name = query.series.partition(":")
        sampled = True
        if kind == "group":
            sampled = self._subjects.want("group", name)
        elif kind == "topic":
            sampled = self._subjects.want("topic", name)
        end = self._clock.wall_ms() if query.end_ms is None else query.end_ms
        begin = end - _DAY_MS // 24 if query.begin_ms is None else query.begin_ms
        found = self._sampler.history.points(query.series, begin, end, query.points)
        figures = self._sampler.history.figures(query.series)
        values = dict(zip(figures, found.values, strict=True))
        return HistoryView(query.series, found.step_ms, found.at_ms, values, sampled)

    @route("GET", "/history/series", scope=READ, answer=list[str], remote=False, tag="figures")
    def series(self, call: RouteCall[None, None, None]) -> list[str]:
        """List the series that there are points of."""
        return self._sampler.history.names()

    @route("GET", "/history/coverage", scope=READ, answer=CoverageView, remote=False, tag="figures")
    def coverage(self, call: RouteCall[None, None, None]) -> CoverageView:
        """Say how many groups and topics are sampled for charts, and how many there are."""
        return CoverageView(self._subjects.coverage("group"), self._subjects.coverage("topic"))
