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
of it. A slave is told from where on its master does so, and counts a batch when all of it is there
(L{smartgo.store.replicalog}).

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

from smartgo.errors import MessageIllegal, NoSuchMessage, ServiceNotAvailable
from smartgo.schema.consumequeue import unit_struct
from smartgo.schema.message import HOSTS_MASK, PREPARED, NewMessage
from smartgo.schema.record import (
    BLANK_SIZE,
    MAGIC,
    PROPERTIES_LIMIT,
    RECORD_MAXIMUM_BODY,
    encode_blank,
    pack_head,
)
from smartgo.store.filequeue import FileQueue
from smartgo.store.interfaces import Appended, IQueue
from smartgo.store.logposition import LogPosition
from smartgo.store.mappedfile import MappedFile, OpenMappings
from smartgo.store.recordbatch import CONTINUES, HOSTS_SIZE, RARE, RecordBatch, check_properties, pack_length
from smartgo.store.settings import StoreSettings
from smartgo.store.tails import LogTail

_SEPARATOR: Final = CONTINUES[0]
_NO_HOST_FLAGS: Final = ~HOSTS_MASK
_unit_pack = unit_struct.pack
_appended = tuple.__new__


class LogFileSource(Protocol):
    """The source of new log files: L{smartgo.store.allocate.LogSpace}."""

    def take(self, base: int) -> MappedFile:
        """
        Return the file that holds C{base} or begins there, with all its blocks, and pinned.

        @raise ServiceNotAvailable: there is no room for one.
        """


class CommitLog(LogTail):
    """
    The writer of the log, and access to its bytes.

    @ivar files: the log's files.
    @ivar minimum: physical offset of the oldest file.
    """

    def __init__(
        self,
        files: FileQueue,
        mappings: OpenMappings,
        space: LogFileSource,
        wall_ms: Callable[[], int],
        settings: StoreSettings,
        begin: LogPosition,
        buggify: Callable[[str], bool],
    ) -> None:
        """
        @param space: where new files come from.
        @param wall_ms: the clock of store timestamps.
        @param begin: where to go on.
        @param buggify: see L{smartgo.env.interfaces.IEnvironment.buggify}.
        """
        super().__init__()
        self.files = files
        self.stored_ms = begin.stored_ms
        self._mappings = mappings
        self._space = space
        self._wall_ms = wall_ms
        self._max_body = min(settings.max_message_size, RECORD_MAXIMUM_BODY)
        self._max_count = settings.max_batch_count
        self._full: list[MappedFile] = []  # those before it; pinned, so that a flush need not open what it syncs
        self._buggify = buggify
        self.end = begin.end
        self._file: MappedFile | None = None  # the one written to, pinned
        self._write_to(begin.file)

    @property
    def minimum(self) -> int:
        """Physical offset of the oldest byte kept; the log's end where there is no file."""
        files = self.files.files
        return files[0].base if files else self.end

    @property
    def whole(self) -> int:
        """Physical offset after the last whole record."""
        return self.end - self.torn

    def _write_to(self, file: MappedFile | None) -> None:
        """Write to a file from now on, which is mapped and pinned; C{None}: the next append asks for one."""
        self._file = file
        if file is None:
            self.limit = -1
        else:
            self.view = self._mappings.view(file)
            self.base = file.base
            self.limit = file.end - (file.size // 2 if self._buggify("log.roll-early") else BLANK_SIZE)

    # -- appending ---------------------------------------------------------------------------------------------

    def append(self, targets: Sequence[IQueue], messages: Sequence[NewMessage]) -> Appended:
        """
        Write records, all or none, and stage their units in every target.

        @param targets: first the queue whose topic, id and offsets the records name, then others that lead to them.
            A prepared or rolled back message gets into none of them.
        @param messages: all of one topic and queue id; one at least.
        @raise MessageIllegal: a message over a limit, or a batch that can be none.
        @raise ServiceNotAvailable: no room on the disk.
        """
        queue = targets[0]
        message = messages[0]
        count = len(messages)
        sys_flag = message.sys_flag
        born_host = message.born_host
        store_host = message.store_host
        batch: RecordBatch | None = None
        if count == 1 and len(born_host) + len(store_host) == HOSTS_SIZE:
            body = message.body
            properties = message.properties
            body_size = len(body)
            properties_size = len(properties)
            if properties_size and properties[-1] == _SEPARATOR:
                properties = properties.rstrip(CONTINUES)
                properties_size = len(properties)
            if 0 in properties or RARE in properties:
                check_properties(properties)
            size: int = queue.overhead + body_size + properties_size
        else:
            if count > self._max_count:
                raise MessageIllegal(f"a batch of {count} messages; 1 to {self._max_count} are allowed")
            batch = RecordBatch(messages, queue.overhead)
            body_size, properties_size, size = batch.body_size, batch.longest, batch.size
        if body_size > self._max_body or properties_size > PROPERTIES_LIMIT:
            self._check_sizes(messages, body_size, properties_size)
        offset = self.end
        if offset + size > self.limit:
            self._roll(size)
            offset = self.end
        others: Sequence[tuple[IQueue, int]] = ()
        if sys_flag & PREPARED:
            targets = ()
            first: int = 0
        else:
            first = queue.claim(count)
            if len(targets) > 1:
                others = [(one, one.claim(count)) for one in targets[1:]]
        stored_ms = self.now_ms or self.read_clock()  # last of what may fail: see _unpackable
        offsets: Sequence[int]
        codes: Sequence[int]
        try:
            if batch is None:
                head = pack_head(
                    size,
                    MAGIC,
                    crc32(body) & 0x7FFFFFFF,
                    message.queue_id,
                    message.flag,
                    first,
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
                code = message.tag_code
                units = _unit_pack(offset, size, code)
                data = b"".join((head, body, queue.topic_part, pack_length(properties_size), properties))
                offsets, codes = (offset,), (code,)
            else:
                data, offsets, units, codes = batch.encode(queue.topic_part, offset, first, stored_ms)
        except (struct.error, MessageIllegal) as error:
            raise self._unpackable(error) from None
        end = offset + size
        base = self.base
        self.view[offset - base : end - base] = data
        self.end = end
        self.stored_ms = stored_ms
        if targets:
            queue.stage(first, units, codes, stored_ms)
            if others:
                for one, at in others:
                    one.stage(at, units, codes, stored_ms)
        return _appended(Appended, (offset, end, first, stored_ms, offsets))

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
            self._write_to(new)
            file = new
        count = min(len(data), file.end - self.end)
        at = self.end - file.base
        self.view[at : at + count] = data[:count]
        self.end += count
        self.torn += count
        return count

    def retreat(self, end: int) -> None:
        """Truncate the log at a physical offset in its last file; the bytes behind it are zeroed."""
        at = end - self.base
        size = self.end - end
        self.view[at : at + size] = bytes(size)
        self.end = end
        self.torn = 0

    def restart(self, offset: int) -> None:
        """
        Move the beginning of an empty log to a physical offset.

        @raise ServiceNotAvailable: a file that is there cannot be removed.
        """
        if self._file is not None:
            self._mappings.unpin(self._file)
        self.view = memoryview(b"")
        self._write_to(None)
        while self.files.files:
            file = self.files.files[-1]
            try:
                self.files.remove(file)
            except OSError as error:
                raise ServiceNotAvailable(f"{file.path} could not be removed: {error.strerror}") from error
            self.files.forget_newest()
            if not file.pins:  # else its pages are being touched
                self._mappings.close(file)
        self.end = offset

    def forget_files(self) -> list[str]:
        """Take all files out of the log, which has to be flushed, for somebody to remove them; return their paths."""
        if self._file is not None:
            self._mappings.unpin(self._file)
        self.flushed(self.end)
        self._view = memoryview(b"")
        self._write_to(None)
        self.torn = 0
        paths = []
        while self.files.files:
            file = self.files.forget_oldest()
            paths.append(file.path)
            if not file.pins:  # else its pages are being touched
                self._mappings.close(file)
        return paths

    def _unpackable(self, error: struct.error | MessageIllegal) -> MessageIllegal:
        """
        Forget the time of the run, and return the error for a message that cannot be packed.

        The clock was read for it, and perhaps no run ends that would forget the time: the next append, however much
        later, is to read it again.
        """
        self.now_ms = 0
        if isinstance(error, MessageIllegal):
            return error
        return MessageIllegal(f"a field of the message is out of range: {error}")

    # -- runs and files ----------------------------------------------------------------------------------------

    def read_clock(self) -> int:
        """Begin a run: read the clock, and return its time in ms."""
        self.now_ms = max(1, self._wall_ms())  # recovery believes in no record from before 1970
        return self.now_ms

    def end_run(self) -> int:
        """End the present run: the next append reads the clock. Return the physical offset after the last record."""
        self.now_ms = 0
        return self.end - self.torn

    def _check_sizes(self, messages: Sequence[NewMessage], body_size: int, properties_size: int) -> None:
        """
        Let the copy of a message pass that was stored when longer bodies were allowed.

        @raise MessageIllegal: this is none, or no record can be that long.
        """
        copied = len(messages) == 1 and messages[0].copied
        if copied and body_size <= RECORD_MAXIMUM_BODY and properties_size <= PROPERTIES_LIMIT:
            return
        raise MessageIllegal(
            f"body of {body_size} B and properties of {properties_size} B: the limits are {self._max_body} B"
            f" and {PROPERTIES_LIMIT} B"
        )

    def _roll(self, size: int) -> None:
        """Close the file with a blank and begin the next one: C{size} bytes do not fit into this one."""
        if size + BLANK_SIZE > self.files.file_size:
            raise MessageIllegal(f"{size} B of records do not fit into a CommitLog file of {self.files.file_size} B")
        old = self._file
        if old is None:
            # The log may well end inside a file: one that could get no blocks when the store was opened.
            self._write_to(self._space.take(self.end))
            if self.end + size > self.limit:
                self._roll(size)
            return
        new = self._space.take(old.end)
        at = self.end - old.base
        self.view[at : at + BLANK_SIZE] = encode_blank(old.size - at)
        self._full.append(old)
        self.end = new.base
        self._write_to(new)

    def close(self) -> None:
        """Let go of the file written to; nothing may be appended from now on."""
        self.limit = -1
        self.view = memoryview(b"")

    def flushed(self, position: int) -> None:
        """Let full files that are durable, below C{position}, be unmapped."""
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
