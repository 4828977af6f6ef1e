"""
The CommitLog: every message of every topic, one after another, in files of one length.

An append is one C{struct.pack}, one join and one slice assignment into the mapped file; all of a run, a few
milliseconds at most, have one store timestamp. A record is written where
record + 8 bytes fit into the file; else a blank fills the file up and the record begins the next one. A batch is never
split over two files. Source: C{store/CommitLog.java}, C{DefaultAppendMessageCallback};
docs/spec/store#record and docs/spec/store#append.

Batches, all or none (reliability D12): RocketMQ's format has no mark for "these records belong together", so one is
made from a byte that every reader skips. The properties of each record of a batch but the last end with the separator
0x02, as those of every message did in older clients and brokers; those of the last record, and of single messages,
never do. A log that ends after a record with that mark ends inside a batch: L{smartgo.store.recovery.recovery} cuts all
of it.

Torn records: nothing in the format covers a record's properties, and its checksum covers the body alone. But what was
never written is zero in these files, so properties that hold a NUL are torn ones; none are taken that hold one.

What is taken can always be read again: no record gets into the log that C{smartgo.schema.record.check} would not let
pass. So none may bring a whole-record CRC of RocketMQ 5 among its properties: it would be that of another record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Final, Protocol
from zlib import crc32

import msgspec

from smartgo.errors import MessageIllegal, NoSuchMessage, ServiceNotAvailable
from smartgo.schema.consumequeue import unit_struct
from smartgo.schema.message import HOSTS_MASK, PREPARED, NewMessage
from smartgo.schema.record import (
    BLANK_SIZE,
    MAGIC,
    PROPERTIES_LIMIT,
    RECORD_MAXIMUM_BODY,
    SEAL_BEGIN,
    encode,
    encode_blank,
    pack_head,
    record_size,
)
from smartgo.store.filequeue import FileQueue
from smartgo.store.interfaces import Appended
from smartgo.store.mappedfile import MappedFile, OpenMappings
from smartgo.store.queues.consumequeue import ConsumeQueue

CONTINUES: Final = b"\x02"
"""What the properties of a record end with when the next record belongs to the same batch."""

_SEPARATOR: Final = CONTINUES[0]
_RARE: Final = SEAL_BEGIN[-2]  # one byte is looked for ten times as fast as all of them
_HOST_SIZE: Final = 8  # of an IPv4 host
_NO_HOST_FLAGS: Final = ~HOSTS_MASK
_length_pack = struct.Struct(">h").pack
_unit_pack = unit_struct.pack
_appended = tuple.__new__


def _unreadable(properties: bytes) -> MessageIllegal:
    what = "a NUL character" if 0 in properties else "the CRC of another record"
    return MessageIllegal(f"the properties hold {what}")


class LogFileSource(Protocol):
    """Where new log files come from: L{smartgo.store.allocate.LogSpace}."""

    def take(self, base: int) -> MappedFile:
        """
        Return the file that holds C{base} or begins there, with all its blocks, and pinned.

        @raise ServiceNotAvailable: there is no room for one.
        """


class CommitLog:
    """
    The log's writer, and access to its bytes.

    @ivar files: the log's files.
    @ivar end: physical offset after the last record; the next one goes there, or into the next file.
    @ivar torn: bytes before C{end} of a record that is still coming; of a master's log 0.
    @ivar minimum: physical offset of the oldest file.
    @ivar stored_ms: store timestamp of the last record.
    """

    def __init__(
        self,
        files: FileQueue,
        mappings: OpenMappings,
        space: LogFileSource,
        wall_ms: Callable[[], int],
        max_message_size: int,
        max_batch_count: int,
    ) -> None:
        self.files = files
        self.end = 0
        self.torn = 0
        self.stored_ms = 0
        self._touched: list[ConsumeQueue] = []  # queues with units that the present run began
        self._mappings = mappings
        self._space = space
        self._wall_ms = wall_ms
        self._now_ms = 0  # the wall clock when the present run began, 0 between runs
        self._max_body = min(max_message_size, RECORD_MAXIMUM_BODY)
        self._max_count = max_batch_count
        self._file: MappedFile | None = None  # the one written to, pinned
        self._full: list[MappedFile] = []  # those before it; pinned, so that a flush need not open what it syncs
        self._view = memoryview(b"")
        self._base = 0
        self._limit = -1  # no record may end beyond this physical offset

    @property
    def minimum(self) -> int:
        """Physical offset of the oldest byte kept; the log's end where there is no file."""
        files = self.files.files
        return files[0].base if files else self.end

    @property
    def whole(self) -> int:
        """Physical offset after the last whole record."""
        return self.end - self.torn

    def begin_at(self, end: int, file: MappedFile | None) -> None:
        """
        Take up writing.

        @param end: physical offset after the last record.
        @param file: the file that holds C{end}, mapped and pinned, with blocks up to its end; C{None} where there is
            none yet, or no room for its blocks: the next append asks for it.
        """
        self.end = end
        self._file = file
        if file is None:
            self._limit = -1
        else:
            self._view = self._mappings.view(file)
            self._base = file.base
            self._limit = file.end - BLANK_SIZE

    # -- appending ---------------------------------------------------------------------------------------------

    def append(self, queue: ConsumeQueue, messages: Sequence[NewMessage]) -> Appended:
        """
        Write records, all or none, and note their units in the queue.

        @raise MessageIllegal: a message over a limit, or a batch that can be none.
        @raise ServiceNotAvailable: no room on the disk.
        """
        if len(messages) != 1:
            return self._append_batch(queue, messages)
        message = messages[0]
        body = message.body
        properties = message.properties
        born_host = message.born_host
        store_host = message.store_host
        body_size = len(body)
        properties_size = len(properties)
        if properties_size and properties[-1] == _SEPARATOR:
            properties = properties.rstrip(CONTINUES)
            properties_size = len(properties)
        if body_size > self._max_body or properties_size > PROPERTIES_LIMIT:
            raise self._too_long(body_size, properties_size)
        if 0 in properties or (_RARE in properties and SEAL_BEGIN in properties):
            raise _unreadable(properties)
        if len(born_host) + len(store_host) != 2 * _HOST_SIZE:
            return self._append_slowly(queue, [properties], messages)
        size = queue.overhead + body_size + properties_size
        offset = self.end
        if offset + size > self._limit:
            self._roll(size)
            offset = self.end
        sys_flag = message.sys_flag
        if sys_flag & PREPARED:  # prepared and rollback: not in any queue
            queue_offset = 0
        else:
            queue_offset = queue.next_offset
            if queue_offset >= queue.reserved:
                queue.extend(1)
        stored_ms = self._now_ms or self._read_clock()  # last of what may fail: see _unpackable
        try:
            head = pack_head(
                size,
                MAGIC,
                crc32(body) & 0x7FFFFFFF,
                message.queue_id,
                message.flag,
                queue_offset,
                offset,
                sys_flag & _NO_HOST_FLAGS,
                message.born_ms,
                born_host,
                stored_ms,
                store_host,
                message.reconsume_times,
                message.prepared_offset,
                body_size,
            )
        except struct.error as error:
            raise self._unpackable(error) from None
        end = offset + size
        base = self._base
        self._view[offset - base : end - base] = b"".join(
            (head, body, queue.topic_part, _length_pack(properties_size), properties)
        )
        self.end = end
        self.stored_ms = stored_ms
        if not sys_flag & PREPARED:
            queue.next_offset = queue_offset + 1
            if not queue.pending:
                self._touched.append(queue)
            code = message.tag_code if queue.delay_ms is None else stored_ms + queue.delay_ms
            queue.pending.append(_unit_pack(offset, size, code))
            queue.codes.append(code)
            queue.stored_ms = stored_ms
        return _appended(Appended, (offset, end, queue_offset, stored_ms, (offset,)))

    def _append_batch(self, queue: ConsumeQueue, messages: Sequence[NewMessage]) -> Appended:
        count = len(messages)
        if not 0 < count <= self._max_count:
            raise MessageIllegal(f"a batch of {count} messages; 1 to {self._max_count} are allowed")
        tails = [one if (one := message.properties).endswith(CONTINUES) else one + CONTINUES for message in messages]
        tails[-1] = tails[-1].rstrip(CONTINUES)
        body_size = 0
        for message in messages:
            body_size += len(message.body)
            properties = message.properties
            if 0 in properties or (_RARE in properties and SEAL_BEGIN in properties):
                raise _unreadable(properties)
            if message.sys_flag & PREPARED:
                raise MessageIllegal("a batch may not hold transactional messages")
        longest = max(map(len, tails))
        if body_size > self._max_body or longest > PROPERTIES_LIMIT:
            raise self._too_long(body_size, longest)
        first = messages[0]
        born_host = first.born_host
        store_host = first.store_host
        for message in messages:
            if message.born_host != born_host or message.store_host != store_host:
                return self._append_slowly(queue, tails, messages)
        if len(born_host) + len(store_host) != 2 * _HOST_SIZE:
            return self._append_slowly(queue, tails, messages)

        overhead = queue.overhead
        total = overhead * count + body_size + sum(map(len, tails))
        if self.end + total > self._limit:
            self._roll(total)
        queue_offset = first_offset = queue.next_offset
        if queue_offset + count > queue.reserved:
            queue.extend(count)
        stored_ms = self._now_ms or self._read_clock()
        topic_part = queue.topic_part
        queue_id = queue.queue_id
        delay_ms = queue.delay_ms
        offset = begin = self.end
        offsets: list[int] = []
        pieces: list[bytes | memoryview] = []
        codes: list[int] = []
        units: list[bytes] = []
        try:
            for message, properties in zip(messages, tails, strict=True):
                body = message.body
                body_size = len(body)
                properties_size = len(properties)
                size = overhead + body_size + properties_size
                pieces += (
                    pack_head(
                        size,
                        MAGIC,
                        crc32(body) & 0x7FFFFFFF,
                        queue_id,
                        message.flag,
                        queue_offset,
                        offset,
                        message.sys_flag & _NO_HOST_FLAGS,
                        message.born_ms,
                        born_host,
                        stored_ms,
                        store_host,
                        message.reconsume_times,
                        message.prepared_offset,
                        body_size,
                    ),
                    body,
                    topic_part,
                    _length_pack(properties_size),
                    properties,
                )
                code = message.tag_code if delay_ms is None else stored_ms + delay_ms
                offsets.append(offset)
                codes.append(code)
                units.append(_unit_pack(offset, size, code))
                offset += size
                queue_offset += 1
        except struct.error as error:
            raise self._unpackable(error) from None
        base = self._base
        self._view[begin - base : offset - base] = b"".join(pieces)
        self.end = offset
        self.stored_ms = stored_ms
        queue.next_offset = queue_offset
        if not queue.pending:
            self._touched.append(queue)
        queue.pending += units
        queue.codes += codes
        queue.stored_ms = stored_ms
        return _appended(Appended, (begin, offset, first_offset, stored_ms, offsets))

    def _append_slowly(self, queue: ConsumeQueue, tails: Sequence[bytes], messages: Sequence[NewMessage]) -> Appended:
        """Append what the fast paths do not cover: IPv6 hosts. Limits were checked."""
        place = {"topic": queue.topic, "queue_id": queue.queue_id}
        changed = [
            msgspec.structs.replace(one, properties=tail, **place) for one, tail in zip(messages, tails, strict=True)
        ]
        sizes = [record_size(one) for one in changed]
        total = sum(sizes)
        if self.end + total > self._limit:
            self._roll(total)
        listed = not messages[0].sys_flag & PREPARED
        if listed and queue.next_offset + len(messages) > queue.reserved:
            queue.extend(len(messages))
        stored_ms = self._now_ms or self._read_clock()
        begin = offset = self.end
        first_offset = queue.next_offset if listed else 0
        offsets: list[int] = []
        records: list[bytes] = []
        codes: list[int] = []
        units: list[bytes] = []
        for number, (message, size) in enumerate(zip(changed, sizes, strict=True)):
            try:
                records.append(encode(message, first_offset + number, offset, stored_ms))
            except MessageIllegal:
                self._now_ms = 0
                raise
            code = message.tag_code if queue.delay_ms is None else stored_ms + queue.delay_ms
            offsets.append(offset)
            codes.append(code)
            units.append(_unit_pack(offset, size, code))
            offset += size
        base = self._base
        self._view[begin - base : offset - base] = b"".join(records)
        self.end = offset
        self.stored_ms = stored_ms
        if listed:
            queue.next_offset += len(messages)
            if not queue.pending:
                self._touched.append(queue)
            queue.pending += units
            queue.codes += codes
            queue.stored_ms = stored_ms
        return _appended(Appended, (begin, offset, first_offset, stored_ms, offsets))

    # -- for a slave -------------------------------------------------------------------------------------------

    def append_bytes(self, data: memoryview) -> int:
        """
        Copy bytes behind the end, as many as go into one file, and count them as C{torn}; return how many.

        @raise ServiceNotAvailable: no room on the disk.
        """
        file = self._file
        if file is None or self.end == file.end:
            new = self._space.take(self.end)
            if file is not None:
                self._full.append(file)
            self.begin_at(self.end, new)
            file = new
        count = min(len(data), file.end - self.end)
        at = self.end - file.base
        self._view[at : at + count] = data[:count]
        self.end += count
        self.torn += count
        return count

    def retreat(self, end: int) -> None:
        """Let the log end at a physical offset in its last file: what lies behind is zeroed."""
        at = end - self._base
        size = self.end - end
        self._view[at : at + size] = bytes(size)
        self.end = end
        self.torn = 0

    def begin_anew(self, offset: int) -> None:
        """
        Let the log, which is empty, begin at a physical offset.

        @raise ServiceNotAvailable: a file that is there cannot be removed.
        """
        if self._file is not None:
            self._mappings.unpin(self._file)
        self._view = memoryview(b"")
        self.begin_at(self.end, None)
        while self.files.files:
            file = self.files.files[-1]
            try:
                self.files.remove(file)
            except OSError as error:
                raise ServiceNotAvailable(f"{file.path} could not be removed: {error.strerror}") from error
            self.files.forget_newest()
            if not file.pins:  # else its pages are being touched
                self._mappings.close(file)
        self.begin_at(offset, None)

    def add_unit(self, queue: ConsumeQueue, unit: bytes, code: int, stored_ms: int) -> None:
        """Note the next unit of a queue for the end of the run; L{ConsumeQueue.extend} made room for it."""
        if not queue.pending:
            self._touched.append(queue)
        queue.pending.append(unit)
        queue.codes.append(code)
        queue.stored_ms = stored_ms
        queue.next_offset += 1

    def _unpackable(self, error: struct.error) -> MessageIllegal:
        """
        Return what to raise for a message that cannot be packed.

        The clock was read for it, and perhaps no run ends that would forget the time: the next append, however much
        later, is to read it again.
        """
        self._now_ms = 0
        return MessageIllegal(f"a field of the message is out of range: {error}")

    # -- runs and files ----------------------------------------------------------------------------------------

    def _read_clock(self) -> int:
        self._now_ms = max(1, self._wall_ms())  # recovery believes in no record from before 1970
        return self._now_ms

    def end_run(self) -> list[ConsumeQueue]:
        """End the present run: the next append reads the clock. Return the queues with units to be written."""
        self._now_ms = 0
        touched = self._touched
        self._touched = []
        return touched

    def _too_long(self, body_size: int, properties_size: int) -> MessageIllegal:
        return MessageIllegal(
            f"body of {body_size} B and properties of {properties_size} B: the limits are {self._max_body} B"
            f" and {PROPERTIES_LIMIT} B"
        )

    def _roll(self, size: int) -> None:
        """Go on in the next file: C{size} bytes do not fit into this one."""
        if size + BLANK_SIZE > self.files.file_size:
            raise MessageIllegal(f"{size} B of records do not fit into a CommitLog file of {self.files.file_size} B")
        old = self._file
        if old is None:
            # The log may well end inside a file: one that could get no blocks when the store was opened.
            self.begin_at(self.end, self._space.take(self.end))
            if self.end + size > self._limit:
                self._roll(size)
            return
        new = self._space.take(old.end)
        at = self.end - old.base
        self._view[at : at + BLANK_SIZE] = encode_blank(old.size - at)
        self._full.append(old)
        self.begin_at(new.base, new)

    def flushed(self, position: int) -> None:
        """The log is durable below C{position}: full files may be unmapped."""
        while self._full and self._full[0].end <= position:
            self._mappings.unpin(self._full.pop(0))

    # -- reading -----------------------------------------------------------------------------------------------

    def window(self, offset: int) -> tuple[memoryview, int, int]:
        """
        Return the content of the file that holds a physical offset, the offset of its first byte, and that after the
        last one written; an empty window ends below every offset.
        """
        file = self.files.find(offset)
        if file is None:
            return memoryview(b""), 0, -1
        return self._mappings.view(file), file.base, min(file.end, self.end)

    def slice(self, offset: int, size: int) -> memoryview:
        """
        Return stored bytes without copying them; they must lie in one file and below the end.

        @raise NoSuchMessage: they do not, or the file is gone.
        """
        file = self.files.find(offset)
        if file is None or offset + size > file.end or offset + size > self.end:
            raise NoSuchMessage(f"no {size} B at physical offset {offset}")
        at = offset - file.base
        return self._mappings.view(file)[at : at + size]
