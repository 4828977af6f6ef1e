"""
The restart of a slave's log at a later place, where its master's log begins: all that it had goes, as by retention.

A slave that was away until its master had removed what it still needed cannot go on: its log would have a hole. It may
begin anew where its own messages have expired, too (C{fileReservedTime}), or where somebody wants that.

The order, so that a process that is killed anywhere leaves a store that opens:

 1. Every queue ends, in memory.
 2. A checkpoint and the table of queues say that the log is empty and begins at the new place. Until that is on the
    disk the store has all its messages; from then on its log files are left over, whatever else happens.
 3. The log begins at the new place, and takes what the master sends.
 4. The files are removed by a thread, one after another; the next start removes those that are still there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import MessagesKept, OutOfPlace, ServiceNotAvailable
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.checkpointer import Checkpointed, Checkpointer
from smartgo.store.filecleaner import FileCleaner
from smartgo.store.interfaces import PutStatus
from smartgo.store.queues.expiry import LANE
from smartgo.store.retention import AgreeingClocks, RetentionRules, doubt_of_age

_HOUR: Final = 3600.0


class LogRestart:
    """Restarts the log of one slave's store."""

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        parts: Checkpointed,
        checkpointer: Checkpointer,
        cleaner: FileCleaner,
        begin: Callable[[int], None],
    ) -> None:
        """
        @param cleaner: has the rules of retention, and moves the first offsets of queues.
        @param begin: lets a log without files begin at a physical offset.
        """
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._parts = parts
        self._checkpointer = checkpointer
        self._cleaner = cleaner
        self._begin = begin
        self._clocks = AgreeingClocks()
        self._removal = BackgroundTask("the removal of the old log")
        self._stopped = False

    async def restart(self, offset: int, wanted: bool) -> None:
        """
        See L{IReplicatedLog.begin_anew<smartgo.store.replicatedlog.IReplicatedLog.begin_anew>}.

        @raise OutOfPlace: the log does not end before C{offset}, or no log file begins there; nothing was changed.
        @raise MessagesKept: its messages have not expired; nothing was changed.
        @raise ServiceNotAvailable: the disk failed; it can be tried again.
        """
        log, flusher = self._parts.log, self._parts.flusher
        first, end = log.minimum, log.end
        if offset <= end or offset % log.files.file_size:
            raise OutOfPlace(f"the log, which ends at {end}, cannot begin anew at {offset}")
        kept = None if wanted else self._why_kept()
        if kept is not None:
            raise MessagesKept(kept)
        flusher.flush()
        if await flusher.wait(end) is not PutStatus.OK:
            raise ServiceNotAvailable("the log could not be flushed")
        try:
            await self._cleaner.expiry.move(offset)
        except OSError as error:
            raise ServiceNotAvailable(f"a queue could not be read: {error}") from error
        if await self._checkpointer.begin_anew(offset) is not PutStatus.OK:
            raise ServiceNotAvailable("no checkpoint could be written")
        paths = log.forget_files()
        self._begin(offset)
        self._log.warn(
            "the log, which went from {first} to {end}, begins anew at {offset}; its {count} files are removed",
            first=first,
            end=end,
            offset=offset,
            count=len(paths),
        )
        self._removal.follow(Deferred.fromCoroutine(self._remove(paths, log.files.directory)), lambda _: None)

    def stop(self) -> Deferred[None]:
        """End the removal of files: the next start goes on with it; fires when nothing runs."""
        self._stopped = True
        return Deferred.fromCoroutine(self._removal.idle())

    def _why_kept(self) -> str | None:
        """Return why the messages of the log have not expired, C{None} where they have."""
        now_ms = self._clock.wall_ms()
        agree = self._clocks.read(self._clock.seconds(), now_ms)
        rules = self._cleaner.rules
        stored_ms = self._parts.log.stored_ms
        if rules is None:
            return "nothing is ever removed here"
        if not stored_ms:
            return "it is not known when the last message here was stored"
        return _not_expired((now_ms - stored_ms) / 1000, rules) or doubt_of_age(self._clocks.compared, agree)

    async def _remove(self, paths: Sequence[str], directory: str) -> None:
        """Remove log files, the oldest first."""
        for path in paths:
            if self._stopped:
                return
            await self._threads.run(LANE, self._remove_file, path)
        await self._threads.run(LANE, self._files.sync_directory, directory)

    def _remove_file(self, path: str) -> None:
        """Remove a file, which somebody may have removed already; in the lane."""
        try:
            self._files.remove(path)
        except FileNotFoundError:
            self._log.warn("{path} was removed by somebody else", path=path)


def _not_expired(age: float, rules: RetentionRules) -> str | None:
    """@param age: of the last message, in seconds."""
    if age >= rules.reserved:
        return None
    return (
        f"the last message here was stored {age / _HOUR:.1f} h ago, and messages are kept for"
        f" {rules.reserved / _HOUR:g} h (fileReservedTime)"
    )
