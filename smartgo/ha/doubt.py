"""
Comparing what a slave could not know to be durable with the master's log, before the log goes on.

A slave's log is flushed wherever it ends, inside a record too. When power fails afterwards, the rest of that record may
be on the disk, and the sector that its first part lies in may be as it was at that flush: the record's own checksum
does not cover its head, so recovery takes it for whole. Such a record differs from the master's, but only as a torn
write does: in a sector, the bytes from some place on are zero. It is put right with the master's bytes. Any other
difference is another history (L{smartgo.errors.LogsDiffer}).
"""

from __future__ import annotations

from typing import Final

from smartgo.errors import LogsDiffer, LogTorn
from smartgo.schema.record import BLANK_MAGICS, BLANK_SIZE, MESSAGE_MAGICS, start_struct
from smartgo.store.replicatedlog import IReplicatedLog

_SECTOR: Final = 512
_PIECE: Final = 64 * 1024  # of what is no record, as much is compared at once


class Doubt:
    """
    The comparison of one stream.

    @ivar position: physical offset up to which the master's bytes were taken; at first, what to ask the master from.
    @ivar done: all of our log was compared.
    """

    def __init__(self, log: IReplicatedLog, begin: int) -> None:
        """
        @param begin: physical offset of a record of ours; all below is durable, or was compared.
        """
        self._log = log
        self._end = log.log_bounds()[1]
        self._record = begin  # the record that is being compared
        self._after = begin  # its end, once it is known
        self._theirs = bytearray()  # what the master has of it
        self._torn: dict[int, bytes] = {}
        if not begin < self._end:
            self._record = self._end
        elif not begin:  # to ask from 0 on is to ask for the newest file; the first byte of a record is always 0
            self._theirs += log.stored(0, 1)
        self.position = self._record + len(self._theirs)

    @property
    def done(self) -> bool:
        """Tell whether nothing is left to compare."""
        return self.position >= self._end

    def take(self, data: memoryview) -> int:
        """
        Compare what the master has from C{position} on.

        @return: how many bytes were compared: all, or as many as our log has.
        @raise LogsDiffer: ours is another history.
        @raise LogTorn: all is compared, and some records are torn.
        """
        data = data[: self._end - self.position]
        left = data
        while left:
            if self._after == self._record:
                self._after = self._record + self._size()
            part = left[: self._after - self.position]
            left = left[len(part) :]
            self._theirs += part
            self.position += len(part)
            if self.position == self._after:
                self._judge()
        if self.done and self._torn:
            raise LogTorn(self._torn)
        return len(data)

    def _size(self) -> int:
        """Return the size of our record, or of a blank, which goes to the end of its log file."""
        left = self._end - self._record
        if left >= BLANK_SIZE:
            size, magic = start_struct.unpack(self._log.stored(self._record, BLANK_SIZE))
            if (magic in MESSAGE_MAGICS or magic in BLANK_MAGICS) and 0 < size <= left:
                return int(size)
        return min(left, _PIECE - self._record % _PIECE)

    def _judge(self) -> None:
        ours = bytes(self._log.stored(self._record, len(self._theirs)))
        if ours != self._theirs:
            if not is_torn(ours, self._theirs, self._record):
                raise LogsDiffer(f"our log and the master's differ between {self._record} and {self._after}")
            self._torn[self._record] = bytes(self._theirs)
        self._theirs.clear()
        self._record = self._after


def is_torn(ours: bytes, theirs: bytes | bytearray, offset: int) -> bool:
    """
    Tell whether a torn write can have made C{ours} of C{theirs}: each sector has some of its bytes, then zeros.

    @param offset: physical offset of both; log files begin with a sector.
    """
    begin = 0
    while begin < len(ours):
        end = min(len(ours), begin + _SECTOR - (offset + begin) % _SECTOR)
        mine = ours[begin:end]
        if mine != theirs[begin:end]:
            kept = mine.rstrip(b"\0")
            if not theirs.startswith(kept, begin):
                return False
        begin = end
    return True
