"""
The search in the index for transactions that are not remembered any more, such as after a restart.

All records of a transaction have the UNIQ_KEY of its message: the half message and its copies, the committed message,
and the message that is in TRANS_CHECK_MAX_TIME_TOPIC once it was given up. A rollback leaves an op message alone.
Without an index (C{messageIndexEnable}), or without a UNIQ_KEY, nothing is found.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from smartgo.broker.stages.pendingtransactions import TransactionVerdict
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.errors import BadRecord, NoSuchMessage
from smartgo.schema.message import COMMIT, TRANSACTION_MASK, StoredMessage
from smartgo.schema.record import decode
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from smartgo.schema.transactions import TRANSACTION_GROUP, HalfMessage, finished_offsets, read_half
from smartgo.store.interfaces import IMessageStore, ReadLimit, ReadStatus

_RECORDS: Final = 64  # the newest of one topic, which are copies of one message, or have the hash of its key
_ANY_TIME: Final = 0, 1 << 62  # milliseconds
_BATCH: Final = ReadLimit(256, 1 << 20)
_OP_MESSAGES: Final = 10_000  # op messages after a message that was given up, which are looked through


class TransactionRecord(NamedTuple):
    """
    The state of a transaction, by what the log has of it.

    @ivar verdict: how it ended; C{None}: it did not, or that is not known.
    @ivar given_up: the latest copy of its half message, if it was given up and did not end.
    """

    verdict: TransactionVerdict | None
    given_up: HalfMessage | None


class TransactionLookup:
    """Finds the records of a transaction."""

    def __init__(self, store: IMessageStore) -> None:
        self._store = store

    @property
    def is_complete(self) -> bool:
        """Tell whether the index has all that is readable now; a search waits for it, but not for long."""
        return bool(self._store.index_behind == 0)

    async def find(self, half: HalfMessage) -> TransactionRecord:
        """
        Return what the log says about a transaction.

        @param half: any copy of its half message, or of what was given up.
        """
        if half.key is None:
            return TransactionRecord(None, None)
        if await self.is_committed(half.key):
            return TransactionRecord(TransactionVerdict.COMMITTED, None)
        moved = await self.newest(CHECK_MAX_TIME_TOPIC, half.key)
        if moved is None:
            return TransactionRecord(None, None)
        copy = await self.newest(HALF_TOPIC, half.key)
        latest = half if copy is None else read_half(copy)
        if latest.physical_offset > moved.physical_offset:
            return TransactionRecord(None, None)  # its check was resumed
        if copy is not None and await self._is_finished(latest.offset, moved.stored_ms):
            return TransactionRecord(TransactionVerdict.ROLLED_BACK, None)
        return TransactionRecord(None, latest)

    async def is_committed(self, key: tuple[str, str, str], after: int = -1) -> bool:
        """
        Tell whether the log has the committed message of a transaction.

        @param after: physical offset; only a message that lies behind it counts.
        """
        _, topic, unique = key
        return any(
            half.key == key and stored.sys_flag & TRANSACTION_MASK == COMMIT and stored.physical_offset > after
            for stored, half in await self._records(topic, unique)
        )

    async def last_commit(self) -> HalfMessage | None:
        """Return the half message whose commit is the last record of the log; C{None}: that is no commit."""
        last = max((self._store.last_at(*queue) for queue in self._store.queues()), default=-1)
        if last < 0:
            return None
        try:
            committed = decode(await self._store.at(last))
            if committed.sys_flag & TRANSACTION_MASK != COMMIT:
                return None
            stored = decode(await self._store.at(committed.prepared_offset))
        except (NoSuchMessage, BadRecord):
            return None
        return read_half(stored) if stored.topic == HALF_TOPIC else None

    async def _records(self, topic: str, unique: str) -> Iterator[tuple[StoredMessage, HalfMessage]]:
        """Return the records of a topic whose key has the hash of this one, each with the transaction it is of."""
        found = await self._store.query(topic, unique, _RECORDS, *_ANY_TIME)
        records = map(decode, found.records)
        return ((stored, read_half(stored)) for stored in records if stored.topic == topic)

    async def copies(self, unique: str) -> list[tuple[StoredMessage, HalfMessage]]:
        """Return records of half messages and of what was given up whose UNIQ_KEY has the hash of this one."""
        given_up = await self._records(CHECK_MAX_TIME_TOPIC, unique)
        return [*given_up, *await self._records(HALF_TOPIC, unique)]

    async def newest(self, topic: str, key: tuple[str, str, str]) -> StoredMessage | None:
        """Return the latest record of a transaction in one of the topics of transactions; C{None}: there is none."""
        records = [stored for stored, half in await self._records(topic, key[2]) if half.key == key]
        return max(records, key=lambda one: one.physical_offset, default=None)

    async def _is_finished(self, offset: int, since_ms: int) -> bool:
        """
        Tell whether an op message names a half message.

        @param offset: in the half queue.
        @param since_ms: store timestamp from which on op messages are looked through, up to a limit.
        """
        at = begin = await self._store.offset_at(OP_HALF_TOPIC, 0, since_ms - 1)
        while at < min(self._store.bounds(OP_HALF_TOPIC, 0)[1], begin + _OP_MESSAGES):
            records, following = await read_queue(self._store, OP_HALF_TOPIC, at)
            if any(offset in finished_offsets(stored) for stored in records):
                return True
            if following <= at:
                break
            at = following
        return False


def start_positions(store: IMessageStore, offsets: OffsetTable) -> tuple[int, int]:
    """
    Return where a start begins to read the half and the op queue: at the saved offsets.

    At both beginnings where an offset is ahead of its queue: a slave, which is a master now, copied the table, but not
    the log as far, and an undecided message may have no later copy here.
    """
    bounds = [store.bounds(topic, 0) for topic in (HALF_TOPIC, OP_HALF_TOPIC)]
    saved = [offsets.query(TRANSACTION_GROUP, topic, 0) for topic in (HALF_TOPIC, OP_HALF_TOPIC)]
    half, op = (low if offset is None else max(offset, low) for offset, (low, _) in zip(saved, bounds, strict=True))
    if half > bounds[0][1] or op > bounds[1][1]:
        return bounds[0][0], bounds[1][0]
    return half, op


async def read_queue(store: IMessageStore, topic: str, offset: int) -> tuple[list[StoredMessage], int]:
    """Read some messages of queue 0 of a topic; return them and the offset to go on at."""
    result = store.read(topic, 0, offset, _BATCH, None)
    if result.status is ReadStatus.COLD:
        result = await store.read_cold(topic, 0, offset, _BATCH, None)
    return list(_decoded(b"".join(result.parts))), result.next_offset


def _decoded(raw: bytes) -> Iterator[StoredMessage]:
    """Return the records of a read, which lie back to back."""
    at = 0
    while at < len(raw):
        stored = decode(raw, at)
        yield stored
        at += stored.size
