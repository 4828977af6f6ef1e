"""Finding single messages: by physical offset, by logical offset, by time. What may touch the disk runs in the lane."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred, fail, succeed

from smartgo.env.interfaces import IFiles, IThreads
from smartgo.errors import BadRecord, NoSuchMessage
from smartgo.schema.consumequeue import PREFILL, UNIT_SIZE, Unit
from smartgo.schema.message import BORN_V6
from smartgo.schema.record import HEAD_SIZE, HEAD_STRUCT, MESSAGE_MAGICS, SIZE_LIMIT, check, start_struct
from smartgo.store.commitlog import CommitLog
from smartgo.store.filequeue import FileQueue
from smartgo.store.messagereader import MessageReader
from smartgo.store.queues.file import ConsumeQueue
from smartgo.store.verifiedlog import LANE

LOWER: Final = "LOWER"
UPPER: Final = "UPPER"

_LONGER_HOST: Final = 12
_TOGETHER: Final = 64 * 1024  # bytes of the log that are read at once for the heads in them
HEAD_LIMIT: Final = HEAD_SIZE + 2 * _LONGER_HOST
"""Bytes of the longest head of a record."""
_SYS_FLAG: Final = 7  # places in the head
_STORED_MS: Final = 10


class FilePaths(NamedTuple):
    """The files of a file queue, as another thread may read them."""

    begin: int
    file_size: int
    paths: Sequence[str]

    @classmethod
    def of(cls, files: FileQueue) -> FilePaths:
        """Return the paths of the present files."""
        return cls(files.begin, files.file_size, [file.path for file in files.files])

    def file_end(self, offset: int) -> int:
        """Return where the file ends that an offset lies in."""
        return offset + self.file_size - (offset - self.begin) % self.file_size

    def read(self, files: IFiles, offset: int, size: int) -> bytes:
        """Read from one file; empty where that is gone."""
        number, at = divmod(offset - self.begin, self.file_size)
        if not 0 <= number < len(self.paths):
            return b""
        try:
            return files.read_at(self.paths[number], at, size)
        except FileNotFoundError:
            return b""


class MessageLookup:
    """Finds messages for queries."""

    def __init__(self, log: CommitLog, reader: MessageReader, threads: IThreads, files: IFiles) -> None:
        self._commitlog = log
        self._reader = reader
        self._threads = threads
        self._files = files

    # -- by physical offset ------------------------------------------------------------------------------------

    def at(self, offset: int, size: int | None) -> Deferred[bytes]:
        """
        Return the record at a physical offset, checked.

        @param size: its size as its unit says, if known: saves a read. That of a filler leads to no message: the record
            there is that of another unit (L{Unit.is_filler}).
        @raise NoSuchMessage: through the Deferred.
        """
        log = self._commitlog
        if not log.minimum <= offset < log.end or size == PREFILL.size:
            return fail(NoSuchMessage(f"no message at physical offset {offset}"))
        if self._reader.is_far_back(offset):
            return self._threads.run(LANE, self._fetch, FilePaths.of(log.files), offset, size)
        try:
            room = log.end - offset
            start = log.slice(offset, min(start_struct.size, room))
            return succeed(_checked(log.slice(offset, _announced(start, offset)), offset))
        except NoSuchMessage as error:
            return fail(error)

    def _fetch(self, places: FilePaths, offset: int, size: int | None) -> bytes:
        if size is None or not 0 < size <= SIZE_LIMIT:
            size = start_struct.size
        data = places.read(self._files, offset, size)
        announced = _announced(data, offset)
        if announced != len(data):
            data = places.read(self._files, offset, announced)
        return _checked(data, offset)

    def records(self, offsets: Sequence[int], size: int) -> Deferred[list[bytes]]:
        """
        Return the records at physical offsets, checked, without those that are gone or damaged.

        @param size: bytes of them all, at most; one is always let in.
        """
        return self._threads.run(LANE, self._fetch_all, FilePaths.of(self._commitlog.files), offsets, size)

    def _fetch_all(self, places: FilePaths, offsets: Sequence[int], size: int) -> list[bytes]:
        found: list[bytes] = []
        for offset in offsets:
            try:
                record = self._fetch(places, offset, None)
            except NoSuchMessage:
                continue
            size -= len(record)
            if found and size < 0:
                break
            found.append(record)
        return found

    # -- by logical offset and time ----------------------------------------------------------------------------

    def stored_ms(self, queue: ConsumeQueue, offset: int) -> Deferred[int]:
        """Return the store timestamp of the message at a logical offset, -1 where there is none."""
        return self.stored_times([(queue, offset)]).addCallback(lambda times: times[0])

    def stored_times(self, places: Sequence[tuple[ConsumeQueue | None, int]]) -> Deferred[list[int]]:
        """
        Return the store timestamps of messages of many queues, by one go of the lane; -1 where there is none.

        @param places: queues, C{None} for those that are not there, and logical offsets.
        """
        spots = [_spot(queue, offset) for queue, offset in places]
        if not any(spots):
            return succeed([-1] * len(spots))
        log = self._commitlog
        return self._threads.run(LANE, self._fetch_times, spots, FilePaths.of(log.files), log.minimum)

    def _fetch_times(self, spots: Sequence[tuple[str, int] | None], records: FilePaths, minimum: int) -> list[int]:
        offsets = [-1 if spot is None else self._record_at(*spot) for spot in spots]
        times: dict[int, int] = {}
        ordered = sorted(offset for offset in set(offsets) if offset >= minimum)
        while ordered:
            # What was stored together lies together: one read shows many heads.
            begin = ordered[0]
            count = bisect_right(ordered, min(begin + _TOGETHER - HEAD_LIMIT, records.file_end(begin) - 1))
            data = records.read(self._files, begin, ordered[count - 1] + HEAD_LIMIT - begin)
            for offset in ordered[:count]:
                times[offset] = head_stored_ms(data[offset - begin : offset - begin + HEAD_LIMIT])
            del ordered[:count]
        return [times.get(offset, -1) for offset in offsets]

    def _record_at(self, path: str, at: int) -> int:
        """Return the physical offset that a unit says, -1 where it is gone or has no message."""
        try:
            raw = self._files.read_at(path, at, UNIT_SIZE)
        except FileNotFoundError:
            return -1
        if len(raw) < UNIT_SIZE:
            return -1
        unit = Unit.unpack(raw)
        return -1 if unit.is_filler else unit.commitlog_offset

    def offset_at(self, queue: ConsumeQueue, timestamp_ms: int, boundary: str | None) -> Deferred[int]:
        """
        Return the logical offset whose store timestamp is nearest to a time.

        RocketMQ first picks a file by its time of modification; here the search is over all of the queue. A clock that
        was set back makes the timestamps fall in places: some neighbour of the time is found then.

        @param boundary: L{LOWER}: the first at or after the time, the queue's end where there is none; L{UPPER}: the
            last at or before it, the queue's first where there is none; C{None}: one with just that time, else the
            nearer of both neighbours.
        """
        return self._threads.run(
            LANE, search, self._clock_of(queue), queue.minimum, queue.visible, timestamp_ms, boundary
        )

    def _clock_of(self, queue: ConsumeQueue) -> Callable[[int], int]:
        """
        Return what tells the store timestamp at a logical offset, -1 for none; for the lane.

        For a unit without a message it is that of the record there, which lies between those of its neighbours.
        """
        units = FilePaths.of(queue.files)
        records = FilePaths.of(self._commitlog.files)
        minimum = self._commitlog.minimum

        def stored_ms(offset: int) -> int:
            raw = units.read(self._files, offset * UNIT_SIZE, UNIT_SIZE)
            if len(raw) < UNIT_SIZE:
                return -1
            unit = Unit.unpack(raw)
            if unit.commitlog_offset < minimum:
                return -1
            return head_stored_ms(records.read(self._files, unit.commitlog_offset, HEAD_LIMIT))

        return stored_ms


def search(stored_ms: Callable[[int], int], minimum: int, end: int, timestamp_ms: int, boundary: str | None) -> int:
    """
    Find a time in a queue; messages that are gone (-1) count as too old.

    @param stored_ms: tells the timestamp at a logical offset.
    @param end: of the queue; C{minimum} is its first offset.
    @return: see L{MessageLookup.offset_at}.
    """
    if minimum >= end:
        return minimum
    strict = boundary == UPPER
    low, high = minimum, end  # the first offset later than (UPPER) or not before the time lies in low..high
    while low < high:
        middle = (low + high) // 2
        found = stored_ms(middle)
        if found > timestamp_ms or (not strict and found == timestamp_ms):
            high = middle
        else:
            low = middle + 1
    if boundary == LOWER:
        return low
    if boundary == UPPER:
        return max(low - 1, minimum)
    if low == end:
        return end - 1
    after = stored_ms(low)
    before = stored_ms(low - 1) if low > minimum else -1
    if before < 0 or after == timestamp_ms or after - timestamp_ms < timestamp_ms - before:
        return low
    return low - 1


def _spot(queue: ConsumeQueue | None, offset: int) -> tuple[str, int] | None:
    """Return the file and the place in it where the unit of a message is."""
    if queue is None or not queue.minimum <= offset < queue.visible:
        return None
    file = queue.files.find(offset * UNIT_SIZE)
    return None if file is None else (file.path, offset * UNIT_SIZE - file.base)


def _announced(start: bytes | memoryview, offset: int) -> int:
    """Return the size of the record that begins with C{start}."""
    if len(start) >= start_struct.size:
        size, magic = start_struct.unpack_from(start)
        if magic in MESSAGE_MAGICS and 0 < size <= SIZE_LIMIT:
            return int(size)
    raise NoSuchMessage(f"no message begins at physical offset {offset}")


def _checked(record: bytes | memoryview, offset: int) -> bytes:
    try:
        check(record, 0, offset)
    except BadRecord as error:
        raise NoSuchMessage(f"the message at physical offset {offset} cannot be read: {error}") from None
    return bytes(record)


def head_stored_ms(head: bytes) -> int:
    """Return the store timestamp of a record whose first bytes these are, -1 where they are no record's."""
    if len(head) < HEAD_SIZE or start_struct.unpack_from(head)[1] not in MESSAGE_MAGICS:
        return -1
    fields = HEAD_STRUCT.unpack_from(head)
    if fields[_SYS_FLAG] & BORN_V6:  # the host before it is longer, so it lies that much further on
        if len(head) < HEAD_SIZE + _LONGER_HOST:
            return -1
        fields = HEAD_STRUCT.unpack_from(head, _LONGER_HOST)
    return int(fields[_STORED_MS])
