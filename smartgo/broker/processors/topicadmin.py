"""
Requests of administrators about topics: 17, 18, 21, 202, 215, 300, 305, 351.

Rules: docs/spec/broker#topics and docs/spec/broker#statistics, reliability D15, B6, X19.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import RequestRefused, ServiceNotAvailable, TopicNotExist
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import (
    GroupList,
    MessageQueue,
    TopicConfig,
    TopicConfigList,
    TopicList,
    TopicOffset,
    TopicStatsTable,
)
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
    TopicConfigRequest,
    TopicConsumersRequest,
    TopicStatsRequest,
)
from smartgo.schema.topics import NO_TOPIC_RETENTION, check_topic, queue_ids


@implementer(IRequestProcessor)
class TopicAdmin(Processor):
    """Show, create, change and delete topics."""

    codes = answered_by("topicadmin")

    def __init__(self, broker: IBroker) -> None:
        self._topics = broker.topics
        self._offsets = broker.offsets
        self._consumers = broker.consumers
        self._store = broker.store
        self._stats = broker.stats
        self._broker_name = broker.identity.name
        self._slave = broker.is_slave
        self._registries_informed = broker.registries_informed
        self._handlers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.UPDATE_AND_CREATE_TOPIC: self._update,
            RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: self._update_list,
            RequestCode.GET_ALL_TOPIC_CONFIG: self._all,
            RequestCode.GET_TOPIC_STATS_INFO: self._state,
            RequestCode.DELETE_TOPIC_IN_BROKER: self._delete,
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: self._consumed_by,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: self._system,
            RequestCode.GET_TOPIC_CONFIG: self._one,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where a change has to become durable or the store is asked for times.

        @raise RequestRefused: as docs/spec/broker says.
        """
        return self._handlers[request.code](peer, request)

    def _update(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_master("topic")
        header = request.read(CreateTopicRequest)
        if "retention" in (header.attributes or "").lower():
            raise RequestRefused(NO_TOPIC_RETENTION)
        config = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
        )
        self._topics.update(config, peer)
        return self._once_settled(request)

    def _update_list(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_master("topic")
        configs = TopicConfigList.decode(request.body).topic_config_list
        if any("retention" in name.lower() for config in configs for name in config.attributes or ()):
            raise RequestRefused(NO_TOPIC_RETENTION)
        changing = Deferred.fromCoroutine(self._topics.update_all(configs, peer))
        return changing.addCallback(lambda _: self._once_settled(request))

    def _once_settled(self, request: Command) -> Deferred[Answer]:
        """Answer when the change is in the file, whatever the flush mode, and registries give the new routes."""
        told = self._registries_informed()
        waiting = self._topics.save()
        if told is not None:
            waiting.addCallback(lambda _: told)
        return waiting.addCallback(lambda _: request.answer())

    def _delete(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_master("topic")
        topic = request.read(DeleteTopicRequest).topic
        check_topic(topic)
        config = self._topics.get(topic)
        self._topics.delete(topic)
        self._stats.forget_topic(topic)
        # In the same turn: what comes for the topic from now on, while the answer waits, is of a new one and stays.
        dropped = self._store.delete_topic(topic)
        return Deferred.fromCoroutine(self._drop(request, topic, config, dropped, self._topics.durable(topic)))

    async def _drop(
        self,
        request: Command,
        topic: str,
        config: TopicConfig | None,
        dropped: Deferred[None],
        saved: Deferred[None] | None,
    ) -> Answer:
        try:
            await dropped
        except (OSError, ServiceNotAvailable) as error:
            if saved is not None:
                saved.addErrback(lambda _: None)  # what is told is that the messages are there
            self._restore(topic, config)
            if isinstance(error, OSError):
                raise RequestRefused(f"topic[{topic}] could not be deleted, or only in part: {error}") from error
            raise
        if saved is not None:
            await saved
        return request.answer()

    def _restore(self, topic: str, config: TopicConfig | None) -> None:
        """Put a topic back into the table because the store could not delete its messages."""
        if config is not None and topic not in self._topics and topic in {name for name, _ in self._store.queues()}:
            self._topics.restore(config)

    def _all(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=self._topics.wrapper().encode())

    def _one(self, peer: IPeer, request: Command) -> Answer:
        topic = request.read(TopicConfigRequest).topic
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotExist(f"No topic in this broker. topic: {topic}")
        return request.answer(body=config.encode())

    def _system(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=TopicList(topic_list=self._topics.system_names()).encode())

    def _consumed_by(self, peer: IPeer, request: Command) -> Answer:
        topic = request.read(TopicConsumersRequest).topic
        groups = sorted({*self._consumers.subscribers(topic), *self._offsets.groups_of(topic)})
        return request.answer(body=GroupList(group_list=groups).encode())

    def _state(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        topic = request.read(TopicStatsRequest).topic
        config = self._topics.get(topic)
        if config is None:
            raise TopicNotExist(f"topic[{topic}] not exist")
        return Deferred.fromCoroutine(self._measure(request, config))

    async def _measure(self, request: Command, config: TopicConfig) -> Answer:
        topic = config.topic_name
        table = {}
        for queue_id in queue_ids(config.write_queue_nums):
            minimum, maximum = self._store.bounds(topic, queue_id)
            stored_ms = await self._store.stored_ms(topic, queue_id, maximum - 1) if maximum > minimum else 0
            queue = MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)
            table[queue] = TopicOffset(min_offset=minimum, max_offset=maximum, last_update_timestamp=max(0, stored_ms))
        body = TopicStatsTable(offset_table=table, topic_put_tps=self._stats.put_tps(topic))
        return request.answer(body=body.encode())

    def _check_master(self, what: str) -> None:
        if self._slave:
            raise RequestRefused(f"can't modify {what} on a slave, ask the master")
