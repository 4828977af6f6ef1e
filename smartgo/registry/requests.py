"""
The request codes that a registry answers (docs/spec/registry#requests).

Codes that the registry does not know are answered 3 by the dispatcher. 217 means something else in every release: it is
answered where it asks for keys by their value, and 3 where it is the REGISTER_TOPIC_IN_NAMESRV of 5.x.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.config import properties
from smartgo.config.catalog import show, with_settings
from smartgo.config.settings import RegistryConfig
from smartgo.env.interfaces import IClock
from smartgo.errors import (
    BadBody,
    CodeNotSupported,
    NoPermission,
    QueryNotFound,
    RequestRefused,
    SettingError,
    TopicNotExist,
)
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.registry.access import Access
from smartgo.registry.brokerregistrations import BrokerRegistrations
from smartgo.registry.kvconfig import ORDER_TOPICS, KvConfig
from smartgo.registry.routes import RouteTable
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.listeners import NullListener
from smartgo.remoting.origin import asker
from smartgo.remoting.processor import Processor
from smartgo.schema import bodies
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers import registry as headers

_LOGGED: Final = 256
"""Characters of a name that nobody has checked which the log repeats, at most (reliability B9)."""

_CHANGES: Final = 100
"""Changes of namespaced settings that one address may ask for in a second."""
_CHANGES_AT_ONCE: Final = 1000
"""The same at once."""

_REMOTELY: Final = frozenset({"orderMessageEnable"})
"""The settings that 318 may change, where it may change any (reliability X7)."""

_NO_ROUTE: Final = (
    "No topic route info in name server for the topic: {}"
    "\nSee http://rocketmq.apache.org/docs/faq/ for further details."
)


@implementer(IRequestProcessor)
class RegistryProcessor(Processor):
    """
    Answers what brokers, clients and administrators ask of a registry.

    @ivar config: the settings in force; 318 replaces it.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        routes: RouteTable,
        kv: KvConfig,
        config: RegistryConfig,
        registrar: BrokerRegistrations,
        access: Access,
        remote_config: bool = False,
    ) -> None:
        """
        @param registrar: answers brokers.
        @param access: who may change anything.
        @param remote_config: whether 318 may change settings: only where access control is on (reliability X7).
        """
        self._registrar = registrar
        self._routes = routes
        self._kv = kv
        self._access = access
        self._clock = clock
        self._changes = TokenBuckets(_CHANGES, _CHANGES_AT_ONCE)
        self.config = config
        self._remote_config = remote_config
        self._answers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.PUT_KV_CONFIG: self._put,
            RequestCode.GET_KV_CONFIG: self._get,
            RequestCode.DELETE_KV_CONFIG: self._delete,
            RequestCode.REGISTER_BROKER: registrar.register,
            RequestCode.UNREGISTER_BROKER: registrar.unregister,
            RequestCode.GET_ROUTEINFO_BY_TOPIC: self._route,
            RequestCode.GET_BROKER_CLUSTER_INFO: self._cluster_info,
            RequestCode.WIPE_WRITE_PERM_OF_BROKER: self._wipe_write,
            RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: self._all_topics,
            RequestCode.DELETE_TOPIC_IN_NAMESRV: self._delete_topic,
            RequestCode.GET_KV_CONFIG_BY_VALUE: self._keys_by_value,
            RequestCode.DELETE_KV_CONFIG_BY_VALUE: self._delete_by_value,
            RequestCode.GET_KVLIST_BY_NAMESPACE: self._namespace,
            RequestCode.GET_TOPICS_BY_CLUSTER: self._cluster_topics,
            RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: self._system_topics,
            RequestCode.GET_UNIT_TOPIC_LIST: self._unit_topics,
            RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: self._unit_sub_topics,
            RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: self._unit_sub_ununit_topics,
            RequestCode.UPDATE_NAMESRV_CONFIG: self._update_config,
            RequestCode.GET_NAMESRV_CONFIG: self._get_config,
            RequestCode.QUERY_DATA_VERSION: registrar.data_version,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write,
        }
        self.codes = frozenset(int(code) for code in self._answers)

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Answer one request; by a Deferred where a setting has to be saved first."""
        return self._answers[request.code](peer, request)

    # -- clients -------------------------------------------------------------------------------------------

    def _route(self, peer: IPeer, request: Command) -> Answer:
        topic = request.read(headers.RouteInfoRequest).topic
        route = self._routes.route(topic, asker(peer))
        if route is None:
            raise TopicNotExist(_NO_ROUTE.format(topic))
        if self.config.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPICS, topic)
        return request.answer(body=route.encode())

    # -- administrators ------------------------------------------------------------------------------------

    def _cluster_info(self, peer: IPeer, request: Command) -> Answer:
        info = self._routes.cluster_info(asker(peer))
        info.contenders = self._registrar.contenders.addresses() or None
        info.unregistered = self._registrar.stopped.times() or None
        return request.answer(body=info.encode())

    def _all_topics(self, peer: IPeer, request: Command) -> Answer:
        return _topic_list(request, self._routes.topics())

    def _cluster_topics(self, peer: IPeer, request: Command) -> Answer:
        return _topic_list(request, self._routes.topics_of_cluster(request.read(headers.ClusterTopicsRequest).cluster))

    def _system_topics(self, peer: IPeer, request: Command) -> Answer:
        names, address = self._routes.system_topics()
        return _topic_list(request, names, address)

    def _unit_topics(self, peer: IPeer, request: Command) -> Answer:
        return _topic_list(request, self._routes.unit_topics(unit=True, subscribed=None))

    def _unit_sub_topics(self, peer: IPeer, request: Command) -> Answer:
        return _topic_list(request, self._routes.unit_topics(unit=None, subscribed=True))

    def _unit_sub_ununit_topics(self, peer: IPeer, request: Command) -> Answer:
        return _topic_list(request, self._routes.unit_topics(unit=False, subscribed=True))

    def _wipe_write(self, peer: IPeer, request: Command) -> Answer:
        name = request.read(headers.WipeWritePermRequest).broker_name
        self._check_owner(peer, [name], "take the write permission from a broker")
        count = self._routes.wipe_write(name)
        self._log.info(
            "{peer} took the write permission from {count} topics of {name!r}",
            peer=peer.address,
            count=count,
            name=name[:_LOGGED],
        )
        return request.answer(header=headers.WipeWritePermResponse(wipe_topic_count=count))

    def _add_write(self, peer: IPeer, request: Command) -> Answer:
        name = request.read(headers.AddWritePermRequest).broker_name
        self._check_owner(peer, [name], "give a broker the write permission")
        count = self._routes.add_write(name)
        self._log.info(
            "{peer} gave {count} topics of {name!r} the write permission",
            peer=peer.address,
            count=count,
            name=name[:_LOGGED],
        )
        return request.answer(header=headers.AddWritePermResponse(add_topic_count=count))

    def _delete_topic(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(headers.DeleteTopicRouteRequest)
        self._check_owner(peer, self._routes.serving(header.topic), "remove a topic's route")
        count = self._routes.delete_topic(header.topic, header.cluster_name or None)
        if count:
            self._log.info(
                "{peer} removed the route of {topic!r} to {count} brokers",
                peer=peer.address,
                topic=header.topic[:_LOGGED],
                count=count,
            )
        return request.answer()

    def _check_owner(self, peer: IPeer, names: Iterable[str], what: str) -> None:
        """
        Refuse a request about a broker that comes neither from an administrator nor from that broker.

        @raise NoPermission: this is neither.
        """
        mine = self._routes.names_over(peer)
        if not mine or not mine.issuperset(names):
            self._access.check_admin(asker(peer), what)

    # -- namespaced settings -------------------------------------------------------------------------------

    def _check_change(self, peer: IPeer) -> None:
        """
        Refuse a change of settings that no administrator makes, or that exceeds the rate limit.

        @raise RequestRefused: this is none, or too fast.
        """
        where = asker(peer)
        self._access.check_admin(where, "change settings")
        if not self._changes.take(where.ip, self._clock.seconds()):
            raise TooManyChanges(f"more than {_CHANGES} changes a second from {where.ip}")

    def _put(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_change(peer)
        header = request.read(headers.PutKVConfigRequest)
        return _when_saved(request, self._kv.put(header.namespace, header.key, header.value))

    def _get(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(headers.GetKVConfigRequest)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace} Key: {header.key}")
        return request.answer(header=headers.GetKVConfigResponse(value=value))

    def _delete(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_change(peer)
        header = request.read(headers.DeleteKVConfigRequest)
        return _when_saved(request, self._kv.delete(header.namespace, header.key))

    def _keys_by_value(self, peer: IPeer, request: Command) -> Answer:
        if "namespace" not in request.fields:
            raise CodeNotSupported(request.code)
        header = request.read(headers.KVConfigByValueRequest)
        keys = self._kv.keys_of(header.namespace, header.key)
        if not keys:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace} Value: {header.key[:_LOGGED]}")
        return request.answer(header=headers.GetKVConfigResponse(value=";".join(keys)))

    def _delete_by_value(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        self._check_change(peer)
        header = request.read(headers.KVConfigByValueRequest)
        return _when_saved(request, self._kv.delete_value(header.namespace, header.key))

    def _namespace(self, peer: IPeer, request: Command) -> Answer:
        table = self._kv.namespace(request.read(headers.KVListRequest).namespace)
        return request.answer(body=bodies.KVTable(table).encode())

    # -- our own settings ----------------------------------------------------------------------------------

    def _get_config(self, peer: IPeer, request: Command) -> Answer:
        paths = self._access.is_admin(asker(peer))
        return request.answer(body=properties.render(show("registry", self.config, paths)).encode())

    def _update_config(self, peer: IPeer, request: Command) -> Answer:
        if not self._remote_config:
            raise NoPermission("settings can be changed over the network only where access control is on")
        try:
            changes = [(one.key, one.value) for one in properties.parse(request.body, "request")]
            for name, _ in changes:
                if name not in _REMOTELY:
                    raise NoPermission(f"{name} cannot be changed over the network")
            config = with_settings("registry", self.config, changes, "request")
        except SettingError as error:
            raise BadBody(str(error)) from None
        before = dict(show("registry", self.config))
        for name, value in changes:
            self._log.info(
                "{peer} changed {name} from {old} to {new}", peer=peer.address, name=name, old=before[name], new=value
            )
        self.config = config
        return request.answer()


class TooManyChanges(RequestRefused):
    """An address changes namespaced settings too fast."""

    code = ResponseCode.SYSTEM_BUSY


class RegistryListener(NullListener):
    """Takes a broker from the routes as soon as its connection ends."""

    _log = Logger()

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Remove the brokers that were registered over the connection."""
        self._gone(peer)

    def closed(self, peer: IPeer) -> None:
        """Remove the brokers that were registered over the connection."""
        self._gone(peer)

    def _gone(self, peer: IPeer) -> None:
        for seen in self._routes.channel_gone(peer):
            self._log.info(
                "broker {name} at {address} is gone: its connection ended",
                name=seen.name,
                address=seen.address,
                peer=peer.address,
            )


def _topic_list(request: Command, topics: Iterable[str], address: str | None = None) -> Command:
    return request.answer(body=bodies.TopicList(topic_list=list(topics), broker_addr=address).encode())


def _when_saved(request: Command, saved: Deferred[None]) -> Deferred[Answer]:
    def answer(_: None) -> Answer:
        return request.answer()

    def refuse(failure: Failure) -> Answer:
        failure.trap(OSError)
        raise RequestRefused(f"in effect, but lost with the next restart: {failure.getErrorMessage()}")

    return saved.addCallbacks(answer, refuse)
