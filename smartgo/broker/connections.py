"""What becomes of the connections to a broker's ports."""

from __future__ import annotations

from twisted.python.failure import Failure

from smartgo.broker.heartbeat import HeartbeatProcessor
from smartgo.remoting.audience import Inattentive
from smartgo.remoting.interfaces import IPeer


class ClientConnections(Inattentive):
    """Tells the tables of clients when a connection has ended."""

    def __init__(self, heartbeat: HeartbeatProcessor) -> None:
        self._heartbeat = heartbeat

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """The other side ended it."""
        self._heartbeat.disconnected(peer)

    def closed(self, peer: IPeer) -> None:
        """We ended it."""
        self._heartbeat.disconnected(peer)
