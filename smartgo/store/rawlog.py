"""
The log as bytes by physical offset, for those that copy it: blanks that fill a file's end are part of it.

What lies within the share of memory that L{smartgo.store.messagereader} reads in place is a slice of the mapped file;
what lies further back is read through the file by a thread, and so is what was not checked yet, or cannot be read: the
disk's error is that of a read there, and would end the process here.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from twisted.internet.defer import Deferred, fail

from smartgo.env.interfaces import IFiles, IThreads
from smartgo.errors import NoSuchMessage
from smartgo.store.commitlog import CommitLog
from smartgo.store.messagelookup import FilePaths
from smartgo.store.messagereader import MessageReader
from smartgo.store.pagereads import PAGE, is_unreadable
from smartgo.store.verifiedlog import LANE, VerifiedLog

_SLICE: Final = 1 << 20  # bytes that the lane reads at once for a CRC: others want to read as well


class RawLog:
    """Reads the log without regard to records."""

    def __init__(
        self, log: CommitLog, reader: MessageReader, threads: IThreads, files: IFiles, verified: VerifiedLog
    ) -> None:
        """
        @param verified: knows what the disk could read: another page must not be touched in memory.
        """
        self._verified = verified
        self._commitlog = log
        self._reader = reader
        self._threads = threads
        self._files = files

    def last_file(self) -> int:
        """See L{IReplicatedLog.last_file<smartgo.store.replicatedlog.IReplicatedLog.last_file>}."""
        end = self._commitlog.end
        return end - end % self._commitlog.files.file_size

    def piece(self, offset: int, limit: int) -> memoryview | None:
        """See L{IReplicatedLog.piece<smartgo.store.replicatedlog.IReplicatedLog.piece>}."""
        if self._reader.is_far_back(offset) or not self._is_readable(offset, limit):
            self._check(offset, offset + 1)
            return None
        window, base, end = self._commitlog.window(offset)
        if offset >= end:
            raise _no_bytes(offset, offset + 1)
        return window[offset - base : min(end, offset + limit) - base]

    def piece_cold(self, offset: int, limit: int) -> Deferred[bytes]:
        """See L{IReplicatedLog.piece_cold<smartgo.store.replicatedlog.IReplicatedLog.piece_cold>}."""
        log = self._commitlog
        try:
            self._check(offset, offset + 1)
        except NoSuchMessage as error:
            return fail(error)
        left = log.files.file_size - offset % log.files.file_size
        size = min(limit, left, log.end - offset)
        return self._threads.run(LANE, self._read_some, FilePaths.of(log.files), offset, size)

    def crc(self, begin: int, end: int) -> Deferred[int]:
        """See L{IReplicatedLog.crc<smartgo.store.replicatedlog.IReplicatedLog.crc>}."""
        return Deferred.fromCoroutine(self._crc(begin, end))

    async def _crc(self, begin: int, end: int) -> int:
        self._check(begin, end)
        found = 0
        for at in range(begin, end, _SLICE):
            places = FilePaths.of(self._commitlog.files)
            found = await self._threads.run(LANE, self._add_crc, places, at, min(at + _SLICE, end), found)
        return found

    def _add_crc(self, places: FilePaths, begin: int, end: int, before: int) -> int:
        """Continue a CRC over more bytes; in the lane."""
        while begin < end:
            data = self._read(places, begin, min(end - begin, places.file_size - begin % places.file_size))
            before = crc32(data, before)
            begin += len(data)
        return before

    def _is_readable(self, offset: int, limit: int) -> bool:
        verified = self._verified
        return offset >= verified.clean_from or verified.is_readable(offset, offset + limit - 1)

    def _read_some(self, places: FilePaths, offset: int, size: int) -> bytes:
        """
        Read from one file up to the first page that the disk cannot read; in the lane.

        @raise OSError: not even the first byte can be read.
        """
        try:
            return self._read(places, offset, size)
        except OSError as error:
            if not is_unreadable(error):
                raise
            failed = error
        parts: list[bytes] = []
        at, end = offset, offset + size
        while at < end:
            part = min(PAGE - at % PAGE, end - at)
            try:
                parts.append(self._read(places, at, part))
            except OSError as error:
                failed = error
                break
            at += part
        if not parts:
            raise failed
        return b"".join(parts)

    def _read(self, places: FilePaths, offset: int, size: int) -> bytes:
        """Read from one file; in the lane."""
        data = places.read(self._files, offset, size)
        if len(data) < size:
            raise _no_bytes(offset, offset + size)
        return data

    def _check(self, begin: int, end: int) -> None:
        """@raise NoSuchMessage: the log has not all of the bytes from C{begin} to C{end}."""
        if not self._commitlog.minimum <= begin <= end <= self._commitlog.end:
            raise _no_bytes(begin, end)


def _no_bytes(begin: int, end: int) -> NoSuchMessage:
    return NoSuchMessage(f"the log does not have the bytes from {begin} to {end}")
