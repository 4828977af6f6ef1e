"""
A consistent copy of a running store: hard links of log files that are full, copies of everything else that is needed.

The copy is what a power failure right after its end would have left of the store, so a broker that is started on it
recovers it (L{smartgo.store.recovery.recovery}) and has every message that was acknowledged before the backup began.
The order of the steps makes it so:

 1. The tables, so that no offset in them is ahead of the messages.
 2. A flush, then a checkpoint and the table of queues: what the checkpoint claims is on the disk.
 3. The log up to where it is flushed then, which is not before the checkpoint. Full files are linked: nothing changes
    them any more. The file that is written to is copied up to that place.
 4. The queues' files, which may hold more than the log has: the recovery cuts them.

The index and the timers are not copied: they are made anew from the log. All work is done in a lane of its own, some
MiB at a time.
"""

from __future__ import annotations

import errno
import posixpath
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import RequestRefused, StoreError
from smartgo.schema import regions
from smartgo.schema.sizes import size_text
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.backuppruning import ABOUT, COPY, NO_OPTIONS, BackupAbout, BackupOptions, BackupPruning
from smartgo.store.checkpointer import Checkpointer
from smartgo.store.commitlog import CommitLog
from smartgo.store.flush import Flusher
from smartgo.store.interfaces import PutStatus

LANE: Final = "backup"
_CANCELLED: Final = "it was cancelled"
DIRECTORY: Final = "backups"
"""Beside the directory of the store: where backups lie, each in a directory of its name."""

_NAME: Final = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_TRIES: Final = 1000
_FILE: Final = 4096  # bytes that could be copied in the time that it takes to make a file
_CHECKPOINTS: Final = ("smartgo.checkpoint", "smartgo.queues", "checkpoint")


class BackupState(Enum):
    """The states of a backup. Tools read the values: they stay as they are."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class BackupStatus(msgspec.Struct, kw_only=True):
    """
    One backup.

    @ivar begun_ms: wall clock; C{ended_ms} 0 while it runs.
    @ivar files: so far; C{linked}: of them are hard links; C{copied}: bytes that were copied.
    @ivar size: bytes of all that is to be copied, holes of files left out, 0 until that is known; C{done}: of them are.
    @ivar end: physical offset up to which the log is in the backup.
    @ivar removed: names of older backups that were removed after it was complete.
    @ivar error: why it failed.
    """

    name: str
    directory: str
    options: BackupOptions = NO_OPTIONS
    state: BackupState = BackupState.RUNNING
    begun_ms: int = 0
    ended_ms: int = 0
    files: int = 0
    linked: int = 0
    copied: int = 0
    size: int = 0
    done: int = 0
    end: int = 0
    removed: list[str] = []
    error: str = ""


class LogSnapshot(NamedTuple):
    """The log files at one moment, each with its path, base and size, and the physical offset that is flushed."""

    files: Sequence[tuple[str, int, int]]
    flushed: int


class BackupSource(NamedTuple):
    """The parts of a store that a backup asks."""

    log: CommitLog
    flusher: Flusher
    checkpointer: Checkpointer

    def snapshot(self) -> LogSnapshot:
        """Return the log files as they are now."""
        files = [(file.path, file.base, file.size) for file in self.log.files.files]
        return LogSnapshot(files, self.flusher.flushed)


class _Copy(NamedTuple):
    """
    One range of a file to be copied, which is no hole of it.

    @ivar length: of the file, which is made with its first range; 0 for later ranges.
    """

    source: str
    target: str
    begin: int
    end: int
    length: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return self.end - self.begin


class StoreBackup:
    """
    Makes backups of one open store, one at a time.

    @ivar status: of the last backup since the start, C{None} before the first.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        root: str,
        source: BackupSource,
        flush: Callable[[], Awaitable[PutStatus]],
        free_minimum: int,
    ) -> None:
        """
        @param flush: flushes the log, and writes a checkpoint.
        @param free_minimum: bytes that a backup leaves free.
        """
        self._env = env
        self._files = env.files
        self._root = root
        self._source = source
        self._flush = flush
        self._free_minimum = free_minimum
        self._task = BackgroundTask("the backup")
        self._stopped = False
        self._ending = ""  # why the backup that runs is given up
        self._pruning = BackupPruning(env.files, env.clock)
        self._pause: Deferred[None] | None = None  # that keeps to the rate
        self.status: BackupStatus | None = None

    def begin(self, name: str, options: BackupOptions = NO_OPTIONS) -> BackupStatus:
        """
        Begin a backup.

        @param name: of its directory, below L{DIRECTORY} beside the store's.
        @param options: its rate, and which older ones stay when it is complete.
        @raise RequestRefused: the name is none, or taken, or a backup is running.
        """
        if _NAME.fullmatch(name) is None:
            raise RequestRefused("the name of a backup has 1 to 100 letters, digits, dots, dashes and underscores")
        if self.status is not None and self.status.state is BackupState.RUNNING:
            raise RequestRefused(f"backup {self.status.name} is running")
        if self._stopped:
            raise RequestRefused("the store is closed")
        directory = posixpath.join(posixpath.dirname(self._files.real(self._root)), DIRECTORY, name)
        if self._files.exists(directory):
            raise RequestRefused(f"there is a backup {name}")
        begun_ms, self._ending = self._env.clock.wall_ms(), ""
        self._pruning.believes_ages()  # a clock that is set while the backup runs is noticed
        status = self.status = BackupStatus(name=name, directory=directory, options=options, begun_ms=begun_ms)
        self._log.info("backup {name} begins, to {directory}", name=name, directory=directory)
        self._task.follow(Deferred.fromCoroutine(self._run(status)), lambda _: None)
        return status

    async def stop(self) -> None:
        """End a running backup, which fails; return when nothing of it runs any more."""
        self._stopped = True
        self._pruning.stop()
        self.cancel("the store is being closed")
        await self._task.idle()

    def cancel(self, why: str = _CANCELLED) -> None:
        """End a running backup; its directory is removed, unless there is another reason, for which it fails."""
        self._ending = why
        if self._pause is not None:
            self._pause.cancel()

    async def _run(self, status: BackupStatus) -> None:
        try:
            await self._steps(status)
            status.state = BackupState.DONE
            self._log.info("backup {name} is complete: {files} files", name=status.name, files=status.files)
        except (OSError, StoreError, CancelledError) as error:
            if self._ending == _CANCELLED:
                await self._env.threads.run(LANE, self._pruning.remove, status.directory)
                status.state = BackupState.CANCELLED
                self._log.info("backup {name} was cancelled and removed", name=status.name)
                return
            status.state, status.error = BackupState.FAILED, str(error) or self._ending
            self._log.error("backup {name} failed: {error}", name=status.name, error=status.error)
        finally:
            status.ended_ms = self._env.clock.wall_ms()

    async def _steps(self, status: BackupStatus) -> None:
        run = self._env.threads.run
        await run(LANE, self._begin_directory, status)
        ok = PutStatus.OK
        if await self._flush() is not ok or await self._source.checkpointer.save(table=True) is not ok:
            raise StoreError("the store could not be flushed")
        await run(LANE, self._copy_checkpoints, status)
        taken = self._source.snapshot()
        status.end = taken.flushed
        log: list[_Copy] = await run(LANE, self._take_log, status, taken)
        copies = deque(log)
        copies.extend(await run(LANE, self._list_queues, status))
        status.size = sum(copy.size for copy in copies)
        while copies and not self._ending:
            before = status.copied
            await run(LANE, self._copy_some, status, copies)
            if status.options.rate and copies:
                self._pause = deferLater(self._env.clock, (status.copied - before) / status.options.rate)
                await self._pause
        if self._ending:
            raise StoreError(self._ending)
        about: BackupAbout = await run(LANE, self._finish, status)
        backups = posixpath.dirname(status.directory)
        status.removed = await run(LANE, self._pruning.prune, backups, about, status.options)

    # -- in the lane -------------------------------------------------------------------------------------------

    def _begin_directory(self, status: BackupStatus) -> None:
        """Make the directory, and copy the tables."""
        for below in ("commitlog", "consumequeue", "config"):
            self._files.make_directories(posixpath.join(status.directory, below))
        self._files.create(posixpath.join(status.directory, "abort"), b"")
        for name in self._files.list(posixpath.join(self._root, "config")):
            if not name.endswith(".tmp"):
                self._copy_names(status, (posixpath.join("config", name),))
        marks = posixpath.join(self._root, "smartgo.deleted")
        names = [name for name in self._files.list(marks) if name.endswith(".mark")]
        self._copy_names(status, [posixpath.join("smartgo.deleted", name) for name in names])
        self._copy_names(status, (regions.PATH,))

    def _copy_names(self, status: BackupStatus, names: Sequence[str]) -> None:
        """Copy small files of the store, those that there are."""
        for name in names:
            source = posixpath.join(self._root, name)
            if self._files.exists(source) and not self._files.is_directory(source):
                target = posixpath.join(status.directory, name)
                self._files.make_directories(posixpath.dirname(target))
                data = self._files.read(source)
                self._files.create(target, data)
                status.files += 1
                status.copied += len(data)

    def _copy_checkpoints(self, status: BackupStatus) -> None:
        """Copy the checkpoint files as they were at one moment: they are written one after another."""
        paths = [path for name in _CHECKPOINTS if self._files.exists(path := posixpath.join(self._root, name))]
        found = [self._files.read(path) for path in paths]
        for _ in range(_TRIES):
            again = [self._files.read(path) for path in paths]
            if again == found:
                break
            found = again
        else:
            raise StoreError("the checkpoint changes all the time")
        for path, data in zip(paths, found, strict=True):
            self._files.create(posixpath.join(status.directory, posixpath.basename(path)), data)
            status.files += 1
            status.copied += len(data)

    def _take_log(self, status: BackupStatus, taken: LogSnapshot) -> list[_Copy]:
        """Link the full log files; return what is to be copied."""
        copies = []
        for path, base, size in taken.files:
            if base >= taken.flushed:
                continue
            target = posixpath.join(status.directory, "commitlog", posixpath.basename(path))
            try:
                if base + size > taken.flushed or not self._link(path, target):
                    copies.append(_Copy(path, target, 0, min(size, taken.flushed - base), size))
            except FileNotFoundError:
                if status.linked or copies:
                    raise
                continue  # retention has removed it meanwhile: the log begins later
            if not copies or copies[-1].target != target:
                status.linked += 1
                status.files += 1
        self._check_room(copies, status)
        return copies

    def _link(self, source: str, target: str) -> bool:
        """Link a file; return whether that was possible."""
        try:
            self._files.link(source, target)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
            return False
        return True

    def _list_queues(self, status: BackupStatus) -> list[_Copy]:
        """Return the queue files to be copied; one that vanishes meanwhile belongs to a topic that was deleted."""
        top = posixpath.join(self._root, "consumequeue")
        copies = []
        for topic in self._files.list(top):
            for queue in self._files.list(posixpath.join(top, topic)):
                below = posixpath.join("consumequeue", topic, queue)
                for name in self._files.list(posixpath.join(self._root, below)):
                    source = posixpath.join(self._root, below, name)
                    try:
                        size = self._files.size(source)
                        ranges = self._files.data_ranges(source, 0)
                    except FileNotFoundError:
                        continue
                    target = posixpath.join(status.directory, below, name)
                    first, *others = [(begin, min(end, size)) for begin, end in ranges] or [(0, 0)]
                    copies.append(_Copy(source, target, *first, size))
                    copies += [_Copy(source, target, *one) for one in others]
        return copies

    def _check_room(self, copies: Sequence[_Copy], status: BackupStatus) -> None:
        wanted = sum(copy.size for copy in copies)
        free = self._files.usage(status.directory)[1]
        if free - wanted < self._free_minimum:
            sizes = [size_text(one) for one in (wanted, free, self._free_minimum)]
            words = "the backup needs {}, and {} are free, of which it must leave {} (diskFreeMinimum)"
            raise StoreError(words.format(*sizes))

    def _copy_some(self, status: BackupStatus, copies: deque[_Copy]) -> None:
        """Copy a portion, and take it out of what is left."""
        left = status.options.portion
        while copies and left > 0 and not self._stopped:
            copy = copies.popleft()
            piece = copy._replace(end=min(copy.end, copy.begin + left))
            if piece.end < copy.end:
                copies.appendleft(copy._replace(begin=piece.end, length=0))
            self._copy_piece(piece, status)
            status.done += piece.size
            left -= _FILE + piece.size

    def _copy_piece(self, copy: _Copy, status: BackupStatus) -> None:
        """Copy a piece of a file; one of a queue's vanishes if its topic is deleted meanwhile."""
        files = self._files
        try:
            if copy.length:
                files.size(copy.source)
                files.make_directories(posixpath.dirname(copy.target), sync=False)
                files.create_sparse(copy.target, copy.length)
                status.files += 1
            self._copy_range(copy, status)
        except FileNotFoundError:
            if posixpath.basename(posixpath.dirname(copy.target)) == "commitlog":  # the source may be called otherwise
                raise
            if files.exists(copy.target):
                files.remove(copy.target)

    def _copy_range(self, copy: _Copy, status: BackupStatus) -> None:
        at = copy.begin
        read = self._files.read_at
        while at < copy.end and not self._stopped and (data := read(copy.source, at, min(COPY, copy.end - at))):
            if any(data):
                self._files.overwrite(copy.target, at, data)
            at += len(data)
        if at > copy.begin:
            mapping = self._files.map(copy.target, writable=False)
            try:
                mapping.sync()
            finally:
                mapping.close()
        status.copied += at - copy.begin

    def _finish(self, status: BackupStatus) -> BackupAbout:
        """Make the names durable, and write the description; return that."""
        directory = status.directory
        for below in ("commitlog", "consumequeue", "config"):
            self._files.sync_directory(posixpath.join(directory, below))
        top = posixpath.join(directory, "consumequeue")
        for topic in self._files.list(top):
            for queue in self._files.list(posixpath.join(top, topic)):
                self._files.sync_directory(posixpath.join(top, topic, queue))
            self._files.sync_directory(posixpath.join(top, topic))
        about = BackupAbout(status.name, self._root, status.begun_ms, status.end)
        self._files.create(posixpath.join(directory, ABOUT), msgspec.json.encode(about))
        self._files.sync_directory(posixpath.dirname(directory))
        return about
