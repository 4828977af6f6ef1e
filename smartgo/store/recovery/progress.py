"""The progress of a long reading of the log, for the log: how far it is, and how long it will still take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

PERIOD: Final = 5.0
"""Seconds between two messages, and before the first."""


class ReadingProgress:
    """Logs the progress of one reading of the log, every L{PERIOD} seconds; nothing of one that is shorter."""

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

    def reached(self, position: int) -> None:
        """Take note of how far the reading is; called every few MiB."""
        now = self._seconds()
        done = position - self._begin
        if now < self._next or done <= 0:
            return
        self._next = now + PERIOD
        left = max(0, self._end - position) * (now - self._began) / done
        self._log.info(
            "recovering the store: {done} of at most {total} B of the log are read, at most {left:.0f} s left",
            done=done,
            total=self._end - self._begin,
            left=left,
        )
