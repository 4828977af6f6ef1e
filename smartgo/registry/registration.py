"""What one broker tells a registry of itself, and how that is declined."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from smartgo.errors import BadName, RequestRefused
from smartgo.schema.advertised import Advertised
from smartgo.schema.bodies import DataVersion, TopicConfig

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


class TableFull(RequestRefused):
    """More brokers or topics than the registry may hold."""


class Registration(NamedTuple):
    """What one broker says of itself."""

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

    def known_topics(self) -> dict[str, TopicConfig]:
        """Return the topics whose names can be kept."""
        return {name: config for name, config in self.topics.items() if _TOPIC.fullmatch(name)}


def _others(text: str) -> Advertised:
    """@raise BadName: these are no such addresses."""
    try:
        return Advertised.parse(text) if text else _NOTHING_ELSE
    except ValueError as error:
        raise BadName(f"advertised addresses: {error}") from None
