"""
The life of a link, as one table.

A dialled link begins in C{DIALLING}, an accepted one in C{HANDSHAKING}. What is not in the table does not happen: an
event that finds no row is ignored, which is how a second close, or a time-out of a link that is being closed, comes to
nothing.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """
    The states of a link's life.

    @ivar ready: bytes may be given to the transport, and the peer's are taken or will be.
    @ivar takes: what comes is processed, now or in its turn.
    @ivar over: the end was decided or has come; nothing more is taken, and nothing new is sent.
    """

    ready: bool
    takes: bool
    over: bool

    DIALLING = "dialling"
    """We are connecting; what is sent waits."""

    HANDSHAKING = "handshaking"
    """The transport is up; whether there is TLS, and with whom, is not known yet."""

    OPEN = "open"
    """Bytes come and go."""

    BLOCKED = "blocked"
    """The transport is not read: too much is unsent, too much waits to be processed, or memory is short."""

    DRAINING = "draining"
    """Nothing more is taken; what is in flight is being answered, then we close."""

    CLOSING = "closing"
    """We have ended it; the transport sends what is left and goes."""

    CLOSED = "closed"
    """Gone, because we ended it."""

    LOST = "lost"
    """Gone, because the peer or the network ended it, or it was never reached."""

    def __init__(self, word: str) -> None:
        self.ready = word in ("open", "blocked", "draining")
        self.takes = word in ("open", "blocked")
        self.over = word in ("closing", "closed", "lost")


class Event(Enum):
    """The events that move a link from state to state."""

    UP = "up"
    READY = "ready"
    BLOCK = "block"
    RESUME = "resume"
    DRAIN = "drain"
    CLOSE = "close"
    GONE = "gone"


TRANSITIONS: Final[dict[tuple[State, Event], State]] = {
    (State.DIALLING, Event.UP): State.HANDSHAKING,
    (State.DIALLING, Event.CLOSE): State.CLOSING,
    (State.DIALLING, Event.GONE): State.LOST,
    (State.HANDSHAKING, Event.READY): State.OPEN,
    (State.HANDSHAKING, Event.CLOSE): State.CLOSING,
    (State.HANDSHAKING, Event.GONE): State.LOST,
    (State.OPEN, Event.BLOCK): State.BLOCKED,
    (State.OPEN, Event.DRAIN): State.DRAINING,
    (State.OPEN, Event.CLOSE): State.CLOSING,
    (State.OPEN, Event.GONE): State.LOST,
    (State.BLOCKED, Event.RESUME): State.OPEN,
    (State.BLOCKED, Event.DRAIN): State.DRAINING,
    (State.BLOCKED, Event.CLOSE): State.CLOSING,
    (State.BLOCKED, Event.GONE): State.LOST,
    (State.DRAINING, Event.CLOSE): State.CLOSING,
    (State.DRAINING, Event.GONE): State.LOST,
    (State.CLOSING, Event.GONE): State.CLOSED,
}
