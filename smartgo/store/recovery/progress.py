"""The progress of a recovery: how far the log is read, and how long that will still take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from twisted.logger import Logger

PERIOD: Final = 5.0
"""Seconds between two messages, and before the first."""


class RecoveredSoFar(NamedTuple):
    """
    The progress of the present reading of the log. A recovery reads the end of the log, and all of it where queues have
    to be made anew.
    """

    read_bytes: int
    total_bytes: int
    """At most as many are read."""
    seconds_left: float | None
    """At most; C{None} while that is not known."""

    @property
    def percent(self) -> float:
        """The share that is read, to one decimal."""
        return round(100 * self.read_bytes / self.total_bytes, 1) if self.total_bytes else 100.0


class RecoveryProgress:
    """The progress of one recovery: written by the thread that recovers, read by the reactor thread."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """@param seconds: the monotonic clock."""
        self._seconds = seconds
        self._reading: ReadingProgress | None = None

    def reading(self, begin: int, end: int) -> Callable[[int], None]:
        """Begin a reading of the log from C{begin} to C{end} at the latest; return what is told how far it is."""
        self._reading = reading = ReadingProgress(self._seconds, begin, end)
        return reading.reached

    def end(self) -> None:
        """Take note that the recovery is over."""
        self._reading = None

    @property
    def now(self) -> RecoveredSoFar | None:
        """The progress of the recovery; C{None} where none reads the log."""
        reading = self._reading
        return None if reading is None else reading.so_far


class ReadingProgress:
    """
    The progress of one reading of the log, which logs it every L{PERIOD} seconds; nothing of one that is shorter.

    @ivar so_far: how far it is.
    """

    _log = Logger()

    def __init__(self, seconds: Callable[[], float], begin: int, end: int) -> None:
        """
        @param seconds: the monotonic clock.
        @param begin: physical offset at which the reading begins, and C{end} where it ends at the latest.
        """
        self._seconds = seconds
        self._begin = begin
        self._end = end
        self._began = seconds()
        self._next = self._began + PERIOD
        self.so_far = RecoveredSoFar(0, max(0, end - begin), None)

    def reached(self, position: int) -> None:
        """Take note of how far the reading is; called every few MiB."""
        now = self._seconds()
        done = position - self._begin
        if done <= 0:
            return
        left = max(0, self._end - position) * (now - self._began) / done
        total = self._end - self._begin
        self.so_far = RecoveredSoFar(min(done, total), total, round(left, 1))
        if now < self._next:
            return
        self._next = now + PERIOD
        self._log.info(
            "recovering the store: {done} of at most {total} B of the log are read, at most {left:.0f} s left",
            done=done,
            total=total,
            left=left,
        )
