"""Counters of the connections of one listener or one client, since it was made; for metrics."""

from __future__ import annotations


class Counts:
    """
    Counters that are never reset.

    @ivar accepted: connections taken from listeners.
    @ivar dialled: connections made by us.
    @ivar turned_away: accepted and closed at once, because of a limit (L8).
    @ivar waits: how many times accepting paused for want of descriptors (L8).
    @ivar broken: closed because their bytes were no frames, or their handshake failed (L1, L2).
    @ivar slow: closed because they were too slow to speak or to listen (L9, L10, L13).
    @ivar idle: closed because nothing happened (L11).
    @ivar unreadable: frames whose header could not be read.
    @ivar unasked: answers that nobody waits for, or no longer.
    """

    __slots__ = (
        "accepted", "broken", "dialled", "idle", "slow", "turned_away", "unasked", "unreadable", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.accepted = 0
        self.dialled = 0
        self.turned_away = 0
        self.waits = 0
        self.broken = 0
        self.slow = 0
        self.idle = 0
        self.unreadable = 0
        self.unasked = 0
