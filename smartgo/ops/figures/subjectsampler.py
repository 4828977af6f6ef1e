"""
Sample the lag of all groups and the rates of all topics for charts, twice a minute, up to a number of each.

The lag comes from the survey that sorted lists and alerts use too, so that groups are asked once for all of them. The
rate of a topic is the growth of its queues' ends between two samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

import msgspec

from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.figures.history import SERIES, History
from smartgo.ops.figures.samplechoice import SampleChoice
from smartgo.ops.figures.samplingschedule import SamplingSchedule
from smartgo.ops.reading.survey import GroupSurvey, LagParts, SurveyedGroup
from smartgo.ops.reading.view import ClusterView, PartialView, each
from smartgo.ops.web.partial import Missing
from smartgo.schema.lag import Lag

BEGIN: Final = 3.0
"""Seconds from the start to the first sample, between two looks at the brokers."""
EVERY: Final = 30.0
"""Seconds between two samples; more where one takes long, see L{REST}."""
REST: Final = 10
"""Times as long as a sample took, none is taken again."""
PROBED: Final = 100
"""Topics beyond the limit that are looked at with each sample, in turn, to find those that became busy."""

GROUP_FIGURES: Final = ("lag", "lagSeconds", "consumeTps", "putTps")
TOPIC_FIGURES: Final = ("putTps", "lag", "lagSeconds")
BROKER_LAG_FIGURES: Final = ("lag", "lagSeconds")

Kind: TypeAlias = Literal["group", "topic"]

_AT_ONCE: Final = 4
_KINDS: Final = ("normal", "retry", "dead", "system")
_MINUTE: Final = 60


class Coverage(msgspec.Struct, rename="camel"):
    """
    The number of groups, or of topics, that are sampled.

    @ivar known: there are so many.
    @ivar sampled: of so many the last sample was recorded: the most active, and those opened last.
    @ivar limit: the most that are sampled.
    """

    known: int
    sampled: int
    limit: int


class SubjectSampler:
    """
    Samples groups and topics into the history.

    @ivar history: where the samples go: series C{group:NAME}, C{topic:NAME} and C{broker-lag:NAME}.
    """

    def __init__(
        self, clock: IClock, view: ClusterView, survey: GroupSurvey, history: History, limit: int = SERIES
    ) -> None:
        """@param limit: the most groups, and the most topics, that are sampled."""
        self._clock = clock
        self._view = view
        self._survey = survey
        self.history = history
        self._limit = limit
        self._choices = {"group": SampleChoice(limit), "topic": SampleChoice(limit, PROBED)}
        self._group_ends = _Growth()
        self._topic_ends = _Growth()
        self._sampled: dict[str, set[str]] = {"group": set(), "topic": set()}
        self._known = {"group": 0, "topic": 0}
        self._schedule = SamplingSchedule(
            clock, "groups and topics", self.sample, lambda took: max(EVERY - took, REST * took)
        )

    # -- its life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start sampling."""
        self._schedule.start(BEGIN)

    def stop(self) -> None:
        """Stop sampling."""
        self._schedule.stop()

    # -- what is covered ---------------------------------------------------------------------------------------

    def want(self, kind: Kind, name: str) -> bool:
        """Sample a group or topic from now on, as somebody opened it; return whether it was sampled last time."""
        self._choices[kind].want(name)
        return name in self._sampled[kind]

    def coverage(self, kind: Kind) -> Coverage:
        """Return how many groups, or topics, are sampled."""
        return Coverage(self._known[kind], len(self._sampled[kind]), self._limit)

    # -- sampling ----------------------------------------------------------------------------------------------

    async def sample(self) -> None:
        """Take one sample of groups and topics. @raise CallFailed: no broker answers."""
        groups = await self._survey.all.get()
        self._record_groups(groups)
        await self._topics(groups)

    def _record_groups(self, groups: Mapping[str, SurveyedGroup]) -> None:
        now, at_ms = self._clock.seconds(), self._clock.wall_ms()
        choice = self._choices["group"]
        choice.know(groups)
        rates: dict[str, float | None] = {}
        for name, one in groups.items():
            if one.progress is not None:
                rates[name] = put_tps = self._group_ends.rate(name, now, one.parts.ends)
                choice.weigh(name, one.progress.lag + _MINUTE * (one.progress.consume_tps + (put_tps or 0.0)))
        self._group_ends.keep(groups)
        chosen = choice.chosen()
        brokers: dict[str, LagParts] = {}
        for name, one in groups.items():
            for broker, lag in one.parts.brokers.items():
                brokers.setdefault(broker, LagParts()).add(lag)
            if name in chosen and one.progress is not None and (rate := rates[name]) is not None:
                progress = one.progress
                values = (progress.lag, (progress.lag_ms or 0) / 1000, progress.consume_tps, rate)
                self.history.add(f"group:{name}", at_ms, GROUP_FIGURES, values)
        for broker, parts in brokers.items():
            self.history.add(f"broker-lag:{broker}", at_ms, BROKER_LAG_FIGURES, _lag_values(parts.lag, at_ms))
        self._known["group"], self._sampled["group"] = len(groups), chosen

    async def _topics(self, groups: Mapping[str, SurveyedGroup]) -> None:
        topics = await self._view.topics.get()
        names = sorted(topics, key=lambda name: _KINDS.index(topics[name].kind))
        choice = self._choices["topic"]
        choice.know(names)
        lags: dict[str, LagParts] = {}
        for one in groups.values():
            for topic, lag in one.parts.topics.items():
                lags.setdefault(topic, LagParts()).add(lag)
        view = self._view.partial(Missing(), None)
        asked = [*sorted(choice.chosen()), *choice.probed()]
        rates = dict(zip(asked, await each(asked, lambda name: self._put_tps(view, name), _AT_ONCE), strict=True))
        for name, rate in rates.items():
            if rate is not None:
                choice.weigh(name, _MINUTE * rate)
        self._topic_ends.keep(topics)
        at_ms = self._clock.wall_ms()
        chosen = choice.chosen()
        for name in chosen:
            put_tps = rates.get(name)
            if put_tps is not None:
                lag = lags.get(name, LagParts()).lag
                self.history.add(f"topic:{name}", at_ms, TOPIC_FIGURES, (put_tps, *_lag_values(lag, at_ms)))
        self._known["topic"], self._sampled["topic"] = len(topics), chosen

    async def _put_tps(self, view: PartialView, topic: str) -> float | None:
        """Messages per second since the last sample of a topic; C{None} if it is the first, or no broker answers."""
        try:
            stats = await view.admin.topics.stats(topic)
        except CallFailed:
            return None
        ends = {(queue.broker_name, str(queue.queue_id)): one.max_offset for queue, one in stats.offset_table.items()}
        return self._topic_ends.rate(topic, self._clock.seconds(), ends)


class _Growth(dict[str, tuple[float, Mapping[tuple[str, str], int]]]):
    """The ends of queues at the last sample of each subject, from which the rate of the next follows."""

    def rate(self, name: str, now: float, ends: Mapping[tuple[str, str], int]) -> float | None:
        """
        Return the messages per second that came since the last sample; C{None} if this is the first.

        A queue that was not in the last sample, or ended further on then, counts nothing: its broker did not answer, or
        the topic was made anew.
        """
        before = self.get(name)
        self[name] = (now, ends)
        if before is None or now <= before[0]:
            return None
        grown = sum(max(0, end - before[1].get(queue, end)) for queue, end in ends.items())
        return grown / (now - before[0])

    def keep(self, names: Iterable[str]) -> None:
        """Forget all others."""
        for name in self.keys() - set(names):
            del self[name]


def _lag_values(lag: Lag, now_ms: int) -> tuple[float, float]:
    return lag.messages, (lag.waited_ms(now_ms) or 0) / 1000
