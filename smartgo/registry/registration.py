"""The registration of one broker, and the errors that refuse one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from smartgo.errors import BadName, RequestRefused
from smartgo.schema.advertised import Advertised
from smartgo.schema.bodies import DataVersion, QueueData, TopicConfig

MASTER = 0
"""The broker id of a master."""

_NOTHING_ELSE = Advertised.parse("")
_NAME = re.compile(r"[^\s\x00-\x1f\x7f]{1,255}")
_TOPIC = re.compile(r"[^\s\x00-\x1f\x7f]{1,512}")  # a host name as topic, a retry topic of a long group: all are seen
_ADDRESS = re.compile(r"[^\s\x00-\x1f\x7f;,]{1,255}:[0-9]{1,5}")


def is_plain(address: str) -> bool:
    """Return whether this may be a C{host:port}."""
    return _ADDRESS.fullmatch(address) is not None


class NameTaken(RequestRefused):
    """
    A broker name or address that a living process holds (reliability H6).

    @ivar holder: that one's C{host:port}.
    """

    def __init__(self, message: str, holder: str) -> None:
        super().__init__(message)
        self.holder = holder


class AddressHeld(RequestRefused):
    """An address, or the id of a slave, that was registered over another connection, which is alive."""


class TableFull(RequestRefused):
    """More brokers or topics than the registry may hold."""


class Registration(NamedTuple):
    """The registration of one broker."""

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str
    version: DataVersion
    """Of C{topics}; differs when they changed."""
    topics: Mapping[str, TopicConfig]
    digest: bytes = b""
    """Of all else, so that a repetition can be told without reading it; empty for none."""
    advertised: str = ""
    """Other addresses for clients, as L{smartgo.schema.advertised} has them."""
    ha_advertised: str = ""
    """Other addresses for slaves, likewise."""
    since_ms: int | None = None
    """Since when it is the master, by a lease that counts (L{smartgo.registry.leases})."""
    leased: bool = True
    """Whether it asks for leases: all but RocketMQ's brokers do."""
    ready: Mapping[str, QueueData] | None = None
    """What L{queues} returns, where that was found before."""
    source: str = ""
    """Where it comes from, for the share of the table that one source may fill; empty: by broker name."""

    def check(self) -> tuple[Advertised, Advertised]:
        """
        Return the other addresses for clients and for slaves, where names and addresses are such as can be kept.

        @raise BadName: one of them cannot.
        """
        if not _NAME.fullmatch(self.cluster) or not _NAME.fullmatch(self.name):
            raise BadName("clusterName and brokerName must be 1 to 255 characters without blanks")
        if not is_plain(self.address):
            raise BadName("brokerAddr must be host:port")
        if self.ha_address and not is_plain(self.ha_address):
            raise BadName("haServerAddr must be host:port")
        if self.broker_id < MASTER:
            raise BadName("brokerId must not be negative")
        return _others(self.advertised), _others(self.ha_advertised)

    def queues(self) -> Mapping[str, QueueData]:
        """Return the queues of the topics whose names can be kept."""
        return queues_of(self.name, self.topics) if self.ready is None else self.ready


def queues_of(name: str, topics: Mapping[str, TopicConfig]) -> dict[str, QueueData]:
    """Return the queues of a broker's topics, where the topics' names can be kept. May run in any thread."""
    return {
        topic: QueueData(
            broker_name=name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_sys_flag=config.topic_sys_flag,
        )
        for topic, config in topics.items()
        if _TOPIC.fullmatch(topic)
    }


def _others(text: str) -> Advertised:
    """@raise BadName: these are no such addresses."""
    try:
        return Advertised.parse(text) if text else _NOTHING_ELSE
    except ValueError as error:
        raise BadName(f"advertised addresses: {error}") from None
