"""The broker's records of each registry, of a round of registrations, and of connections to registries."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from twisted.internet.defer import DeferredLock
from twisted.internet.interfaces import IDelayedCall
from twisted.python.failure import Failure

from smartgo.observer import Waiters
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.listeners import NullListener


class Registered(NamedTuple):
    """The master that a registry's answer names."""

    master_address: str | None
    ha_address: str | None


class RegistryState:
    """The broker's record of one registry."""

    __slots__ = ("all_sent", "failures", "lease", "lock", "names", "retry", "unreadable", "up")

    def __init__(self) -> None:
        self.lock = DeferredLock()
        self.names: set[str] = set()  # changed, and not yet sent
        self.all_sent: Waiters[None] = Waiters()  # all that has changed so far
        self.up: bool | None = None  # whether it has us; None: never asked
        self.unreadable = False  # what it answered last
        self.failures = 0  # one after another
        self.lease = ""  # what it answered last, of a master
        self.retry: IDelayedCall | None = None

    def rest(self) -> None:
        """Ask this registry no more before the next round."""
        if self.retry is not None:
            self.retry.cancel()
            self.retry = None

    def sent(self) -> None:
        """Release the lock; where nothing is left to send, first tell those who wait for that."""
        if not self.names:
            self.all_sent.fire(None)
        self.lock.release()


class RegistrationRound:
    """Registrations that go out together."""

    __slots__ = ("first", "named_master")

    def __init__(self) -> None:
        self.first: Registered | None = None  # the first answer that can be read
        self.named_master = False  # whether a master that an answer names was passed on


class LostRegistries(NullListener):
    """Tells the registrar of connections to registries that end."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost

    def disconnected(self, peer: IPeer, reason: Failure) -> None:
        """Tell the registrar that the registry has lost our registration."""
        self._lost(peer.address)

    def closed(self, peer: IPeer) -> None:
        """Tell the registrar that the registry has lost our registration."""
        self._lost(peer.address)
