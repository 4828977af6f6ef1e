"""
The registry's answers: request codes to the tables and back (C{registry.md} section 2).

Codes that the registry does not know are answered 3 by the dispatcher. 217 means something else in every release: it is
answered where it asks for keys by their value, and 3 where it is the REGISTER_TOPIC_IN_NAMESRV of 5.x.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.config import properties
from smartgo.config.catalog import show, with_settings
from smartgo.config.settings import RegistryConfig
from smartgo.errors import (
    BadBody,
    CodeNotSupported,
    NoPermission,
    QueryNotFound,
    RequestRefused,
    SettingError,
    TopicNotExist,
)
from smartgo.registry.kvconfig import ORDER_TOPICS, KvConfig
from smartgo.registry.registration import NameTaken, Registration
from smartgo.registry.routes import RouteTable
from smartgo.remoting.audience import Inattentive
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema import bodies
from smartgo.schema.advertised import Asker
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers import registry as headers

_TYPED_BODY_FROM: Final = 37
"""Request version from which the body of 103 is a RegisterBrokerBody (V3_0_11)."""

_LOGGED: Final = 256
"""Characters of a name that nobody has checked which the log repeats, at most (reliability B9)."""

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

    def __init__(self, routes: RouteTable, kv: KvConfig, config: RegistryConfig, remote_config: bool = False) -> None:
        """
        @param remote_config: whether 318 may change settings: only where access control is on (reliability X7).
        """
        self._routes = routes
        self._kv = kv
        self.config = config
        self._remote_config = remote_config
        self._answers: dict[int, Callable[[IPeer, Command], Answer | Deferred[Answer]]] = {
            RequestCode.PUT_KV_CONFIG: self._put,
            RequestCode.GET_KV_CONFIG: self._get,
            RequestCode.DELETE_KV_CONFIG: self._delete,
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._unregister,
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
            RequestCode.QUERY_DATA_VERSION: self._data_version,
            RequestCode.ADD_WRITE_PERM_OF_BROKER: self._add_write,
        }
        self.codes = frozenset(int(code) for code in self._answers)

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """Answer one request; by a Deferred where a setting has to be saved first."""
        return self._answers[request.code](peer, request)

    # -- brokers -------------------------------------------------------------------------------------------

    def _register(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(headers.RegisterBrokerRequest)
        if header.body_crc32 and zlib.crc32(request.body) & 0x7FFFFFFF != header.body_crc32:
            raise RequestRefused("crc32 not match")
        address = header.broker_addr
        digest = _digest(request, header)
        version = self._routes.repeats(address, digest)
        new = self._routes.version(address) is None
        if version is None:
            wrapper = _topics(request, header.compressed)
            version, topics = wrapper.data_version, wrapper.topic_config_table
        else:
            topics = {}  # a repetition: whatever they are, they are known
        one = Registration(
            header.cluster_name,
            header.broker_name,
            header.broker_id,
            address,
            header.ha_server_addr,
            version,
            topics,
            digest,
            header.advertised or "",
            header.ha_advertised or "",
        )
        try:
            master = self._routes.register(one, peer)
        except NameTaken as taken:
            return request.answer(taken.code, str(taken), fields={headers.NAME_TAKEN: taken.holder})
        if new:
            self._log.info(
                "broker {name} of {cluster}, id {broker_id}, registered from {address}",
                name=header.broker_name,
                cluster=header.cluster_name,
                broker_id=header.broker_id,
                address=header.broker_addr,
            )
        answer = headers.RegisterBrokerResponse()
        if master is not None:
            answer.ha_server_addr = self._routes.told_ha(master, _asker(peer))
            answer.master_addr = self._routes.told(master, _asker(peer))
        try:
            order = bodies.KVTable(self._kv.namespace(ORDER_TOPICS)).encode()
        except QueryNotFound:
            order = b""
        return request.answer(header=answer, body=order)

    def _unregister(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(headers.UnregisterBrokerRequest)
        if self._routes.unregister(header.broker_addr, header.broker_name, header.broker_id):
            self._log.info("broker {name} at {address} has left", name=header.broker_name, address=header.broker_addr)
        return request.answer()

    def _data_version(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(headers.QueryDataVersionRequest)
        asked = bodies.DataVersion.decode(request.body)
        known = self._routes.version(header.broker_addr)
        changed = known != asked
        if not changed:
            self._routes.heard(header.broker_addr)
        body = b"" if known is None else known.encode()
        return request.answer(header=headers.QueryDataVersionResponse(changed=changed), body=body)

    # -- clients -------------------------------------------------------------------------------------------

    def _route(self, peer: IPeer, request: Command) -> Answer:
        topic = request.read(headers.RouteInfoRequest).topic
        route = self._routes.route(topic, _asker(peer))
        if route is None:
            raise TopicNotExist(_NO_ROUTE.format(topic))
        if self.config.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPICS, topic)
        return request.answer(body=route.encode())

    # -- administrators ------------------------------------------------------------------------------------

    def _cluster_info(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=self._routes.cluster_info(_asker(peer)).encode())

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
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        self._log.info("{peer} removed the route of {topic!r}", peer=peer.address, topic=header.topic[:_LOGGED])
        return request.answer()

    # -- namespaced settings -------------------------------------------------------------------------------

    def _put(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        header = request.read(headers.PutKVConfigRequest)
        return _when_saved(request, self._kv.put(header.namespace, header.key, header.value))

    def _get(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(headers.GetKVConfigRequest)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(f"No config item, Namespace: {header.namespace} Key: {header.key}")
        return request.answer(header=headers.GetKVConfigResponse(value=value))

    def _delete(self, peer: IPeer, request: Command) -> Deferred[Answer]:
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
        header = request.read(headers.KVConfigByValueRequest)
        return _when_saved(request, self._kv.delete_value(header.namespace, header.key))

    def _namespace(self, peer: IPeer, request: Command) -> Answer:
        table = self._kv.namespace(request.read(headers.KVListRequest).namespace)
        return request.answer(body=bodies.KVTable(table).encode())

    # -- our own settings ----------------------------------------------------------------------------------

    def _get_config(self, peer: IPeer, request: Command) -> Answer:
        return request.answer(body=properties.render(show("registry", self.config)).encode())

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


class RegistryListener(Inattentive):
    """Takes a broker from the routes as soon as its connection ends."""

    _log = Logger()

    def __init__(self, routes: RouteTable) -> None:
        self._routes = routes

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Forget what was registered over it."""
        self._gone(peer)

    def closed(self, peer: IPeer) -> None:
        """Forget what was registered over it."""
        self._gone(peer)

    def _gone(self, peer: IPeer) -> None:
        for seen in self._routes.channel_gone(peer):
            self._log.info(
                "broker {name} at {address} is gone: its connection ended", name=seen.name, address=seen.address
            )


def _asker(peer: IPeer) -> Asker:
    """Return both ends of a connection."""
    host, _, _ = peer.address.rpartition(":")
    return Asker(host.strip("[]"), peer.local_ip, peer.local_port)


def _digest(request: Command, header: headers.RegisterBrokerRequest) -> bytes:
    """Return what tells this registration from any other; a table of many topics takes much longer to read."""
    who = (header.cluster_name, header.broker_name, str(header.broker_id), header.broker_addr, header.ha_server_addr)
    how = f"{request.version < _TYPED_BODY_FROM} {header.compressed} {header.advertised} {header.ha_advertised}"
    seen = hashlib.blake2b(request.body, digest_size=32)
    seen.update("\0".join((*who, how)).encode("utf-8", "surrogatepass"))
    return seen.digest()


def _topics(request: Command, compressed: bool) -> bodies.TopicConfigSerializeWrapper:
    if not request.body:
        return bodies.TopicConfigSerializeWrapper()
    if request.version < _TYPED_BODY_FROM:
        return bodies.TopicConfigSerializeWrapper.decode(request.body)
    return bodies.RegisterBrokerBody.decode(request.body, compressed).topic_config_serialize_wrapper


def _topic_list(request: Command, topics: Iterable[str], address: str | None = None) -> Command:
    return request.answer(body=bodies.TopicList(topic_list=list(topics), broker_addr=address).encode())


def _when_saved(request: Command, saved: Deferred[None]) -> Deferred[Answer]:
    def answer(_: None) -> Answer:
        return request.answer()

    def refuse(failure: Failure) -> Answer:
        failure.trap(OSError)
        raise RequestRefused(f"in effect, but lost with the next restart: {failure.getErrorMessage()}")

    return saved.addCallbacks(answer, refuse)
