"""
The times of checkpoints: after a flush, at most once a second or once in so many bytes of log.

A checkpoint says that all below a position is in the queues, and both on the disk: so the queue files written to are
synced first, in a lane of their own, as there may be many of them. Nothing runs while nothing changed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment, IMapping
from smartgo.observer import Waiters
from smartgo.store.checkpoint import UNMARKED, CheckpointFiles, CheckpointSlot, QueueEntry, QueueTable, Timestamps
from smartgo.store.commitlog import CommitLog
from smartgo.store.dispatch import QueueDispatch
from smartgo.store.flush import Flusher
from smartgo.store.index.messageindex import MessageIndex
from smartgo.store.index.recovery import OFF
from smartgo.store.interfaces import PutStatus
from smartgo.store.mappedfile import MappedFile, OpenMappings, check_writes
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.recovery.recovered import RecoveredCheckpoint
from smartgo.store.settings import StoreSettings

LANE: Final = "checkpoint"

T = TypeVar("T")

AT_ONCE: Final = 256
"""Files that are synced in one go: each has a descriptor until it is done. More are written back together before."""


class _NotOpened(Exception):
    """
    A file that is to be synced cannot be opened now, as too many are open.

    @ivar error: why.
    """

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.error = error


def fresh_directories(files: Iterable[MappedFile]) -> list[str]:
    """
    Return the directories to be synced for the names of new queue files: of the queue, the topic, and all topics, each
    once, in the order of the files.
    """
    found: dict[str, None] = {}
    for file in files:
        if file.fresh:
            queue = posixpath.dirname(file.path)
            topic = posixpath.dirname(queue)
            found |= dict.fromkeys((queue, topic, posixpath.dirname(topic)))
    return list(found)


@dataclass(frozen=True)
class Checkpointed:
    """
    The parts of a store whose positions a checkpoint records.

    @ivar index: C{None}: the store keeps none.
    """

    log: CommitLog
    queues: ConsumeQueues
    flusher: Flusher
    dispatch: QueueDispatch
    index: MessageIndex | None


class Checkpointer:
    """
    Writes checkpoints of a running store.

    @ivar doubtful_from: of a slave: physical offset from which on the log is still to be compared with its master's;
        C{None} where nothing is. Checkpoints say so until it was.
    @ivar deleted: topics that were deleted, see L{QueueTable}; the store adds to it.
    @ivar begun: see L{QueueTable}.
    @ivar marked_from: physical offset from which on batches carry our mark; on a slave as its master told.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        checkpoints: CheckpointFiles,
        mappings: OpenMappings,
        told: Checkpointed,
        settings: StoreSettings,
        begin: RecoveredCheckpoint,
    ) -> None:
        """
        @param begin: the checkpoint that was written last.
        """
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._buggify = env.buggify
        self._checkpoints = checkpoints
        self._mappings = mappings
        self._at_once = 1 if env.buggify("checkpoint.one-file") else max(1, min(AT_ONCE, mappings.limit // 2))
        self._queues = told.queues
        self._commitlog = told.log
        self._flusher = told.flusher
        self._dispatch = told.dispatch
        self._index = told.index
        self._settings = settings
        self._saved = begin.position  # position of the last checkpoint
        self.marked_from = begin.marked_from
        self._index_ms = begin.index_ms  # RocketMQ's timestamp of the index, kept as it is where the store keeps none
        self._next = 0.0  # not before that time
        self._timer: IDelayedCall | None = None
        self._running = False
        self._stopping = False
        self._worked: Waiters[None] = Waiters()
        # How often the table of queues was to be written, and which of these the file holds.
        self._table_asked = int(begin.position < told.log.end)
        self._table_done = 0
        self.doubtful_from = begin.doubtful_from
        self.deleted = begin.deleted
        self.begun = begin.begun

    # -- for the store -----------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Physical offset from which on the next recovery reads the log, if the process is killed now."""
        return self._saved if self.doubtful_from is None else min(self._saved, self.doubtful_from)

    def advance(self) -> None:
        """Write a checkpoint of what was flushed, now or when the next one is due."""
        position = min(self._dispatch.end, self._flusher.whole)
        if self._running or self._stopping or self._flusher.failed is not None or position <= self._saved:
            return
        wait = self._next - self._clock.seconds()
        enough = position - self._saved >= self._settings.checkpoint_bytes or self._buggify("checkpoint.early")
        if wait <= 0 or enough:
            self._start()
        elif self._timer is None:
            self._timer = self._clock.callLater(wait, self._due)

    def index_changed(self) -> None:
        """Schedule a checkpoint with the list of index files: one was filled or removed."""
        self._table_asked += 1
        if not self._running and not self._stopping and self._flusher.failed is None and self._timer is None:
            self._timer = self._clock.callLater(max(0.0, self._next - self._clock.seconds()), self._due)

    async def save(self, table: bool = False) -> PutStatus:
        """
        Write a checkpoint of what is flushed by now.

        @param table: write the table of queues too.
        @return: OK, or FLUSH_DISK_TIMEOUT where that failed, or the last checkpoint is being written.
        """
        if table:
            self._table_asked += 1
        wanted = self._table_asked if table else 0
        target = min(self._dispatch.end, self._flusher.whole)
        await self.idle()
        if self._flusher.failed is None and not self._stopping and (self._saved < target or self._wants_table):
            self._start()
            await self.idle()
        done = self._flusher.failed is None and self._saved >= target and self._table_done >= wanted
        return PutStatus.OK if done else PutStatus.FLUSH_DISK_TIMEOUT

    async def begin_anew(self, offset: int) -> PutStatus:
        """
        Write a checkpoint of an empty log that begins at C{offset}, behind the end of the log.

        From then on all log files are left over, also after a crash; the caller takes them out of the log.

        @return: OK, or FLUSH_DISK_TIMEOUT where that failed, and the log is as it was.
        """
        await self.idle()
        before, self.begun = self.begun, offset
        status = await self.save(table=True)
        if status is not PutStatus.OK:
            self.begun = before
        return status

    @property
    def _wants_table(self) -> bool:
        return self._table_done < self._table_asked

    async def idle(self) -> None:
        """Return when no checkpoint is under way."""
        while self._running:
            await self._worked.wait()

    async def stop(self, indexed: int) -> None:
        """
        Write the last checkpoint, after which the store needs no recovery, and remove the abort marker.

        After a failed flush nothing is written: the next start recovers.

        @param indexed: physical offset up to which the index goes, all of it on the disk; or L{OFF}.
        @raise OSError: it could not be written; the marker stays.
        """
        self._stopping = True  # what is flushed from here on is in the last checkpoint
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self.idle()
        if self._flusher.failed is None:
            dirty = list(self._queues.dirty)
            end = max(self.begun, self._commitlog.whole)
            try:
                await self._save([], dirty, self._write_last, self._table(end), self._checkpoint(end, True, indexed))
            except _NotOpened as failed:
                raise failed.error from None

    # -- the work ----------------------------------------------------------------------------------------------

    def _due(self) -> None:
        self._timer = None
        if not self._running and self._flusher.failed is None:
            self._start()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        dirty = list(self._queues.dirty)
        asked = self._table_asked
        wants_table = self._wants_table or any(file.fresh for file in dirty) or self._buggify("checkpoint.table")
        end = max(self.begun, min(self._dispatch.end, self._flusher.whole))
        logs: list[MappedFile] = []
        if wants_table and end < self._dispatch.end:
            # The table counts all that is in the queues: the log has to be durable as far as that.
            end = self._dispatch.end
            logs = self._commitlog.files.between(self._flusher.whole, end)
        self._running = True
        table = self._table(end) if wants_table else None
        checkpoint = self._checkpoint(end, False, OFF if self._index is None else self._index.durable)
        work = Deferred.fromCoroutine(self._save(logs, dirty, self._write, table, checkpoint))
        work.addCallbacks(self._written, self._failed, callbackArgs=(checkpoint, asked if wants_table else 0))
        work.addBoth(self._end_work)

    async def _save(
        self,
        logs: list[MappedFile],
        dirty: list[MappedFile],
        write: Callable[..., T],
        table: QueueTable | None,
        checkpoint: CheckpointSlot,
    ) -> T:
        """
        Sync files, some at a time, and C{write} the checkpoint with the last of them.

        @raise _NotOpened: a file could not be opened; what was not synced is still dirty.
        @raise OSError: a sync failed.
        """
        if len(dirty) > self._at_once:
            await self._threads.run(LANE, self._files.write_back, posixpath.dirname(dirty[0].path))
        while len(dirty) > self._at_once:
            part, dirty = dirty[: self._at_once], dirty[self._at_once :]
            await self._synced([], part, self._sync)
        return await self._synced(logs, dirty, write, table, checkpoint)

    async def _synced(
        self, logs: list[MappedFile], dirty: list[MappedFile], work: Callable[..., T], *args: object
    ) -> T:
        """Return the result of C{work(mappings, directories, *args)}, called in the lane."""
        part = [file for file in dirty if file in self._queues.dirty]  # the others were removed meanwhile
        files = logs + part
        pinned: list[IMapping] = []
        try:
            for file in files:
                pinned.append(self._mappings.pin(file))
        except OSError as error:
            self._unpin(files[: len(pinned)])
            raise _NotOpened(error) from None
        for file in part:
            del self._queues.dirty[file]
        directories = fresh_directories(part)
        directories += {posixpath.dirname(file.path): None for file in logs if file.fresh}
        try:
            result: T = await self._threads.run(LANE, work, pinned, directories, *args)
        finally:
            self._unpin(files)
        for file in part:
            file.fresh = False
        return result

    def _checkpoint(self, end: int, clean: bool, indexed: int) -> CheckpointSlot:
        index_ms = self._index_ms if self._index is None else self._index.flushed_ms
        written = Timestamps(self._flusher.flushed_ms, self._dispatch.stored_ms, index_ms)
        return CheckpointSlot(
            clean,
            end,
            max(end, self._flusher.whole) if self.doubtful_from is None else max(self.begun, self.doubtful_from),
            UNMARKED if self._settings.replica else self.marked_from,
            self._commitlog.files.file_size,
            self._queues.file_size,
            written,
            written,
            indexed,
        )

    def _table(self, end: int) -> QueueTable:
        minimum = max(self.begun, self._commitlog.minimum)
        self.deleted = {topic: below for topic, below in self.deleted.items() if below > minimum}
        entries = [
            QueueEntry(queue.topic, queue.queue_id, queue.minimum, queue.visible)
            for queue in self._queues
            if queue.files.files
        ]
        deleted = dict(self.deleted)  # the table is written by a thread, and topics are deleted meanwhile
        index = [] if self._index is None else self._index.entries()
        told = self.marked_from if self._settings.replica else UNMARKED
        return QueueTable(end, minimum, entries, deleted, index, self.begun, told)

    def _sync(self, mappings: list[IMapping], directories: list[str]) -> None:
        """Sync files, and the directories that name new ones; in the lane. @raise OSError: a sync or a write failed."""
        for mapping in mappings:
            mapping.sync()
        check_writes(self._files)
        for directory in directories:
            try:
                self._files.sync_directory(directory)
            except FileNotFoundError:
                pass  # the topic was deleted meanwhile

    def _write(
        self, mappings: list[IMapping], directories: list[str], table: QueueTable | None, checkpoint: CheckpointSlot
    ) -> OSError | None:
        """
        Make one checkpoint; in the lane.

        @return: why the table could not be replaced: the old one is there still, and so is the old checkpoint.
        @raise OSError: a sync failed.
        """
        self._sync(mappings, directories)
        if table is not None:
            try:
                self._checkpoints.save_table(table)
            except OSError as error:
                return error
        self._checkpoints.save(checkpoint)
        return None

    def _write_last(
        self, mappings: list[IMapping], directories: list[str], table: QueueTable, checkpoint: CheckpointSlot
    ) -> None:
        error = self._write(mappings, directories, table, checkpoint)
        if error is not None:
            raise error
        self._checkpoints.remove_abort()

    def _unpin(self, files: list[MappedFile]) -> None:
        for file in files:
            self._mappings.unpin(file)

    def _written(self, error: OSError | None, checkpoint: CheckpointSlot, asked: int) -> None:
        self._running = False
        if error is not None:  # the table's: it is wanted still, also where nobody had asked for it
            self._table_asked = max(self._table_asked, self._table_done + 1)
            self._later(error)
            return
        self._table_done = max(self._table_done, asked)
        self._saved = checkpoint.position
        self._next = self._clock.seconds() + self._settings.checkpoint_interval
        self.advance()

    def _failed(self, failure: Failure) -> None:
        self._running = False
        if isinstance(failure.value, _NotOpened):  # such as too many open files
            self._later(failure.value.error)
            return
        if failure.check(OSError) is None:
            self._log.failure("writing a checkpoint failed", failure)
        self._flusher.fail(failure.value)

    def _later(self, error: OSError) -> None:
        if self._stopping:
            return  # the last checkpoint is still to come
        self._log.warn("no checkpoint could be written; trying again: {error}", error=str(error))
        if self._timer is None:
            self._timer = self._clock.callLater(self._settings.retry_interval, self._due)

    def _end_work(self, result: object) -> None:
        if isinstance(result, Failure):
            self._log.failure("writing a checkpoint failed", result)
        self._worked.fire(None)
