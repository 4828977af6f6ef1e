"""
Headers of the registry: 100 to 105, 205, 216 to 219, 224, 322, 327.

Source: C{RegisterBrokerRequestHeader} and its neighbours in C{header.namesrv}, 4.9.8 and 5.3.3; 217 and 218 by
docs/spec/smartgo-differences#codes.
"""

from __future__ import annotations

from msgspec import field

from smartgo.schema.advertised import FIELD, HA_FIELD
from smartgo.schema.headerfields import Header, Int32, Int64

NAME_TAKEN = "smartgoNameTaken"
"""
A field of our registry's answer that refuses 103: another broker process has the name, or the address.

Its value is the other one's C{host:port}. RocketMQ's registry has no such answer (reliability H6).
"""


LEASE = "smartgoLease"
"""A field of registrations and of our registry's answers to them, which RocketMQ's do not look at: a master's lease."""


class RegisterBrokerRequest(Header, gc=False):
    """
    103: a broker is there, and these are its topics (the body).

    @ivar broker_id: 0 for the master.
    @ivar compressed: the body is the compressed form.
    @ivar body_crc32: of the body, without the sign bit; 0 for unchecked.
    @ivar heartbeat_timeout_millis: 5.x: how long the broker may be silent, in ms.
    @ivar advertised: ours: other addresses for clients, L{smartgo.schema.advertised}.
    @ivar ha_advertised: ours: other addresses for slaves, likewise.
    @ivar lease: ours: the lease of the last answer, or empty; C{None} asks for none (L{smartgo.registry.leases}).
    """

    broker_name: str = field(name="brokerName")
    broker_addr: str = field(name="brokerAddr")
    cluster_name: str = field(name="clusterName")
    ha_server_addr: str = field(name="haServerAddr")
    broker_id: Int64 = field(name="brokerId")
    compressed: bool = False
    body_crc32: Int32 = field(name="bodyCrc32", default=0)
    heartbeat_timeout_millis: Int64 | None = field(name="heartbeatTimeoutMillis", default=None)
    enable_acting_master: bool | None = field(name="enableActingMaster", default=None)
    advertised: str | None = field(name=FIELD, default=None)
    ha_advertised: str | None = field(name=HA_FIELD, default=None)
    lease: str | None = field(name=LEASE, default=None)


class RegisterBrokerResponse(Header, gc=False):
    """
    The answer to 103; the addresses for a slave whose master is known.

    @ivar lease: ours: for a master that asked for one.
    """

    ha_server_addr: str | None = field(name="haServerAddr", default=None)
    master_addr: str | None = field(name="masterAddr", default=None)
    lease: str | None = field(name=LEASE, default=None)


class UnregisterBrokerRequest(Header, gc=False):
    """104: a broker leaves."""

    broker_name: str = field(name="brokerName")
    broker_addr: str = field(name="brokerAddr")
    cluster_name: str = field(name="clusterName")
    broker_id: Int64 = field(name="brokerId")


class QueryDataVersionRequest(Header, gc=False):
    """322: whether the registry knows the broker's topics of this version (the body)."""

    broker_name: str = field(name="brokerName")
    broker_addr: str = field(name="brokerAddr")
    cluster_name: str = field(name="clusterName")
    broker_id: Int64 = field(name="brokerId")


class QueryDataVersionResponse(Header, gc=False):
    """The answer to 322."""

    changed: bool


class RouteInfoRequest(Header, gc=False):
    """
    105: where a topic's queues are.

    @ivar accept_standard_json_only: quoted keys are wanted whatever the version.
    """

    topic: str
    accept_standard_json_only: bool = field(name="acceptStandardJsonOnly", default=False)


class PutKVConfigRequest(Header, gc=False):
    """100: set a value."""

    namespace: str
    key: str
    value: str


class GetKVConfigRequest(Header, gc=False):
    """101: read a value."""

    namespace: str
    key: str


class GetKVConfigResponse(Header, gc=False):
    """The answer to 101; to 217 of SmartGo, with the keys joined by semicolons."""

    value: str | None = None


class DeleteKVConfigRequest(Header, gc=False):
    """102: remove a value."""

    namespace: str
    key: str


class KVListRequest(Header, gc=False):
    """219: all values of a namespace."""

    namespace: str


class KVConfigByValueRequest(Header, gc=False):
    """
    217 and 218 of SmartGo: read, or remove, the keys that have a value.

    @ivar key: the value.
    """

    namespace: str
    key: str


class WipeWritePermRequest(Header, gc=False):
    """205: take away the write permission of all topics of a broker."""

    broker_name: str = field(name="brokerName")


class WipeWritePermResponse(Header, gc=False):
    """The answer to 205."""

    wipe_topic_count: Int32 = field(name="wipeTopicCount")


class AddWritePermRequest(Header, gc=False):
    """327: give a broker its write permission back."""

    broker_name: str = field(name="brokerName")


class AddWritePermResponse(Header, gc=False):
    """The answer to 327."""

    add_topic_count: Int32 = field(name="addTopicCount")


class DeleteTopicRouteRequest(Header, gc=False):
    """216: forget a topic's route, of one cluster if named."""

    topic: str
    cluster_name: str | None = field(name="clusterName", default=None)


class ClusterTopicsRequest(Header, gc=False):
    """224: the topics of a cluster."""

    cluster: str
