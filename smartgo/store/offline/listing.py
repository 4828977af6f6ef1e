"""Lists what is in a store directory: files, queues, checkpoints, tables, and what looks wrong with them."""

from __future__ import annotations

import posixpath
from typing import Final

import msgspec

from smartgo.errors import BadRecord
from smartgo.schema import index
from smartgo.schema.consumequeue import UNIT_SIZE, Unit
from smartgo.schema.message import StoredMessage
from smartgo.schema.record import BLANK_SIZE, SIZE_LIMIT, check
from smartgo.schema.recordscan import own_offsets
from smartgo.store.filequeue import FileQueue
from smartgo.store.mappedfile import MappedFile
from smartgo.store.messagelookup import HEAD_LIMIT, head_stored_ms
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import queue_name
from smartgo.store.offline.tablecheck import TABLES, table_fault, table_names
from smartgo.store.offline.units import UnitReader
from smartgo.store.queues.file import QueueKey
from smartgo.store.recovery.logscan import written_end

_NEAR: Final = 1 << 18  # bytes before the end in which the last record is searched first
_KNOWN: Final = frozenset(
    {
        "commitlog",
        "consumequeue",
        "consumequeue_ext",
        "index",
        "timer",
        "timerwheel",
        "timerlog",
        "config",
        "quarantine",
        "ops",
    }
    | {"checkpoint", "abort", "lock"}
)
_OWN: Final = "smartgo."


class ListedFile(msgspec.Struct, kw_only=True):
    """
    One file of the CommitLog or of the index.

    @ivar kind: C{commitlog} or C{index}.
    @ivar size: its length in bytes.
    @ivar begin: physical offset of the first record in it; C{end}: of the first byte after the last one (CommitLog),
        or of the last message (index); C{None} if there is none.
    @ivar first_ms: store timestamp of its first message, C{last_ms} of its last.
    @ivar keys: of an index file.
    """

    kind: str
    name: str
    size: int
    begin: int | None = None
    end: int | None = None
    first_ms: int | None = None
    last_ms: int | None = None
    keys: int | None = None


class ListedQueue(msgspec.Struct, kw_only=True):
    """
    One consume queue.

    @ivar minimum: logical offset of the first message that the log still has; C{end}: after the last unit.
    """

    topic: str
    queue_id: int
    files: int
    minimum: int
    end: int


class StoreListing(msgspec.Struct, kw_only=True):
    """
    A store directory.

    @ivar holder: id of the process that has locked the directory, 0 if it cannot be told, C{None} for none.
    @ivar clean: the store was closed cleanly and not opened since.
    @ivar flushed: physical offset below which smartgo's checkpoint says that the log is on the disk.
    @ivar log_ms: store timestamps of RocketMQ's checkpoint: of the log, C{queue_ms} of the queues, C{index_ms}.
    @ivar tables: names of the tables in C{config}.
    @ivar problems: what looks wrong, without reading the records: C{smartgo store verify} reads them.
    """

    store: str
    holder: int | None
    clean: bool
    files: list[ListedFile]
    queues: list[ListedQueue]
    flushed: int | None
    log_ms: int
    queue_ms: int
    index_ms: int
    tables: list[str]
    problems: list[str]


def list_store(store: OfflineStore) -> StoreListing:
    """Return the listing of a store; the log is not read as a whole."""
    problems = _problems(store)
    files = []
    for run in store.runs:
        files += [_log_file(store, run, file, problems) for file in run.files]
    files += [_index_file(store, path) for path in store.index_files]
    reader = UnitReader(store)
    return StoreListing(
        store=store.root,
        holder=store.files.lock_holder(store.root),
        clean=store.clean,
        files=files,
        queues=[_queue(store, reader, key) for key in sorted(store.queues)],
        flushed=None if store.own is None else store.flushed,
        log_ms=store.peer.physical_ms,
        queue_ms=store.peer.logical_ms,
        index_ms=store.peer.index_ms,
        tables=table_names(store.files, store.root),
        problems=problems,
    )


def _problems(store: OfflineStore) -> list[str]:
    found = [store.problem] if store.problem else []
    if not store.clean and not store.is_backup:
        found.append("not closed cleanly, or in use by a broker")
    found += [f"{path} is incomplete; nothing in it was flushed" for path in store.aside]
    found += [f"the files of {queue_name(key)} are short or missing" for key in store.broken]
    found += [
        f"{one.end - one.offset} B at {one.offset} are known to be damaged: {one.reason}" for one in store.regions
    ]
    found += [store.regions_problem] if store.regions_problem else []
    for name in table_names(store.files, store.root):
        path = posixpath.join(store.root, TABLES, name)
        fault = table_fault(store.files, path)
        if fault is not None:
            found.append(f"{path} is unreadable: {fault}")
    names = store.files.list(store.root)
    strange = [name for name in names if name not in _KNOWN and not name.startswith(_OWN) and name != "lost+found"]
    found += [f"{posixpath.join(store.root, name)} is not part of a store" for name in strange]
    return found


def _log_file(store: OfflineStore, run: FileQueue, file: MappedFile, problems: list[str]) -> ListedFile:
    files = store.files
    size = files.size(file.path)
    listed = ListedFile(kind="commitlog", name=posixpath.basename(file.path), size=size)
    if size != run.file_size:
        problems.append(f"{file.path} has {size} B, not {run.file_size} B")
    first_ms = head_stored_ms(files.read_at(file.path, 0, HEAD_LIMIT))
    if first_ms > 0:
        listed.begin, listed.first_ms = file.base, first_ms
    last = last_record(store, file)
    if last is not None:
        listed.end, listed.last_ms = last.physical_offset + last.size, last.stored_ms
    elif listed.begin is None and file is not store.runs[-1].files[-1]:
        problems.append(f"no record is found in {file.path}")
    return listed


def last_record(store: OfflineStore, file: MappedFile) -> StoredMessage | None:
    """Return the last valid record of a log file, C{None} without one; its body's CRC is not checked."""
    files = store.files
    written = written_end(files, file.path, 0, file.size, lambda: None)
    size = _NEAR
    while written:
        begin = max(0, written - size)
        view = files.read_at(file.path, begin, written + BLANK_SIZE - begin)
        found: StoredMessage | None = None
        after = 0  # what begins within another record's body is none
        for at in own_offsets(view, 0, file.base + begin):
            if at >= after:
                try:
                    found = check(view, at, file.base + begin + at, verify_crc=False)
                except BadRecord:
                    continue
                after = at + found.size
        if found is not None:
            return found
        if not begin or size > 2 * SIZE_LIMIT:
            return None
        size *= 8
    return None


def _index_file(store: OfflineStore, path: str) -> ListedFile:
    size = store.files.size(path)
    listed = ListedFile(kind="index", name=posixpath.basename(path), size=size)
    if size >= index.HEADER_SIZE:
        header = index.IndexHeader.unpack(store.files.read_at(path, 0, index.HEADER_SIZE))
        listed.keys = max(header.index_count - index.FIRST_ENTRY, 0)
        if listed.keys:
            listed.begin, listed.end = header.begin_offset, header.end_offset
            listed.first_ms, listed.last_ms = header.begin_ms, header.end_ms
    return listed


def _queue(store: OfflineStore, reader: UnitReader, key: QueueKey) -> ListedQueue:
    bases = store.queues[key]
    minimum, end = queue_range(store, reader, key)
    return ListedQueue(topic=key[0], queue_id=key[1], files=len(bases), minimum=minimum, end=end)


def queue_range(store: OfflineStore, reader: UnitReader, key: QueueKey) -> tuple[int, int]:
    """Return the logical offset of a queue's first message that the log has, and that after its last unit."""

    def first(low: int, high: int, is_behind: int) -> int:
        while low < high:
            middle = (low + high) // 2
            unit = reader.unit(key, middle)
            if unit is None or _is_behind(unit, is_behind):
                high = middle
            else:
                low = middle + 1
        return low

    bases = store.queues[key]
    begin = bases[0] // UNIT_SIZE
    end = first(begin, (bases[-1] + store.queue_file_size) // UNIT_SIZE, -1)
    minimum = first(begin, end, store.begin)
    while minimum < end:
        unit = reader.unit(key, minimum)
        if unit is None or not unit.is_filler:
            break
        minimum += 1
    return minimum, end


def _is_behind(unit: Unit, offset: int) -> bool:
    """Tell whether a unit was never written, or leads to a physical offset or a later one; -1: the former alone."""
    return unit.size <= 0 or (0 <= offset <= unit.commitlog_offset)
