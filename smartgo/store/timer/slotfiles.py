"""
The slot files and the checkpoint of a running timer log: written, loaded and saved in lanes, one thing at a time.

A checkpoint is written when enough happened since the last one. It counts only once the log is durable as far as it
goes: else a power failure could take a copy back of which the checkpoint says that it was made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IClock, IThreads
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.timer.entryfile import SlotFile
from smartgo.store.timer.oldentries import PORTION, OldEntries
from smartgo.store.timer.slotstorage import LANE, SYNC_LANE, SlotStorage
from smartgo.store.timer.source import TimerSource
from smartgo.store.timer.waiting import WaitingTimers

_AHEAD_MS: Final = 60_000  # a slot is loaded that long before its first message may be due
_WRITE_AFTER: Final = 1.0  # seconds from an arrival to its entry in a file
_RETRY: Final = 5.0
_SAVE_AFTER: Final = 60.0  # seconds from a change to a checkpoint
_SAVE_CHANGES: Final = 200_000  # messages that came or were delivered
_SAVE_BYTES: Final = 128 << 20  # of the log


class TimerCancelled(Exception):
    """The store is closed, and what was to be done for its timer log is not done."""


class SlotFiles:
    """Moves entries between memory and the disk, and writes checkpoints."""

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        threads: IThreads,
        storage: SlotStorage,
        source: TimerSource,
        limit: int,
        loaded: Callable[[], None],
    ) -> None:
        """
        @param limit: entries that are loaded at once.
        @param loaded: called when entries were loaded.
        """
        self._clock = clock
        self._threads = threads
        self._storage = storage
        self._source = source
        self._limit = limit
        self._loaded = loaded
        self._waiting = WaitingTimers(limit)
        self._tasks = BackgroundTask("the timer log")
        self._lock = DeferredLock()  # whoever has it writes to the files, loads one, or takes a checkpoint
        self._begun = self._stopped = self._saving = False
        self._write_at: IDelayedCall | None = None
        self._save_at: IDelayedCall | None = None
        self._not_before = 0.0  # no checkpoint is begun before that time, after one failed
        self._saved_end = 0
        self._changes = 0  # since the last checkpoint
        self._next_offset = 0
        self._durable_waiters: list[tuple[int, Deferred[bool]]] = []

    # -- for the timer log -------------------------------------------------------------------------------------

    def begin(self, waiting: WaitingTimers, saved_end: int, changes: int) -> None:
        """
        Begin to work.

        @param waiting: what waits.
        @param saved_end: physical offset that the last checkpoint reached; C{changes} happened since.
        """
        self._waiting = waiting
        self._begun = True
        self._saved_end = saved_end
        self.changed(changes)
        self.load()
        self.write_soon()

    def horizon_ms(self) -> int:
        """Return up to when messages may be due that are held in memory."""
        now_ms: int = self._clock.wall_ms()
        return now_ms + _AHEAD_MS

    def changed(self, count: int = 1) -> None:
        """Take note that messages came or were delivered."""
        if count:
            self._changes += count
            self._save_soon(_SAVE_AFTER if self._changes < _SAVE_CHANGES else 0.0)

    def taken(self, offset: int, end: int) -> None:
        """
        Take note how far the timer topic was taken.

        @param offset: logical offset of the next message; C{end} is the physical offset at which the log ends.
        """
        self._next_offset = offset
        if end - self._saved_end >= _SAVE_BYTES:
            self._save_soon(0.0)

    def log_flushed(self, position: int) -> None:
        """Take note that the log is durable below a physical offset."""
        if self._durable_waiters:
            told = [one for one in self._durable_waiters if one[0] <= position]
            self._durable_waiters = [one for one in self._durable_waiters if one[0] > position]
            for _, waiter in told:
                waiter.callback(True)

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True
        for call in (self._write_at, self._save_at):
            if call is not None and call.active():
                call.cancel()
        waiters, self._durable_waiters = self._durable_waiters, []
        for _, waiter in waiters:
            waiter.callback(False)

    async def finish(self) -> bool:
        """After L{stop}: write the last checkpoint; return whether all is on the disk."""
        await self._tasks.idle()
        if not self._begun or self._source.flushed() < self._source.log.whole:
            return False
        return not self._changes or await self._save()

    # -- entries -----------------------------------------------------------------------------------------------

    def write_soon(self) -> None:
        """Write what came to files, if anything is to be written."""
        if self._write_at is None and not self._stopped and self._waiting.has_unwritten:
            self._write_at = self._clock.callLater(_WRITE_AFTER, self._write_now)

    def _write_now(self) -> None:
        self._write_at = None
        self._tasks.follow(Deferred.fromCoroutine(self._write()), _ignore)

    async def _write(self) -> None:
        await self._lock.acquire()
        try:
            await self._write_locked()
        finally:
            self._lock.release()

    async def _write_locked(self) -> bool:
        """Write to files what belongs there; return whether that was possible."""
        parts = self._waiting.unwritten()
        if not parts:
            return True
        names = [(file.name, entries) for file, entries in parts]
        written = await self._threads.run(LANE, self._storage.write, names)
        if written == len(parts):
            return True
        self._log.warn("the timer log cannot be written; trying again")
        self._waiting.abandon(parts[written:])
        if self._write_at is None and not self._stopped:
            self._write_at = self._clock.callLater(_RETRY, self._write_now)
        return False

    def load(self) -> None:
        """Load the earliest slot if its time has come."""
        if self._stopped or not self._begun:
            return
        files = self._waiting.to_load(self.horizon_ms())
        if files:
            self._tasks.follow(Deferred.fromCoroutine(self._load_slot(files)), _ignore)

    async def _load_slot(self, files: list[SlotFile]) -> None:
        found = None
        await self._lock.acquire()
        try:
            if await self._write_locked():
                rows = [file.row() for file in files]
                found = await self._threads.run(LANE, self._storage.load, rows, self._limit)
        except OSError as error:
            self._log.warn("a slot of the timer log cannot be read; trying again: {error}", error=str(error))
        finally:
            if found is None:
                self._waiting.not_loaded(self.horizon_ms())
            else:
                self._waiting.loaded(files[0].slot, found, self.horizon_ms())
            self._lock.release()
        self.write_soon()
        if found is not None:
            self.load()
            self._loaded()

    async def old_entries(self, below: int) -> OldEntries | None:
        """
        Return entries whose records lie below a physical offset, C{None} where there are none.

        @raise OSError: as the system says.
        """
        waiting = self._waiting
        near = waiting.take_old(below, PORTION)
        if near:
            return OldEntries(waiting, below, None, near)
        await self._lock.acquire()
        try:
            if not await self._write_locked():
                raise OSError("the entries could not be written")
            file = waiting.next_old_file(below)
            if file is None:
                return None
            try:
                found = await self._threads.run(LANE, self._storage.entries, file.row())
            except OSError:
                waiting.keep(file)
                raise
        finally:
            self._lock.release()
        return OldEntries(waiting, below, file, found)

    # -- checkpoints -------------------------------------------------------------------------------------------

    def _save_soon(self, seconds: float) -> None:
        if self._saving or self._stopped or not self._begun:
            return
        now = self._clock.seconds()
        at = max(now + seconds, self._not_before)
        if self._save_at is None:
            self._save_at = self._clock.callLater(at - now, self._save_now)
        elif at < self._save_at.getTime():
            self._save_at.reset(at - now)

    def _save_now(self) -> None:
        self._save_at = None
        self._tasks.follow(Deferred.fromCoroutine(self._save()), self._saved)

    def _saved(self, done: bool) -> None:
        if not done:
            self._not_before = self._clock.seconds() + _RETRY
            self._save_soon(_RETRY)
        if self._changes:
            self._save_soon(_SAVE_AFTER if self._changes < _SAVE_CHANGES else 0.0)

    async def _save(self) -> bool:
        """Write a checkpoint of what waits now; return whether that was possible."""
        self._saving = True
        changes, self._changes = self._changes, 0
        try:
            await self._save_checkpoint()
        except (OSError, TimerCancelled) as error:
            self._changes += changes
            if not self._stopped:
                self._log.warn("no checkpoint of the timer log could be written: {error}", error=str(error))
            return False
        finally:
            self._saving = False
        return True

    async def _save_checkpoint(self) -> None:
        """
        Write a checkpoint, and remove the files that nothing is in any more.

        @raise OSError: as the system says.
        @raise TimerCancelled: the log will not be flushed as far as that any more.
        """
        waiting, storage = self._waiting, self._storage
        await self._lock.acquire()
        try:
            position = self._source.log.whole
            checkpoint = waiting.checkpoint(self._next_offset, position)
            dead = list(waiting.dead)
            if not await self._write_locked():
                raise OSError("the entries could not be written")
            dirty = waiting.take_dirty()
        finally:
            self._lock.release()
        try:
            await self._threads.run(SYNC_LANE, storage.sync, [file.name for file in dirty])
            if not await self._log_durable(position):
                raise TimerCancelled
            await self._threads.run(SYNC_LANE, storage.save, checkpoint)
        except BaseException:
            for file in dirty:
                file.dirty = True
            raise
        self._saved_end = position
        del waiting.dead[: len(dead)]
        await self._threads.run(SYNC_LANE, storage.remove, [file.name for file in dead])

    async def _log_durable(self, position: int) -> bool:
        """Wait until the log is durable below a physical offset; return whether it is."""
        if self._source.flushed() >= position:
            return True
        if self._stopped:
            return False
        waiter: Deferred[bool] = Deferred()
        self._durable_waiters.append((position, waiter))
        return await waiter


def _ignore(_: object) -> None:
    """Do nothing with a result."""
