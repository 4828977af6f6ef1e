"""The replication state of a broker, and the interface to its replication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred

from smartgo.broker.cluster.registrystate import Registered
from smartgo.ha.interfaces import SlaveSeen, SlaveState
from smartgo.remoting.interfaces import IRequestProcessor


class Replicated(NamedTuple):
    """The state of a broker's replication, for administrators."""

    role: str
    """C{ASYNC_MASTER}, C{SYNC_MASTER} or C{SLAVE}."""
    slaves: Sequence[SlaveSeen] = ()
    """A master's."""
    confirmed: int = 0
    """A master's: the highest physical offset that a slave has confirmed."""
    state: SlaveState | None = None
    """A slave's."""
    reason: str = ""
    """A slave's: why it does not follow; empty while it does."""
    behind: int = 0
    """A slave's: bytes of the master's log that it lacks; -1 for unknown."""
    master: str | None = None
    """A slave's: C{host:port} of the master's port for slaves."""
    tables_ms: int = -1
    """A slave's: when its tables were the master's for the last time; -1 for never."""
    tables_reason: str = ""
    """A slave's: why they are not copied; empty while they are."""


def replication_info(now: Replicated, end: int) -> dict[str, str]:
    """
    Return what the runtime information (28) says of replication; RocketMQ has nothing of this.

    @param end: of the broker's own log.
    """
    if now.state is not None:
        return {
            "brokerRole": now.role,
            "haState": now.state.name,
            "haReason": now.reason,
            "haBehindBytes": str(now.behind),
            "haMasterAddress": now.master or "",
            "haTablesCopiedMs": str(now.tables_ms),
            "haTablesReason": now.tables_reason,
        }
    slaves = {
        f"haSlave_{number}": f"{one.address},{one.confirmed},{end - max(0, one.confirmed)},{one.connected_for:.0f}"
        for number, one in enumerate(now.slaves, 1)
    }
    return {
        "brokerRole": now.role,
        "haSlaveCount": str(len(now.slaves)),
        "haConfirmedOffset": str(now.confirmed),
        **slaves,
    }


class Replication(Protocol):
    """The broker's calls to the replication of a master or of a slave."""

    processors: Sequence[IRequestProcessor]

    @property
    def is_without_master(self) -> bool:
        """Tell whether this is a slave that follows no master at the moment."""

    def open(self) -> Deferred[None]:
        """Begin, once the store is open."""

    def stop(self) -> Deferred[None]:
        """End; fires when no connection is left."""

    def registered(self, told: Registered) -> None:
        """Take what a registry has said of who the master is."""

    def now(self) -> Replicated:
        """Return how the broker stands to others of its name."""
