"""The memory of one connection, counted by kind against the memory budget, and its pauses for want of room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from smartgo.net.memorybudget import Kind, MemoryBudget


class Reader(Protocol):
    """A connection whose reading can be stopped."""

    def stop_reading(self) -> None:
        """Stop reading from the socket."""

    def read_on(self) -> None:
        """Resume reading, unless something else prevents it."""

    def no_room(self, why: str) -> None:
        """Close the connection: there is no room for what it sends."""


class Account:
    """
    One connection's part of the budget.

    @ivar holds: how many bytes that is.
    @ivar unfinished: of those, bytes of a frame that is not whole.
    @ivar paused: whether the connection is not read for want of room.
    """

    __slots__ = (
        "_answers", "_budget", "_granted", "_kind", "_polls", "_reader", "_reads_on", "_requests", "_waiting", "holds",
        "paused", "unfinished",
    )  # fmt: skip

    def __init__(
        self, budget: MemoryBudget, reader: Reader, reads_on: bool, kind: Kind = Kind.UNFINISHED_FRAMES
    ) -> None:
        """
        @param reads_on: what the peer has not taken is no reason to read no more, as on each connection that we made:
            two ends that each wait for the other to read would wait for ever.
        @param kind: what a unit that is not whole is counted as.
        """
        self._budget = budget
        self._reader: Reader | None = reader
        self.holds = 0
        self.unfinished = 0
        self._waiting = 0
        self._requests = 0
        self._polls = 0
        self._answers = 0
        self.paused = False
        self._reads_on = reads_on
        self._kind = kind
        self._granted = False  # it was paused and may read on until its frame is whole

    # -- counting ------------------------------------------------------------------------------------------------

    def read(self, unfinished: int, whole: bool) -> None:
        """
        Count what a read has left.

        @param unfinished: bytes of a frame that is not whole.
        @param whole: whether the read has brought the end of a frame.
        """
        before, self.unfinished = self.unfinished, unfinished
        if whole and self._granted:
            self._granted = False
            self._budget.forget(self)
        self._change(self._kind, unfinished - before)

    def keep(self, frames: Iterable[bytes]) -> None:
        """Count frames that wait to be processed."""
        size = sum(map(len, frames))
        self._waiting += size
        self._change(Kind.WAITING_FRAMES, size)

    def take_out(self, frames: Iterable[bytes]) -> None:
        """Count frames that wait no longer."""
        size = sum(map(len, frames))
        self._waiting -= size
        self._change(Kind.WAITING_FRAMES, -size)

    def begin(self, size: int, poll: bool) -> None:
        """Count a request whose answer is outstanding; C{poll}: a long poll."""
        if poll:
            self._polls += size
            self._change(Kind.LONG_POLLS, size)
        else:
            self._requests += size
            self._change(Kind.REQUESTS, size)

    def end(self, size: int, poll: bool) -> None:
        """Count a request that was answered."""
        if poll:
            self._polls -= size
            self._change(Kind.LONG_POLLS, -size)
        else:
            self._requests -= size
            self._change(Kind.REQUESTS, -size)

    def unsent(self, size: int) -> None:
        """Count what the peer has not taken: so much it is now."""
        before, self._answers = self._answers, size
        self._change(Kind.ANSWERS, size - before)

    def _change(self, kind: Kind, by: int) -> None:
        budget = self._budget
        self.holds += by
        if by <= 0:
            if by:
                budget.give(kind, -by)
            return
        budget.take(kind, by)
        reader = self._reader
        if reader is None or (self._reads_on and kind is Kind.ANSWERS):
            return
        if budget.must_close(self):
            budget.refused += 1
            reader.no_room(f"the memory budget is used up: it holds {self.holds} B, {budget.used} B are in use in all")
        elif not self.paused and budget.must_pause(self):
            self.paused = True
            reader.stop_reading()
            budget.pause(self)

    def close(self) -> None:
        """Return the memory of the connection, which is gone."""
        self._reader = None
        self._budget.forget(self)
        for kind, size in (
            (self._kind, self.unfinished),
            (Kind.WAITING_FRAMES, self._waiting),
            (Kind.REQUESTS, self._requests),
            (Kind.LONG_POLLS, self._polls),
            (Kind.ANSWERS, self._answers),
        ):
            if size:
                self._budget.give(kind, size)
        self.holds = self.unfinished = self._waiting = self._requests = self._polls = self._answers = 0

    # -- the budget's calls --------------------------------------------------------------------------------------

    def go_on(self) -> None:
        """Read on: there is room."""
        self.paused = False
        self._granted = self.unfinished > 0
        if self._reader is not None:
            self._reader.read_on()

    def no_room(self, why: str) -> None:
        """Close the connection: there was no room for too long."""
        if self._reader is not None:
            self._reader.no_room(why)
