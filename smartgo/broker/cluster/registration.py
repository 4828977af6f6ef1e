"""
The requests of a broker to registries, and the topic tables in them (docs/spec/broker#registration).

A registry takes topics over only where the DataVersion differs from the last one it saw. An increment (only what
changed) therefore must not carry the table's own version: a registry that missed an earlier increment, or was
restarted, would hold all later full tables for known, and would not learn the rest before the next change. It is
sent one millisecond older, so that the next full table always counts.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import NamedTuple

import msgspec

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.tables.topics import READ, WRITE, TopicTable
from smartgo.schema.bodies import DataVersion, RegisterBrokerBody, TopicConfigSerializeWrapper
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.registry import QueryDataVersionRequest, RegisterBrokerRequest, UnregisterBrokerRequest
from smartgo.schema.message import NO_HOST

MASTER = 0
"""The broker id of a master."""


class Identity(NamedTuple):
    """The name, cluster, id and addresses under which a broker registers."""

    cluster: str
    name: str
    broker_id: int
    address: str
    """C{host:port} for clients."""
    ha_address: str
    """C{host:port} for slaves."""
    advertised: str = ""
    """Other addresses for clients, as L{smartgo.schema.advertised} has them."""
    ha_advertised: str = ""
    """Other addresses for slaves, likewise."""
    store_host: bytes = NO_HOST
    """C{address} as a record stores it, for message ids."""


class RegistrationRequests:
    """The requests of one broker. Each call makes a new one, as it gets a number of its own."""

    def __init__(self, identity: Identity, topics: TopicTable, settings: CurrentSettings) -> None:
        """@param settings: the broker's permission, and whether tables are sent compressed."""
        self._identity = identity
        self._topics = topics
        self._settings = settings
        self._encoded: tuple[tuple[DataVersion, int], bytes] | None = None

    def full(self, lease: str = "") -> Command:
        """
        Return a registration (103) with all topics.

        @param lease: what the registry's last answer held, where this is a master.
        """
        key = (self._topics.version, self._settings.broker.broker_permission)
        if self._encoded is None or self._encoded[0] != key:
            self._encoded = (key, self._body(self._topics.wrapper()))
        return self._registration(self._encoded[1], lease)

    def increment(self, names: Collection[str], lease: str = "") -> Command:
        """Return a registration with some topics; C{lease} as for L{full}."""
        wrapper = self._topics.wrapper(names)
        older = msgspec.structs.replace(wrapper.data_version, timestamp=wrapper.data_version.timestamp - 1)
        return self._registration(self._body(msgspec.structs.replace(wrapper, data_version=older)), lease)

    def question(self) -> Command:
        """Return the question (322) whether a registry has our topics in their present version."""
        me = self._identity
        header = QueryDataVersionRequest(
            broker_name=me.name, broker_addr=me.address, cluster_name=me.cluster, broker_id=me.broker_id
        )
        return Command.request(RequestCode.QUERY_DATA_VERSION, header, body=self._topics.version.encode())

    def unregistration(self) -> Command:
        """Return the request to be forgotten (104)."""
        me = self._identity
        header = UnregisterBrokerRequest(
            broker_name=me.name, broker_addr=me.address, cluster_name=me.cluster, broker_id=me.broker_id
        )
        return Command.request(RequestCode.UNREGISTER_BROKER, header)

    def _registration(self, body: bytes, lease: str) -> Command:
        me = self._identity
        header = RegisterBrokerRequest(
            broker_name=me.name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            ha_server_addr=me.ha_address,
            broker_id=me.broker_id,
            compressed=self._settings.broker.compressed_register,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
            advertised=me.advertised or None,
            ha_advertised=me.ha_advertised or None,
            lease=lease if me.broker_id == MASTER else None,
        )
        return Command.request(RequestCode.REGISTER_BROKER, header, body=body)

    def _body(self, wrapper: TopicConfigSerializeWrapper) -> bytes:
        permission = self._settings.broker.broker_permission
        if permission & (READ | WRITE) != READ | WRITE:
            table = {
                name: msgspec.structs.replace(config, perm=permission)
                for name, config in wrapper.topic_config_table.items()
            }
            wrapper = msgspec.structs.replace(wrapper, topic_config_table=table)
        return RegisterBrokerBody(topic_config_serialize_wrapper=wrapper).encode(
            self._settings.broker.compressed_register
        )
