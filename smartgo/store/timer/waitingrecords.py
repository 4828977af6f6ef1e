"""
The records of waiting messages, read when they are due or written again.

What this process appended not long ago is read through the mapping. All else is read in a lane and through the file: a
page that is not in memory would hold up the reactor, and one that the disk cannot give would end the process.

A record that cannot be read stops no other. Where the disk fails to read it for L{LASTING} seconds it counts as lost;
other errors, such as too many open files, say nothing about the record, and it waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from smartgo.env.interfaces import IClock, IFiles, IThreads
from smartgo.errors import NoSuchMessage
from smartgo.schema.timers import TimerEntry
from smartgo.store.pagereads import is_unreadable
from smartgo.store.timer.logrecords import is_whole, read_records
from smartgo.store.timer.source import TimerSource
from smartgo.store.verifiedlog import LANE

LASTING: Final = 60.0
"""Seconds from the first failed read to that at which what the disk cannot read counts as lost."""

_Read = bytes | OSError | None


class WaitingRecords:
    """Reads the records of waiting messages."""

    _log = Logger()

    def __init__(self, clock: IClock, threads: IThreads, files: IFiles, source: TimerSource) -> None:
        self._clock = clock
        self._threads = threads
        self._files = files
        self._source = source
        self._failing: dict[int, float] = {}  # physical offset of a record -> when the disk first failed to read it

    def read(self, entries: Sequence[TimerEntry]) -> Deferred[list[_Read]]:
        """
        Return the records of entries, checked.

        @return: for each entry its record, C{None} where it is gone or damaged or the disk cannot read it any more, or
            the error where it may be read later.
        """
        reader = self._source.reader
        if all(reader.is_own(entry.commitlog_offset) for entry in entries):
            return succeed([self._judged(entry, self._mapped(entry)) for entry in entries])
        return Deferred.fromCoroutine(self._read_files(entries))

    async def _read_files(self, entries: Sequence[TimerEntry]) -> list[_Read]:
        found = await self._threads.run(LANE, read_records, self._files, self._source.log_files(), entries)
        return [self._judged(entry, record) for entry, record in zip(entries, found, strict=True)]

    def _mapped(self, entry: TimerEntry) -> _Read:
        """Return a record that this process appended."""
        try:
            data = bytes(self._source.log.slice(entry.commitlog_offset, entry.size))
        except NoSuchMessage:
            return None
        except OSError as error:  # its file cannot be mapped
            return error
        return data if is_whole(data, entry.commitlog_offset) else None

    def _judged(self, entry: TimerEntry, found: _Read) -> _Read:
        """Return what was read, C{None} in place of an error of the disk that lasts."""
        offset = entry.commitlog_offset
        if not isinstance(found, OSError):
            self._failing.pop(offset, None)
            return found
        if not is_unreadable(found):
            return found
        now = self._clock.seconds()
        since = self._failing.setdefault(offset, now)
        if now - since < LASTING:
            return found
        del self._failing[offset]
        self._log.error("the disk cannot read the timed message at {offset}: {error}", offset=offset, error=str(found))
        return None
