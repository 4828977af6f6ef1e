"""The interface of the registry to the operations API and to plugins."""

from __future__ import annotations

from typing import NamedTuple

from zope.interface import Interface

from smartgo.schema.bodies import ClusterInfo, TopicRouteData


class BrokerSeen(NamedTuple):
    """One registered broker process."""

    cluster: str
    name: str
    broker_id: int
    """0 for a master."""
    address: str
    """C{host:port} of its listening port."""
    ha_address: str
    """C{host:port} for its slaves; may be empty."""
    age: float
    """Seconds since it was last heard from."""


class IRoutes(Interface):
    """Read access to the route tables. Called on the reactor thread; what is returned is the caller's own."""

    def topics() -> list[str]:
        """All topics that any broker serves."""

    def route(topic: str) -> TopicRouteData | None:
        """Return the brokers that serve a topic; C{None} where nobody does."""

    def cluster_info() -> ClusterInfo:
        """All brokers by name, and all names by cluster."""

    def brokers() -> list[BrokerSeen]:
        """Return every registered address."""
