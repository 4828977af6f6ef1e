"""Listeners to connections: those who hear little, and several at once."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.remoting.interfaces import IConnectionListener, IPeer


@implementer(IConnectionListener)
class NullListener:
    """Ignores every event; a base for listeners that care about some events alone."""

    def active(self, peer: IPeer) -> None:
        """Ignore the event."""

    def connected(self, peer: IPeer) -> None:
        """Ignore the event."""

    def first_frame(self, peer: IPeer) -> None:
        """Ignore the event."""

    def idle(self, peer: IPeer, seconds: float) -> None:
        """Ignore the event: the connection is closed next."""

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Ignore the event."""

    def closed(self, peer: IPeer) -> None:
        """Ignore the event."""

    def failed(self, peer: IPeer, failure: Failure) -> None:
        """Ignore the event: the end of the connection follows."""


@implementer(IConnectionListener)
class ListenerMux:
    """Tells several listeners each event, in order; one that raises does not keep it from the others."""

    _log = Logger()

    def __init__(self, listeners: Iterable[IConnectionListener] = ()) -> None:
        self._listeners = list(listeners)

    def add(self, listener: IConnectionListener) -> None:
        """Tell one more listener, from now on."""
        self._listeners.append(listener)

    def active(self, peer: IPeer) -> None:
        """Tell all listeners."""
        self._pass("active", peer)

    def connected(self, peer: IPeer) -> None:
        """Tell all listeners."""
        self._pass("connected", peer)

    def first_frame(self, peer: IPeer) -> None:
        """Tell all listeners."""
        self._pass("first_frame", peer)

    def idle(self, peer: IPeer, seconds: float) -> None:
        """Tell all listeners."""
        self._pass("idle", peer, seconds)

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Tell all listeners."""
        self._pass("disconnected", peer, reason)

    def closed(self, peer: IPeer) -> None:
        """Tell all listeners."""
        self._pass("closed", peer)

    def failed(self, peer: IPeer, failure: Failure) -> None:
        """Tell all listeners."""
        self._pass("failed", peer, failure)

    def _pass(self, event: str, *details: object) -> None:
        for listener in self._listeners:
            try:
                getattr(listener, event)(*details)
            except Exception:
                self._log.failure("a connection listener failed at {event}", event=event)
