"""
One budget of memory for everything that a process has received and not finished, or made and not sent (rule L14).

Whoever keeps bytes for a peer takes them from the budget and gives them back. A holder (a connection) that keeps more
than its share is no longer read. The share is a part of what is free, so it shrinks while the budget fills: holders
that keep much are paused first, one that keeps nothing is always read. That is the dynamic threshold of shared-memory
switches (Choudhury and Hahne, 1998).

Part of the budget is a reserve, which shares are not reckoned from. It serves the paused holders: those that have
waited longest may read on until their frames are whole, as many as the reserve has room for. So a budget full of
unfinished frames does not stand still. A holder whose frame got no room in time is closed; and where the budget is
passed the one is closed that holds most.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Final, Protocol

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

MIB: Final = 1024 * 1024
DEFAULT: Final = 512 * MIB
"""Bytes of a budget that nobody has set."""
SMALLEST_PART: Final = 4
"""A frame must not be longer than the budget divided by this: the reserve is that large."""

_SHARE: Final = 4  # a holder may keep as much as what is free divided by this
_SMALL: Final = 4096  # bytes; a holder that keeps no more is never closed for the sake of the budget
_INTERVAL: Final = 0.05  # seconds between two looks at paused holders
_STEP: Final = 64  # the budget divided by this: so much given back is reason to look at once
_TURN: Final = 3.0  # seconds that a holder may read on for, at the cost of the reserve
_WAIT: Final = 30.0  # seconds that a holder with an unfinished frame is paused at most
_EVERY: Final = 60.0  # seconds between two log lines about a budget that runs short
_LARGE: Final = 32768  # bytes that are given back at once, from which on they are counted for the system
_RETURN: Final = 64 * MIB  # bytes given back in large pieces after which the allocator is asked to return memory
_RETURN_EVERY: Final = 10.0  # seconds between two such requests


class Kind(IntEnum):
    """The purposes that memory is counted by."""

    UNFINISHED_FRAMES = 0
    """Frames of which a part has come."""

    WAITING_FRAMES = 1
    """Whole frames that are not processed yet."""

    REQUESTS = 2
    """Requests whose answers are outstanding."""

    LONG_POLLS = 3
    """Pulls that wait for messages."""

    ANSWERS = 4
    """Answers, and requests of ours, that a peer has not taken yet."""

    LOCKS = 5
    """Locks of queues."""

    HTTP_BODIES = 6
    """HTTP requests, with their bodies, that are not whole yet."""


class Holder(Protocol):
    """
    A connection, as the budget sees it.

    @ivar holds: how many bytes of the budget it has.
    @ivar unfinished: how many of them are of a frame that is not whole.
    """

    holds: int
    unfinished: int

    def go_on(self) -> None:
        """Read on: there is room."""

    def no_room(self, why: str) -> None:
        """Close the connection: there is no room for its frame."""


class MemoryBudget:
    """
    The bytes that the peers of one process may make it keep. One object a process.

    @ivar limit: how many those are.
    @ivar used: how many are taken.
    @ivar pauses: how often a holder was paused.
    @ivar refused: how many holders were closed because there was no room.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IReactorTime,
        limit: int = DEFAULT,
        frame: int = 16 * MIB,
        return_memory: Callable[[], object] | None = None,
    ) -> None:
        """
        @param frame: the longest frame, in bytes.
        @param limit: the longest frame must not be longer than a quarter of it (L{SMALLEST_PART}).
        @param return_memory: called some time after much was given back in large pieces: what the allocator keeps of
            them is to go back to the system. Must not block. C{None}: nobody is asked to.
        """
        self._clock = clock
        self.limit = limit
        self._shared = limit - limit // SMALLEST_PART
        self._step = limit // _STEP
        self.used = 0
        self._by_kind = [0] * len(Kind)
        self._paused: dict[Holder, float] = {}  # since when, in that order
        self._favoured: dict[Holder, float] = {}  # read on at the cost of the reserve, until then
        self._places = max(1, limit // SMALLEST_PART // frame)
        self._given = 0  # bytes, since the last look
        self._timer: IDelayedCall | None = None
        self._soon = False  # the timer is set for the end of this turn
        self._logged = -_EVERY
        self._return_memory = return_memory
        self._freed = 0  # bytes given back in large pieces since memory was last returned
        self._returned = -_RETURN_EVERY
        self._return_timer: IDelayedCall | None = None
        self.pauses = 0
        self.refused = 0

    # -- counting ------------------------------------------------------------------------------------------------

    def take(self, kind: Kind, size: int) -> None:
        """Count bytes that are kept from now on. Whether there is room for more is the caller's question."""
        self.used += size
        self._by_kind[kind] += size

    def give(self, kind: Kind, size: int) -> None:
        """Count bytes that are kept no longer; paused holders hear of it."""
        self.used -= size
        self._by_kind[kind] -= size
        if size >= _LARGE and kind is not Kind.ANSWERS:  # those are slices of mapped files
            self._count_freed(size)
        if self._paused:
            self._given += size
            if self._given >= self._step and not self._soon:
                self._look_soon()

    def _count_freed(self, size: int) -> None:
        self._freed += size
        if self._freed >= _RETURN and self._return_timer is None and self._return_memory is not None:
            wait = max(1.0, self._returned + _RETURN_EVERY - self._clock.seconds())
            self._return_timer = self._clock.callLater(wait, self._return, self._return_memory)

    def _return(self, return_memory: Callable[[], object]) -> None:
        self._return_timer = None
        self._returned = self._clock.seconds()
        self._freed = 0
        return_memory()

    def taken(self, kind: Kind) -> int:
        """Return how many bytes are kept for one kind of thing."""
        return self._by_kind[kind]

    def has_room(self, size: int) -> bool:
        """Tell whether C{size} more bytes can be kept; a table that strangers fill asks this before it accepts them."""
        return self.used + size <= self._shared

    @property
    def share(self) -> int:
        """The number of bytes that one holder may keep and still be read."""
        return max(0, self._shared - self.used) // _SHARE

    @property
    def paused(self) -> int:
        """The number of holders that are not read for want of room."""
        return len(self._paused)

    # -- pausing -------------------------------------------------------------------------------------------------

    def must_pause(self, holder: Holder) -> bool:
        """
        Tell whether reading from this holder must pause; to be asked after each L{take}.

        A holder that is told so calls L{pause}, and is called back when it may go on.
        """
        return not self._fits(holder) and holder not in self._favoured

    def _fits(self, holder: Holder) -> bool:
        return holder.holds * _SHARE <= max(0, self._shared - self.used)

    def must_close(self, holder: Holder) -> bool:
        """
        Tell whether the budget is exceeded and this holder, the last that took memory, must be closed for it.

        Where a paused one holds more, such as answers that its peer does not take, that one is closed in its place.
        """
        if self.used <= self.limit or holder.holds <= _SMALL:
            return False
        largest = max(self._paused, key=lambda one: one.holds, default=holder)
        if largest.holds <= holder.holds:
            return True
        del self._paused[largest]
        self._close(largest, "the memory budget is used up")
        return False

    def pause(self, holder: Holder) -> None:
        """Call C{holder.go_on()} when it has room, or C{holder.no_room()} when it had none for too long."""
        now = self._clock.seconds()
        self._paused[holder] = now
        self.pauses += 1
        if self._timer is None:
            self._timer = self._clock.callLater(_INTERVAL, self._look)
        if now - self._logged >= _EVERY:
            self._logged = now
            self._log.warn(
                "the memory budget is nearly used up: {used} of {limit} B; connections that hold much are paused",
                used=self.used,
                limit=self.limit,
            )

    def forget(self, holder: Holder) -> None:
        """Remove a holder that is gone or has finished its frame. Harmless if it was not paused."""
        self._paused.pop(holder, None)
        if self._favoured.pop(holder, None) is not None and self._paused and not self._soon:
            self._look_soon()
        if not self._paused and not self._favoured and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._soon = False

    def _look_soon(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._soon = True
        self._timer = self._clock.callLater(0, self._look)

    def _look(self) -> None:
        """Resume the paused holders that have room, and close those that had none for too long."""
        self._timer = None
        self._soon = False
        self._given = 0
        now = self._clock.seconds()
        for favoured in [one for one, until in self._favoured.items() if now >= until]:
            del self._favoured[favoured]
            if favoured.unfinished:
                self._close(favoured, f"its frame was not whole after {_TURN:g} s of reading at others' cost")
        for holder, since in list(self._paused.items()):
            if holder not in self._paused:
                continue  # closed by what another one did
            if self._fits(holder):
                del self._paused[holder]
                holder.go_on()
            elif len(self._favoured) < self._places and holder.unfinished:
                del self._paused[holder]
                self._favoured[holder] = now + _TURN
                holder.go_on()
            elif now - since >= _WAIT and holder.unfinished:
                del self._paused[holder]
                self._close(holder, f"there was no room for its frame for {_WAIT:g} s")
        if (self._paused or self._favoured) and self._timer is None:
            self._timer = self._clock.callLater(_INTERVAL, self._look)

    def _close(self, holder: Holder, why: str) -> None:
        self.refused += 1
        holder.no_room(f"{why}: it holds {holder.holds} B, {self.used} of {self.limit} B are in use")
