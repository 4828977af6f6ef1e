"""
Requests about positions: consumer offsets (14, 15) and the bounds and times of queues (29, 30, 31, 32).

Rules: docs/spec/broker#offsets, reliability B3, X19: none of these creates anything but a
commit, which may bring about its group.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import QueryNotFound, RequestRefused, TopicNotExist
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import (
    EarliestStoreTimeRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    QueryOffsetRequest,
    SearchOffsetRequest,
    StoreTimeResponse,
    UpdateOffsetRequest,
)
from smartgo.schema.responses import offset_response


@implementer(IRequestProcessor)
class OffsetProcessor(Processor):
    """Answer with the offsets of groups, and with the bounds and times of queues."""

    codes = answered_by("offsets")

    def __init__(self, broker: IBroker) -> None:
        self._groups = broker.groups
        self._offsets = broker.offsets
        self._topics = broker.topics
        self._store = broker.store
        self._stats = broker.stats
        self._group_limit = broker.settings.current.limits.max_groups
        self._handlers = {
            RequestCode.QUERY_CONSUMER_OFFSET: self._query,
            RequestCode.UPDATE_CONSUMER_OFFSET: self._update,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self._search,
            RequestCode.GET_MAX_OFFSET: self._maximum,
            RequestCode.GET_MIN_OFFSET: self._minimum,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self._earliest,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where the store has to look up a time.

        @raise RequestRefused: a field is missing or out of range; 17 and 22 as docs/spec/broker says.
        """
        return self._handlers[RequestCode(request.code)](peer, request)

    def _query(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(QueryOffsetRequest)
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = self._offsets.query(group, topic, queue_id)
        if offset is not None and offset >= 0:
            return offset_response(request.encoding, request.opaque, offset)
        self._check_queue(topic, queue_id)
        minimum, _ = self._store.bounds(topic, queue_id)
        zero = header.set_zero_if_not_found is not False
        if zero and minimum <= 0 and not self._store.is_far_back(topic, queue_id, minimum):
            # A new group on a young queue begins at its start, whatever it was told to.
            return offset_response(request.encoding, request.opaque, 0)
        raise QueryNotFound(f"group [{group}] has no offset in {topic} queue {queue_id}; it may be its first start")

    def _update(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(UpdateOffsetRequest)
        group, topic = header.consumer_group, header.topic
        if topic not in self._topics:
            raise TopicNotExist(f"topic[{topic}] not exist")
        self._check_queue(topic, header.queue_id)
        if header.commit_offset < 0:
            raise RequestRefused(f"commitOffset {header.commit_offset} is negative")
        if group not in self._offsets:
            self._groups.find(group, peer)
            if len(self._offsets) >= self._group_limit:
                raise RequestRefused(f"{self._group_limit} groups have offsets already")
        advanced = self._offsets.commit(group, topic, header.queue_id, header.commit_offset)
        if advanced:
            self._stats.acknowledged(group, topic, advanced)
        return request.answer()

    def _maximum(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(MaxOffsetRequest)
        self._check_queue(header.topic, header.queue_id)
        _, maximum = self._store.bounds(header.topic, header.queue_id)
        return offset_response(request.encoding, request.opaque, maximum)

    def _minimum(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(MinOffsetRequest)
        self._check_queue(header.topic, header.queue_id)
        minimum, _ = self._store.bounds(header.topic, header.queue_id)
        return offset_response(request.encoding, request.opaque, minimum)

    def _search(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        header = request.read(SearchOffsetRequest)
        self._check_queue(header.topic, header.queue_id)
        boundary = header.boundary_type
        if boundary is not None and boundary not in ("LOWER", "UPPER"):
            raise RequestRefused(f"boundaryType {boundary[:40]} is neither LOWER nor UPPER")

        def answer(offset: int) -> Answer:
            return offset_response(request.encoding, request.opaque, offset)

        return self._store.offset_at(header.topic, header.queue_id, header.timestamp, boundary).addCallback(answer)

    def _earliest(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        header = request.read(EarliestStoreTimeRequest)
        self._check_queue(header.topic, header.queue_id)
        minimum, _ = self._store.bounds(header.topic, header.queue_id)

        def answer(stored_ms: int) -> Answer:
            return request.answer(header=StoreTimeResponse(timestamp=stored_ms))

        return self._store.stored_ms(header.topic, header.queue_id, minimum).addCallback(answer)

    def _check_queue(self, topic: str, queue_id: int) -> None:
        """Check that the topic has a queue id, or that it is not negative where the topic is unknown (B3)."""
        config = self._topics.get(topic)
        if queue_id < 0 or (config is not None and queue_id >= max(config.read_queue_nums, config.write_queue_nums)):
            raise RequestRefused(f"queueId[{queue_id}] is illegal, topic: {topic[:127]}")
