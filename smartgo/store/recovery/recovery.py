"""
From the files of a store to a store that can work: after a clean stop, a killed process, a power failure, or RocketMQ.

Everything here blocks and runs in one thread before the store is open. The order:

 1. Look at the files; what does not belong is refused before anything is changed (reliability S15).
 2. Read the log from the last checkpoint (S9) to its end, checking every record (S7). The end is where nothing was
    written, or, in bytes that were not flushed, the first bad or torn record. A bad record in flushed bytes with valid
    records after it is damage: it is set apart (S8), and reading goes on behind it. A batch that is not whole is cut
    (D12, L{smartgo.store.commitlog}).
 3. Save what lies behind the end in C{quarantine/}, and zero it (S2, S8).
 4. Bring the queues in line: units from the checkpoint on are made from the log; a queue that has fewer units than it
    must, or wrong ones, is made anew from the oldest log file (S10), L{smartgo.store.recovery.queuerebuild}.
 5. Drop what the index cannot go on with, L{smartgo.store.index.recovery}.
 6. Sync all that, and write a checkpoint.

From step 3 on the C{abort} marker is up, and all of it can be repeated: a second run, after a crash in the first, ends
with the same bytes.

A store without a checkpoint of ours was RocketMQ's. After a clean stop there the log is read from the file on in which
the queues end; after a crash, from the newest file whose first record is older than RocketMQ's timestamps.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import StoreError
from smartgo.schema.logcheck import DamagedBytes
from smartgo.schema.message import StoredMessage
from smartgo.schema.recordscan import Stop
from smartgo.schema.topics import QUEUE_LIMIT
from smartgo.store.checkpoint import UNMARKED, CheckpointSlot, IndexEntry, QueueEntry, QueueTable, Timestamps
from smartgo.store.checkpointer import AT_ONCE, fresh_directories
from smartgo.store.index.recovery import OFF, UNKNOWN, KeptIndex, KnownIndex, index_names, keep
from smartgo.store.logposition import LogPosition
from smartgo.store.mappedfile import MappedFile
from smartgo.store.messagelookup import HEAD_LIMIT, head_stored_ms
from smartgo.store.queues.deletions import DeletionMarks
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.recordbatch import CONTINUES, continues
from smartgo.store.recovery.damagefinder import DamageFinder
from smartgo.store.recovery.logscan import LogScan, ScannedTail
from smartgo.store.recovery.progress import RecoveryProgress
from smartgo.store.recovery.quarantine import Quarantine
from smartgo.store.recovery.queuerebuild import QueueRebuild
from smartgo.store.recovery.recovered import RecoveredCheckpoint, RecoveredStore
from smartgo.store.settings import StoreSettings
from smartgo.store.storedirectory import StoreDirectory
from smartgo.store.storelayout import StoreLayout

_LAG_MS: Final = 3000  # RocketMQ's timestamps may be that far ahead of its disk
_NEVER: Final = 1 << 62


class Recovery:
    """One recovery of one store."""

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        settings: StoreSettings,
        directory: StoreDirectory,
        is_cancelled: Callable[[], bool],
        progress: RecoveryProgress,
    ) -> None:
        """@param is_cancelled: asked between pieces of some MiB; L{run} gives up once it returns C{True}."""
        self._env = env
        self._files = env.files
        self._root = root = directory.root
        self._settings = settings
        self._mappings = directory.mappings
        self._checkpoints = directory.checkpoints
        self._index_directory = posixpath.join(root, "index")
        self._changing = False
        self._read = 0  # records behind the checkpoint
        self._is_cancelled = is_cancelled
        self._progress = progress

    def run(self) -> RecoveredStore:
        """
        Recover the store; blocks.

        @raise ForeignFile: the directory holds what does not belong there; nothing was changed.
        @raise StoreError: a log file is missing, or the recovery was cancelled.
        @raise OSError: the disk failed or is full.
        """
        began = self._env.clock.seconds()
        checkpoints, settings = self._checkpoints, self._settings
        own = self._own = checkpoints.load()
        clean = self._clean = not checkpoints.is_aborted() and (own is None or own.clean)
        table = None if own is None else checkpoints.load_table()
        self._table = table
        if table is not None:
            table.queues = [entry for entry in table.queues if entry.queue_id < QUEUE_LIMIT]
        deleted = {} if own is None else DeletionMarks(self._files, self._root).known(table)
        durable = 0 if own is None else max(own.position, own.flushed)
        layout = self._layout = StoreLayout(self._files, self._root, settings, own, table, clean)
        for path in layout.impossible:
            self._log.warn("{path} belongs to a queue that no topic has; it is neither read nor changed", path=path)
        index_files = index_names(self._files, self._index_directory) if settings.index else []
        if own is None or own.clean or not checkpoints.is_aborted():  # else it crashed, before its first flush maybe
            layout.check_log()
        queues = ConsumeQueues(
            self._files, layout.queue_directory, layout.queue_file_size, self._mappings, settings.delay_levels
        )
        rebuild = self._rebuild = QueueRebuild(
            self._files, layout, queues, table, deleted, self._change, not settings.replica
        )
        self._log_files = layout.log_files
        self._minimum = layout.minimum
        self._dispatched = rebuild.newest() if own is None else own.position
        begin = self._begin = self._verified_from = self._find_begin()
        marked_from = self._marks()
        self._damage = DamageFinder(self._env, self._root, self._log_files, self._check_cancelled)
        tail = self._read_tail(begin, marked_from, durable if settings.replica and own is not None else _NEVER)
        if own is None or not clean or tail.position > begin or tail.stop is Stop.BAD or layout.aside:
            quarantine = Quarantine(self._env, self._root, self._log_files, self._change, self._check_cancelled)
            quarantine.clear_behind(tail.end, tail.position, layout.aside)
        self._index = self._settle_index(index_files, table, tail.end) if settings.index else None
        exact = own is not None and clean and table is not None and own.position == table.position == begin
        rebuild.everything = self._env.buggify("recovery.all-queues")
        rebuild.settle(begin, self._minimum, exact, self._damage.put_right)
        if rebuild.everything or rebuild.wanted:
            self._make_queues_anew(tail, UNMARKED if settings.replica else marked_from)
        rebuild.finish(self._minimum)
        if marked_from == UNMARKED and not settings.replica:
            marked_from = tail.end  # it was RocketMQ's, or a slave's: what is appended from now on carries our mark
        recovered = self._conclude(queues, tail, marked_from, deleted)
        if not clean:
            found = "recovered all {count} messages" if self._read else "no message was stored"
            self._log.warn(
                f"the broker was not stopped cleanly; {found} after the last checkpoint"
                " ({size} B of the log, checked in {seconds:.3f} s)",
                count=self._read,
                size=tail.end - begin,
                seconds=self._env.clock.seconds() - began,
            )
        return recovered

    # -- where to begin ----------------------------------------------------------------------------------------

    def _find_begin(self) -> int:
        files = self._log_files
        if not files.files:
            return self._dispatched
        if self._own is not None:
            return max(0 if self._env.buggify("recovery.whole-log") else self._own.position, self._minimum)
        if not self._layout.queues:
            return self._minimum
        if self._clean:
            return (files.find(max(self._dispatched - 1, 0)) or files.files[0]).base
        limit = self._checkpoints.load_peer().safe_ms
        for file in reversed(files.files):
            if 0 < head_stored_ms(self._files.read_at(file.path, 0, HEAD_LIMIT)) <= limit:
                return file.base
        return self._minimum

    def _marks(self) -> int:
        told = UNMARKED if self._table is None else self._table.told
        if self._settings.replica:
            return told
        if self._own is not None:
            return min(self._own.marked_from, told)
        return 0 if self._layout.is_empty else UNMARKED

    # -- the log's end -----------------------------------------------------------------------------------------

    def _read_tail(self, begin: int, marked_from: int, doubtful_from: int) -> ScannedTail:
        """
        Read the log from C{begin} to its end.

        @param doubtful_from: physical offset from which on whatever looks torn is, as it can be had again: a slave
            cannot tell a whole record with NUL in its properties from a torn one, nor the filling behind a blank.
        """
        rebuild = self._rebuild
        reached = self._progress.reading(begin, self._log_files.end)
        walk = LogScan(self._files, self._log_files, begin, self._check_cancelled, self._pass_flushed, reached)
        self._tail_ms = stored_ms = 0
        end = begin
        before: StoredMessage | None = None  # the record before, where it says that its batch goes on
        unsure = False  # whether the records from C{end} on may have to go
        for message in walk:
            self._read += 1
            if before is not None and not continues(before, message):
                rebuild.confirm()
                end = before.physical_offset + before.size
                stored_ms = before.stored_ms
            before = None
            ours = message.physical_offset >= marked_from
            torn = 0 in message.properties  # in a foreign record it is a sign of that only if nothing follows
            if torn and (ours or message.physical_offset >= doubtful_from):
                reason = "its properties are torn"
                if message.physical_offset >= self._durable(message.physical_offset):
                    return self._end_at(ScannedTail(end, stored_ms, message.physical_offset, Stop.BAD, reason))
                self._damage.set_apart(DamagedBytes(message.physical_offset, message.size, reason, message))
                end = message.physical_offset + message.size
                continue
            rebuild.plan(message, walk.passed)
            if ours and message.properties.endswith(CONTINUES):
                before = message
            unsure = torn or before is not None
            if not unsure:
                rebuild.confirm()
                end = message.physical_offset + message.size
                self._tail_ms = stored_ms = message.stored_ms
        if before is not None and walk.position != before.physical_offset + before.size:
            unsure = False  # a blank followed, which no batch goes over
            rebuild.confirm()
            stored_ms = before.stored_ms
        if not unsure and (walk.position <= doubtful_from or walk.stop is Stop.BAD):
            end = walk.position  # a blank may have followed; a slave's is whole if there is something behind it
        return self._end_at(ScannedTail(end, stored_ms, walk.position, walk.stop, walk.reason))

    def _end_at(self, tail: ScannedTail) -> ScannedTail:
        self._rebuild.drop_unconfirmed()
        return tail

    def _pass_flushed(self, walk: LogScan) -> int | None:
        """Set damage in flushed bytes apart, and return where the log goes on; a torn tail is none."""
        if walk.stop is Stop.END or walk.position >= self._durable(walk.position):
            return None
        return self._damage.pass_over(walk.position, None)

    def _durable(self, position: int) -> int:
        """
        Return the physical offset below which no bad record can be the work of a crash.

        @param position: of a bad record; in a store of RocketMQ the answer depends on it.
        """
        if self._own is not None:
            return max(self._own.position, self._own.flushed)
        if self._clean:
            return 0 if position == self._dispatched else _NEVER
        flushed_ms = self._checkpoints.load_peer().log_ms
        return 0 if 0 < flushed_ms - _LAG_MS <= self._tail_ms else _NEVER

    # -- the index ---------------------------------------------------------------------------------------------

    def _settle_index(self, names: list[str], table: QueueTable | None, end: int) -> KeptIndex:
        own = self._own
        # A clean checkpoint beside the abort marker: a recovery was killed, or a RocketMQ broker; nobody knows.
        known = KnownIndex(
            self._clean,
            UNKNOWN if own is None or own.clean != self._clean or self._env.buggify("recovery.index") else own.indexed,
            self._checkpoints.load_peer().index_ms,
            {} if own is None or table is None else {one.name: one.end_offset for one in table.index},
        )
        geometry = self._settings.index_geometry
        kept = keep(self._files, self._index_directory, names, geometry, known, self._minimum, end)
        for path in kept.dropped:
            self._change()
            self._files.remove(path)
        return kept

    def _indexed(self) -> int:
        """Return what an unclean checkpoint says of the index: which records are in files that nothing changes."""
        if self._index is None:
            return OFF
        return next((file.since for file in self._index.files if not file.is_full), self._index.position)

    # -- changes -----------------------------------------------------------------------------------------------

    def _change(self) -> None:
        """Create the abort marker before a file is changed, so that the next start recovers after a crash."""
        if not self._changing:
            self._changing = True
            self._checkpoints.set_abort()

    def _make_queues_anew(self, tail: ScannedTail, marked_from: int) -> None:
        rebuild = self._rebuild
        self._change()
        if rebuild.everything:
            self._log.warn("all queues are rebuilt from the log")
        else:
            self._log.warn("{count} queues are rebuilt from the log", count=len(rebuild.wanted))
        if self._own is not None:
            # Half-made queues must not be taken for whole ones: should this stop midway, all is to be looked through.
            self._sync_log(tail)
            self._checkpoints.open()
            unfinished = self._own._replace(clean=False, position=self._minimum, flushed=self._doubtful_from(tail))
            self._checkpoints.save(unfinished._replace(marked_from=marked_from, indexed=self._indexed()))

        def pass_over(walk: LogScan) -> int | None:
            return None if walk.position >= tail.end else self._damage.pass_over(walk.position, tail.end)

        reached = self._progress.reading(self._minimum, tail.end)
        walk = LogScan(self._files, self._log_files, self._minimum, self._check_cancelled, pass_over, reached)
        records = ((message, walk.passed) for message in walk if message.physical_offset < tail.end)
        rebuild.make_anew(records, tail.end)
        self._verified_from = self._minimum

    def _doubtful_from(self, tail: ScannedTail) -> int:
        """
        Return from where on a slave's log has to be compared with its master's; the log's end where nothing has to be.

        That is what was not known to be durable when it crashed, or was not compared since: it may hold records whose
        heads are torn, which nothing in them tells.
        """
        if not self._settings.replica or self._own is None:
            return tail.end
        return min(max(self._own.flushed, self._minimum), tail.end)

    def _sync_log(self, tail: ScannedTail) -> None:
        """Make durable what was read, and names, as a killed process may have left it in the page cache alone."""
        for file in self._log_files.between(self._begin, tail.end + 1):
            self._mappings.mapping(file).sync()
        self._files.sync_directory(self._layout.log_directory)

    def _conclude(
        self, queues: ConsumeQueues, tail: ScannedTail, marked_from: int, deleted: dict[str, int]
    ) -> RecoveredStore:
        files, checkpoints, end = self._files, self._checkpoints, tail.end
        for directory in (self._layout.log_directory, self._layout.queue_directory):
            files.make_directories(directory)
        self._change()
        for path in self._layout.left_over:
            files.remove(path)
        self._save_damage()
        if len(queues.dirty) > AT_ONCE:
            files.write_back(self._layout.queue_directory)
        self._sync_log(tail)
        for file in queues.dirty:
            self._mappings.mapping(file).sync()
        for directory in fresh_directories(queues.dirty):
            files.sync_directory(directory)
        for file in queues.dirty:
            file.fresh = False
        queues.dirty.clear()
        # The log may have lost what it had when a topic was deleted. What is stored there next is not deleted.
        kept = {topic: min(below, end) for topic, below in deleted.items()}
        before = checkpoints.load_peer()
        log_ms = tail.stored_ms or before.log_ms
        written = Timestamps(log_ms, tail.stored_ms or before.queue_ms, before.index_ms)
        entries = [QueueEntry(one.topic, one.queue_id, one.minimum, one.visible) for one in queues]
        index = [IndexEntry(file.name, file.header.end_offset) for file in (self._index.files if self._index else ())]
        marks, told = (UNMARKED, marked_from) if self._settings.replica else (marked_from, UNMARKED)
        checkpoints.open()
        position, table_saved = end, True
        try:
            checkpoints.save_table(QueueTable(end, self._minimum, entries, kept, index, self._layout.begun, told))
        except OSError as error:
            if self._own is None or kept != deleted:
                raise
            # With the table of before we may not claim more than before. Reading is possible on a full disk.
            self._log.warn("the table of queues could not be written: {error}", error=str(error))
            position, table_saved = self._begin, False
        doubtful_from = self._doubtful_from(tail)
        sizes = self._log_files.file_size, queues.file_size
        slot = CheckpointSlot(False, position, doubtful_from, marks, *sizes, written, before, self._indexed())
        checkpoints.save(slot)
        checkpoint = RecoveredCheckpoint(
            position,
            marked_from,
            before.index_ms,
            kept,
            table_saved,
            doubtful_from if doubtful_from < end else None,
            self._layout.begun,
        )
        return RecoveredStore(
            self._log_files,
            queues,
            LogPosition(end, self._writable(end), log_ms),
            checkpoint,
            self._index,
            self._verified_from,
            self._damage.known(),
        )

    def _save_damage(self) -> None:
        try:
            self._damage.save()
        except OSError as error:  # it is found again where it is read
            self._log.warn("the list of damaged regions could not be written: {error}", error=str(error))

    def _writable(self, end: int) -> MappedFile | None:
        """Return the file to go on in, with blocks for all that may be written (S1)."""
        file = self._log_files.find(end)
        if file is None:
            return None
        mapping = self._mappings.pin(file)
        try:
            mapping.reserve(end - file.base, file.size)
        except OSError as error:
            self._log.warn("there is no space to continue in {path}: {error}", path=file.path, error=str(error))
            self._mappings.unpin(file)
            return None
        return file

    def _check_cancelled(self) -> None:
        if self._is_cancelled():
            raise StoreError("the recovery of the store was cancelled")
