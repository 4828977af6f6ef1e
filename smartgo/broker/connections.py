"""What becomes of the connections to a broker's ports."""

from __future__ import annotations

from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.heartbeat import HeartbeatProcessor
from smartgo.remoting.interfaces import IConnectionListener, IPeer


@implementer(IConnectionListener)
class ClientConnections:
    """Tells the tables of clients when a connection has ended."""

    def __init__(self, heartbeat: HeartbeatProcessor) -> None:
        self._heartbeat = heartbeat

    def active(self, peer: IPeer) -> None:
        """Nothing is known about it yet."""

    def connected(self, peer: IPeer) -> None:
        """Nothing is known about it yet."""

    def first_frame(self, peer: IPeer) -> None:
        """Heartbeats tell who it is."""

    def idle(self, peer: IPeer, seconds: float) -> None:
        """It is closed next."""

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """The other side ended it."""
        self._heartbeat.disconnected(peer)

    def closed(self, peer: IPeer) -> None:
        """We ended it."""
        self._heartbeat.disconnected(peer)

    def failed(self, peer: IPeer, failure: Failure) -> None:
        """Its end follows."""
