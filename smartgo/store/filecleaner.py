"""
The removal of old files from a store that runs: log files by the rules of L{smartgo.store.retention}, then what led to
their messages alone.

The order, so that a process that is killed anywhere leaves a store in order (reliability D13):

 1. A log file goes out of the log's table: the log begins behind it, and nobody finds it any more. One that a slave is
    being sent stays, for a time; one that has messages which wait for a delivery time stays until their copies are
    flushed.
 2. The file is removed by a thread when the last slice of it that a reader holds is released, or after a time.
 3. Every queue begins with the first message that is left, and the table of queues says so on the disk.
 4. Queue files without a message that is left are removed, and the dispatchers remove theirs.

A log file that comes back, as its removal was not durable, or the process was killed before step 2, is the oldest file
of the next start, and goes again; queue units for it may be missing.

A timer runs only while the log has a file that may be removed: the newest one never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment, IMapping
from smartgo.store.allocate import LogSpace
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.checkpointer import Checkpointer
from smartgo.store.commitlog import CommitLog
from smartgo.store.flush import Flusher
from smartgo.store.interfaces import IDispatcher, ILogNeed, PutStatus
from smartgo.store.mappedfile import OpenMappings
from smartgo.store.queues.expiry import LANE, QueueExpiry
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.queues.removal import QueueRemoval
from smartgo.store.retention import (
    BATCH,
    AgreeingClocks,
    DiskSpace,
    LogFile,
    Removal,
    RemovalReason,
    RetentionMoment,
    RetentionPlan,
    RetentionRules,
    decide,
    shortage,
)

_SOON: Final = 1.0  # seconds between two looks, at most, where a file is being read, or the disk is short
_ASKED: Final = 20  # looks for which a request to remove expired files holds (MAX_MANUAL_DELETE_FILE_TIMES)

Readers = Callable[[], Iterable[int]]
"""Returns physical offsets that are about to be read; called on the reactor thread, must not block."""


@dataclass(frozen=True)
class CleanedParts:
    """The parts of a store that files are removed from."""

    log: CommitLog
    queues: ConsumeQueues
    mappings: OpenMappings
    space: LogSpace
    flusher: Flusher
    checkpointer: Checkpointer
    removal: QueueRemoval


@dataclass
class RemovedFiles:
    """
    Counts of the files that were removed since the start.

    @ivar log_files: files of the log, C{log_bytes} their bytes; C{by_reason} the same files.
    @ivar queue_files: files of queues.
    @ivar last: the last log file; C{last_ms} when it was removed, by the wall clock.
    """

    log_files: int
    log_bytes: int
    queue_files: int
    by_reason: dict[RemovalReason, int]
    last: Removal | None = None
    last_ms: int = 0


class _Retired(NamedTuple):
    """A file that is in the log no more, and is removed when nobody reads it."""

    removal: Removal
    mapping: IMapping | None
    latest: float
    """When it is removed at the latest, in seconds of the clock."""


class FileCleaner:
    """
    Removes the files of one open store that retention lets go.

    @ivar rules: the settings in force; C{None}: nothing is ever removed.
    @ivar removed: what was removed since the start.
    @ivar readers: physical offsets that slaves are sent next: their files are kept for a time.
    @ivar masters: of a slave: returns what L{RetentionMoment.master_minimum} is.
    @ivar needs: what needs files that are about to go, however long.
    @ivar obstacle: why the file that was to go at the last look cannot, by one of C{needs}.
    @ivar expiry: moves the first offsets of queues; its C{listeners} hear of messages that are gone.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        parts: CleanedParts,
        dispatchers: Iterable[IDispatcher],
        rules: RetentionRules | None,
    ) -> None:
        """@param dispatchers: told of the log's new beginning when the files are gone."""
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._buggify = env.buggify
        self._commitlog = parts.log
        self._parts = parts
        self._dispatchers = dispatchers
        self._clocks = AgreeingClocks()
        self._task = BackgroundTask("retention")
        self._timer: IDelayedCall | None = None
        self._pause: tuple[IDelayedCall, Deferred[None]] | None = None
        self._running = self._stopped = False
        self._next = 0.0  # before that time nobody looks again
        self._asked = 0  # looks for which expired files go at any hour
        self._retired: list[_Retired] = []
        self._kept_since: dict[int, float] = {}  # base of a file that somebody reads -> when it was to go first
        self._followed = parts.log.minimum  # the queues begin behind this physical offset
        self._cleaned = 0  # the files of queues and dispatchers too; a killed process may have left some
        self.rules = rules
        self.removed = RemovedFiles(0, 0, 0, dict.fromkeys(RemovalReason, 0))
        self.readers: list[Readers] = []
        self.masters: list[Callable[[], int | None]] = []
        self.needs: list[ILogNeed] = []
        self.obstacle: str | None = None
        self.expiry = QueueExpiry(env.threads, env.files, parts.queues)

    # -- for the store -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look after the files."""
        if self.rules is not None:
            self._schedule(self.rules.first_look)

    def flushed(self, usage: tuple[int, int] | None) -> None:
        """
        Take note that the log was flushed, and so may have a file more; cheap.

        @param usage: (total, free) bytes of the disk, where known: nobody waits for the next look where it is short.
        """
        rules = self.rules
        if rules is None or self._running or self._stopped:
            return
        if self._timer is None:
            self._schedule(rules.interval)
        now = self._clock.seconds()
        if usage is None or self._timer is None or now < self._next or self._timer.getTime() <= self._next:
            return
        if shortage(DiskSpace(*usage, self._parts.space.ahead), rules) is not None:
            self._timer.reset(0)

    def change_rules(self, rules: RetentionRules | None) -> None:
        """Follow other settings from the next look on, which is an interval away at most."""
        self.rules = rules
        if rules is not None and not self._running:
            self._cancel_timer()
            self._schedule(rules.interval)

    def plan(self) -> Deferred[RetentionPlan]:
        """
        Return which log files would go now if somebody asked for it, and why the next one stays; nothing is changed.

        @raise OSError: through the Deferred: the disk cannot be asked.
        """
        return Deferred.fromCoroutine(self._plan_removal())

    async def _plan_removal(self) -> RetentionPlan:
        plan = await self._plan(self.rules or RetentionRules(), True, None)
        for number, removal in enumerate(plan.removals):
            for need in self.needs:
                obstacle = need.obstacle(removal.file.base + removal.file.size)
                if obstacle is not None:
                    return RetentionPlan(plan.removals[:number], obstacle)
        return plan

    def clean(self, expired: bool = True) -> Deferred[None]:
        """
        Remove what is due now; fires when that is done, and never fails. A store without rules removes nothing.

        @param expired: remove expired files at this and the next looks, whatever the hour, as RocketMQ's
            C{executeDeleteFilesManually}; else only what is due anyway, and queue files that lead to nothing.
        """
        self._asked = _ASKED if expired else self._asked
        if self._running:
            return Deferred.fromCoroutine(self._task.idle())
        self._cancel_timer()
        return self._look()

    async def stop(self) -> None:
        """End the removal of files: those that are out of the log already go now; fires when nothing runs."""
        self._stopped = True
        self._cancel_timer()
        if self._pause is not None:
            call, waiting = self._pause
            call.cancel()
            waiting.callback(None)
        await self._task.idle()
        try:
            await self._remove_retired(forced=True)
        except OSError as error:
            self._log.warn("{error}; the next start finds the file again", error=str(error))

    # -- time --------------------------------------------------------------------------------------------------

    def _schedule(self, delay: float) -> None:
        unfinished = self._retired or self._cleaned < self._commitlog.minimum
        if self.rules is None or self._stopped or not (unfinished or len(self._commitlog.files.files) > 1):
            return
        self._timer = self._clock.callLater(delay, self._due)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._look()

    def _look(self) -> Deferred[None]:
        """Remove what is to go now; fires when that is done, and never fails."""
        self._running = True
        self._next = self._clock.seconds() + self._soon
        return self._task.follow(Deferred.fromCoroutine(self._clean()), lambda _: None).addBoth(self._looked)

    def _looked(self, _: object) -> None:
        self._running = False
        if self.rules is not None:
            self._schedule(self._soon if self._retired else self.rules.interval)

    @property
    def _soon(self) -> float:
        return _SOON if self.rules is None else min(_SOON, self.rules.interval)

    async def _wait(self, seconds: float) -> None:
        """Let others use the disk for a while; not when the store is being closed."""
        if not self._stopped:
            waiting: Deferred[None] = Deferred()
            self._pause = self._clock.callLater(seconds, waiting.callback, None), waiting
            await waiting
            self._pause = None

    # -- log files ---------------------------------------------------------------------------------------------

    async def _plan(self, rules: RetentionRules, asked: bool, most: int | None) -> RetentionPlan:
        """
        Ask the disk, and decide.

        @param most: of so many files the time of the last change is looked up; C{None}: of all.
        """
        parts = self._parts
        files = [(file.path, file.base, file.size) for file in self._commitlog.files.files]
        (total, free), modified = await self._threads.run(LANE, self._ask_disk, [path for path, _, _ in files[:most]])
        now_ms = self._clock.wall_ms()
        agree = self._clocks.read(self._clock.seconds(), now_ms)
        going = sum(one.removal.file.size for one in self._retired)
        moment = RetentionMoment(
            now_ms,
            int((now_ms / 1000 + self._clock.utc_offset()) // 3600 % 24),
            DiskSpace(total, min(total, free + going), parts.space.ahead),
            min(parts.checkpointer.position, parts.flusher.flushed),
            asked,
            agree,
            self._clocks.compared,
            next((minimum() for minimum in self.masters), None),
        )
        modified += [now_ms] * (len(files) - len(modified))
        return decide([LogFile(*file, changed) for file, changed in zip(files, modified, strict=True)], moment, rules)

    def _ask_disk(self, paths: list[str]) -> tuple[tuple[int, int], list[int]]:
        """Return the room on the disk, and when files were changed; in the lane."""
        return self._parts.space.usage(), [self._modified_ms(path) for path in paths]

    def _modified_ms(self, path: str) -> int:
        try:
            return int(self._files.modified_ms(path))
        except FileNotFoundError:
            return 0  # somebody else removed it

    async def _clean(self) -> None:
        rules, parts = self.rules, self._parts
        if rules is None or parts.flusher.failed is not None:
            return
        asked = self._asked > 0 or self._buggify("retention.any-hour")
        self._asked = max(0, self._asked - 1)
        plan = await self._plan(rules, asked, BATCH + 1)
        self.obstacle = None
        before = self.removed.log_files
        for number, removal in enumerate(plan.removals[:BATCH]):
            if number:
                await self._wait(rules.file_pause)
            if self._stopped or not self._retire(removal, rules):
                break
            await self._remove_retired()
        await self._remove_retired()
        if self.removed.log_files > before:
            await self._threads.run(LANE, self._files.sync_directory, self._commitlog.files.directory)
            parts.space.make_use(*await self._threads.run(LANE, parts.space.usage))
        await self._follow(rules)

    def _retire(self, removal: Removal, rules: RetentionRules) -> bool:
        """Take the oldest file out of the log, unless somebody needs it; return whether it was."""
        file = self._commitlog.files.files[0]
        now = self._clock.seconds()
        if file.base != removal.file.base or file.pins or len(self._commitlog.files.files) < 2:
            return False
        if not all(need.release(file.end) for need in self.needs):
            self.obstacle = next(filter(None, (need.obstacle(file.end) for need in self.needs)), None)
            return False
        if any(file.base <= offset < file.end for readers in self.readers for offset in readers()):
            since = self._kept_since.setdefault(file.base, now)
            if now - since < rules.longest_hold:
                return False
        self._kept_since.clear()
        self._log.info("{path} is removed: {why}", path=file.path, why=removal.words)
        self._commitlog.files.forget_oldest()
        mapping = file.mapping
        self._parts.mappings.close(file)
        self._retired.append(_Retired(removal, mapping, now + rules.longest_hold))
        return True

    async def _remove_retired(self, forced: bool = False) -> None:
        """
        Remove the files that are out of the log, the oldest first, as far as nobody reads them.

        @raise OSError: a file cannot be removed; it is tried again.
        """
        while self._retired:
            one = self._retired[0]
            if not (forced or one.mapping is None or one.mapping.released or self._clock.seconds() >= one.latest):
                break
            await self._threads.run(LANE, self._remove, one.removal.file.path)
            del self._retired[0]
            self.removed.log_files += 1
            self.removed.log_bytes += one.removal.file.size
            self.removed.by_reason[one.removal.reason] += 1
            self.removed.last, self.removed.last_ms = one.removal, self._clock.wall_ms()

    def _remove(self, path: str) -> None:
        """Remove a file, which somebody may have removed already; in the lane."""
        try:
            self._files.remove(path)
        except FileNotFoundError:
            self._log.warn("{path} was removed by somebody else", path=path)

    # -- what led to them --------------------------------------------------------------------------------------

    async def _follow(self, rules: RetentionRules) -> None:
        """Let the queues and the dispatchers follow the beginning of the log."""
        minimum = self._commitlog.minimum
        if minimum > self._followed:
            await self.expiry.move(minimum)
            if await self._parts.checkpointer.save(table=True) is not PutStatus.OK:
                return  # the next look tries again
            self._followed = minimum
        if self._cleaned < self._followed and not self._retired:
            await self._remove_queue_files(rules)
            for dispatcher in self._dispatchers:
                dispatcher.expire(self._followed)
            self._cleaned = self._followed

    async def _remove_queue_files(self, rules: RetentionRules) -> None:
        parts = self._parts
        batch = 0
        for queue in list(parts.queues):
            if self._stopped:
                return
            if queue.dropped or queue.expired() is None:
                continue
            if batch >= BATCH:
                await self._wait(rules.queue_file_pause)
                batch = 0
            count, moved = parts.removal.move_expired_away(queue)
            if count:
                batch += count
                self.removed.queue_files += count
                await parts.removal.remove_moved(moved)
