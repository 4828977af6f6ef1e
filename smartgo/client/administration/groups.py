"""
Consumer groups: their settings, members and progress; to create, change and delete them.

Source: C{tools/admin/DefaultMQAdminExtImpl.java}, C{tools/command/consumer}.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from twisted.internet.defer import DeferredList
from twisted.python.failure import Failure

from smartgo.client.administration.asking import Asking, body_of, deferred
from smartgo.client.administration.topics import Topics
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.bodies import (
    ConsumerConnection,
    ConsumerOffsetTable,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeTimeSpans,
    MessageQueue,
    QueueTimeSpan,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.consumers import ConsumerConnectionRequest, ConsumeTimeSpanRequest, RunningInfoRequest
from smartgo.schema.headers.groups import ConsumeStatsRequest, DeleteGroupRequest, GroupConfigRequest
from smartgo.schema.lag import acknowledged_tps, lag_over
from smartgo.schema.topics import check_group, dlq_topic, retry_topic

BUILT_IN: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PULL",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_RMQ_SYS_TRANS",
    }
)
"""Groups that every broker has for itself."""
_INTERNAL: Final = "CID_RMQ_SYS_"
_MEMBERS_ASKED: Final = 20
DEFAULT_RETRIES: Final = 16
"""The retries that clients ask for whose setting is -1."""

_OFFLINE = (ResponseCode.CONSUMER_NOT_ONLINE,)
_NO_GROUP = (ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,)


def is_built_in(group: str) -> bool:
    """Return whether brokers have a group for themselves, and no application."""
    return group in BUILT_IN or group.startswith(_INTERNAL)


def lag_of(stats: ConsumeStats) -> int:
    """Return the lag of a group: the number of messages that it has not consumed yet, over all queues."""
    return lag_over(stats.offset_table.values()).messages


def _retries_of(info: ConsumerRunningInfo) -> int | None:
    """Return the most retries that a member asks for; C{None} if it does not tell, or sets no limit (in order)."""
    try:
        told = int(info.properties.get(info.MAX_RECONSUME, ""))
    except ValueError:
        return None
    if told >= 0:
        return told
    return None if info.properties.get("PROP_CONSUMEORDERLY") == "true" else DEFAULT_RETRIES


class Groups:
    """Queries and changes of consumer groups. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, topics: Topics) -> None:
        self._asking = asking
        self._topics = topics

    # -- which there are -------------------------------------------------------------------------------------

    @deferred
    async def names(self) -> list[str]:
        """Return the names of all groups that brokers have settings of, built-in ones included, sorted."""
        return sorted({name for table in (await self.configs()).values() for name in table})

    @deferred
    async def configs(self, cluster: str | None = None) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        """Return the settings of all groups: by broker name, then by group."""
        return await self._tables(await self._asking.readable(cluster=cluster))

    async def _tables(self, brokers: Mapping[str, str]) -> dict[str, dict[str, SubscriptionGroupConfig]]:
        tables = await self._asking.bodies(
            SubscriptionGroupWrapper, brokers, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        )
        return {name: table.subscription_group_table for name, table in tables.items()}

    @deferred
    async def config(self, group: str) -> dict[str, SubscriptionGroupConfig]:
        """
        Return the settings of one group by broker name, from the brokers that have it.

        Brokers before 5.x are asked for all their groups.
        """
        old: dict[str, str] = {}
        found = await self._asking.bodies(
            SubscriptionGroupConfig,
            await self._asking.readable(),
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
            GroupConfigRequest(group=group),
            none=_NO_GROUP,
            unable=old,
        )
        if old:
            tables = await self._tables(old)
            found.update({name: table[group] for name, table in tables.items() if group in table})
        return dict(sorted(found.items()))

    # -- members ---------------------------------------------------------------------------------------------

    @deferred
    async def connections(self, group: str) -> ConsumerConnection | None:
        """
        Return the connected members of a group at all brokers, each client once, and the group's subscriptions.

        C{None} if the group has no member.
        """
        by_broker = await self.connections_by_broker(group)
        if not by_broker:
            return None
        clients = {one.client_id: one for found in by_broker.values() for one in found.connection_set}
        total, *others = by_broker.values()
        for other in others:
            for topic, data in other.subscription_table.items():
                known = total.subscription_table.get(topic)
                if known is None or known.sub_version < data.sub_version:
                    total.subscription_table[topic] = data
        total.connection_set = [clients[name] for name in sorted(clients)]
        return total

    @deferred
    async def connections_by_broker(self, group: str) -> dict[str, ConsumerConnection]:
        """Return the connected members of a group by broker name; brokers without members are left out."""
        return await self._asking.bodies(
            ConsumerConnection,
            await self._asking.readable(),
            RequestCode.GET_CONSUMER_CONNECTION_LIST,
            ConsumerConnectionRequest(consumer_group=group),
            none=_OFFLINE,
        )

    @deferred
    async def running_info(self, group: str, client_id: str, stacks: bool = False) -> ConsumerRunningInfo:
        """
        Return the running info of a member: its settings, subscriptions, queues and rates.

        @param stacks: ask for the stacks of its threads, too, if its client supports that.
        @raise PeerRefused: through the Deferred: the member is connected to no broker.
        """
        header = RunningInfoRequest(consumer_group=group, client_id=client_id, jstack_enable=stacks)
        brokers = await self._asking.readable()
        refusal: PeerRefused | None = None
        failure: CallFailed = PeerRefused(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online")
        for address in brokers.values():
            try:
                answer = await self._asking.broker(address, RequestCode.GET_CONSUMER_RUNNING_INFO, header, relayed=True)
                return body_of(ConsumerRunningInfo, answer)
            except PeerRefused as error:
                refusal = error
            except CallFailed as error:
                failure = error  # another broker may have a connection of it
        raise refusal or failure

    @deferred
    async def member_retries(self, group: str, members: Sequence[str]) -> dict[str, int | None]:
        """
        Return the most retries that each member of a group asks brokers for, by its client id.

        C{None}: the member does not tell. Members of version V3_4_9 or later send their own number, 16 unless it is
        set: brokers follow it, and not the group's C{retryMaxTimes} (docs/spec/broker#send-back).
        """
        asked = [self.running_info(group, member) for member in members]
        results: list[tuple[bool, Any]] = await DeferredList(asked, consumeErrors=True)
        found: dict[str, int | None] = {}
        for member, (_, info) in zip(members, results, strict=True):
            if isinstance(info, Failure) and not isinstance(info.value, CallFailed):
                info.raiseException()
            found[member] = None if isinstance(info, Failure) else _retries_of(info)
        return found

    @deferred
    async def retry_limit(self, group: str) -> int | None:
        """Return the most retries that the members of a group ask for; C{None} if they differ, or none tells."""
        try:
            connection = await self.connections(group)
            if connection is None:
                return None
            names = [one.client_id for one in connection.connection_set[:_MEMBERS_ASKED]]
            told = set((await self.member_retries(group, names)).values())
        except CallFailed:
            return None
        return told.pop() if len(told) == 1 else None

    @deferred
    async def owners(self, group: str) -> dict[MessageQueue, str]:
        """Return the member that each queue is assigned to, as the members report; members that do not are left out."""
        connection = await self.connections(group)
        members = [] if connection is None else [one.client_id for one in connection.connection_set]
        asked = [self.running_info(group, member) for member in members]  # one that is slow is waited for with others
        results: list[tuple[bool, Any]] = await DeferredList(asked, consumeErrors=True)
        found: dict[MessageQueue, str] = {}
        for member, (_, info) in zip(members, results, strict=True):
            if isinstance(info, Failure):
                if not isinstance(info.value, CallFailed):
                    info.raiseException()
                continue  # an old client, gone since, or one that hangs
            found.update(dict.fromkeys(info.mq_table, member))
        return found

    # -- progress --------------------------------------------------------------------------------------------

    @deferred
    async def progress(self, group: str, topic: str | None = None) -> ConsumeStats:
        """
        Return the offsets of a group and the end of each queue, at all brokers; L{lag_of} computes the lag from them.

        @param topic: only in this topic.
        """
        found = await self._asking.bodies(
            ConsumeStats,
            await self._asking.readable(),
            RequestCode.GET_CONSUME_STATS,
            ConsumeStatsRequest(consumer_group=group, topic=topic),
            none=(ResponseCode.TOPIC_NOT_EXIST, *_NO_GROUP),
        )
        total = ConsumeStats()
        for one in found.values():
            total.offset_table.update(one.offset_table)
            total.consume_tps += one.consume_tps
            total.acknowledged_tps = (total.acknowledged_tps or 0.0) + acknowledged_tps(one)
        return total

    @deferred
    async def time_spans(self, group: str, topic: str) -> list[QueueTimeSpan]:
        """Return by queue the ages of the messages that it has, and of those that a group has not consumed."""
        found = await self._asking.bodies(
            ConsumeTimeSpans,
            await self._asking.readable(),
            RequestCode.QUERY_CONSUME_TIME_SPAN,
            ConsumeTimeSpanRequest(topic=topic, group=group),
            none=(ResponseCode.TOPIC_NOT_EXIST,),
        )
        return [one for spans in found.values() for one in spans.consume_time_span_set]

    @deferred
    async def positions(self) -> dict[str, ConsumerOffsetTable]:
        """Return the offsets of all groups: by broker name, then C{topic@group}, then queue id."""
        return await self._asking.bodies(
            ConsumerOffsetTable, await self._asking.readable(), RequestCode.GET_ALL_CONSUMER_OFFSET
        )

    # -- changes ---------------------------------------------------------------------------------------------

    @deferred
    async def update(
        self,
        config: SubscriptionGroupConfig,
        brokers: Collection[str] | None = None,
        cluster: str | None = None,
    ) -> list[str]:
        """
        Create a group, or replace its settings as a whole; return the names of the brokers that did.

        @raise BadName: through the Deferred: the group's name breaks the rules.
        """
        check_group(config.group_name)
        masters = await self._asking.masters(brokers, cluster)
        await self._asking.order(masters, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config.encode())
        return list(masters)

    @deferred
    async def delete(self, group: str, positions: bool = True, topics: bool = True) -> list[str]:
        """
        Delete a group at all brokers; return the names of those that had it.

        @param positions: delete its offsets, too.
        @param topics: delete its retry and dead letter topics with their messages, too.
        """
        check_group(group)
        masters = await self._asking.masters()
        had = await self.config(group)
        header = DeleteGroupRequest(group_name=group, remove_offset=positions, clean_offset=positions)
        await self._asking.order(masters, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)
        if topics:
            there = set(await self._topics.names())
            for topic in (retry_topic(group), dlq_topic(group)):
                if topic in there:
                    await self._topics.delete(topic)
        return [name for name in masters if name in had]
