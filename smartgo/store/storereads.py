"""Reading of an open store: messages by queue, by key and by time, the log as bytes, and the ends of log and queues."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from twisted.internet.defer import Deferred, succeed

from smartgo.schema.consumequeue import Unit
from smartgo.store.commitlog import CommitLog
from smartgo.store.damage import DamageTable
from smartgo.store.index.messageindex import MessageIndex
from smartgo.store.integrity import LogIntegrity
from smartgo.store.interfaces import IMessageFilter, QueryResult, ReadLimit, ReadResult
from smartgo.store.messagelookup import MessageLookup
from smartgo.store.messagereader import MessageReader
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.rawlog import RawLog
from smartgo.store.replicatedlog import FoundDamage
from smartgo.store.scrub import Scrub
from smartgo.store.tails import LogTail, QueueTail

_QUERY_SIZE: Final = 12 << 20  # bytes of records that one search returns: clients take frames of 16 MiB


class StoreReads:
    """The reading part of L{IMessageStore<smartgo.store.interfaces.IMessageStore>} and C{IReplicatedLog}."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        reader: MessageReader,
        lookup: MessageLookup,
        raw_log: RawLog,
        index: MessageIndex | None,
        integrity: LogIntegrity,
    ) -> None:
        """
        @param index: C{None}: the store keeps none, and a search finds nothing.
        @param integrity: what is damaged.
        """
        self._commitlog = log
        self._queues = queues
        self._by_key = queues.by_key
        self._reader = reader
        self._lookup = lookup
        self._raw_log = raw_log
        self._index = index
        self._integrity = integrity

    @property
    def damage(self) -> DamageTable:
        """See L{IMessageStore.damage}."""
        return self._integrity.damage

    @property
    def scrub(self) -> Scrub:
        """See L{IMessageStore.scrub}."""
        return self._integrity.scrub

    @property
    def log_tail(self) -> LogTail:
        """See L{IMessageStore.log_tail}."""
        return self._commitlog

    def queue_tail(self, topic: str, queue_id: int) -> QueueTail | None:
        """See L{IMessageStore.queue_tail}."""
        queue = self._by_key.get((topic, queue_id))
        return None if queue is None or queue.delay_ms is not None else queue

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

    def has_queue(self, topic: str, queue_id: int) -> bool:
        """See L{IMessageStore.has_queue}."""
        queue = self._by_key.get((topic, queue_id))
        return queue is not None and queue.next_offset > 0

    def last_at(self, topic: str, queue_id: int) -> int:
        """See L{IMessageStore.last_at}."""
        queue = self._by_key.get((topic, queue_id))
        unit = None if queue is None or queue.visible == queue.minimum else queue.unit(queue.visible - 1)
        return -1 if unit is None else unit.commitlog_offset

    # -- the log as bytes --------------------------------------------------------------------------------------

    def log_bounds(self) -> tuple[int, int]:
        """See L{IReplicatedLog.log_bounds}."""
        return self._commitlog.minimum, self._commitlog.end

    @property
    def log_file_sizes(self) -> list[int]:
        """The sizes of the log's files in bytes, in their order."""
        return [file.size for file in self._commitlog.files.files]

    def last_file(self) -> int:
        """See L{IReplicatedLog.last_file}."""
        return self._raw_log.last_file()

    def piece(self, offset: int, limit: int) -> memoryview | None:
        """See L{IReplicatedLog.piece}."""
        return self._raw_log.piece(offset, limit)

    def piece_cold(self, offset: int, limit: int) -> Deferred[bytes]:
        """See L{IReplicatedLog.piece_cold}."""
        return self._raw_log.piece_cold(offset, limit)

    def crc(self, begin: int, end: int) -> Deferred[int]:
        """See L{IReplicatedLog.crc}."""
        return self._raw_log.crc(begin, end)

    def find_damage(self, begin: int, end: int) -> Deferred[list[FoundDamage]]:
        """See L{IReplicatedLog.find_damage}."""
        return Deferred.fromCoroutine(self._integrity.find(begin, end))

    def stored(self, offset: int, size: int) -> memoryview:
        """See L{IReplicatedLog.stored}."""
        return self._commitlog.slice(offset, size)
