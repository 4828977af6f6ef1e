"""
The life of a connection, as one table.

A dialled connection begins in C{DIALLING}, an accepted one in C{OPEN}. What is not in the table does not happen: an
event that finds no row is ignored, which is how a second close, or a time-out of a connection that is being closed,
comes to nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """Where a connection is in its life."""

    DIALLING = "dialling"
    """We are connecting; what is sent waits."""

    OPEN = "open"
    """The transport is up; no whole frame has come."""

    ACTIVE = "active"
    """Frames come and go."""

    DRAINING = "draining"
    """No more requests are taken; those in flight are being answered, then we close."""

    CLOSING = "closing"
    """We have ended it; the transport sends what is left and goes."""

    CLOSED = "closed"
    """Gone, because we ended it."""

    LOST = "lost"
    """Gone, because the peer or the network ended it, or it was never reached."""


class Event(Enum):
    """What moves it on."""

    UP = "up"
    FRAME = "frame"
    DRAIN = "drain"
    CLOSE = "close"
    GONE = "gone"


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.DIALLING, Event.UP): State.OPEN,
    (State.DIALLING, Event.CLOSE): State.CLOSING,
    (State.DIALLING, Event.GONE): State.LOST,
    (State.OPEN, Event.FRAME): State.ACTIVE,
    (State.OPEN, Event.DRAIN): State.DRAINING,
    (State.OPEN, Event.CLOSE): State.CLOSING,
    (State.OPEN, Event.GONE): State.LOST,
    (State.ACTIVE, Event.DRAIN): State.DRAINING,
    (State.ACTIVE, Event.CLOSE): State.CLOSING,
    (State.ACTIVE, Event.GONE): State.LOST,
    (State.DRAINING, Event.CLOSE): State.CLOSING,
    (State.DRAINING, Event.GONE): State.LOST,
    (State.CLOSING, Event.GONE): State.CLOSED,
}
