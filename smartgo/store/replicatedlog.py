"""The interface of a store's log to replication."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface


class FoundDamage(NamedTuple):
    """A damaged region of a log."""

    offset: int
    """Physical offset of its first byte."""
    length: int
    """Bytes."""
    is_unreadable: bool = False
    """The disk cannot read some of it: nobody gets these bytes from this log."""

    @property
    def end(self) -> int:
        """Physical offset after its last byte."""
        return self.offset + self.length


class IReplicatedLog(Interface):
    """The log as replication sees it: bytes by physical offset. Called on the reactor thread."""

    flushed = Attribute("Physical offset below which the log is durable.")

    doubtful_from = Attribute(
        "Of a slave: physical offset of a record; from there on the log was not known to be durable when it was opened"
        " after a crash, and is to be compared with the master's before anything is appended. The log's end where"
        " nothing is."
    )

    marked_from = Attribute(
        "Physical offset from which on the records of batches are marked (reliability D12);"
        " L{UNMARKED<smartgo.store.checkpoint.UNMARKED>}: none is known to be."
    )

    def log_bounds() -> tuple[int, int]:
        """[first, next) physical offsets of the log. The next one of a slave may lie inside a record."""

    def last_file() -> int:
        """Physical offset at which the newest log file begins: where a master lets an empty slave begin."""

    def piece(offset: int, limit: int) -> memoryview | None:
        """
        Written bytes from a physical offset on: one at least, C{limit} at most, none beyond the end of a log file.

        Never waits for the disk: C{None} where it would have to, then L{piece_cold} is asked.

        @raise smartgo.errors.NoSuchMessage: the offset is not in L{log_bounds}.
        """

    def piece_cold(offset: int, limit: int) -> Deferred[bytes]:
        """
        The same through the reader threads.

        @raise OSError: through the Deferred: the disk cannot read the first of the bytes.
        """

    def crc(begin: int, end: int) -> Deferred[int]:
        """
        The CRC-32 of the bytes from C{begin} to C{end}, computed in a thread.

        @raise smartgo.errors.NoSuchMessage: through the Deferred: not all of them are there.
        """

    def begin_anew(offset: int, wanted: bool = False) -> Deferred[None]:
        """
        Remove all of the log, which ends before C{offset}, as retention would, and let it begin there.

        @param wanted: somebody wants it: messages that have not expired go, too.
        @raise smartgo.errors.OutOfPlace: through the Deferred: it does not end before, or no file begins there.
        @raise smartgo.errors.MessagesKept: through the Deferred: the messages have not expired (C{fileReservedTime}).
        @raise smartgo.errors.ServiceNotAvailable: through the Deferred: not now; it can be tried again.
        """

    def learn_marks(marked_from: int) -> Deferred[None]:
        """
        Take note, durably, from where on the master marks the records of batches: before anything of it is appended.

        @param marked_from: L{UNMARKED<smartgo.store.checkpoint.UNMARKED>} where that is not known.
        @raise smartgo.errors.ServiceNotAvailable: through the Deferred: it could not be written down.
        """

    def find_damage(begin: int, end: int) -> Deferred[list[FoundDamage]]:
        """
        Check the range from C{begin} to C{end}, and return the damaged regions that touch it.

        @raise OSError: through the Deferred: it could not be read.
        """

    def expect_damage(offset: int, end: int) -> None:
        """
        Take what comes from C{offset}, where the log ends, to C{end} for a damaged region, unless valid records come:
        the master's log is damaged there (reliability S8).
        """

    def drop_torn() -> int:
        """
        Remove what is no whole record, or no whole batch, from the log's end (a slave's store alone).

        @return: the physical offset at which the log ends then.
        """

    def stored(offset: int, size: int) -> memoryview:
        """
        Bytes of one log file, wherever they lie: for what was read when the store was opened.

        @raise smartgo.errors.NoSuchMessage: not all of them are there.
        """

    def believe() -> None:
        """Note that all records in doubt were compared and are the master's."""

    def repair(records: Mapping[int, bytes]) -> Deferred[None]:
        """
        Put the master's records in place of ours that are torn (physical offset -> record), and believe the rest.

        @raise smartgo.errors.LogsDiffer: through the Deferred: they cannot be put there. Nothing was changed.
        @raise smartgo.errors.ServiceNotAvailable: through the Deferred: not now; what is in doubt still is.
        """

    def follow(listener: Callable[[int], None]) -> None:
        """Call C{listener} with the log's end after each run that moved it; it must not block."""

    def follow_flushes(listener: Callable[[int], None]) -> None:
        """Call C{listener} with L{flushed} after each flush."""

    def append_raw(offset: int, data: bytes | memoryview) -> None:
        """
        Append what a master sent, byte by byte as it is (a slave's store alone).

        Records are checked as their last byte arrives (reliability S7), and are in the queues when this returns, unless
        these wait for a flush (D6). A log without a byte may begin where any later file does.

        @raise smartgo.errors.OutOfPlace: C{offset} is not the log's end, nor may it begin there. Nothing was written.
        @raise smartgo.errors.BadRecord: a record is none. The log ends before it now, L{flushed} too.
        @raise smartgo.errors.ServiceNotAvailable: failed, disk full, or no file could be allocated. What there was room
            for was written: go on from the log's end.
        """


async def read_cold(log: IReplicatedLog, begin: int, end: int) -> bytes:
    """
    Return the bytes of a log between two physical offsets, read in threads.

    @raise smartgo.errors.NoSuchMessage: not all of them are there.
    """
    parts: list[bytes] = []
    while begin < end:
        parts.append(await log.piece_cold(begin, end - begin))
        begin += len(parts[-1])
    return b"".join(parts)
