"""
The message store as a Service: one log, its queues, and what keeps both on the disk.

A store is opened (L{MessageStore.open}: lock, recovery), works, and is stopped once. It owns its directory: no other
process may have it, RocketMQ's brokers included, whose files these are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredLock, fail, succeed
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.env.interfaces import IDirectoryLock, IEnvironment
from smartgo.errors import MessageIllegal, ServiceNotAvailable
from smartgo.schema.consumequeue import Unit
from smartgo.schema.message import NewMessage
from smartgo.store.ackpolicy import AllOf
from smartgo.store.allocate import LogSpace
from smartgo.store.checkpoint import CheckpointFiles
from smartgo.store.checkpointer import Checkpointer
from smartgo.store.commitlog import CommitLog
from smartgo.store.dispatch import Follower, QueueDispatch
from smartgo.store.flush import Flusher
from smartgo.store.index.messageindex import MessageIndex
from smartgo.store.index.recovery import OFF
from smartgo.store.interfaces import (
    Appended,
    IArrivalListener,
    IDispatcher,
    IFlushPolicy,
    IMessageFilter,
    IMessageStore,
    IReplicatedLog,
    PutStatus,
    QueryResult,
    ReadLimit,
    ReadResult,
)
from smartgo.store.mappedfile import OpenMappings
from smartgo.store.messagelookup import MessageLookup
from smartgo.store.messagereader import MessageReader
from smartgo.store.queues.file import ConsumeQueue, QueueKey
from smartgo.store.queues.removal import QueueRemoval
from smartgo.store.rawlog import RawLog
from smartgo.store.recovery.recovery import RecoveredStore, Recovery
from smartgo.store.recovery.repair import LogRepair
from smartgo.store.replicalog import ReplicaLog
from smartgo.store.settings import StoreSettings

RECOVERY_LANE: Final = "prepare"
_FEWEST_MAPPINGS: Final = 16
_QUERY_SIZE: Final = 12 << 20  # bytes of records that one search returns: clients take frames of 16 MiB
_DESCRIPTOR_SHARE: Final = 8  # a mapping takes two descriptors; connections need the rest


@implementer(IMessageStore, IReplicatedLog)
class MessageStore(Service):
    """
    See L{IMessageStore} and L{IReplicatedLog}.

    @ivar root: the directory.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, root: str, settings: StoreSettings) -> None:
        """
        @param root: the store's directory, made if missing.
        """
        self._env = env
        self.root = root
        self._settings = settings
        self._lock: IDirectoryLock | None = None
        self._recovery: Recovery | None = None
        self._opening: Deferred[None] | None = None
        self._opened = False
        self._stopped: Deferred[None] | None = None
        self._refusal: str | None = "the store is not open"
        self._trouble: str | None = self._refusal  # the part of that which is not for sends alone
        self._held_back: str | None = None
        self._failure_callbacks: list[Callable[[str], None]] = []
        self._listeners: list[IArrivalListener] = []
        self._end_listeners: list[Callable[[int], None]] = []
        self._flush_listeners: list[Callable[[int], None]] = []
        self._demanded: list[IFlushPolicy] = []
        self._followers: list[Follower | MessageIndex] = []
        self._index: MessageIndex | None = None
        self._repairing = DeferredLock()
        self._by_key: dict[QueueKey, ConsumeQueue] = {}
        limit = min(settings.open_mappings, max(_FEWEST_MAPPINGS, env.host.open_file_limit() // _DESCRIPTOR_SHARE))
        self._mappings = OpenMappings(env.files, limit)
        self._checkpoints = CheckpointFiles(env.files, root)

    # -- life --------------------------------------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """
        Take the directory, recover what is in it, and be ready for work.

        @raise StoreHeld: through the Deferred: another process has the directory; nothing was changed.
        @raise ForeignFile: it holds what no store of ours can work with; nothing was changed.
        @raise StoreDamaged: the log is damaged in the middle.
        @raise OSError: as the system says.
        """
        self._opening = Deferred.fromCoroutine(self._open())
        waiting: Deferred[None] = Deferred()
        self._opening.addBoth(self._tell_opened, waiting)
        return waiting

    def _tell_opened(self, result: object, waiting: Deferred[None]) -> None:
        self._opening = None
        waiting.callback(result)  # type: ignore[arg-type]  # a Failure makes it an errback

    async def _open(self) -> None:
        env, settings = self._env, self._settings
        env.files.make_directories(self.root)
        self._lock = env.files.lock_directory(self.root)
        self._recovery = Recovery(env, self.root, settings, self._mappings, self._checkpoints)
        try:
            recovered = await env.threads.run(RECOVERY_LANE, self._recovery.run)
            self._begin(recovered)
        except BaseException:
            self._let_go()
            raise

    def _begin(self, recovered: RecoveredStore) -> None:
        env, settings = self._env, self._settings
        self._log_files = recovered.log_files
        self._queues = recovered.queues
        self._by_key = recovered.queues.by_key
        space = self._space = LogSpace(env, self.root, self._log_files, self._mappings, settings, self._reconsider)
        log = self._commitlog = CommitLog(
            self._log_files,
            self._mappings,
            space,
            env.clock.wall_ms,
            settings.max_message_size,
            settings.max_batch_count,
        )
        flusher = self._flusher = Flusher(
            env.clock,
            env.threads,
            env.files,
            self._mappings,
            log,
            settings,
            space.usage,
            self._flushed,
            self._failed,
        )
        self._policy: IFlushPolicy = flusher
        for policy in self._demanded:
            self._policy = AllOf(self._policy, policy)
        dispatch = self._dispatch = QueueDispatch(
            log,
            self._queues.staged,
            settings.dispatches_after_flush,
            lambda: flusher.flushed,
            self._listeners,
            flusher.fail,
        )
        index: MessageIndex | None = None
        if recovered.kept_index is not None:
            index = self._index = MessageIndex(env, self.root, log, settings, lambda: dispatch.end, self._index_changed)
        self._checkpointer = Checkpointer(
            env, self._checkpoints, self._mappings, self._queues, log, flusher, dispatch, index, settings
        )
        self._removal = QueueRemoval(
            env.threads, env.files, self.root, self._queues, self._mappings, self._checkpointer, flusher.fail
        )
        self._replica = ReplicaLog(log, self._queues, self._begin_log, self._retreat, self._drop)
        self._repair = LogRepair(log, self._queues, dispatch, flusher, self._checkpointer, self._replica)
        memory = int(env.host.memory * settings.memory_ratio)
        self._reader = MessageReader(log, self._by_key, settings, memory, env.threads, env.files)
        self._lookup = MessageLookup(log, self._reader, env.threads, env.files)
        self._pieces = RawLog(log, self._reader, env.threads, env.files)
        usage = space.usage()
        self._removal.clear(recovered.table_saved)
        space.clear()
        log.begin_at(recovered.end, recovered.file)
        log.stored_ms = recovered.stored_ms
        flusher.begin_at(recovered.end, recovered.stored_ms)
        dispatch.begin_at(recovered.end, recovered.stored_ms)
        self._checkpointer.begin_at(recovered.position, recovered.marked_from, recovered.index_ms, recovered.deleted)
        if recovered.doubtful_from < recovered.end:
            self._checkpointer.doubtful_from = recovered.doubtful_from
        space.begin_at(recovered.end, recovered.file)
        space.note_usage(*usage)
        if index is not None and recovered.kept_index is not None:
            index.begin_at(recovered.kept_index, recovered.end, recovered.index_ms)
            self._followers.append(index)
        self._opened = True
        self._reconsider()

    def stopService(self) -> Deferred[None]:
        """Flush all, write down where we are, let the directory go; fires when nothing of the store is left running."""
        if self.running:
            super().stopService()
        if self._stopped is None:
            self._stopped = Deferred.fromCoroutine(self._stop())
        waiting: Deferred[None] = Deferred()
        self._stopped.addBoth(self._pass_on, waiting)
        return waiting

    def _pass_on(self, result: None, waiting: Deferred[None]) -> None:
        waiting.callback(result)  # a Failure is told to the first that asked

    async def _stop(self) -> None:
        if self._opening is not None:
            if self._recovery is not None:
                self._recovery.cancelled = True
            done: Deferred[None] = Deferred()
            self._opening.addBoth(lambda _: done.callback(None))
            await done
        if not self._opened:
            self._let_go()
            return
        self.end_run()
        self._opened = False
        self._reconsider()
        for follower in self._followers:
            follower.stop()
        self._replica.stop()
        await self._flusher.stop()
        await self._space.stop()
        await self._removal.idle()
        indexed = OFF
        try:
            if self._index is not None and await self._index.close():
                indexed = self._index.position
            await self._checkpointer.stop(indexed)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        self._by_key.clear()  # late readers find nothing, and map nothing
        if self._index is not None:
            self._index.let_go()
        self._mappings.close_all()
        self._checkpoints.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # -- refusing ----------------------------------------------------------------------------------------------

    def when_failed(self, callback: Callable[[str], None]) -> None:
        """Call C{callback} with the reason when a flush failed: the store takes no more messages for good (D4)."""
        self._failure_callbacks.append(callback)

    def _reconsider(self) -> None:
        if not self._opened:
            self._trouble = "the store is closed"
        elif self._flusher.failed is not None:
            self._trouble = f"the store failed: {self._flusher.failed}"
        else:
            self._trouble = self._space.refusal
        self._refusal = self._trouble or self._held_back
        if self._settings.replica and self._refusal is None:
            self._refusal = "the store is a slave's: it takes what its master sends, and nothing else"

    def hold_back(self, reason: str | None) -> None:
        """
        Take no messages, for a reason that is the broker's and not ours; reads go on.

        @param reason: the sentence that sends are refused with; C{None}: take messages again.
        """
        self._held_back = reason
        self._reconsider()

    def _failed(self) -> None:
        self._reconsider()
        reason = str(self._flusher.failed)
        for callback in self._failure_callbacks:
            callback(reason)

    @property
    def refusal(self) -> str | None:
        """Why messages are refused now, a slave's those of its master; C{None} while they are taken."""
        return self._trouble or self._held_back

    # -- writing -----------------------------------------------------------------------------------------------

    def append(self, messages: Sequence[NewMessage]) -> Appended:
        """See L{IMessageStore.append}."""
        if self._refusal is not None:
            raise ServiceNotAvailable(self._refusal)
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
        for follower in self._followers:
            follower.advance()
        if self._end_listeners:
            self._tell(self._end_listeners, end)

    def durable(self, appended: Appended) -> Deferred[PutStatus] | None:
        """See L{IMessageStore.durable}."""
        found: Deferred[PutStatus] | None = self._policy.durable(appended.end)
        return found

    def demand(self, policy: IFlushPolicy) -> None:
        """See L{IMessageStore.demand}."""
        self._demanded.append(policy)
        if self._opened:
            self._policy = AllOf(self._policy, policy)

    def flush(self) -> Deferred[PutStatus]:
        """See L{IMessageStore.flush}."""
        return Deferred.fromCoroutine(self._flush())

    async def _flush(self) -> PutStatus:
        if not self._opened:
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
        if self._opened:
            for follower in self._followers:
                follower.advance()
        if usage is not None:
            self._space.note_usage(*usage)
        self._checkpointer.advance()
        self._tell(self._flush_listeners, self._flusher.flushed)

    def _tell(self, listeners: Iterable[Callable[[int], None]], position: int) -> None:
        for listener in listeners:
            try:
                listener(position)
            except Exception:  # a follower's bug must stop neither sends nor flushes
                self._log.failure("a follower of the log failed at {position}", position=position)

    # -- reading -----------------------------------------------------------------------------------------------

    def read(
        self, topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> ReadResult:
        """See L{IMessageStore.read}."""
        return self._reader.read(topic, queue_id, offset, limit, filter)

    def read_cold(
        self, topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> Deferred[ReadResult]:
        """See L{IMessageStore.read_cold}."""
        return self._reader.read_cold(topic, queue_id, offset, limit, filter)

    def at(self, offset: int, size: int | None = None) -> Deferred[bytes]:
        """See L{IMessageStore.at}."""
        return self._lookup.at(offset, size)

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        """See L{IMessageStore.bounds}."""
        queue = self._by_key.get((topic, queue_id))
        return (0, 0) if queue is None else (queue.minimum, queue.visible)

    def query(self, topic: str, key: str, count: int, begin_ms: int, end_ms: int) -> Deferred[QueryResult]:
        """See L{IMessageStore.query}."""
        return Deferred.fromCoroutine(self._query(topic, key, count, begin_ms, end_ms))

    async def _query(self, topic: str, key: str, count: int, begin_ms: int, end_ms: int) -> QueryResult:
        if self._index is None:
            return QueryResult([], 0, 0)
        found = await self._index.find(topic, key, count, begin_ms, end_ms)
        records = await self._lookup.records(found.offsets, _QUERY_SIZE)
        return QueryResult(records, found.last_ms, found.last_offset)

    @property
    def index_behind(self) -> int:
        """Bytes of readable log whose keys are not in the index yet; 0 where none is kept."""
        return 0 if self._index is None else self._index.behind

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int, boundary: str | None = None) -> Deferred[int]:
        """See L{IMessageStore.offset_at}."""
        queue = self._by_key.get((topic, queue_id))
        return succeed(0) if queue is None else self._lookup.offset_at(queue, timestamp_ms, boundary)

    def stored_ms(self, topic: str, queue_id: int, offset: int) -> Deferred[int]:
        """See L{IMessageStore.stored_ms}."""
        queue = self._by_key.get((topic, queue_id))
        return succeed(-1) if queue is None else self._lookup.stored_ms(queue, offset)

    def stored_times(self, places: Sequence[tuple[str, int, int]]) -> Deferred[list[int]]:
        """See L{IMessageStore.stored_times}."""
        find = self._by_key.get
        return self._lookup.stored_times([(find((topic, queue_id)), offset) for topic, queue_id, offset in places])

    def is_far_back(self, topic: str, queue_id: int, offset: int) -> bool:
        """See L{IMessageStore.is_far_back}."""
        queue = self._by_key.get((topic, queue_id))
        if queue is None or not queue.minimum <= offset < queue.visible:
            return False
        unit = queue.unit(offset)
        return unit is not None and self._reader.is_far_back(unit.commitlog_offset)

    def units(self, topic: str, queue_id: int, offset: int, count: int) -> list[Unit]:
        """See L{IMessageStore.units}."""
        queue = self._by_key.get((topic, queue_id))
        return [] if queue is None else queue.units(offset, count)

    def queues(self) -> Iterable[tuple[str, int]]:
        """See L{IMessageStore.queues}."""
        return [queue.key for queue in self._queues if queue.visible > queue.minimum]

    def last_at(self, topic: str, queue_id: int) -> int:
        """See L{IMessageStore.last_at}."""
        queue = self._by_key.get((topic, queue_id))
        unit = None if queue is None or queue.visible == queue.minimum else queue.unit(queue.visible - 1)
        return -1 if unit is None else unit.commitlog_offset

    # -- replication -------------------------------------------------------------------------------------------

    def log_bounds(self) -> tuple[int, int]:
        """See L{IReplicatedLog.log_bounds}."""
        return self._commitlog.minimum, self._commitlog.end

    @property
    def flushed(self) -> int:
        """See L{IReplicatedLog.flushed}."""
        return self._flusher.flushed

    def last_file(self) -> int:
        """See L{IReplicatedLog.last_file}."""
        return self._pieces.last_file()

    def piece(self, offset: int, limit: int) -> memoryview | None:
        """See L{IReplicatedLog.piece}."""
        return self._pieces.piece(offset, limit)

    def piece_cold(self, offset: int, limit: int) -> Deferred[bytes]:
        """See L{IReplicatedLog.piece_cold}."""
        return self._pieces.piece_cold(offset, limit)

    def crc(self, begin: int, end: int) -> Deferred[int]:
        """See L{IReplicatedLog.crc}."""
        return self._pieces.crc(begin, end)

    @property
    def doubtful_from(self) -> int:
        """See L{IReplicatedLog.doubtful_from}."""
        found = self._checkpointer.doubtful_from
        return self._commitlog.end if found is None else found

    def stored(self, offset: int, size: int) -> memoryview:
        """See L{IReplicatedLog.stored}."""
        return self._commitlog.slice(offset, size)

    def believe(self) -> None:
        """See L{IReplicatedLog.believe}."""
        self._checkpointer.doubtful_from = None

    def repair(self, records: Mapping[int, bytes]) -> Deferred[None]:
        """See L{IReplicatedLog.repair}."""
        repaired: Deferred[None] = self._repairing.run(lambda: Deferred.fromCoroutine(self._put_right(records)))
        return repaired

    async def _put_right(self, records: Mapping[int, bytes]) -> None:
        if self._trouble is not None:
            raise ServiceNotAvailable(self._trouble)
        if self._checkpointer.doubtful_from is None:
            return  # it was repaired meanwhile
        try:
            await self._repair.put_right(records)
            self.believe()
        finally:
            if self._opened:
                self.end_run()

    def follow(self, listener: Callable[[int], None]) -> None:
        """See L{IReplicatedLog.follow}."""
        self._end_listeners.append(listener)

    def follow_flushes(self, listener: Callable[[int], None]) -> None:
        """See L{IReplicatedLog.follow_flushes}."""
        self._flush_listeners.append(listener)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """See L{IReplicatedLog.append_raw}."""
        if self._trouble is not None:
            raise ServiceNotAvailable(self._trouble)
        if not self._settings.replica:
            raise ServiceNotAvailable("the store is a master's: its log is its own, and takes no bytes of another")
        try:
            self._replica.append(offset, data)
        finally:
            self.end_run()

    def _begin_log(self, offset: int) -> None:
        """Let the log, which is empty, begin at a physical offset."""
        self._commitlog.begin_anew(offset)
        self._flusher.begin_at(offset, 0)
        self._dispatch.begin_at(offset, 0)
        for follower in self._followers:
            follower.position = offset

    def _retreat(self, end: int) -> None:
        """Take back what was appended behind a physical offset."""
        self._commitlog.retreat(end)
        self._flusher.retreat(end)

    def _drop(self, topic: str, below: int, but: Collection[QueueKey]) -> None:
        """
        Forget a topic that was deleted at the master, but for queues that it has anew.

        @raise ServiceNotAvailable: that could not be written down, and nothing was changed.
        """
        try:
            dropping = self._removal.drop(topic, below, but)
        except OSError as error:
            raise ServiceNotAvailable(f"that topic {topic} was deleted cannot be saved: {error.strerror}") from error
        self._log.info("topic {topic} was deleted at the master, and begins anew at {below}", topic=topic, below=below)
        dropping.addErrback(
            lambda failure: self._log.failure("the queues of {topic} could not be removed", failure, topic=topic)
        )

    # -- topics and listeners ----------------------------------------------------------------------------------

    def subscribe(self, listener: IArrivalListener) -> None:
        """See L{IMessageStore.subscribe}."""
        self._listeners.append(listener)

    def attach(self, dispatcher: IDispatcher, position: int) -> None:
        """
        Show the records from physical offset C{position} on, old and new, to what makes something of them.

        For an open store. It happens at the reactor's leisure, after readers can see them.
        """
        follower = Follower(
            self._env.clock,
            self._commitlog,
            dispatcher,
            max(position, self._commitlog.minimum),
            lambda: self._dispatch.end,
        )
        self._followers.append(follower)
        follower.advance()

    def delete_topic(self, topic: str, since: int | None = None) -> Deferred[None]:
        """
        See L{IMessageStore.delete_topic}. A topic of that name can be used anew at once, from offset 0 on.

        @raise ServiceNotAvailable: through the Deferred: the store is closed, or about to be, or failed.
        @raise OSError: through the Deferred: the deletion could not be saved, and nothing was changed; or the files
            could not be moved or removed.
        """
        if not self._opened:
            return fail(ServiceNotAvailable("the store is closed"))
        if self._flusher.failed is not None:  # nothing is durable from there on (D4), nor would this be
            return fail(ServiceNotAvailable(f"the store failed: {self._flusher.failed}"))
        self.end_run()
        kept = {} if since is None else self._replica.begun_since(topic, since)
        try:
            return self._removal.drop(topic, min([self._commitlog.whole, *kept.values()]), kept)
        except OSError as error:
            return fail(error)
