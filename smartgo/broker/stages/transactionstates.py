"""
The transactions of a broker as operators see them (docs/spec/broker#transactions).

What is undecided is in memory (L{PendingTransactions}). What was given up is read from TRANS_CHECK_MAX_TIME_TOPIC,
newest first, and what became of each message there is looked up as for a verdict. One answer looks at a limited number
of them, so a broker with many is not kept from its work; it says where the next one goes on.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

from twisted.internet.task import deferLater

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.stages.pendingtransactions import TransactionVerdict
from smartgo.broker.stages.transactions import Transactions
from smartgo.broker.tables.producers import ProducerTable
from smartgo.env.interfaces import IClock
from smartgo.errors import BadHeader, BadRecord, NoSuchMessage
from smartgo.schema.bodies import TransactionEntry, TransactionTable
from smartgo.schema.headers.transaction import ListTransactionsRequest
from smartgo.schema.message import StoredMessage, message_id, parse_message_id
from smartgo.schema.record import decode
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from smartgo.schema.transactions import HalfMessage, read_half
from smartgo.store.interfaces import IMessageStore

ROWS: Final = 200
"""Rows of one answer, at most."""
GIVEN_UP_ROWS: Final = 32
"""Messages that were given up of one answer, at most: each is looked up in the index."""
LOOKED_AT: Final = 8192
"""Undecided half messages that one answer looks at."""

_STATES: Final = {TransactionVerdict.COMMITTED: "committed", TransactionVerdict.ROLLED_BACK: "rolledBack"}


class TransactionStates:
    """Tells the states of one master's transactions."""

    def __init__(
        self,
        clock: IClock,
        store: IMessageStore,
        transactions: Transactions,
        producers: ProducerTable,
        settings: CurrentSettings,
    ) -> None:
        self._clock = clock
        self._store = store
        self._transactions = transactions
        self._producers = producers
        self._settings = settings

    async def table(self, asked: ListTransactionsRequest) -> TransactionTable:
        """Return some transactions, as the header of a request names them."""
        await self._transactions.read_halves()
        config = self._settings.broker
        low, high = self._store.bounds(CHECK_MAX_TIME_TOPIC, 0)
        table = TransactionTable(
            pending=len(self._transactions.pending),
            given_up=high - low,
            interval=config.transaction_check_interval,
            first=config.transaction_time_out,
            limit=config.transaction_check_max,
        )
        if asked.id:
            table.rows = await self._find(asked.id)
        elif asked.count <= 0:
            table.next = -1  # there is no row to go on from
        elif asked.given_up:
            table.rows, table.next = await self._given_up(asked)
        else:
            table.rows, table.next = self._pending(asked)
        return table

    def _pending(self, asked: ListTransactionsRequest) -> tuple[list[TransactionEntry], int]:
        pending = self._transactions.pending
        offsets = pending.offsets()
        first = bisect_left(offsets, asked.begin)
        limit = min(asked.count, ROWS)
        rows: list[TransactionEntry] = []
        for offset in offsets[first : first + LOOKED_AT]:
            if len(rows) >= limit:
                return rows, offset
            half = pending.at(offset)
            if half is not None and _is_wanted(half, asked):
                rows.append(self._row(half, "pending"))
        return rows, offsets[first + LOOKED_AT] if first + LOOKED_AT < len(offsets) else -1

    async def _given_up(self, asked: ListTransactionsRequest) -> tuple[list[TransactionEntry], int]:
        low, high = self._store.bounds(CHECK_MAX_TIME_TOPIC, 0)
        end = high if asked.begin < 0 else min(asked.begin, high)
        begin = max(low, end - min(asked.count, GIVEN_UP_ROWS))
        rows = []
        for unit in reversed(self._store.units(CHECK_MAX_TIME_TOPIC, 0, begin, max(0, end - begin))):
            try:
                stored = decode(await self._store.at(unit.commitlog_offset))
            except (NoSuchMessage, BadRecord):
                continue  # removed meanwhile
            half = read_half(stored)
            if _is_wanted(half, asked):
                rows.append(self._row_of_given_up(half, stored, await self._state(half)))
        return rows, begin if begin > low else -1

    async def _find(self, id: str) -> list[TransactionEntry]:
        """Return the transactions with a UNIQ_KEY, or the one of which a copy has an offset id."""
        named = await self._copy_at(id)
        if named is not None:
            row = await self._whole(*named)
            return [] if row is None else [row]
        found: dict[object, TransactionEntry] = {}
        for stored, half in await self._transactions.lookup.copies(id):
            if half.key in found or half.key is None or half.key[2] != id:
                continue
            row = await self._whole(stored, half)
            if row is not None:
                found[half.key] = row
        if not found:  # without an index, or where that is behind
            pending = self._transactions.pending
            offsets = pending.offsets()
            for begin in range(0, len(offsets), LOOKED_AT):
                for offset in offsets[begin : begin + LOOKED_AT]:
                    half_of = pending.at(offset)
                    if half_of is not None and half_of.key is not None and half_of.key[2] == id:
                        found[half_of.key] = self._row(half_of, "pending")
                await deferLater(self._clock, 0.0)
        return list(found.values())

    async def _copy_at(self, id: str) -> tuple[StoredMessage, HalfMessage] | None:
        """Return the copy of a half message that has an offset id; C{None}: there is none."""
        try:
            host, offset = parse_message_id(id)
            if host != self._transactions.host:
                return None
            stored = decode(await self._store.at(offset))
        except (BadHeader, NoSuchMessage, BadRecord):
            return None
        if stored.topic not in (HALF_TOPIC, CHECK_MAX_TIME_TOPIC):
            return None
        return stored, read_half(stored)

    async def _whole(self, stored: StoredMessage, half: HalfMessage) -> TransactionEntry | None:
        """Return the row of the transaction that a copy of a half message belongs to."""
        state = await self._state(half)
        latest = self._transactions.pending.find(half)
        if state == "pending" and latest is not None:
            return self._row(latest, state)
        if stored.topic != CHECK_MAX_TIME_TOPIC and half.key is not None:
            moved = await self._transactions.lookup.newest(CHECK_MAX_TIME_TOPIC, half.key)
            stored = stored if moved is None else moved
        if stored.topic == CHECK_MAX_TIME_TOPIC:
            return self._row_of_given_up(read_half(stored), stored, state)
        return self._row(half, state)

    async def _state(self, half: HalfMessage) -> str:
        await self._transactions.remember(half)
        pending = self._transactions.pending
        latest = pending.find(half)
        if latest is not None:
            return "pending" if latest in pending else "givenUp"
        verdict = pending.verdict(half)
        return "unknown" if verdict is None else _STATES[verdict]

    def _row_of_given_up(self, half: HalfMessage, stored: StoredMessage, state: str) -> TransactionEntry:
        row = self._row(half, state)
        row.given_up = stored.stored_ms
        return row

    def _row(self, half: HalfMessage, state: str) -> TransactionEntry:
        return TransactionEntry(
            "" if half.key is None else half.key[2],
            state,
            half.group,
            half.topic,
            message_id(self._transactions.host, half.physical_offset),
            half.offset,
            half.born_ms,
            0,
            half.checks,
            -1 if half.immunity_ms is None else half.immunity_ms,
            len(self._producers.members(half.group)),
        )


def _is_wanted(half: HalfMessage, asked: ListTransactionsRequest) -> bool:
    return asked.group in ("", half.group) and asked.topic in ("", half.topic)
