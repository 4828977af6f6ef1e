"""
Requests of administrators about groups: their settings (200, 201, 207, 352), who is connected (203, 204, 328), and how
far they have come (43, 208).

Rules: C{broker.md} sections 12 and 14, C{reliability.md} D15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.consumers import ConsumerTable
from smartgo.broker.groups import GroupTable
from smartgo.broker.offsets import OffsetTable
from smartgo.broker.producers import Client, ProducerTable
from smartgo.broker.stats import BrokerStats
from smartgo.broker.topics import TopicTable
from smartgo.errors import ConsumerNotOnline, GroupNotExist, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import (
    Connection,
    ConsumerConnection,
    ConsumeStats,
    MessageQueue,
    OffsetWrapper,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
)
from smartgo.schema.codes import LANGUAGE_NAMES, LanguageCode, RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumerConnectionRequest, ProducerConnectionRequest
from smartgo.schema.headers.groups import ConsumeStatsRequest, DeleteGroupRequest, GroupConfigRequest
from smartgo.store.interfaces import IMessageStore


@implementer(IRequestProcessor)
class GroupAdmin(Processor):
    """Show, create, change and delete groups, and show their members and their progress."""

    codes = frozenset(
        {
            int(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP),
            int(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG),
            int(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG),
            int(RequestCode.DELETE_SUBSCRIPTIONGROUP),
            int(RequestCode.GET_CONSUMER_CONNECTION_LIST),
            int(RequestCode.GET_PRODUCER_CONNECTION_LIST),
            int(RequestCode.GET_ALL_PRODUCER_INFO),
            int(RequestCode.GET_CONSUME_STATS),
            int(RequestCode.GET_ALL_CONSUMER_OFFSET),
        }
    )

    def __init__(
        self,
        groups: GroupTable,
        topics: TopicTable,
        offsets: OffsetTable,
        consumers: ConsumerTable,
        producers: ProducerTable,
        store: IMessageStore,
        stats: BrokerStats,
        *,
        broker_name: str,
        slave: bool = False,
    ) -> None:
        """@param slave: the tables are copies of a master's, and are not changed by requests."""
        self._groups = groups
        self._topics = topics
        self._offsets = offsets
        self._consumers = consumers
        self._producers = producers
        self._store = store
        self._stats = stats
        self._broker_name = broker_name
        self._slave = slave
        self._handlers: dict[int, Callable[[Command], Answer | Deferred[Answer]]] = {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._update,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
            RequestCode.GET_CONSUME_STATS: self._progress,
            RequestCode.GET_ALL_CONSUMER_OFFSET: self._all_offsets,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where a change has to become durable or the store is asked for times.

        @raise RequestRefused: as the code's row in C{broker.md} says.
        """
        return self._handlers[request.code](request)

    # -- settings ------------------------------------------------------------------------------------------

    def _update(self, request: Command) -> Answer | Deferred[Answer]:
        self._check_master()
        self._groups.update(SubscriptionGroupConfig.decode(request.body))
        return self._once_durable(request)

    def _delete(self, request: Command) -> Answer | Deferred[Answer]:
        self._check_master()
        header = request.read(DeleteGroupRequest)
        self._groups.delete(header.group_name)
        self._stats.forget_group(header.group_name)
        if header.remove_offset or header.clean_offset:
            self._offsets.remove_group(header.group_name)
        return self._once_durable(request)

    def _once_durable(self, request: Command) -> Answer | Deferred[Answer]:
        waiting = self._groups.durable()
        return request.answer() if waiting is None else waiting.addCallback(lambda _: request.answer())

    def _all(self, request: Command) -> Answer:
        return request.answer(body=self._groups.wrapper().encode())

    def _one(self, request: Command) -> Answer:
        name = request.read(GroupConfigRequest).group
        config = self._groups.get(name)
        if config is None:
            raise GroupNotExist(f"No group in this broker. group: {name}")
        return request.answer(body=config.encode())

    # -- members -------------------------------------------------------------------------------------------

    def _consumer_connections(self, request: Command) -> Answer:
        name = request.read(ConsumerConnectionRequest).consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise ConsumerNotOnline(f"the consumer group[{name}] not online")
        body = ConsumerConnection(
            connection_set=_connections(group.members.values()),
            subscription_table=group.subscriptions,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return request.answer(body=body.encode())

    def _producer_connections(self, request: Command) -> Answer:
        name = request.read(ProducerConnectionRequest).producer_group
        members = self._producers.members(name)
        if not members:
            raise RequestRefused(f"the producer group[{name}] not exist")
        return request.answer(body=ProducerConnection(connection_set=_connections(members)).encode())

    def _all_producers(self, request: Command) -> Answer:
        data = {
            group: [
                ProducerInfo(
                    client_id=member.client_id,
                    remote_ip=member.peer.address.rpartition(":")[0],
                    language=_language(member.language),
                    version=member.version,
                    last_update_timestamp=member.seen_ms,
                )
                for member in self._producers.members(group)
            ]
            for group in self._producers.groups()
        }
        return request.answer(body=ProducerTableInfo(data=data).encode())

    # -- progress ------------------------------------------------------------------------------------------

    def _all_offsets(self, request: Command) -> Answer:
        return request.answer(body=self._offsets.wrapper().encode())

    def _progress(self, request: Command) -> Deferred[Answer]:
        header = request.read(ConsumeStatsRequest)
        group = header.consumer_group
        if header.topic and not header.topic.isspace():
            topics = [header.topic]
        else:
            topics = self._offsets.topics_of(group)
        return Deferred.fromCoroutine(self._measure(request, group, topics))

    async def _measure(self, request: Command, group: str, topics: Iterable[str]) -> Answer:
        table = {}
        tps = 0.0
        online = self._consumers.get(group)
        for topic in topics:
            config = self._topics.get(topic)
            if config is None or (online is not None and online.subscriptions and topic not in online.subscriptions):
                continue
            for queue_id in range(config.read_queue_nums):
                _, maximum = self._store.bounds(topic, queue_id)
                consumed = max(0, self._offsets.query(group, topic, queue_id) or 0)
                stored_ms = await self._store.stored_ms(topic, queue_id, consumed - 1) if consumed > 0 else 0
                queue = MessageQueue(topic=topic, broker_name=self._broker_name, queue_id=queue_id)
                table[queue] = OffsetWrapper(
                    broker_offset=maximum,
                    consumer_offset=consumed,
                    pull_offset=consumed,
                    last_timestamp=max(0, stored_ms),
                )
            tps += self._stats.consume_tps(group, topic)
        return request.answer(body=ConsumeStats(offset_table=table, consume_tps=tps).encode())

    def _check_master(self) -> None:
        if self._slave:
            raise RequestRefused("can't modify subscription groups on a slave, ask the master")


def _connections(members: Iterable[Client]) -> list[Connection]:
    return [
        Connection(
            client_id=member.client_id,
            client_addr=member.peer.address,
            language=_language(member.language),
            version=member.version,
        )
        for member in members
    ]


def _language(code: int) -> str:
    return LANGUAGE_NAMES.get(code, LanguageCode.OTHER.name)
