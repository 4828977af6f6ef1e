"""The entries of the route table: registered brokers and the names they serve under."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from smartgo.registry.interfaces import BrokerSeen
from smartgo.registry.registration import Registration, is_plain
from smartgo.schema.advertised import Advertised, ConnectionEnds
from smartgo.schema.bodies import DataVersion


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


class Dropped(NamedTuple):
    """A broker that was taken from the tables, and its connection, which is still open."""

    broker: BrokerSeen
    channel: object


class BrokerName(msgspec.Struct):
    """A broker name: its cluster, and the addresses of its master (id 0) and slaves by broker id."""

    cluster: str
    addresses: dict[int, str]


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
