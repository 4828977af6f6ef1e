"""Listeners to connections: those who hear little, and several at once."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.remoting.interfaces import IConnectionListener, IPeer


@implementer(IConnectionListener)
class NullListener:
    """Hears nothing; for those who care about some events alone to begin with."""

    def active(self, peer: IPeer) -> None:
        """Of no interest."""

    def connected(self, peer: IPeer) -> None:
        """Of no interest."""

    def first_frame(self, peer: IPeer) -> None:
        """Of no interest."""

    def idle(self, peer: IPeer, seconds: float) -> None:
        """Of no interest: it is closed next."""

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Of no interest."""

    def closed(self, peer: IPeer) -> None:
        """Of no interest."""

    def failed(self, peer: IPeer, failure: Failure) -> None:
        """Of no interest: its end follows."""


@implementer(IConnectionListener)
class ListenerMux:
    """Passes what it hears on to several listeners, in order; one that raises does not keep it from the others."""

    _log = Logger()

    def __init__(self, listeners: Iterable[IConnectionListener] = ()) -> None:
        self._listeners = list(listeners)

    def add(self, listener: IConnectionListener) -> None:
        """Let one more hear, from now on."""
        self._listeners.append(listener)

    def active(self, peer: IPeer) -> None:
        """Pass on."""
        self._pass("active", peer)

    def connected(self, peer: IPeer) -> None:
        """Pass on."""
        self._pass("connected", peer)

    def first_frame(self, peer: IPeer) -> None:
        """Pass on."""
        self._pass("first_frame", peer)

    def idle(self, peer: IPeer, seconds: float) -> None:
        """Pass on."""
        self._pass("idle", peer, seconds)

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Pass on."""
        self._pass("disconnected", peer, reason)

    def closed(self, peer: IPeer) -> None:
        """Pass on."""
        self._pass("closed", peer)

    def failed(self, peer: IPeer, failure: Failure) -> None:
        """Pass on."""
        self._pass("failed", peer, failure)

    def _pass(self, event: str, *details: object) -> None:
        for listener in self._listeners:
            try:
                getattr(listener, event)(*details)
            except Exception:
                self._log.failure("a connection listener failed at {event}", event=event)
