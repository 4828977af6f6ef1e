"""The answers of the registry: routes, the cluster, lists and values."""

from __future__ import annotations

from typing import Any, ClassVar

from smartgo.schema.bodies.shape import Body, always
from smartgo.schema.headerfields import Int32, Int64


class QueueData(Body):
    """
    The queues of one topic at one broker.

    @ivar perm: 4 read, 2 write, 1 inherit.
    """

    broker_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_sys_flag: Int32

    other_names: ClassVar = {"topicSynFlag": "topicSysFlag"}

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Take queues without a flag."""
        value = super().prepared(value)
        value.setdefault("topicSysFlag", 0)
        return value


class BrokerData(Body):
    """
    The addresses of one broker name.

    @ivar broker_addrs: broker id (0 the master), C{host:port}.
    """

    cluster: str = always("")
    broker_name: str = always("")
    broker_addrs: dict[Int64, str] = always({})


class TopicRouteData(Body):
    """
    The brokers and queues of a topic (105).

    @ivar order_topic_conf: C{broker:queues}, joined by semicolons.
    @ivar filter_server_table: always empty since 4.9.
    """

    queue_datas: list[QueueData] = always([])
    broker_datas: list[BrokerData] = always([])
    filter_server_table: dict[str, list[str]] = always({})
    order_topic_conf: str | None = None

    @classmethod
    def prepared(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Prepare the queues, which have their own forms."""
        value = super().prepared(value)
        queues = value.get("queueDatas")
        if isinstance(queues, list):
            value["queueDatas"] = [QueueData.prepared(each) if isinstance(each, dict) else each for each in queues]
        return value


class ClusterInfo(Body):
    """
    All brokers (106). RocketMQ has neither C{contenders} nor C{unregistered}.

    @ivar broker_addr_table: by broker name.
    @ivar cluster_addr_table: cluster, its broker names.
    @ivar contenders: broker name, the C{host:port} of masters that claim it and are refused; left out where there are
        none.
    @ivar unregistered: broker name, the ids of its processes that unregistered and did not come back, each with when
        that was, in ms of the wall clock; left out where there are none.
    """

    broker_addr_table: dict[str, BrokerData] = always({})
    cluster_addr_table: dict[str, list[str]] = always({})
    contenders: dict[str, list[str]] | None = None
    unregistered: dict[str, dict[Int64, Int64]] | None = None


class TopicList(Body):
    """Topic names (206, 224, 304, 305, 311 to 313); 304 adds the address of one broker."""

    topic_list: list[str] = always([])
    broker_addr: str | None = None


class KVTable(Body):
    """Values by name (28, 103, 219)."""

    table: dict[str, str] = always({})


class KVConfigTable(Body):
    """
    The registry's saved settings: C{kvConfig.json}.

    @ivar config_table: namespace, key, value.
    """

    config_table: dict[str, dict[str, str]] = always({})
