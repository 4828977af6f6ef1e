"""
Requests by which clients join and leave groups: heartbeats (34), unregistrations (35), members (38), and whether a
filter expression would be understood (46).

Rules: docs/spec/broker#clients. A connection that ends takes its memberships with it; one that stays open without
heartbeats loses them after 120 s, and is closed once it has none left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from twisted.internet.defer import Deferred, FirstError, gatherResults
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.filter import SQL92
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.queuelocks import ID_LIMIT
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.tables.topics import READ, WRITE
from smartgo.errors import GroupNotExist, RequestRefused, SubscriptionParseFailed
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import CheckClientBody, ConsumerData, ConsumerList, HeartbeatData, SubscriptionData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumerListRequest, UnregisterClientRequest
from smartgo.schema.properties import tag_code
from smartgo.schema.topics import check_group, is_topic, retry_topic

EXPIRY = 120.0
"""Seconds without a heartbeat after which a member is gone."""
SCAN = 10.0
"""Seconds between two looks for such members, while there are any."""

_UNIT_SUB = 2  # sys flag of the retry topic of a group in unit mode
_BODY_LIMIT = 1 << 20  # bytes of a heartbeat
_SUBSCRIPTIONS = 1024  # of a group
_EXPRESSION_LIMIT = 4096  # characters (reliability L23)


@implementer(IRequestProcessor)
class HeartbeatProcessor(Processor):
    """Keep the tables of connected clients."""

    codes = answered_by("heartbeat")

    _log = Logger()

    def __init__(
        self,
        broker: IBroker,
        compile_filter: Callable[[str], object] | None = None,
        prepare: Callable[[], Deferred[None] | None] = lambda: None,
        expiry: float = EXPIRY,
    ) -> None:
        """
        @param compile_filter: reads an SQL92 expression or raises L{smartgo.errors.SubscriptionParseFailed}; C{None}
            where the broker does not filter by properties.
        @param prepare: gets ready to read the first of them; C{None} where that is done.
        @param expiry: seconds without a heartbeat after which a member is gone.
        """
        self._clock = broker.env.clock
        self._groups_a_peer = broker.settings.current.limits.max_groups_per_connection
        self._slave = broker.is_slave
        self._producers = broker.producers
        self._consumers = broker.consumers
        self._groups = broker.groups
        self._topics = broker.topics
        self._compile_filter = compile_filter
        self._prepare = prepare
        self._expiry = expiry
        self._timer: IDelayedCall | None = None
        self._stopped = False
        self._handlers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.HEART_BEAT: self._heartbeat,
            RequestCode.UNREGISTER_CLIENT: self._unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self._list,
            RequestCode.CHECK_CLIENT_CONFIG: self._check,
        }

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except a heartbeat whose new group has to be made durable first (D15), and the first SQL92
        expression, which waits for the parser.

        @raise RequestRefused: as docs/spec/broker says.
        """
        return self._handlers[request.code](peer, request)

    def disconnected(self, peer: IPeer) -> None:
        """Forget a connection that has ended, whichever side ended it; its groups are told."""
        self._producers.disconnected(peer)
        self._consumers.disconnected(peer)

    def stop(self) -> None:
        """Cancel the timers."""
        self._stopped = True
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    # -- requests ------------------------------------------------------------------------------------------

    def _heartbeat(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        if len(request.body) > _BODY_LIMIT:
            raise RequestRefused(f"a heartbeat of {len(request.body)} B exceeds the limit of {_BODY_LIMIT} B")
        data = HeartbeatData.decode(request.body)
        if not peer.open:
            return None
        self._validate(peer, data)
        waits: list[Deferred[None]] = []
        refusals: list[RequestRefused] = []  # those groups are left out: the others must not wait for them
        for consumer in data.consumer_data_set:
            try:
                self._register(peer, request, data, consumer, waits)
            except RequestRefused as refusal:
                refusals.append(refusal)
        for producer in data.producer_data_set:
            try:
                self._producers.register(producer.group_name, peer, data.client_id, request.language, request.version)
            except RequestRefused as refusal:
                refusals.append(refusal)
        if self._timer is None and not self._stopped and (data.consumer_data_set or data.producer_data_set):
            self._timer = self._clock.callLater(SCAN, self._scan)
        if refusals:
            gatherResults(waits, consumeErrors=True).addErrback(lambda failure: None)
            raise refusals[0]
        if not waits:
            return request.answer()
        return gatherResults(waits, consumeErrors=True).addCallbacks(lambda _: request.answer(), _first_error)

    def _register(
        self, peer: IPeer, request: Command, data: HeartbeatData, consumer: ConsumerData, waits: list[Deferred[None]]
    ) -> None:
        if not self._slave:
            self._provide(peer, consumer, waits)
        known = self._consumers.get(consumer.group_name)
        if data.without_sub and known is not None:
            subscriptions = list(known.subscriptions.values())
        else:
            subscriptions = [sound(one) for one in consumer.subscription_data_set if is_topic(one.topic)]
            if self._compile_filter is not None and any(one.expression_type == SQL92 for one in subscriptions):
                preparing = self._prepare()  # the group's pulls need it
                if preparing is not None:
                    waits.append(preparing)
        self._consumers.register(consumer, subscriptions, peer, data.client_id, request.language, request.version)

    def _validate(self, peer: IPeer, data: HeartbeatData) -> None:
        """Refuse a heartbeat as a whole, before anything is done about it."""
        if not 0 < len(data.client_id) <= ID_LIMIT:
            raise RequestRefused(f"clientID has {len(data.client_id)} characters, not 1 to {ID_LIMIT}")
        consumers = {one.group_name for one in data.consumer_data_set}
        producers = {one.group_name for one in data.producer_data_set}
        for name in consumers | producers:
            check_group(name)
        for consumer in data.consumer_data_set:
            if len(consumer.subscription_data_set) > _SUBSCRIPTIONS:
                raise RequestRefused(f"group {consumer.group_name} subscribes to more than {_SUBSCRIPTIONS} topics")
            if any(len(one.sub_string or "") > _EXPRESSION_LIMIT for one in consumer.subscription_data_set):
                raise SubscriptionParseFailed(
                    f"a subscription expression is longer than {_EXPRESSION_LIMIT} characters"
                )
        for seen, listed in (self._consumers.groups_of(peer), consumers), (self._producers.groups_of(peer), producers):
            if len(listed | seen) > self._groups_a_peer:
                raise RequestRefused(f"one connection may be a member of {self._groups_a_peer} groups at most")

    def _provide(self, peer: IPeer, consumer: ConsumerData, waits: list[Deferred[None]]) -> None:
        """Create a consumer group's settings and retry topic, where they may be created without an administrator."""
        try:
            config = self._groups.find(consumer.group_name, peer)
        except GroupNotExist:
            return  # its pulls will be answered 26
        topic = retry_topic(consumer.group_name)
        if config.retry_queue_nums > 0 and is_topic(topic):
            flag = _UNIT_SUB if consumer.unit_mode else 0
            self._topics.create_for_group(topic, config.retry_queue_nums, READ | WRITE, flag)
        waits += [one for one in (self._groups.durable(), self._topics.durable(topic)) if one is not None]

    def _unregister(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(UnregisterClientRequest)
        if header.producer_group:
            self._producers.unregister(header.producer_group, peer)
        if header.consumer_group:
            self._consumers.unregister(header.consumer_group, peer)
        return request.answer()

    def _list(self, peer: IPeer, request: Command) -> Answer:
        name = request.read(ConsumerListRequest).consumer_group
        group = self._consumers.get(name)
        if group is None:
            raise RequestRefused(f"no consumer for this group, {name}")
        return request.answer(body=ConsumerList(consumer_id_list=group.client_ids()).encode())

    def _check(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        subscription = CheckClientBody.decode(request.body).subscription_data
        if subscription is not None and (subscription.expression_type or "TAG") != "TAG":
            if self._compile_filter is None:
                raise RequestRefused(
                    f"The broker does not support consumer to filter message by {subscription.expression_type[:40]}"
                )
            if subscription.expression_type != SQL92:
                raise SubscriptionParseFailed(f"there is no filter of the type {subscription.expression_type[:40]}")
            preparing = self._prepare()
            if preparing is not None:
                return preparing.addCallback(lambda _: self._check(peer, request))
            self._compile_filter(subscription.sub_string)
        return request.answer()

    # -- time ----------------------------------------------------------------------------------------------

    def _scan(self) -> None:
        self._timer = None
        before = self._clock.seconds() - self._expiry
        late = self._producers.expire(before) + self._consumers.expire(before)
        for group, peer in late:
            self._log.warn("no heartbeat of {peer} for group {group}", peer=peer.address, group=group)
        for peer in dict.fromkeys(peer for _, peer in late):
            if not self._producers.groups_of(peer) and not self._consumers.groups_of(peer):
                peer.close(f"no heartbeat for {self._expiry:g} s")
        if len(self._producers) or len(self._consumers):
            self._timer = self._clock.callLater(SCAN, self._scan)


def _first_error(failure: Failure) -> Failure:
    """Return the error that was first, in place of the one that gatherResults wraps around it."""
    error = failure.value
    return error.subFailure if isinstance(error, FirstError) else failure


def sound(data: SubscriptionData) -> SubscriptionData:
    """
    Return a subscription as the filter needs it.

    Tag hashes are computed anew: client-go hashes UTF-8 bytes, SmartGo something else. Clients that send no tags have
    them in the expression.
    """
    kind = data.expression_type or "TAG"
    if kind != "TAG":
        return data
    tags = frozenset(data.tags_set) or frozenset(split_tags(data.sub_string))
    return msgspec.structs.replace(data, expression_type=kind, tags_set=tags, code_set=frozenset(map(tag_code, tags)))


def split_tags(expression: str | None) -> Iterable[str]:
    """Return the tags of C{a || b}; none for C{*}, the empty and the absent expression, which want all."""
    if not expression or expression == "*":
        return ()
    return [tag for tag in (part.strip() for part in expression.split("||")) if tag]
