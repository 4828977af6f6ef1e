"""The end of connections to a broker's ports, told to those who keep something of them."""

from __future__ import annotations

from twisted.python.failure import Failure

from smartgo.broker.processors.heartbeat import HeartbeatProcessor
from smartgo.broker.tables.longpolls import LongPollTable
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.listeners import NullListener


class ClientConnections(NullListener):
    """Tells the tables of clients, and that of long polls, when a connection has ended."""

    def __init__(self, heartbeat: HeartbeatProcessor, long_polls: LongPollTable) -> None:
        self._heartbeat = heartbeat
        self._long_polls = long_polls

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Forget a connection that the other side ended."""
        self._heartbeat.disconnected(peer)
        self._long_polls.disconnected(peer)

    def closed(self, peer: IPeer) -> None:
        """Forget a connection that we ended."""
        self._heartbeat.disconnected(peer)
        self._long_polls.disconnected(peer)
