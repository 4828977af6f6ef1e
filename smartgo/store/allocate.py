"""
Log files made ahead of need, and when the disk has no room for more.

A log file gets all its blocks before it is mapped (reliability S1): it is allocated in another directory, by a thread,
and renamed into the log when the writer reaches it, so that the log never shows a file that is not whole. The first
pages of a new file, and those shortly ahead of the writer, are touched by that thread too (S4): in small steps, as the
kernel keeps other threads from mapping memory meanwhile, and further ahead once the writer was faster.

Two things make the store refuse messages until they pass: no log file can be allocated, and the file system is nearly
full (L20). Both are tried again every few seconds, and only then does a timer run.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment, IMapping
from smartgo.errors import ServiceNotAvailable
from smartgo.schema.refusalkind import RefusalKind
from smartgo.schema.sizes import size_text
from smartgo.store.filequeue import FileQueue
from smartgo.store.logposition import LogPosition
from smartgo.store.mappedfile import MappedFile, OpenMappings
from smartgo.store.refusal import Refusal
from smartgo.store.settings import StoreSettings
from smartgo.store.storelayout import left_spares, spare_directory

LANE: Final = "prepare"
_GIB: Final = 1 << 30
_STEP: Final = 2 << 20  # bytes touched by one call


def _touch(mapping: IMapping, begin: int, end: int) -> None:
    """Touch a range of a file; blocking."""
    for at in range(begin, end, _STEP):
        mapping.populate(at, min(at + _STEP, end))


class LogSpace:
    """
    The source of CommitLog files, and the watch over the disk: it refuses messages when there is no room.

    @ivar refusal: why nothing can be stored now, C{None} while it can.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        root: str,
        files: FileQueue,
        mappings: OpenMappings,
        settings: StoreSettings,
        begin: LogPosition,
        changed: Callable[[], None],
    ) -> None:
        """
        @param root: the store's directory; its file system is watched, and that of the log.
        @param files: the log's files.
        @param begin: where the writer goes on.
        @param changed: called when C{refusal} may have changed.
        """
        self._env = env
        self._root = root
        self._directory = spare_directory(env.files, root, files.directory)
        self._files = files
        self._mappings = mappings
        self._settings = settings
        self._changed = changed
        self._spare: tuple[str, IMapping] | None = None
        self._numbers = 0  # files made, for their names
        self._working: Deferred[None] | None = None
        self._retry: IDelayedCall | None = None
        self._file = begin.file  # the one written to
        self._end = begin.end  # where the writer stood when this was made
        self._touched = begin.end  # physical offset up to which its pages were made ready
        self._ahead = settings.touch_ahead  # grows when the writer overtakes the thread
        self._no_file: Refusal | None = None
        self._disk_full: Refusal | None = None
        self._stopping = False
        self.refusal: Refusal | None = None
        self.watch = 0
        """Physical offset from which on the writer should call L{advance}."""

    # -- for the writer ----------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Make the directory of spare files, and remove those that a killed process left. Blocking. @raise OSError"""
        files = self._env.files
        files.make_directories(self._directory)
        for path in left_spares(files, self._directory):
            files.remove(path)

    def start(self, total: int, free: int) -> None:
        """Begin to work; the arguments are those of L{note_usage}."""
        self.advance(self._end)
        self.note_usage(total, free)

    def take(self, base: int) -> MappedFile:
        """
        Return the file that holds C{base}, in the log and pinned; where there is none, one that begins there, allocated
        here and now if none is ready.

        @raise ServiceNotAvailable: there is no room for one.
        """
        touched = base
        try:
            file = self._files.find(base)
            if file is not None:  # made ahead by a RocketMQ broker, or found on a full disk: without blocks
                self._mappings.mapping(file).reserve(0, file.size)
            else:
                if self._spare is None:
                    self._spare = self._make(self._next_path(), 0)
                else:
                    touched += min(self._settings.touch_ahead, self._files.file_size)
                path, mapping = self._spare
                file = self._files.rename_in(path, base)
                self._spare = None
                self._mappings.adopt(file, mapping)
            self._mappings.pin(file)
        except OSError as error:
            self._failed(error)
            raise ServiceNotAvailable("" if self.refusal is None else self.refusal.words) from error
        self._file = file
        self._touched = touched
        self.advance(base)
        return file

    def advance(self, end: int) -> None:
        """Make pages ahead of the writer, now at C{end}, ready, and the next file once half of this one is used."""
        file = self._file
        if end > self._touched and self._working is None:
            self._ahead = min(self._ahead * 2, max(self._ahead, self._settings.touch_limit))
        ahead = self._ahead
        half = 0 if file is None else file.base + file.size // 2
        if self._working is None and not self._stopping:
            if file is not None and self._touched < file.end and end + ahead // 2 >= self._touched:
                begin = max(self._touched, end)
                self._touched = min(begin + ahead, file.end)
                self._work(self._populate(file, begin - file.base, self._touched - file.base))
            elif self._spare is None and end >= half and self._retry is None and not self._follows(file):
                self._work(self._prepare())
        if self._working is not None:
            self.watch = 1 << 62  # looked at again when the work is done
        elif file is not None and self._touched < file.end:
            self.watch = self._touched - ahead // 2
        elif self._spare is None and end < half:
            self.watch = half
        else:
            self.watch = 1 << 62

    def _follows(self, file: MappedFile | None) -> bool:
        return file is not None and self._files.find(file.end) is not None

    # -- work in the lane --------------------------------------------------------------------------------------

    def _work(self, work: Deferred[None]) -> None:
        """Remember the one task that runs in the lane; at its end L{advance} may begin the next."""
        if work.called:
            return
        self._working = work
        work.addBoth(self._worked)

    def _worked(self, result: object) -> None:
        self._working = None
        self.watch = 0
        if isinstance(result, Failure):
            self._log.failure("making log files ahead of need failed", result)

    def _populate(self, file: MappedFile, begin: int, end: int) -> Deferred[None]:
        mapping = self._mappings.pin(file)

        def done(result: object) -> None:
            self._mappings.unpin(file)
            if isinstance(result, Failure):
                self._log.failure("could not touch the pages ahead", result)

        work: Deferred[None] = self._env.threads.run(LANE, _touch, mapping, begin, end)
        return work.addBoth(done)

    def _prepare(self) -> Deferred[None]:
        touch = min(self._settings.touch_ahead, self._files.file_size)
        work: Deferred[tuple[str, IMapping]] = self._env.threads.run(LANE, self._make, self._next_path(), touch)
        return work.addCallbacks(self._made, self._not_made)

    def _next_path(self) -> str:
        self._numbers += 1
        return posixpath.join(self._directory, str(self._numbers))

    def _make(self, path: str, touch: int) -> tuple[str, IMapping]:
        """Allocate and map a file, and load its first pages; in the lane, or at once where none is ready."""
        files = self._env.files
        files.allocate(path, self._files.file_size)
        try:
            mapping = files.map(path)
        except OSError:
            files.remove(path)
            raise
        _touch(mapping, 0, touch)
        return path, mapping

    def _made(self, made: tuple[str, IMapping]) -> None:
        if self._spare is not None or self._stopping:
            self._discard(made)
            return
        if self._env.buggify("log.no-spare"):
            self._discard(made)
            if self._no_file is not None:  # no append asks for a file while they are refused
                self._try_again_later()
            return
        self._spare = made
        if self._no_file is not None:
            self._log.info("a CommitLog file could be allocated; messages are accepted again")
            self._no_file = None
            self._update()

    def _not_made(self, failure: Failure) -> None:
        failure.trap(OSError)
        self._log.warn("no CommitLog file could be allocated ahead of need: {error}", error=str(failure.value))
        self._try_again_later()

    def _discard(self, made: tuple[str, IMapping]) -> None:
        path, mapping = made
        mapping.close()
        self._env.files.remove(path)

    # -- refusing ----------------------------------------------------------------------------------------------

    def usage(self) -> tuple[int, int]:
        """
        Return (total, free) bytes of the store's file system, or of that of the log if less of that is free.

        Blocking, for any lane.

        @raise OSError: the system cannot say.
        """
        places = {self._root, posixpath.dirname(self._directory)}
        found: list[tuple[int, int]] = [self._env.files.usage(place) for place in places]
        return min(found, key=lambda one: one[1] / max(one[0], 1))

    def note_usage(self, total: int, free: int) -> None:
        """Refuse messages, or take them again, by the room on the disk (L20)."""
        settings = self._settings
        reason = None
        if free < settings.disk_free_minimum:
            reason = (
                f"only {size_text(free)} are free on the disk of the store, {size_text(settings.disk_free_minimum)} are"
                " demanded"
            )
        elif total and (total - free) / total > settings.disk_full_ratio:
            reason = (
                f"the disk of the store is {100 * (total - free) / total:.1f} % full,"
                f" {100 * settings.disk_full_ratio:.0f} % are allowed"
            )
        if (reason is None) != (self._disk_full is None):
            if reason is not None:
                self._log.warn("no more messages are accepted: {reason}", reason=reason)
            else:
                self._log.info("the disk has room again; messages are accepted")
        self._disk_full = None if reason is None else Refusal(RefusalKind.DISK_FULL, reason)
        self._update()
        if reason is not None:
            self._try_again_later()

    def make_use(self, total: int, free: int) -> None:
        """Take messages again at once where files were removed; the arguments are those of L{note_usage}."""
        self.note_usage(total, free)
        if self._retry is not None:
            self._retry.reset(0)

    @property
    def ahead(self) -> int:
        """Bytes that the next log file will take; 0 where it has its blocks already."""
        return self._files.file_size if self._spare is None else 0

    def _failed(self, error: OSError) -> None:
        reason = f"no room for a CommitLog file of {self._files.file_size} B: {error.strerror}"
        self._no_file = Refusal(RefusalKind.NO_ROOM, reason)
        self._log.warn("no more messages are accepted: {reason}", reason=reason)
        self._update()
        self._try_again_later()

    def _update(self) -> None:
        refusal = self._no_file or self._disk_full
        if refusal != self.refusal:
            self.refusal = refusal
            self._changed()

    def _try_again_later(self) -> None:
        if self._retry is None and not self._stopping:
            self._retry = self._env.clock.callLater(self._settings.retry_interval, self._try_again)

    def _try_again(self) -> None:
        self._retry = None
        if self._working is None:
            self._work(Deferred.fromCoroutine(self._again()))
        else:
            self._try_again_later()

    async def _again(self) -> None:
        if self._disk_full is not None:
            try:
                total, free = await self._env.threads.run(LANE, self.usage)
            except OSError:
                self._log.failure("the free space of the store's disk cannot be read")
                self._try_again_later()
            else:
                self.note_usage(total, free)
        if self._spare is not None or self._follows(self._file):
            # There is a file, if perhaps without blocks, or one that could not be renamed: the next append tries again.
            self._no_file = None
            self._update()
        elif not self._stopping:
            await self._prepare()

    async def stop(self) -> None:
        """Wait for the lane, and remove the spare file."""
        self._stopping = True
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._working is not None:
            done: Deferred[None] = Deferred()
            self._working.addBoth(lambda result: done.callback(None))
            await done
        if self._spare is not None:
            self._discard(self._spare)
            self._spare = None
        if posixpath.dirname(self._directory) == self._files.directory:
            try:
                self._env.files.remove_directory(self._directory)  # it means nothing to a RocketMQ broker
            except OSError:
                self._log.failure("{path} could not be removed", path=self._directory)
