"""
The life of a broker, as one table.

What is not in the table does not happen: an event that finds no row is ignored, which is how a second stop, or a start
that goes on after a stop, comes to nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class BrokerState(Enum):
    """The stages in the life of a broker."""

    NEW = "new"
    """It was made, and not started."""

    OPENING = "opening"
    """Its store is being opened and recovered."""

    LOADING = "loading"
    """The store is open; the tables are read, and the ports are opened."""

    SERVING = "serving"
    """Clients can connect; the registries are being told."""

    READY = "ready"
    """The registries were told, or did not answer."""

    FAILED = "failed"
    """It could not start."""

    STOPPING = "stopping"
    """It answers what is in flight, and puts everything away; or its start is being given up."""

    STOPPED = "stopped"
    """Nothing of it runs any more."""


class BrokerEvent(Enum):
    """The events that move a broker from state to state."""

    START = "start"
    OPENED = "opened"
    LISTENING = "listening"
    REGISTERED = "registered"
    FAIL = "fail"
    STOP = "stop"
    GONE = "gone"


TRANSITIONS: Final[dict[tuple[BrokerState, BrokerEvent], BrokerState]] = {
    (BrokerState.NEW, BrokerEvent.START): BrokerState.OPENING,
    (BrokerState.NEW, BrokerEvent.STOP): BrokerState.STOPPING,
    (BrokerState.OPENING, BrokerEvent.OPENED): BrokerState.LOADING,
    (BrokerState.OPENING, BrokerEvent.FAIL): BrokerState.FAILED,
    (BrokerState.OPENING, BrokerEvent.STOP): BrokerState.STOPPING,
    (BrokerState.LOADING, BrokerEvent.LISTENING): BrokerState.SERVING,
    (BrokerState.LOADING, BrokerEvent.FAIL): BrokerState.FAILED,
    (BrokerState.LOADING, BrokerEvent.STOP): BrokerState.STOPPING,
    (BrokerState.SERVING, BrokerEvent.REGISTERED): BrokerState.READY,
    (BrokerState.SERVING, BrokerEvent.FAIL): BrokerState.FAILED,
    (BrokerState.SERVING, BrokerEvent.STOP): BrokerState.STOPPING,
    (BrokerState.READY, BrokerEvent.STOP): BrokerState.STOPPING,
    (BrokerState.FAILED, BrokerEvent.STOP): BrokerState.STOPPING,
    (BrokerState.STOPPING, BrokerEvent.GONE): BrokerState.STOPPED,
}
