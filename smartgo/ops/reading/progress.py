"""The lag of groups: measured at brokers, cached briefly."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import msgspec

from smartgo.env.interfaces import IClock
from smartgo.ops.membership.grouplags import UnreachableLag
from smartgo.ops.reading.view import Cached, ClusterView, PartialView, each
from smartgo.ops.web.partial import Missing, MissingBroker
from smartgo.schema.bodies import ConsumeStats
from smartgo.schema.lag import acknowledged_tps, lag_over

_LAGS: Final = 256
"""Groups whose progress is kept for a moment."""
_TOPICS_ASKED: Final = 8
"""Topics of a group whose rates are asked for."""


class Progress(msgspec.Struct, rename="camel"):
    """
    The lag of a group over all its topics.

    @ivar lag: messages not consumed yet, including those to be redelivered.
    @ivar lag_ms: the age of the oldest message that waits for it; 0 if none waits; null if brokers do not tell.
    @ivar consume_tps: messages per second that it acknowledged in the last minute.
    @ivar put_tps: messages per second stored in its topics meanwhile; null if brokers do not report it.
    @ivar drain_seconds: seconds until the lag is gone at this rate; null: never, or unknown.
    @ivar removed_unread: messages that retention removed before the group read them; a broker forgets the count a week
        after it last grew.
    """

    lag: int
    lag_ms: int | None
    consume_tps: float
    put_tps: float | None
    drain_seconds: float | None
    removed_unread: int = 0


class ProgressView(Progress):
    """
    The lag of one group.

    @ivar unreachable: messages that wait for it at brokers of which no process answers, as they were counted last.
    @ivar missing: brokers that did not answer: the lag there is not counted.
    """

    unreachable: list[UnreachableLag] = []
    missing: list[MissingBroker] = []


class ProgressReader:
    """Measures the lag of groups."""

    def __init__(self, clock: IClock, view: ClusterView) -> None:
        self._clock = clock
        self._view = view
        self._stats: OrderedDict[str, Cached[ConsumeStats]] = OrderedDict()

    async def stats(self, group: str, missing: Missing) -> ConsumeStats:
        """Return how far a group is in each queue. @param missing: takes who does not tell."""
        found = self._stats.get(group)
        if found is None:

            async def ask(missing: Missing) -> ConsumeStats:
                return await self._view.partial(missing).admin.groups.progress(group)

            found = self._stats[group] = Cached(self._clock, ask)
            if len(self._stats) > _LAGS:
                self._stats.popitem(last=False)
        self._stats.move_to_end(group)
        return await found.get(missing)

    async def progress(self, group: str, view: PartialView, rates: bool = True) -> Progress:
        """
        Return the lag of a group over all its topics.

        @param view: asks for more, and notes who is missing.
        @param rates: ask too what comes into its topics; without, C{put_tps} and C{drain_seconds} are C{None}.
        """
        stats = await self.stats(group, view.missing)
        if not rates:
            return self._summed(stats, None)
        return self._summed(stats, await self._put_tps(stats, view))

    async def _put_tps(self, stats: ConsumeStats, view: PartialView) -> float | None:
        """Messages a second that come into the topics of a group, or into the biggest of them where it has many."""
        sizes: dict[str, int] = {}
        for queue, one in stats.offset_table.items():
            sizes[queue.topic] = max(sizes.get(queue.topic, 0), one.broker_offset)
        topics = sorted(sizes, key=lambda topic: -sizes[topic])[:_TOPICS_ASKED]
        if not topics:
            return None
        counted = await each(topics, lambda topic: view.admin.brokers.counters("TOPIC_PUT_NUMS", topic))
        return sum(one.stats_minute.tps for brokers in counted for one in brokers.values())

    def _summed(self, stats: ConsumeStats, put_tps: float | None) -> Progress:
        queues = stats.offset_table.values()
        lag = lag_over(queues)
        removed = sum(one.removed for one in queues)
        consume_tps = acknowledged_tps(stats)
        drain: float | None = None
        if lag.messages == 0:
            drain = 0.0
        elif put_tps is not None and consume_tps > put_tps:
            drain = lag.messages / (consume_tps - put_tps)
        return Progress(lag.messages, lag.waited_ms(self._clock.wall_ms()), consume_tps, put_tps, drain, removed)
