"""
Requests of administrators about the queues themselves: their units (321), the removal of unused ones (306, 316), and
of expired log files (329, 27, 30002), and the question of slaves for queues that are gone (30006).

Rules: docs/spec/broker#queries, docs/spec/broker#statistics and docs/spec/ha#tables.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.filter import TAG, FilterCache, tag_filter
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import (
    ConsumeQueueBody,
    ConsumeQueueData,
    ExpiringFile,
    MissingQueues,
    QueueNames,
    RetentionReport,
    SubscriptionData,
)
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import QueryConsumeQueueRequest
from smartgo.schema.topics import LMQ_PREFIX
from smartgo.store.interfaces import IMessageFilter
from smartgo.store.retention import RetentionPlan

UNITS = 10_000
"""The most units that one request shows."""
NAMES = 10_000
"""The most queues that one request may ask for."""


@implementer(IRequestProcessor)
class QueueAdmin(Processor):
    """Show the units of queues, and remove queues of deleted topics and expired files."""

    codes = answered_by("queueadmin")

    _log = Logger()

    def __init__(self, broker: IBroker, filters: FilterCache) -> None:
        """
        @param filters: makes the filters of subscriptions.
        """
        self._filters = filters
        self._topics = broker.topics
        self._consumers = broker.consumers
        self._store = broker.store
        self._slave = broker.is_slave
        self._handlers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.QUERY_CONSUME_QUEUE: self._units,
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self._clean_queues,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self._delete_expired,
            RequestCode.TRIGGER_DELETE_FILES: self._delete_expired,
            RequestCode.GET_RETENTION: self._show_expired,
            RequestCode.CLEAN_UNUSED_TOPIC: self._clean_unused,
            RequestCode.FIND_MISSING_QUEUES: self._find_missing,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where queues are removed.

        @raise RequestRefused: as docs/spec/broker says.
        """
        return self._handlers[request.code](peer, request)

    # -- looking -------------------------------------------------------------------------------------------

    def _units(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(QueryConsumeQueueRequest)
        topic, queue_id, index = header.topic or "", header.queue_id, header.index
        minimum, maximum = self._store.bounds(topic, queue_id)
        if maximum == 0:
            raise RequestRefused(f"{queue_id}@{topic[:127]} is not exist!")
        body = ConsumeQueueBody(max_queue_index=maximum, min_queue_index=minimum)
        online = False
        wanted: IMessageFilter | None = None
        if header.consumer_group:
            body.subscription_data = self._subscription(header.consumer_group, topic)
            if body.subscription_data is None:
                body.filter_data = f"{header.consumer_group}@{topic} is not online!"
            else:
                body.filter_data = self._filter_data(header.consumer_group, body.subscription_data)
                online = body.subscription_data.expression_type == TAG
                wanted = tag_filter(body.subscription_data.sub_string) if online else None
        if not minimum <= index < maximum:
            return request.answer(0, f"Index {index} of {queue_id}@{topic} is not exist!", body=body.encode())
        for unit in self._store.units(topic, queue_id, index, min(max(0, header.count), UNITS)):
            body.queue_data.append(
                ConsumeQueueData(
                    physic_offset=unit.commitlog_offset,
                    physic_size=unit.size,
                    tags_code=unit.tag_hash,
                    eval=online and not unit.is_filler and (wanted is None or wanted.by_unit(unit)),
                )
            )
        return request.answer(body=body.encode())

    def _subscription(self, group: str, topic: str) -> SubscriptionData | None:
        online = self._consumers.get(group)
        return None if online is None else online.subscription(topic)

    def _filter_data(self, group: str, subscription: SubscriptionData) -> str:
        """
        Return what is known of the filter that is compiled of a subscription, as RocketMQ shows it; C{null}: of none.

        RocketMQ's bits in the extended units of a queue, and the time from which they count, are not among it.
        """
        kind = subscription.expression_type or TAG
        if kind == TAG:
            return "null"
        try:
            self._filters.sql(kind, subscription.sub_string)
        except RequestRefused:
            return "null"
        data = {
            "clientVersion": subscription.sub_version,
            "consumerGroup": group,
            "dead": False,
            "deadTime": 0,
            "expression": subscription.sub_string,
            "expressionType": kind,
            "topic": subscription.topic,
        }
        return json.dumps(data, ensure_ascii=False, indent="\t", separators=(",", ":"))

    def _find_missing(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        return Deferred.fromCoroutine(self._tell_missing(request))

    async def _tell_missing(self, request: Command) -> Answer:
        """
        Tell which of some queues are not there, so that a slave may delete its own.

        A queue is there as soon as a message is appended, readable or not. While the log has damaged regions nobody
        is told: the only messages of a queue may lie in them.
        """
        asked = QueueNames.decode(request.body).queue_table
        if sum(map(len, asked.values())) > NAMES:
            raise RequestRefused(f"more than {NAMES} queues are asked for")
        if self._slave:
            raise RequestRefused("a slave does not know which queues were deleted, ask the master")
        store = self._store
        await store.deletions_saved()
        if store.damage.regions:
            raise RequestRefused("the log has damaged regions: messages of a queue that is missing may lie in them")
        begin, end = store.log_bounds()
        answer = MissingQueues(log_begin=begin, log_end=end)
        for topic, queue_ids in asked.items():
            missing = [queue_id for queue_id in queue_ids if not store.has_queue(topic, queue_id)]
            if missing:
                answer.queue_table[topic] = missing
        return request.answer(body=answer.encode())

    # -- clearing away -------------------------------------------------------------------------------------

    def _clean_queues(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        # A queue whose messages are all gone keeps its last file, which holds the offset that it goes on with:
        # RocketMQ removes it, and the queue begins at 0 again behind the back of those who committed.
        return self._store.cleaner.clean(expired=False).addCallback(lambda _: request.answer())

    def _delete_expired(self, peer: IPeer, request: Command) -> Answer:
        self._log.info("{peer} asked for the removal of expired log files", peer=peer.address)
        self._store.cleaner.clean()
        return request.answer()

    def _show_expired(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        return Deferred.fromCoroutine(self._report(request))

    async def _report(self, request: Command) -> Answer:
        cleaner = self._store.cleaner
        plan: RetentionPlan = await cleaner.plan()
        files = [
            ExpiringFile(posixpath.basename(file.path), file.size, file.modified_ms, reason.value, words)
            for file, reason, words in plan.removals
        ]
        removed = cleaner.removed
        report = RetentionReport(files, plan.kept, removed.log_files, removed.log_bytes)
        return request.answer(body=report.encode())

    def _clean_unused(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        if self._slave:
            raise RequestRefused("can't remove queues on a slave, ask the master")
        return Deferred.fromCoroutine(self._drop_unused(peer, request))

    async def _drop_unused(self, peer: IPeer, request: Command) -> Answer:
        for topic in sorted({topic for topic, _ in self._store.queues()}):
            if topic in self._topics or self._topics.is_system(topic) or topic.startswith(LMQ_PREFIX):
                continue
            self._log.info("{peer} removed the queues of {topic}, which is not a topic", peer=peer.address, topic=topic)
            await self._store.delete_topic(topic)
        return request.answer()
