"""
Entries whose records are in the oldest file of the log, which retention is about to remove.

They are taken out in portions: those in memory, then a slot file at a time. Whoever takes a portion writes each of its
messages again, at the end of the log, and the entry of the old record goes.
"""

from __future__ import annotations

from typing import Final

from smartgo.schema.timers import offset_of
from smartgo.store.timer.entryfile import SlotFile
from smartgo.store.timer.waiting import WaitingTimers

PORTION: Final = 1024
"""Entries in memory that are taken at once."""


class OldEntries:
    """
    One portion.

    @ivar entries: those whose messages are to be written again.
    """

    def __init__(self, waiting: WaitingTimers, below: int, file: SlotFile | None, found: list[bytes]) -> None:
        """
        @param below: physical offset; the records that go lie below.
        @param file: the file that C{found} is in; C{None}: they were taken from memory.
        """
        self._waiting = waiting
        self._file = file
        self._done: set[int] = set()
        masked = waiting.masked
        self._masked = {offset_of(entry) for entry in found if offset_of(entry) in masked}
        waits = [entry for entry in found if offset_of(entry) not in self._masked]
        self.entries = [entry for entry in waits if offset_of(entry) < below]
        self._others = [entry for entry in waits if offset_of(entry) >= below]

    def done(self, entry: bytes) -> None:
        """Take note that the message of an entry was written again, in this turn of the reactor."""
        self._done.add(offset_of(entry))
        if self._file is None:
            self._waiting.done(entry)
        else:
            self._waiting.mask(entry)

    def end(self) -> None:
        """End the work on this portion, whether all of it was done or not."""
        if self._file is None:
            for entry in self.entries:
                if offset_of(entry) not in self._done:
                    self._waiting.give_back(entry)
        elif len(self._done) == len(self.entries):
            self._waiting.replace(self._file, self._others, self._done | self._masked)
        else:
            self._waiting.keep(self._file)
