"""
Requests of administrators about groups: their settings (200, 201, 207, 225, 352), and who is connected, wanting what
(203, 204, 328, 345).

Rules: docs/spec/broker#groups and docs/spec/broker#statistics, reliability D15.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from twisted.internet.defer import Deferred
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.tables.producers import ClientMember
from smartgo.errors import ConsumerNotOnline, GroupNotExist, RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import (
    ConnectedClient,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    SubscriptionGroupList,
    SubscriptionOfGroup,
)
from smartgo.schema.codes import LANGUAGE_NAMES, LanguageCode, RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumerConnectionRequest, ProducerConnectionRequest
from smartgo.schema.headers.groups import DeleteGroupRequest, GroupConfigRequest, SubscriptionByConsumerRequest


@implementer(IRequestProcessor)
class GroupAdmin(Processor):
    """Show, create, change and delete groups, and show their members."""

    codes = answered_by("groupadmin")

    def __init__(self, broker: IBroker) -> None:
        self._groups = broker.groups
        self._offsets = broker.offsets
        self._consumers = broker.consumers
        self._producers = broker.producers
        self._stats = broker.stats
        self._slave = broker.is_slave
        self._handlers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self._update,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self._all,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self._one,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self._delete,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self._consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self._producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self._all_producers,
            RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: self._subscription,
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: self._update_list,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where a change has to become durable.

        @raise RequestRefused: as docs/spec/broker says.
        """
        return self._handlers[request.code](peer, request)

    # -- settings ------------------------------------------------------------------------------------------

    def _update(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_master()
        self._groups.update(SubscriptionGroupConfig.decode(request.body), peer)
        return self._once_saved(request)

    def _update_list(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_master()
        configs = SubscriptionGroupList.decode(request.body).group_config_list
        changing = Deferred.fromCoroutine(self._groups.update_all(configs, peer))
        return changing.addCallback(lambda _: self._once_saved(request))

    def _delete(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_master()
        header = request.read(DeleteGroupRequest)
        self._groups.delete(header.group_name)
        self._stats.forget_group(header.group_name)
        if header.remove_offset or header.clean_offset:
            self._offsets.remove_group(header.group_name)
        return self._once_saved(request)

    def _once_saved(self, request: Command) -> Deferred[Answer]:
        """Answer when the change is in the file, whatever the flush mode."""
        return self._groups.save().addCallback(lambda _: request.answer())

    def _all(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=self._groups.wrapper().encode())

    def _one(self, peer: IPeer, request: Command) -> Answer:
        name = request.read(GroupConfigRequest).group
        config = self._groups.get(name)
        if config is None:
            raise GroupNotExist(f"No group in this broker. group: {name}")
        return request.answer(body=config.encode())

    # -- members -------------------------------------------------------------------------------------------

    def _consumer_connections(self, peer: IPeer, request: Command) -> Answer:
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

    def _subscription(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(SubscriptionByConsumerRequest)
        group = self._consumers.get(header.group)
        wanted = None if group is None else group.subscription(header.topic or "")
        body = SubscriptionOfGroup(group=header.group, topic=header.topic, subscription_data=wanted)
        return request.answer(body=body.encode())

    def _producer_connections(self, peer: IPeer, request: Command) -> Answer:
        name = request.read(ProducerConnectionRequest).producer_group
        members = self._producers.members(name)
        if not members:
            raise RequestRefused(f"the producer group[{name}] not exist")
        return request.answer(body=ProducerConnection(connection_set=_connections(members)).encode())

    def _all_producers(self, peer: IPeer, request: Command) -> Answer:
        data = {
            group: [
                ProducerInfo(
                    client_id=member.client_id,
                    remote_ip=f"/{member.peer.address}",  # as Java shows a socket address
                    language=_language(member.language),
                    version=member.version,
                    last_update_timestamp=member.seen_ms,
                )
                for member in self._producers.members(group)
            ]
            for group in self._producers.groups()
        }
        return request.answer(body=ProducerTableInfo(data=data).encode())

    def _check_master(self) -> None:
        if self._slave:
            raise RequestRefused("can't modify subscription groups on a slave, ask the master")


def _connections(members: Iterable[ClientMember]) -> list[ConnectedClient]:
    return [
        ConnectedClient(
            client_id=member.client_id,
            client_addr=member.peer.address,
            language=_language(member.language),
            version=member.version,
        )
        for member in members
    ]


def _language(code: int) -> str:
    return LANGUAGE_NAMES.get(code, LanguageCode.OTHER.name)
