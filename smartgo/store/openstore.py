"""
An open message store: one log, its queues, and what keeps both on the disk.

It is whole: L{smartgo.store.opening} makes it from what recovery found, and all that it has works until it is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import MessageIllegal, ServiceNotAvailable
from smartgo.observer import ObserverList, OneShotObserver
from smartgo.schema.message import NewMessage
from smartgo.schema.refusalkind import RefusalKind
from smartgo.schema.regions import Region
from smartgo.store.ackpolicy import AllOf
from smartgo.store.allocate import LogSpace
from smartgo.store.backup import BackupSource, StoreBackup
from smartgo.store.checkpointer import Checkpointed, Checkpointer
from smartgo.store.commitlog import CommitLog
from smartgo.store.damagerepair import DamageRepair
from smartgo.store.dispatch import QueueDispatch
from smartgo.store.filecleaner import CleanedParts, FileCleaner
from smartgo.store.flush import Flusher
from smartgo.store.index.messageindex import MessageIndex
from smartgo.store.index.recovery import OFF
from smartgo.store.integrity import LogIntegrity
from smartgo.store.interfaces import (
    Appended,
    IArrivalListener,
    IDispatcher,
    IFlushPolicy,
    IMessageStore,
    PutStatus,
)
from smartgo.store.logcopies import LogCopies
from smartgo.store.messagelookup import MessageLookup
from smartgo.store.messagereader import MessageReader
from smartgo.store.queues.removal import QueueRemoval
from smartgo.store.rawlog import RawLog
from smartgo.store.recovery.recovered import RecoveredStore
from smartgo.store.refusal import Refusal
from smartgo.store.replicatedlog import IReplicatedLog
from smartgo.store.replicawriter import ReplicaWriter
from smartgo.store.settings import StoreSettings
from smartgo.store.storedirectory import StoreDirectory
from smartgo.store.storereads import StoreReads
from smartgo.store.timer.slotstorage import SlotStorage
from smartgo.store.timer.source import TimerSource
from smartgo.store.timer.timerlog import TimerLog

T = TypeVar("T")


@implementer(IMessageStore, IReplicatedLog)
class OpenStore(StoreReads):
    """
    An open store, whole: see L{IMessageStore} and L{IReplicatedLog}.

    @ivar root: the directory.
    @ivar ack_policy: when messages may be acknowledged.
    @ivar cleaner: removes old files by the rules of retention.
    @ivar backup: makes copies of the store while it runs.
    @ivar copies: appends copies of stored messages, on a full disk too.
    @ivar timers: the messages that wait for a delivery time; C{None} where none are delivered from here.
    """

    _log = Logger()

    def __init__(
        self, env: IEnvironment, directory: StoreDirectory, settings: StoreSettings, recovered: RecoveredStore
    ) -> None:
        """
        Make all parts, and begin to work.

        @param directory: released when the store is closed.
        @raise OSError: files that a killed process left could not be removed, or the disk cannot be asked for its room.
        """
        self.root = root = directory.root
        self._directory = directory
        self._settings = settings
        self._is_open = True
        self._closed: OneShotObserver[None] | None = None
        self._held_back: Refusal | None = None
        self._trouble: Refusal | None = None  # the part of the refusal that is not for sends alone
        self._refusal: Refusal | None = None
        self.accepts = False
        self._failure: ObserverList[[str]] = ObserverList("the store's failure")
        self._listeners: list[IArrivalListener] = []
        self._run_ended: ObserverList[[int]] = ObserverList("the end of the log")
        self._log_flushed: ObserverList[[int]] = ObserverList("a flush of the log")
        mappings, queues, log_files = directory.mappings, recovered.queues, recovered.log_files
        begin, checkpoint = recovered.log_position, recovered.checkpoint
        space = self._space = LogSpace(env, root, log_files, mappings, settings, begin, self._reconsider)
        log = CommitLog(log_files, mappings, space, env.clock.wall_ms, settings, begin, env.buggify)
        flusher = self._flusher = Flusher(env, mappings, log, settings, space.usage, self._flushed, self._failed)
        self.ack_policy: IFlushPolicy = flusher
        self.copies = LogCopies(log, queues, lambda: (self._refusal, self._held_back))
        index: MessageIndex | None = None
        self._dispatchers: list[IDispatcher] = []
        if recovered.kept_index is not None:
            kept, index_ms = recovered.kept_index, checkpoint.index_ms
            index = MessageIndex(env, root, log, settings, kept, index_ms, self._index_changed)
            self._dispatchers.append(index)
        dispatch = self._dispatch = QueueDispatch(
            log,
            queues.staged,
            settings.dispatches_after_flush,
            lambda: flusher.flushed,
            self._listeners,
            self._dispatchers,
            flusher.fail,
        )
        checkpointed = Checkpointed(log, queues, flusher, dispatch, index)
        self._checkpointer = Checkpointer(env, directory.checkpoints, mappings, checkpointed, settings, checkpoint)
        self._removal = QueueRemoval(env.threads, env.files, root, queues, mappings, self._checkpointer, flusher.fail)
        cleaned = CleanedParts(log, queues, mappings, space, flusher, self._checkpointer, self._removal)
        self.cleaner = FileCleaner(env, cleaned, self._dispatchers, settings.retention)
        memory = int(env.host.memory * settings.memory_ratio)
        known = (recovered.verified_from, recovered.damage)
        integrity = LogIntegrity(env, root, log, known, lambda: flusher.flushed, settings.scrub_rate)
        self.cleaner.expiry.listeners.append(lambda _: integrity.verified.release())
        self._replica = ReplicaWriter(env, checkpointed, self._checkpointer, self._removal, self.cleaner, integrity)
        self._damage_repair = DamageRepair(checkpointed, self._checkpointer, integrity.damage, env)
        reader = MessageReader(log, queues.by_key, settings, memory, env.threads, env.files, integrity.verified)
        lookup = MessageLookup(log, reader, env.threads, env.files)
        raw_log = RawLog(log, reader, env.threads, env.files, integrity.verified)
        super().__init__(log, queues, reader, lookup, raw_log, index, integrity)
        self.timers: TimerLog | None = None
        if settings.timers and not settings.replica:
            source = TimerSource(log, queues, reader, lambda: flusher.flushed)
            self.timers = TimerLog(env, root, source, settings.timers_in_memory)
            self._dispatchers.append(self.timers)
            self._log_flushed.add(self.timers.log_flushed)
        elif settings.replica:
            SlotStorage(env.files, root).forget()
        copied = BackupSource(log, flusher, self._checkpointer)
        self.backup = StoreBackup(env, root, copied, self.flush, settings.disk_free_minimum)
        usage = space.usage()
        self._removal.clear(recovered.checkpoint.table_saved)
        space.clear()
        space.start(*usage)
        for dispatcher in self._dispatchers:
            dispatcher.start()
        integrity.scrub.open()
        self.cleaner.start()
        self._reconsider()

    # -- closing -----------------------------------------------------------------------------------------------

    def close(self) -> Deferred[None]:
        """Flush everything, write the last checkpoint, release the directory; fires when nothing runs any more."""
        if self._closed is None:
            self._closed = OneShotObserver.of(Deferred.fromCoroutine(self._close()))
        return self._closed.when()

    async def _close(self) -> None:
        self.end_run()
        self._is_open = False
        self._reconsider()
        for dispatcher in self._dispatchers:
            dispatcher.stop()
        await self._replica.stop()
        await self.backup.stop()
        await self._flusher.stop()
        await self._space.stop()
        await self.cleaner.stop()
        await self._removal.idle()
        await self._integrity.close()
        indexed = OFF
        try:
            is_flushed = {dispatcher.name: await dispatcher.flush() for dispatcher in self._dispatchers}
            if self._index is not None and is_flushed[self._index.name]:
                indexed = self._index.position
            await self._checkpointer.stop(indexed)
        finally:
            self._by_key.clear()  # late readers find nothing, and map nothing
            self._commitlog.close()
            for dispatcher in self._dispatchers:
                dispatcher.close()
            self._directory.release()

    # -- refusing ----------------------------------------------------------------------------------------------

    def when_failed(self, callback: Callable[[str], None]) -> None:
        """Call C{callback} with the reason when a flush failed: the store takes no more messages for good (D4)."""
        self._failure.add(callback)

    def _reconsider(self) -> None:
        """Compute the refusal anew."""
        if not self._is_open:
            self._trouble = Refusal(RefusalKind.CLOSED, "the store is closed")
        elif self._flusher.failed is not None:
            self._trouble = Refusal(RefusalKind.FAILED, f"the store failed: {self._flusher.failed}")
        else:
            self._trouble = self._space.refusal
        self._refusal = self._trouble or self._held_back
        if self._settings.replica and self._refusal is None:
            words = "the store is a slave's: it takes what its master sends, and nothing else"
            self._refusal = Refusal(RefusalKind.SLAVE, words)
        self.accepts = self._refusal is None

    def hold_back(self, reason: str | None) -> None:
        """
        Take no messages while the broker may not be a master; reads go on.

        @param reason: the sentence that sends are refused with; C{None}: take messages again.
        """
        self._held_back = None if reason is None else Refusal(RefusalKind.NOT_MASTER, reason)
        self._reconsider()

    def _failed(self) -> None:
        self._reconsider()
        self._failure.tell(str(self._flusher.failed))

    @property
    def refusal(self) -> Refusal | None:
        """The reason why messages are refused now, on a slave those of its master; C{None} while they are accepted."""
        return self._trouble or self._held_back

    # -- writing -----------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[NewMessage]) -> Appended:
        """See L{IMessageStore.append}."""
        if self._refusal is not None:
            raise ServiceNotAvailable(self._refusal.words)
        if not messages:
            raise MessageIllegal("a batch of no messages")
        message = messages[0]
        key = (message.topic, message.queue_id)
        queue = self._by_key.get(key)
        if queue is None:
            queue = self._queues.create(*key)
        return self._commitlog.append((queue,), messages)

    def end_run(self) -> None:
        """See L{IMessageStore.end_run}."""
        end = self._commitlog.end
        if end == self._dispatch.run_end:
            self._commitlog.end_run()  # a message that was refused may have begun it
            return
        self._dispatch.end_run()
        if end >= self._space.watch:
            self._space.advance(end)
        self._flusher.appended(end)
        if end <= self._flusher.flushed:  # a flush covered the run before its end
            self._checkpointer.advance()
        self._run_ended.tell(end)

    def durable(self, appended: Appended) -> Deferred[PutStatus] | None:
        """See L{IMessageStore.durable}."""
        found: Deferred[PutStatus] | None = self.ack_policy.durable(appended.end)
        return found

    def add_ack_policy(self, policy: IFlushPolicy) -> None:
        """See L{IMessageStore.add_ack_policy}."""
        self.ack_policy = AllOf(self.ack_policy, policy)

    def flush(self) -> Deferred[PutStatus]:
        """See L{IMessageStore.flush}."""
        return Deferred.fromCoroutine(self._flush())

    async def _flush(self) -> PutStatus:
        if not self._is_open:
            return PutStatus.FLUSH_DISK_TIMEOUT
        self.end_run()
        self._flusher.flush()
        status = await self._flusher.wait(self._commitlog.end)
        if status is PutStatus.OK:
            status = await self._checkpointer.save()
        return status

    def _index_changed(self) -> None:
        self._checkpointer.index_changed()

    def _flushed(self, usage: tuple[int, int] | None) -> None:
        self._dispatch.flushed(self._flusher.flushed)
        if usage is not None:
            self._space.note_usage(*usage)
        self.cleaner.flushed(usage)
        self._checkpointer.advance()
        self._log_flushed.tell(self._flusher.flushed)

    # -- replication -------------------------------------------------------------------------------------------

    @property
    def settings(self) -> StoreSettings:
        """The settings that the store was opened with."""
        return self._settings

    @property
    def flushed(self) -> int:
        """See L{IReplicatedLog.flushed}."""
        return self._flusher.flushed

    @property
    def doubtful_from(self) -> int:
        """See L{IReplicatedLog.doubtful_from}."""
        return self._replica.doubtful_from

    def believe(self) -> None:
        """See L{IReplicatedLog.believe}."""
        self._replica.believe()

    def repair(self, records: Mapping[int, bytes]) -> Deferred[None]:
        """See L{IReplicatedLog.repair}."""
        if self._trouble is not None:
            return fail(ServiceNotAvailable(self._trouble.words))
        return self._replica.repair(records).addBoth(self._repaired)

    def _repaired(self, result: T) -> T:
        if self._is_open:
            self.end_run()
        return result

    @property
    def marked_from(self) -> int:
        """See L{IReplicatedLog.marked_from}."""
        return self._checkpointer.marked_from

    def learn_marks(self, marked_from: int) -> Deferred[None]:
        """See L{IReplicatedLog.learn_marks}."""
        return Deferred.fromCoroutine(self._replica.learn_marks(marked_from))

    def begin_anew(self, offset: int, wanted: bool = False) -> Deferred[None]:
        """See L{IReplicatedLog.begin_anew}."""
        if self._trouble is not None:
            return fail(ServiceNotAvailable(self._trouble.words))
        if not self._settings.replica:
            return fail(ServiceNotAvailable("the store is a master's"))
        return self._replica.begin_anew(offset, wanted)

    def drop_torn(self) -> int:
        """See L{IReplicatedLog.drop_torn}."""
        self._replica.drop_torn()
        return self._commitlog.end

    def expect_damage(self, offset: int, end: int) -> None:
        """See L{IReplicatedLog.expect_damage}."""
        self._replica.expect_damage(offset, end)

    def repair_damage(self, region: Region, data: bytes, source: str = "") -> Deferred[None]:
        """Put a damaged region right with what another copy of the log has there; see L{DamageRepair.repair}."""
        return self._damage_repair.repair(region, data, source)

    def follow(self, listener: Callable[[int], None]) -> None:
        """See L{IReplicatedLog.follow}."""
        self._run_ended.add(listener)

    def follow_flushes(self, listener: Callable[[int], None]) -> None:
        """See L{IReplicatedLog.follow_flushes}."""
        self._log_flushed.add(listener)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """See L{IReplicatedLog.append_raw}."""
        if self._trouble is not None:
            raise ServiceNotAvailable(self._trouble.words)
        if not self._settings.replica:
            raise ServiceNotAvailable("the store is a master's: its log is its own, and takes no bytes of another")
        try:
            self._replica.append(offset, data)
        finally:
            self.end_run()

    # -- topics and listeners ----------------------------------------------------------------------------------

    def subscribe(self, listener: IArrivalListener) -> None:
        """See L{IMessageStore.subscribe}."""
        self._listeners.append(listener)

    def delete_topic(self, topic: str, since: int | None = None) -> Deferred[None]:
        """
        See L{IMessageStore.delete_topic}. A topic of that name can be used anew at once, from offset 0 on.

        @raise ServiceNotAvailable: through the Deferred: the store is closed, or about to be, or failed.
        @raise OSError: through the Deferred: the deletion could not be saved, and nothing was changed; or the files
            could not be moved or removed.
        """
        trouble = self._trouble
        if trouble is not None and trouble.kind in (RefusalKind.CLOSED, RefusalKind.FAILED):
            return fail(ServiceNotAvailable(trouble.words))  # nothing is durable after a failure, nor would this be
        self.end_run()
        kept = {} if since is None else self._replica.begun_since(topic, since)
        try:
            return self._removal.drop(topic, min([self._commitlog.whole, *kept.values()]), kept)
        except OSError as error:
            return fail(error)

    async def deletions_saved(self) -> None:
        """See L{IMessageStore.deletions_saved}."""
        await self._removal.idle()
        trouble = self._trouble
        if trouble is not None and trouble.kind in (RefusalKind.CLOSED, RefusalKind.FAILED):
            raise ServiceNotAvailable(trouble.words)
