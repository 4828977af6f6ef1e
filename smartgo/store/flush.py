"""
Flushing of appended bytes to the disk.

One flush is under way at a time, in the lane C{flush}; it covers all that was appended when it began. Without sync
flush it begins half a second after the first unflushed byte, or at once when many wait; with sync flush after each run
of appends, or as soon as the one before is done: all sends that wait at its start share it (reliability D7). Nothing
runs while nothing is unflushed.

The flushed position moves only after success (D3). The first failure is the last: the kernel may have dropped the pages
and cleared the error, so a flush that succeeds later proves nothing (D4). A write to a mapped page that the disk
refused counts as a failed flush: its bytes are in memory alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment, IMapping
from smartgo.store.commitlog import CommitLog
from smartgo.store.interfaces import IFlushPolicy, PutStatus
from smartgo.store.mappedfile import MappedFile, OpenMappings, check_writes
from smartgo.store.settings import StoreSettings

LANE: Final = "flush"

T = TypeVar("T")


class FlushWaiter(NamedTuple):
    """A caller that waits until the log is durable up to an offset."""

    end: int
    deadline: float
    told: Deferred[PutStatus]


@implementer(IFlushPolicy)
class Flusher:
    """
    Flushes the CommitLog.

    @ivar flushed: physical offset below which the log is durable.
    @ivar flushed_ms: store timestamp of the last record below it.
    @ivar whole: physical offset after the last record of which all is durable; below C{flushed} where a slave's log
        ended inside a record.
    @ivar failed: the error that ended flushing for good, C{None} while all is well.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        mappings: OpenMappings,
        log: CommitLog,
        settings: StoreSettings,
        usage: Callable[[], tuple[int, int]],
        flushed: Callable[[tuple[int, int] | None], None],
        failed: Callable[[], None],
    ) -> None:
        """
        @param log: what it has now is durable.
        @param usage: asks for the room on the disk; called after each flush in its lane.
        @param flushed: called after each flush, on the reactor thread, with (total, free) bytes of the disk if known.
        @param failed: called once, when a flush failed.
        """
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._refused = env.files.refused_writes
        self._buggify = env.buggify
        self._mappings = mappings
        self._commitlog = log
        self._settings = settings
        self._usage = usage
        self._on_flushed = flushed
        self._on_failed = failed
        self._waiters: deque[FlushWaiter] = deque()
        self._dirty_since: float | None = None  # when the first byte was appended that no flush covers
        self._timer: IDelayedCall | None = None
        self._timeout: IDelayedCall | None = None
        self._running = False
        self._covered = 0  # physical offset up to which the flush under way makes the log durable
        self.flushed = self.whole = log.end
        self.flushed_ms = log.stored_ms
        self.failed: BaseException | None = None

    # -- for the store -----------------------------------------------------------------------------------------

    def restart(self, position: int) -> None:
        """Go on at a physical offset: the log, which was empty, begins there."""
        self.flushed = self.whole = position
        self.flushed_ms = 0

    def retreat(self, end: int) -> None:
        """Set the flushed position back to C{end}, where the log was truncated: other bytes will follow there."""
        self.flushed = min(self.flushed, end)
        self.whole = min(self.whole, end)
        self._covered = min(self._covered, end)
        self._waiters = deque(one._replace(end=min(one.end, end)) for one in self._waiters)
        if not self._running:
            self._tell()

    def appended(self, end: int) -> None:
        """Schedule the flush of a run of appends that ended at C{end}; cheap."""
        if self._dirty_since is None:
            self._dirty_since = self._clock.seconds()
        if self._running or self.failed is not None:
            return
        if self._settings.sync_flush or end - self.flushed >= self._settings.flush_bytes:
            self._start()
        elif self._timer is None:
            self._timer = self._clock.callLater(self._settings.flush_interval, self._due)

    def durable(self, end: int) -> Deferred[PutStatus] | None:
        """See L{IFlushPolicy.durable}: C{None} at once without sync flush, unless the disk refused a write."""
        if end <= self.flushed:
            return None
        if self._settings.sync_flush:
            return self.wait(end)
        return succeed(PutStatus.FLUSH_DISK_TIMEOUT) if self._refused else None

    def may_wait(self) -> bool:
        """See L{IFlushPolicy.may_wait}: it may while a flush is under way; the next one begins when that is done."""
        return self._running

    def wait(self, end: int) -> Deferred[PutStatus]:
        """Fire when the log is durable up to C{end}, in either mode, or with FLUSH_DISK_TIMEOUT; starts no flush."""
        if end <= self.flushed:
            return succeed(PutStatus.OK)
        if self.failed is not None:
            return succeed(PutStatus.FLUSH_DISK_TIMEOUT)
        timeout = self._settings.sync_flush_timeout
        waiter = FlushWaiter(end, self._clock.seconds() + timeout, Deferred())
        self._waiters.append(waiter)
        if self._timeout is None:
            self._timeout = self._clock.callLater(timeout, self._too_late)
        return waiter.told

    def flush(self) -> None:
        """Begin a flush of all that is appended now, after the one under way if there is one."""
        if self._commitlog.end > self.flushed and self.failed is None:
            if self._dirty_since is None:
                self._dirty_since = self._clock.seconds() - self._settings.flush_interval
            if not self._running:
                self._start()

    async def stop(self) -> None:
        """Flush everything; nothing may be appended any more. Does nothing after a failure."""
        while self.failed is None and (self._running or self._commitlog.end > self.flushed):
            if not self._running:
                self._start()
            if self._running:
                waiter = FlushWaiter(self._commitlog.end, float("inf"), Deferred())
                self._waiters.append(waiter)
                await waiter.told
        self._cancel()

    # -- the work ----------------------------------------------------------------------------------------------

    def _due(self) -> None:
        self._timer = None
        if not self._running:
            self._start()

    def _start(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._dirty_since = None
        end = self._commitlog.end
        if end <= self.flushed or self.failed is not None:
            return
        self._running = True
        self._covered = end
        whole = self._commitlog.whole
        stored_ms = self._commitlog.stored_ms
        dirty: list[MappedFile] = []
        pinned: list[tuple[IMapping, bool]] = []
        try:
            for file in self._commitlog.files.between(self.flushed, end):
                pinned.append((self._mappings.pin(file), file.fresh or self._buggify("flush.directory")))
                dirty.append(file)
        except OSError:
            work: Deferred[tuple[int, int] | None] = Deferred()
            work.errback(Failure())
        else:
            work = self._threads.run(LANE, self._sync, pinned)
        work.addBoth(self._unpin, dirty)
        work.addCallbacks(self._done, self._failure, callbackArgs=(whole, stored_ms, dirty))
        work.addErrback(lambda failure: self._log.failure("a task after a flush failed", failure))

    def _sync(self, mappings: list[tuple[IMapping, bool]]) -> tuple[int, int] | None:
        """Sync old files before new ones, and the names of new ones (D8); in the lane. @raise OSError"""
        for mapping, _ in mappings:
            mapping.sync()
        check_writes(self._files)
        if any(fresh for _, fresh in mappings):
            self._files.sync_directory(self._commitlog.files.directory)
        try:
            return self._usage()
        except OSError:
            return None

    def _unpin(self, result: T, dirty: list[MappedFile]) -> T:
        for file in dirty:
            self._mappings.unpin(file)
        return result

    def _done(self, usage: tuple[int, int] | None, whole: int, stored_ms: int, dirty: list[MappedFile]) -> None:
        end = self._covered
        self._running = False
        for file in dirty:
            file.fresh = False
        self.flushed = end
        self.flushed_ms = stored_ms
        self.whole = min(whole, end)
        self._commitlog.flushed(end)
        if self._dirty_since is not None:
            self._again(self._clock.seconds() - self._dirty_since)
        self._on_flushed(usage)  # first, so that whoever is told OK can read what it sent
        self._tell()

    def _tell(self) -> None:
        """Answer the callers that wait for what is flushed now."""
        while self._waiters and self._waiters[0].end <= self.flushed:
            told = self._waiters.popleft().told
            if not told.called:  # a caller may have cancelled it
                told.callback(PutStatus.OK)

    def _again(self, late: float) -> None:
        """Schedule the next flush, for bytes that came during the last one, the first of them C{late} seconds ago."""
        settings = self._settings
        at_once = settings.sync_flush or self._waiters or self._buggify("flush.again")
        if at_once or self._commitlog.end - self.flushed >= settings.flush_bytes:
            self._start()
        elif self._timer is None:
            self._timer = self._clock.callLater(max(0.0, settings.flush_interval - late), self._due)

    def _failure(self, failure: Failure) -> None:
        self._running = False
        if failure.check(OSError) is None:
            self._log.failure("flushing failed", failure)
        self.fail(failure.value)

    def fail(self, error: BaseException | None) -> None:
        """End flushing for good: a write or a flush of a store file failed, and nothing is durable from here on."""
        if self.failed is not None:
            return
        self.failed = error
        self._log.error(
            "the store accepts no more messages, because a write or a flush failed: {error}", error=str(error)
        )
        waiters = self._waiters
        self._waiters = deque()
        self._cancel()
        self._on_failed()
        for waiter in waiters:
            if not waiter.told.called:
                waiter.told.callback(PutStatus.FLUSH_DISK_TIMEOUT)

    def _too_late(self) -> None:
        self._timeout = None
        now = self._clock.seconds()
        while self._waiters and self._waiters[0].deadline <= now:
            told = self._waiters.popleft().told
            if not told.called:
                told.callback(PutStatus.FLUSH_DISK_TIMEOUT)
        if self._waiters and self._waiters[0].deadline != float("inf"):
            self._timeout = self._clock.callLater(self._waiters[0].deadline - now, self._too_late)

    def _cancel(self) -> None:
        for call in (self._timer, self._timeout):
            if call is not None:
                call.cancel()
        self._timer = self._timeout = None
