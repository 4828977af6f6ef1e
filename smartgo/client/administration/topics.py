"""
Topics: their names, settings, routes, bounds and readers; to create, change and delete them.

Source: C{tools/admin/DefaultMQAdminExtImpl.java}, C{tools/command/topic}.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from smartgo.client.administration.asking import Asking, body_of, deferred
from smartgo.client.internal.route import READ, WRITE
from smartgo.errors import PeerRefused
from smartgo.schema.bodies import (
    GroupList,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.registry import ClusterTopicsRequest, DeleteTopicRouteRequest, RouteInfoRequest
from smartgo.schema.headers.topics import (
    CreateTopicRequest,
    DeleteTopicRequest,
    TopicConfigRequest,
    TopicConsumersRequest,
    TopicStatsRequest,
)
from smartgo.schema.topics import (
    DEAD_LETTER_JOURNAL,
    DLQ_PREFIX,
    REPLY_SUFFIX,
    RETRY_PREFIX,
    TEMPLATE_TOPIC,
    check_topic,
    is_system,
)

DEFAULT_QUEUES: Final = 8

_NO_TOPIC: Final = (ResponseCode.TOPIC_NOT_EXIST,)


class TopicKind(StrEnum):
    """The kind of a topic: an application's, a group's retry or dead letter topic, or a system topic."""

    NORMAL = "normal"
    RETRY = "retry"
    DEAD = "dead"
    SYSTEM = "system"


EMPTIED: Final = frozenset({TopicKind.NORMAL, TopicKind.DEAD})
"""Kinds of the topics that may be emptied; the groups of others depend on all messages in them."""


def kind_of(topic: str, system: Collection[str] = ()) -> TopicKind:
    """
    Return the kind of a topic by its name.

    @param system: what L{Topics.system_names} returns.
    """
    if topic.startswith(RETRY_PREFIX):
        return TopicKind.RETRY
    if topic.startswith(DLQ_PREFIX):
        return TopicKind.DEAD
    if topic in system or is_system(topic) or topic == DEAD_LETTER_JOURNAL:
        return TopicKind.SYSTEM
    return TopicKind.NORMAL


class Topics:
    """Queries and changes of topics. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    # -- which there are -------------------------------------------------------------------------------------

    @deferred
    async def names(self) -> list[str]:
        """Return the names of all topics that brokers have registered, system topics included, sorted."""
        answer = await self._asking.registry(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        return sorted(body_of(TopicList, answer).topic_list)

    @deferred
    async def of_cluster(self, cluster: str) -> list[str]:
        """Return the names of the topics of one cluster, sorted."""
        answer = await self._asking.registry(RequestCode.GET_TOPICS_BY_CLUSTER, ClusterTopicsRequest(cluster=cluster))
        return sorted(body_of(TopicList, answer).topic_list)

    @deferred
    async def system_names(self) -> set[str]:
        """Return the names of the system topics, including those named after brokers and clusters."""
        info = await self._asking.cluster()
        names = set(info.broker_addr_table)
        for cluster in info.cluster_addr_table:
            names |= {cluster, cluster + REPLY_SUFFIX}
        answers = await self._asking.bodies(
            TopicList,
            await self._asking.readable(),
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
            none=(ResponseCode.REQUEST_CODE_NOT_SUPPORTED,),
        )
        for answer in answers.values():
            names |= set(answer.topic_list)
        return names

    @deferred
    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic: its brokers and queues. Fails with code 17 if the registry has no such topic."""
        answer = await self._asking.registry(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic=topic))
        return body_of(TopicRouteData, answer)

    @deferred
    async def serves(self, broker: str, topic: str) -> bool:
        """Tell whether the route of a topic has queues of a broker."""
        try:
            route = await self.route(topic)
        except PeerRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return False
        return any(one.broker_name == broker for one in route.queue_datas)

    @deferred
    async def configs(self, cluster: str | None = None) -> dict[str, dict[str, TopicConfig]]:
        """Return the settings of all topics: by broker name, then by topic."""
        return await self._tables(await self._asking.readable(cluster=cluster))

    @deferred
    async def config(self, topic: str) -> dict[str, TopicConfig]:
        """
        Return the settings of one topic by broker name, from the brokers that have it.

        Brokers before 5.x are asked for all their topics.
        """
        old: dict[str, str] = {}
        found = await self._asking.bodies(
            TopicConfig,
            await self._asking.readable(),
            RequestCode.GET_TOPIC_CONFIG,
            TopicConfigRequest(topic=topic),
            none=_NO_TOPIC,
            unable=old,
        )
        if old:
            tables = await self._tables(old)
            found.update({name: table[topic] for name, table in tables.items() if topic in table})
        return dict(sorted(found.items()))

    async def _tables(self, brokers: Mapping[str, str]) -> dict[str, dict[str, TopicConfig]]:
        tables = await self._asking.bodies(TopicConfigSerializeWrapper, brokers, RequestCode.GET_ALL_TOPIC_CONFIG)
        return {name: table.topic_config_table for name, table in tables.items()}

    @deferred
    async def places(self, topic: str) -> dict[str, str]:
        """Return the address of each broker that has a topic, by broker name. Fails as L{route} does."""
        route = await self.route(topic)
        return {
            one.broker_name: one.broker_addrs[min(one.broker_addrs)] for one in route.broker_datas if one.broker_addrs
        }

    # -- what is in them -------------------------------------------------------------------------------------

    @deferred
    async def stats(self, topic: str) -> TopicStatsTable:
        """
        Return the bounds of a topic's queues at all brokers.

        C{topic_put_tps} is the sum over the brokers; C{None} if no broker reports it (before 5.x).

        @raise PeerRefused: through the Deferred: code 17, no broker has the topic.
        """
        found = await self._asking.bodies(
            TopicStatsTable,
            await self.places(topic),
            RequestCode.GET_TOPIC_STATS_INFO,
            TopicStatsRequest(topic=topic),
            none=_NO_TOPIC,
        )
        total = TopicStatsTable()
        for one in found.values():
            total.offset_table.update(one.offset_table)
            if one.topic_put_tps is not None:
                total.topic_put_tps = (total.topic_put_tps or 0.0) + one.topic_put_tps
        return total

    @deferred
    async def groups(self, topic: str) -> list[str]:
        """Return the groups that subscribe to a topic or have offsets in it, sorted."""
        found = await self._asking.bodies(
            GroupList,
            await self._asking.readable(),
            RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
            TopicConsumersRequest(topic=topic),
        )
        return sorted({name for groups in found.values() for name in groups.group_list})

    # -- changes ---------------------------------------------------------------------------------------------

    @deferred
    async def create(
        self,
        topic: str,
        queues: int = DEFAULT_QUEUES,
        perm: int = READ | WRITE,
        brokers: Collection[str] | None = None,
        cluster: str | None = None,
    ) -> list[str]:
        """
        Create a topic, or change its settings; return the names of the brokers that did.

        @param queues: the number of queues to read and write at each broker.
        @param perm: 4 read, 2 write, 6 both.
        @param brokers: only at these; C{cluster}: only at those of one cluster.
        @raise BadName: through the Deferred: the topic's name breaks the rules.
        """
        config = TopicConfig(topic_name=topic, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
        return await self.update(config, brokers, cluster)

    @deferred
    async def update(
        self, config: TopicConfig, brokers: Collection[str] | None = None, cluster: str | None = None
    ) -> list[str]:
        """
        Create a topic, or replace its settings as a whole; return the names of the brokers that did.

        @raise BadName: through the Deferred: the topic's name breaks the rules.
        """
        check_topic(config.topic_name)
        header = CreateTopicRequest(
            topic=config.topic_name,
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            order=config.order,
            topic_sys_flag=config.topic_sys_flag,
        )
        masters = await self._asking.masters(brokers, cluster)
        await self._asking.order(masters, RequestCode.UPDATE_AND_CREATE_TOPIC, header)
        return list(masters)

    @deferred
    async def delete(self, topic: str, cluster: str | None = None) -> list[str]:
        """
        Delete a topic with its messages, at all brokers or those of one cluster, and its route at all registries.

        Groups keep their offsets in it. Returns the names of the brokers that had the topic.
        """
        check_topic(topic)
        masters = await self._asking.masters(cluster=cluster)
        had = await self.config(topic)
        await self._asking.order(masters, RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(topic=topic))
        # A registry keeps the route of a topic that a broker no longer registers.
        await self._asking.registries(
            RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicRouteRequest(topic=topic, cluster_name=cluster)
        )
        return [name for name in masters if name in had]
