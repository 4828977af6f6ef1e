"""
The beginning of the master's log, as a slave may rely on it when it removes its own old files.

A master keeps a log file that has timed messages which wait until it has written them again, to the end of its log. A
slave that removes the same file by its own clock could lose them. So it follows the master: what the master does not
have any more is done with, as soon as the slave's log goes as far as the master's went then.
"""

from __future__ import annotations

from collections.abc import Callable


class MasterMinimum:
    """The physical offset below which a slave may remove its log files by age."""

    def __init__(self, flushed: Callable[[], int]) -> None:
        """@param flushed: returns the physical offset below which the slave's log is durable."""
        self._flushed = flushed
        self._known: int | None = 0
        self._told: tuple[int, int] | None = None  # the master's first offset, and where its log ended then

    @property
    def value(self) -> int | None:
        """The offset, 0 while no master has told any; C{None}: the master does not tell, our own rules alone hold."""
        if self._told is not None and self._flushed() >= self._told[1]:
            self._known = max(self._known or 0, self._told[0])
            self._told = None
        return self._known

    def tell(self, minimum: int, end: int) -> None:
        """Take note of where the log of the master begins now, and where it ends."""
        if self.value is None:
            self._known = 0
        if self._told is None:
            self._told = minimum, end

    def tell_nothing(self) -> None:
        """Take note that the master does not tell where its log begins: it is a RocketMQ broker."""
        self._known = self._told = None

    def forget(self) -> None:
        """Forget what was told: another master is followed, or the logs differ."""
        self._known, self._told = 0, None
