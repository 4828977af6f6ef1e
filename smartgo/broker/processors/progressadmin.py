"""
Requests of administrators about the offsets and the lag of groups: 43, 45, 208, 303, 308, 314, 317, 343.

Rules: docs/spec/broker#offsets and docs/spec/broker#statistics.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.tables.progress import SLICE, difference
from smartgo.errors import RequestRefused, TopicNotExist
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import ConsumeStatsList, ConsumeTimeSpans, CorrectionOffsets, DelayOffsetTable, TopicList
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import FRAME_LIMIT, Command
from smartgo.schema.headerfields import INT64_MAX
from smartgo.schema.headers.admin import BrokerConsumeStatsRequest
from smartgo.schema.headers.consumers import ConsumeTimeSpanRequest
from smartgo.schema.headers.groups import (
    CloneGroupOffsetRequest,
    ConsumeStatsRequest,
    CorrectionOffsetRequest,
    TopicsByConsumerRequest,
)

_ANSWER_LIMIT = FRAME_LIMIT - 4096  # of a body: what clients read of a frame by default, less its header
_SEPARATORS = re.compile("[;,]")


@implementer(IRequestProcessor)
class ProgressAdmin(Processor):
    """Show the offsets and the lag of groups, and copy offsets from one group to another."""

    codes = answered_by("progressadmin")

    def __init__(self, broker: IBroker) -> None:
        self._progress = broker.group_progress
        self._topics = broker.topics
        self._groups = broker.groups
        self._offsets = broker.offsets
        self._store = broker.store
        self._delay = broker.delay
        self._address = broker.identity.address
        self._group_limit = broker.settings.current.limits.max_groups
        self._slave = broker.is_slave
        self._handlers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._all_offsets,
            RequestCode.GET_ALL_DELAY_OFFSET: self._all_delays,
            RequestCode.GET_CONSUME_STATS: self._one_group,
            RequestCode.QUERY_CONSUME_TIME_SPAN: self._time_span,
            RequestCode.QUERY_CORRECTION_OFFSET: self._correct,
            RequestCode.CLONE_GROUP_OFFSET: self._clone,
            RequestCode.GET_BROKER_CONSUME_STATS: self._all_groups,
            RequestCode.QUERY_TOPICS_BY_CONSUMER: self._topics_of,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where the store is asked for times.

        @raise RequestRefused: as docs/spec/broker says.
        """
        return self._handlers[request.code](peer, request)

    # -- tables --------------------------------------------------------------------------------------------

    def _all_offsets(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=self._offsets.wrapper().encode())

    def _all_delays(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=DelayOffsetTable(offset_table=dict(self._delay.offsets)).encode())

    def _topics_of(self, peer: IPeer, request: Command) -> Answer:
        group = request.read(TopicsByConsumerRequest).group
        return request.answer(body=TopicList(topic_list=self._offsets.topics_of(group)).encode())

    # -- measured ------------------------------------------------------------------------------------------

    def _one_group(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        header = request.read(ConsumeStatsRequest)
        topics = [topic for topic in _SEPARATORS.split(header.topic_list or header.topic or "") if topic.strip()]
        return Deferred.fromCoroutine(
            self._measure(request, header.consumer_group, topics or self._offsets.topics_of(header.consumer_group))
        )

    async def _measure(self, request: Command, group: str, topics: list[str]) -> Answer:
        body = (await self._progress.of_group(group, topics)).encode()
        _check_size(len(body), "ask for one topic after another")
        return request.answer(body=body)

    def _all_groups(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        return Deferred.fromCoroutine(
            self._measure_all(peer, request, request.read(BrokerConsumeStatsRequest).is_order)
        )

    async def _measure_all(self, peer: IPeer, request: Command, ordered: bool) -> Answer:
        parts = []
        size = total = looked = 0
        for group in self._groups.names():
            topics = [topic for topic in self._offsets.topics_of(group) if not ordered or self._is_ordered(topic)]
            measured = []
            async for stats in self._progress.by_topic(group, topics, lambda config: config.write_queue_nums):
                if not peer.open:
                    return None  # this takes long where there is much, and nobody waits for it any more
                total += difference(stats)
                looked += len(stats.offset_table)
                measured.append(stats)
            parts.append(ConsumeStatsList.part(group, measured))
            size += len(parts[-1])
            _check_size(size, "ask for one group after another (208)")
            if looked >= SLICE:  # small groups have no turns of their own
                looked = 0
                await self._progress.turn()
        return request.answer(body=ConsumeStatsList.joined(parts, self._address, total))

    def _is_ordered(self, topic: str) -> bool:
        config = self._topics.get(topic)
        return config is not None and config.order

    def _time_span(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        return Deferred.fromCoroutine(self._measure_time(request))

    async def _measure_time(self, request: Command) -> Answer:
        header = request.read(ConsumeTimeSpanRequest)
        config = self._topics.get(header.topic)
        if config is None:
            raise TopicNotExist(f"topic[{header.topic}] not exist")
        spans = await self._progress.time_span(header.group, config)
        return request.answer(body=ConsumeTimeSpans(consume_time_span_set=spans).encode())

    # -- compared and copied -------------------------------------------------------------------------------

    def _correct(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(CorrectionOffsetRequest)
        left_out = frozenset((header.filter_groups or "").split(","))
        least = self._least_offsets(header.topic, left_out)
        for queue_id, offset in self._offsets.queues(header.compare_group, header.topic).items():
            if least.get(queue_id, 0) > offset:
                least[queue_id] = INT64_MAX
        return request.answer(body=CorrectionOffsets(correction_offsets=least).encode())

    def _least_offsets(self, topic: str, left_out: frozenset[str]) -> dict[int, int]:
        """Return by queue id the smallest offset of all groups that still lies in the queue."""
        least: dict[int, int] = {}
        for group, where, queues in self._offsets.items():
            if where == topic and group not in left_out:
                for queue_id, offset in queues.items():
                    if offset >= self._store.bounds(topic, queue_id)[0]:
                        least[queue_id] = min(offset, least.get(queue_id, INT64_MAX))
        return least

    def _clone(self, peer: IPeer, request: Command) -> Answer:
        if self._slave:
            raise RequestRefused("can't modify consumer offsets on a slave, ask the master")
        header = request.read(CloneGroupOffsetRequest)
        source, target = header.src_group, header.dest_group
        if target not in self._offsets:
            self._groups.find(target, peer)
        if target not in self._offsets and len(self._offsets) >= self._group_limit:
            raise RequestRefused(f"{self._group_limit} groups have offsets already")
        topics = [header.topic] if header.topic and header.topic.strip() else self._offsets.topics_of(source)
        for topic in topics:
            if topic in self._topics and (header.offline or self._progress.reads(source, topic)):
                self._offsets.clone(source, target, topic)
        return request.answer()


def _check_size(size: int, instead: str) -> None:
    """Refuse an answer that no client would read. @raise RequestRefused: it is too long."""
    if size > _ANSWER_LIMIT:
        raise RequestRefused(f"the answer would be longer than {_ANSWER_LIMIT} B; {instead}")
