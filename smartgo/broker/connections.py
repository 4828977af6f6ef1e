"""What becomes of the connections to a broker's ports."""

from __future__ import annotations

from twisted.python.failure import Failure

from smartgo.broker.processors.heartbeat import HeartbeatProcessor
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.listeners import NullListener


class ClientConnections(NullListener):
    """Tells the tables of clients, and that of parked pulls, when a connection has ended."""

    def __init__(self, heartbeat: HeartbeatProcessor, hold: LongPollTable) -> None:
        self._heartbeat = heartbeat
        self._hold = hold

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """The other side ended it."""
        self._heartbeat.disconnected(peer)
        self._hold.disconnected(peer)

    def closed(self, peer: IPeer) -> None:
        """We ended it."""
        self._heartbeat.disconnected(peer)
        self._hold.disconnected(peer)
