"""Interfaces between replication and the broker."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from smartgo.store.interfaces import IFlushPolicy
from smartgo.store.replicatedlog import FoundDamage


class SlaveState(Enum):
    """The states of a slave towards its master."""

    NO_MASTER = "no master is known"
    CONNECTING = "connecting"
    CATCHING_UP = "catching up"
    FOLLOWING = "following"
    DIVERGED = "the logs differ"
    STOPPED = "stopped"


class Tail(NamedTuple):
    """A master's description of its log for a slave that is about to follow it (reliability H3)."""

    minimum: int
    """Physical offset of the first byte of the master's log."""
    end: int
    """The physical offset after the last byte."""
    crc: int | None
    """CRC-32 of the range that was asked for; C{None} where the master does not have all of it."""
    ticket: bytes = b""
    """The word with which the stream has to begin (L{smartgo.schema.hatransfer}); empty for none."""
    data: bytes = b""
    """The bytes of the range, where they were asked for and are there."""
    damaged: tuple[FoundDamage, ...] = ()
    """The damaged regions of the range, where it was checked."""
    marked_from: int | None = None
    """Physical offset from which on it marks the records of batches (D12); C{None}: it does not say."""


class IMasterTail(Interface):
    """The question about another broker's log, by a private request to its main port."""

    def ask(
        master: str, begin: int, end: int, follow: bool = False, read: bool = False, check: bool = False
    ) -> Deferred[Tail | None]:
        """
        Ask the broker at C{host:port} for the CRC of its log from C{begin} to C{end}.

        @param follow: we are about to follow it, and need a ticket where it gives any (reliability X6).
        @param read: return the bytes as well.
        @param check: have the range checked, and return what is damaged in it.

        @return: fires with C{None} where the master does not know the request: a RocketMQ broker.
        @raise smartgo.errors.CallFailed: through the Deferred: it cannot be reached, or refuses.
        """


class SlaveSeen(NamedTuple):
    """A slave that follows this master."""

    address: str
    """C{host:port} that it comes from."""
    confirmed: int
    """Physical offset up to which it has the log; -1 before its first report."""
    sent: int
    """Physical offset up to which the log was handed to its connection."""
    connected_for: float
    """Seconds."""


class IReplicating(IFlushPolicy):
    """A master's side: serves slaves, and knows how far they are. Its C{durable} is the second condition of a send."""

    confirmed = Attribute("The highest physical offset that any slave has reported, 0 for none.")

    def slaves() -> list[SlaveSeen]:
        """Return the slaves that are connected now."""


class IFollowing(Interface):
    """A slave's side: keeps our log equal to a master's."""

    state = Attribute("L{SlaveState}.")
    reason = Attribute("One sentence on why we are not following; empty while we are.")
    behind = Attribute("Bytes of the master's log that we lack, as far as known; -1 for unknown.")
    master = Attribute("C{host:port} of the master's replication port; C{None} while unknown.")

    def follow(replication_address: str | None, master_address: str | None) -> None:
        """
        Follow this master from now on; the same as before changes nothing.

        @param replication_address: C{host:port} of its replication port; C{None}: there is none, wait.
        @param master_address: C{host:port} of its main port, for L{IMasterTail}; C{None}: it is not asked.
        """

    def when_changed(callback: Callable[[], None]) -> None:
        """Call back after each change of C{state} or C{reason}; not the place to call L{follow}."""
