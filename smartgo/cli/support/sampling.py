"""Samples of a cluster for C{smartgo top}: rates of brokers and topics, lag of groups."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from smartgo.cli.support.brokerlist import BrokerListRow, broker_rows
from smartgo.cli.support.session import ClusterSession
from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.errors import PeerRefused
from smartgo.schema.codes import ResponseCode

Bounds = dict[tuple[str, int], tuple[int, int]]
"""By broker name and queue id: offset of the first message and of the next to come."""


class TopicSample(msgspec.Struct, frozen=True):
    """One topic; C{in_per_second} is C{None} in the first sample."""

    topic: str
    messages: int
    in_per_second: float | None


class GroupSample(msgspec.Struct, frozen=True):
    """
    One group in one topic.

    @ivar out_per_second: how fast its offsets advance; C{None} in the first sample.
    @ivar drained_seconds: when its lag will be 0 at the present rates; C{None} for never.
    """

    group: str
    topic: str
    lag: int
    out_per_second: float | None
    drained_seconds: float | None


class ClusterSample(msgspec.Struct, frozen=True):
    """
    The figures of a cluster at one moment.

    @ivar at_ms: wall clock.
    @ivar seconds: since the previous sample; C{None} in the first.
    @ivar left_out: topics that were not asked for, because there are too many.
    @ivar lacks: by name why the figures lack a broker; and C{warning} the sentence that says so, empty for none.
    """

    at_ms: int
    seconds: float | None
    brokers: list[BrokerListRow]
    topics: list[TopicSample]
    groups: list[GroupSample]
    left_out: int
    lacks: dict[str, str] = {}
    warning: str = ""


class _SampleCounts(msgspec.Struct):
    """The counts that the next sample is compared with."""

    at: float
    ends: dict[str, int]
    positions: dict[tuple[str, str], int]


class ClusterSampler:
    """Takes samples of a cluster."""

    def __init__(self, session: ClusterSession, part: str = "", everything: bool = False, limit: int = 500) -> None:
        """
        @param part: only topics and groups whose name contains this.
        @param everything: include retry, dead-letter and system topics.
        @param limit: topics to ask for, one request each. Topics with consumer groups come first.
        """
        self._session = session
        self._part = part
        self._everything = everything
        self._limit = limit
        self._before: _SampleCounts | None = None

    async def look(self) -> ClusterSample:
        """Take one sample. @raise CallFailed: no registry or broker answers."""
        admin = self._session.admin
        brokers = await broker_rows(self._session)
        system = await admin.topics.system_names()
        tables = await admin.groups.positions()
        readers: dict[str, set[str]] = {}
        for table in tables.values():
            for key in table.offset_table:
                topic, _, group = key.partition("@")
                readers.setdefault(topic, set()).add(group)
        wanted = [
            name
            for name in await admin.topics.names()
            if (self._everything or kind_of(name, system) is TopicKind.NORMAL)
            and any(self._part in one for one in (name, *readers.get(name, ())))
        ]
        looked_at = sorted(wanted, key=lambda name: (name not in readers, name))[: self._limit]
        bounds = {name: found for name in looked_at if (found := await self._bounds(name)) is not None}
        positions: dict[tuple[str, str], dict[tuple[str, int], int]] = {}
        for broker, table in tables.items():
            for key, offsets in table.offset_table.items():
                topic, _, group = key.partition("@")
                if topic in bounds:
                    stands = positions.setdefault((group, topic), {})
                    stands.update({(broker, queue_id): offset for queue_id, offset in offsets.items()})
        return self._compared(brokers, bounds, positions, len(wanted) - len(looked_at))

    async def _bounds(self, topic: str) -> Bounds | None:
        try:
            stats = await self._session.admin.topics.stats(topic)
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                return None  # deleted since
            raise
        return {
            (queue.broker_name, queue.queue_id): (one.min_offset, one.max_offset)
            for queue, one in stats.offset_table.items()
        }

    def _compared(
        self,
        brokers: list[BrokerListRow],
        bounds: Mapping[str, Bounds],
        positions: Mapping[tuple[str, str], Mapping[tuple[str, int], int]],
        left_out: int,
    ) -> ClusterSample:
        clock = self._session.env.clock
        now = _SampleCounts(
            clock.seconds(),
            {topic: sum(high for _, high in queues.values()) for topic, queues in bounds.items()},
            {key: sum(offsets.values()) for key, offsets in positions.items()},
        )
        before, self._before = self._before, now
        seconds = None if before is None else max(now.at - before.at, 0.001)

        def rate(count: int, old: int | None) -> float | None:
            return None if seconds is None or old is None else max(0, count - old) / seconds

        topics = [
            TopicSample(
                name,
                sum(high - low for low, high in queues.values()),
                rate(now.ends[name], before.ends.get(name) if before is not None else None),
            )
            for name, queues in sorted(bounds.items())
            if self._part in name
        ]
        incoming = {one.topic: one.in_per_second for one in topics}
        groups = []
        for (group, topic), offsets in sorted(positions.items()):
            if self._part not in group and self._part not in topic:
                continue
            lag = sum(
                max(0, high - max(low, offsets[queue]))
                for queue, (low, high) in bounds[topic].items()
                if queue in offsets
            )
            old = before.positions.get((group, topic)) if before is not None else None
            out = rate(now.positions[group, topic], old)
            faster = (out or 0.0) - (incoming.get(topic) or 0.0)
            groups.append(GroupSample(group, topic, lag, out, lag / faster if lag and faster > 0 else None))
        return ClusterSample(clock.wall_ms(), seconds, brokers, topics, groups, left_out)
