"""Reading the log through its files, not its mappings: recovery must not wait for pages with the GIL held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from smartgo.env.interfaces import IFiles
from smartgo.schema.message import ROLLBACK, StoredMessage
from smartgo.schema.record import BLANK_SIZE, SIZE_LIMIT, start_struct
from smartgo.schema.recordscan import Scan, Stop, find_record, read_piece
from smartgo.store.damagefill import is_fill
from smartgo.store.filequeue import FileQueue
from smartgo.store.mappedfile import MappedFile

_CHUNK: Final = 4 << 20
_TORN_PLACES: Final = 20  # each costs a reading of some MiB
_ZEROS: Final = bytes(_CHUNK)


class ScannedTail(NamedTuple):
    """The end of the log, its last timestamp, and where and why reading its tail stopped."""

    end: int
    stored_ms: int
    position: int
    stop: Stop
    reason: str


class LogScan:
    """
    The valid records of the log from a position on, through all files; iterate once.

    Bodies are memoryviews.

    @ivar position: after the last record given out, or after damage that was passed over; behind a blank where the
        next file begins.
    @ivar passed: bytes of damage that were passed over, and of records that stand for repaired damage.
    @ivar stop: what ended it: C{EMPTY}, C{BAD}, or C{END} where there is no further file.
    @ivar reason: for C{BAD}, which check failed.
    """

    def __init__(
        self,
        files: IFiles,
        log_files: FileQueue,
        position: int,
        check_cancelled: Callable[[], None],
        pass_over: Callable[[LogScan], int | None] | None = None,
        reached: Callable[[int], None] | None = None,
    ) -> None:
        """
        @param check_cancelled: called between pieces of some MiB; may raise to end the walk.
        @param pass_over: called where the walk would end, given the walk; returns the physical offset of a valid record
            to go on with, C{None} to end.
        @param reached: called with the position before each piece of some MiB.
        """
        self._files = files
        self._log_files = log_files
        self._check_cancelled = check_cancelled
        self._pass_over = pass_over
        self._reached = reached
        self.position = position
        self.passed = 0
        self.stop = Stop.END
        self.reason = ""

    def __iter__(self) -> Iterator[StoredMessage]:
        """Yield the records."""
        yield from self._walk()
        while self._pass_over is not None and (after := self._pass_over(self)) is not None:
            self.passed += after - self.position
            self.position = after
            self.stop = Stop.END
            self.reason = ""
            yield from self._walk()

    def _walk(self) -> Iterator[StoredMessage]:
        while (file := self._log_files.find(self.position)) is not None:
            self._check_cancelled()
            begin = self.position
            if self._reached is not None:
                self._reached(begin)
            data = read_piece(partial(_read_file, self._files, file), begin, _CHUNK, file.end - begin)
            scan = Scan(data, 0, begin)
            for message in scan:
                self.position = begin + scan.end
                if message.sys_flag & ROLLBACK == ROLLBACK and is_fill(message):
                    self.passed += message.size
                yield message
            if scan.stop is Stop.BLANK and start_struct.unpack_from(data, scan.end)[0] == file.end - self.position:
                self.position = file.end
            elif scan.stop is Stop.EMPTY:
                self.stop = Stop.EMPTY
                return
            elif scan.end == 0 or begin + len(data) == file.end:  # else what follows may only have been cut off
                self.stop = Stop.BAD
                self.reason = scan.reason or "the file does not end with a blank"
                return


def _read_file(files: IFiles, file: MappedFile, offset: int, size: int) -> bytes:
    return files.read_at(file.path, offset - file.base, size)


def record_after(files: IFiles, log_files: FileQueue, position: int, check_cancelled: Callable[[], None]) -> int | None:
    """Return the physical offset of the first valid record that begins behind C{position}, C{None} without one."""
    position += 1
    for file in log_files.files:
        if file.end <= position:
            continue
        for low, high in files.data_ranges(file.path, max(0, position - file.base)):
            at = max(low - BLANK_SIZE, position - file.base, 0)  # a record's first bytes may be zero
            while at < high:
                check_cancelled()
                data = files.read_at(file.path, at, _CHUNK + SIZE_LIMIT)
                found = find_record(data, 0, file.base + at, min(_CHUNK, high - at))
                if found is not None:
                    return file.base + at + found
                at += _CHUNK
    return None


def whole_records(files: IFiles, log_files: FileQueue, position: int, check_cancelled: Callable[[], None]) -> int:
    """Count the valid records behind C{position}, where none begins; after many torn places no more are counted."""
    count = 0
    for _ in range(_TORN_PLACES):
        found = record_after(files, log_files, position, check_cancelled)
        if found is None:
            break
        walk = LogScan(files, log_files, found, check_cancelled)
        count += sum(1 for _ in walk)
        position = walk.position
    return count


def written_end(files: IFiles, path: str, begin: int, end: int, check_cancelled: Callable[[], None]) -> int:
    """Return the position after the last byte in a range of a file that is not zero; C{begin} if all are."""
    last = begin
    for low, high in files.data_ranges(path, begin):
        at = low
        while at < min(high, end):
            check_cancelled()
            data = files.read_at(path, at, min(_CHUNK, high - at, end - at))
            if data != _ZEROS[: len(data)]:
                last = at + len(data.rstrip(b"\0"))
            at += _CHUNK
    return last
