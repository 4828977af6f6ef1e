"""The entries of the route table: registered brokers and the names they serve under."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from smartgo.registry.interfaces import BrokerSeen
from smartgo.registry.registration import Registration, TableFull, is_plain
from smartgo.schema.advertised import Advertised, ConnectionEnds
from smartgo.schema.bodies import DataVersion

MASTER_WAIT: Final = 35.0
"""Seconds that a name waits for a master before the topics of its slaves count; masters register every 30 s."""


class LiveBroker(msgspec.Struct):
    """
    A registered broker: what it registered last, over which connection, and when it was heard.

    @ivar heard: monotonic seconds of its last registration or heartbeat.
    @ivar since_ms: when it became the master, in ms of the wall clock.
    """

    cluster: str
    name: str
    broker_id: int
    address: str
    ha_address: str
    version: DataVersion
    digest: bytes
    heard: float
    channel: object
    advertised: Advertised
    ha_advertised: Advertised
    since_ms: int
    source: str

    @classmethod
    def of(
        cls, one: Registration, others: tuple[Advertised, Advertised], now: float, channel: object, since_ms: int
    ) -> LiveBroker:
        """
        Return the entry of a registration.

        @param others: the other addresses for clients and for slaves.
        @param now: monotonic seconds.
        """
        return cls(
            one.cluster,
            one.name,
            one.broker_id,
            one.address,
            one.ha_address,
            one.version,
            one.digest,
            now,
            channel,
            *others,
            since_ms,
            one.source,
        )


class Dropped(NamedTuple):
    """A broker that was taken from the tables, and its connection, which is still open."""

    broker: BrokerSeen
    channel: object


class BrokerName(msgspec.Struct):
    """
    A broker name: its cluster, and the addresses of its master (id 0) and slaves by broker id.

    @ivar since: monotonic seconds of the first registration under the name.
    @ivar has_masters_topics: whether a master has registered its topics; they stay while slaves are left.
    @ivar slave_version: the version of a slave's topics that stand in for those of the master; C{None} for none.
    """

    cluster: str
    addresses: dict[int, str]
    since: float
    has_masters_topics: bool = False
    slave_version: DataVersion | None = None

    def lacks(self, version: DataVersion, now: float) -> bool:
        """
        Tell whether a slave's topics are wanted (docs/spec/registry#registration): no master has registered any.

        @param version: of the slave's topics.
        @param now: monotonic seconds.
        """
        if self.has_masters_topics or now - self.since < MASTER_WAIT:
            return False
        return self.slave_version is None or _age(version) > _age(self.slave_version)


def _age(version: DataVersion) -> tuple[int, int, int]:
    return version.state_version or 0, version.timestamp, version.counter


def check_broker_room(one: Registration, live: Collection[LiveBroker], limit: int) -> None:
    """
    Refuse one more broker than the registry may hold; of one source at most as many as there are places left.

    @param live: the brokers that are registered, without C{one}.
    @raise TableFull: there is no place.
    """
    left = limit - len(live) - 1
    held = sum(seen.source == one.source for seen in live) if one.source else 0
    if held > left:  # as for topics
        raise TableFull(
            f"this source has {held} brokers and must leave as many of {limit}"
            f" (maxRouteBrokers) to others; {max(0, left)} would be left"
        )
    if left < 0:
        raise TableFull(f"{limit} brokers are registered already")


def address_for(advertised: Advertised, asker: ConnectionEnds | None) -> str | None:
    """Return the advertised address that fits an asker best; C{None} where none is advertised or nobody asks."""
    return advertised.best(asker) if asker is not None and advertised.text else None


def is_repeat(seen: LiveBroker, one: Registration) -> bool:
    """Tell whether a registration repeats the broker's last one, so that it is a sign of life alone."""
    return (
        seen.version == one.version
        and seen.name == one.name
        and seen.broker_id == one.broker_id
        and seen.cluster == one.cluster
        and seen.advertised.text == one.advertised
        and seen.ha_advertised.text == one.ha_advertised
        and (one.ha_address == seen.ha_address or not one.ha_address or is_plain(one.ha_address))
    )
