"""
The transactions of a master: verdicts, check-backs, resumed checks (docs/spec/broker#transactions).

L{PendingTransactions} knows what is undecided; here is what is read, appended and sent. Nothing is kept beside the log
but two consumer offsets, those of C{CID_RMQ_SYS_TRANS} in the half and the op queue, as RocketMQ keeps them. They are
saved after a flush alone: an offset that is ahead of the log after a power failure would hide an undecided message.

A commit and its op message are appended one after the other, with nothing between. If the broker was killed between
them, the start appends the op message, or the first check-back after it (L{UnfinishedCommits}). So no message is
committed twice.

Rounds of check-backs begin every C{transactionCheckInterval} while anything is undecided; an idle broker has no timer.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.stages.pendingtransactions import CheckRules, Due, PendingTransactions, TransactionVerdict
from smartgo.broker.stages.transactionlookup import TransactionLookup, read_queue, start_positions
from smartgo.broker.stages.unfinishedcommits import UnfinishedCommits
from smartgo.broker.tables.adoption import adopt_destination
from smartgo.broker.tables.brokertables import BrokerTables
from smartgo.env.interfaces import IClock
from smartgo.errors import BadRecord, MessageIllegal, NoSuchMessage, RequestRefused
from smartgo.schema.message import NewMessage, StoredMessage
from smartgo.schema.record import decode
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from smartgo.schema.transactions import (
    TRANSACTION_GROUP,
    HalfMessage,
    check_request,
    committed_copy,
    finished_offsets,
    given_up_copy,
    half_copy,
    op_message,
    read_half,
)
from smartgo.store.interfaces import Appended, IArrivalListener, IMessageStore, PutStatus

_TURN: Final = 64  # half messages checked back before the reactor is given back
_LOOKED_AT: Final = 2048  # half messages looked at before that


class _CheckedCopy(NamedTuple):
    """A copy of a half message that a round appended; C{stored_ms} is the store timestamp of the one before."""

    old: HalfMessage
    message: NewMessage
    appended: Appended
    stored_ms: int


@implementer(IArrivalListener)
class Transactions:
    """
    The transactions of one master.

    @ivar pending: what is undecided.
    @ivar lookup: finds the records of a transaction.
    @ivar host: address of this broker, as a record stores it.
    @ivar checked: check-backs that were sent to a producer, since the start.
    @ivar unasked: check-backs for which no producer of the group was connected.
    @ivar given_up: half messages that were moved to TRANS_CHECK_MAX_TIME_TOPIC.
    @ivar oldest_ms: when the oldest of what was undecided at the last round was born, by its producer's clock.
    """

    _log = Logger()

    def __init__(
        self, clock: IClock, store: IMessageStore, tables: BrokerTables, settings: CurrentSettings, store_host: bytes
    ) -> None:
        """@param store_host: address of this broker, as a record stores it."""
        self._clock = clock
        self._store = store
        self._topics = tables.topics
        self._offsets = tables.offsets
        self._producers = tables.producers
        self._stats = tables.stats
        self._settings = settings
        self.host = store_host
        self._timer: IDelayedCall | None = None
        self._running = False
        self._busy = False
        self._reading = False
        self._saved = (0, 0)
        self.lookup = TransactionLookup(store)
        self._owed_ops: list[HalfMessage] = []  # committed, but their op message was refused
        self.pending = PendingTransactions(0, 0)
        self._unfinished = UnfinishedCommits(self.lookup, self.pending)
        self.checked = 0
        self.unasked = 0
        self.given_up = 0
        self.oldest_ms: int | None = None

    # -- start and stop --------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find out what is undecided, and begin with rounds of check-backs."""
        half, op = start_positions(self._store, self._offsets)
        self._saved = half, op
        self.pending = PendingTransactions(half, op)
        while self.pending.op_end < self._store.bounds(OP_HALF_TOPIC, 0)[1]:
            start = self.pending.op_end
            records, following = await read_queue(self._store, OP_HALF_TOPIC, start)
            for stored in records:
                self.pending.note_op(stored.queue_offset, finished_offsets(stored))
            self.pending.op_end = max(self.pending.op_end, following)
            if self.pending.op_end == start:
                break
        await self.read_halves()
        self._unfinished = UnfinishedCommits(self.lookup, self.pending)
        self._finish(await self._unfinished.last())
        self._running = True
        self._arm()

    def stop(self) -> None:
        """Begin no more rounds."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def read_halves(self) -> None:
        """Note the half messages that are readable and not noted yet."""
        if self._reading:
            return  # whoever reads goes on to the end
        self._reading = True
        try:
            while self.pending.half_end < self._store.bounds(HALF_TOPIC, 0)[1]:
                start = self.pending.half_end
                records, following = await read_queue(self._store, HALF_TOPIC, start)
                for stored in records:
                    self.pending.note_half(read_half(stored))
                self.pending.skip_half(following)
                if self.pending.half_end == start:
                    break
        finally:
            self._reading = False

    def _finish(self, half: HalfMessage | None) -> None:
        """Append the op message of a commit that has none."""
        if half is not None:
            self.pending.decide(half, TransactionVerdict.COMMITTED)
            self._append_op(half)
            self._store.end_run()

    # -- arrivals ----------------------------------------------------------------------------------------------

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: object, stored_ms: int) -> None:
        """Note the half messages that became readable."""
        if topic == HALF_TOPIC and queue_id == 0 and self._running:
            Deferred.fromCoroutine(self.read_halves()).addErrback(self._not_read)
            self._arm()

    def _not_read(self, failure: Failure) -> None:
        self._log.failure("half messages cannot be read now", failure)

    # -- verdicts ----------------------------------------------------------------------------------------------

    async def decide(self, stored: StoredMessage, verdict: TransactionVerdict) -> Appended | None:
        """
        Commit or roll back the transaction of a half message.

        @param stored: the copy that the producer named.
        @return: where the last record of it was stored; C{None}: this very verdict was known.
        @raise RequestRefused: it is decided otherwise, or no longer known, or the store takes nothing.
        """
        named = read_half(stored)
        await self.read_halves()
        self._finish(await self._unfinished.named(named))
        await self.remember(named)
        half = self.pending.find(named)
        if half is None:
            known = self.pending.verdict(named)
            if known is verdict:
                return None
            what = "decided, or given up, long ago" if known is None else known.value
            raise RequestRefused(f"the transaction is not {verdict.value}: it was {what}")
        appended = None
        if verdict is TransactionVerdict.COMMITTED:
            message = committed_copy(stored)
            if message is None:
                raise MessageIllegal("the half message has no destination")
            appended = self._append(message)
        op = self._append_op(half, committed=appended is not None)
        self.pending.decide(half, verdict)
        self._store.end_run()
        if appended is not None and message is not None:
            adopt_destination(self._topics, message.topic, message.queue_id, appended.offset)
        self._arm()
        return op or appended

    async def remember(self, named: HalfMessage) -> None:
        """Find out what became of a transaction that is neither pending nor remembered, such as after a restart."""
        if self.pending.find(named) is not None or self.pending.verdict(named) is not None:
            return
        found = await self.lookup.find(named)
        if self.pending.find(named) is not None or self.pending.verdict(named) is not None:
            return  # somebody else found it meanwhile
        if found.verdict is not None:
            self.pending.decide(named, found.verdict)
        elif found.given_up is not None:
            self.pending.give_up(found.given_up)

    async def resume(self, stored: StoredMessage) -> Appended:
        """
        Have a half message that was given up checked back again, from the beginning.

        @raise RequestRefused: it was not given up, or is decided or resumed meanwhile, or the store takes nothing.
        """
        if stored.topic != CHECK_MAX_TIME_TOPIC:
            raise RequestRefused(
                f"the message is in {stored.topic}: only one in {CHECK_MAX_TIME_TOPIC} can be checked again"
            )
        half = read_half(stored)
        if not half.group or committed_copy(stored) is None:
            raise RequestRefused("the message has no producer group or no destination")
        await self.read_halves()
        await self.remember(half)
        if self.pending.find(half) in self.pending:
            raise RequestRefused("the transaction is checked again already")
        known = self.pending.verdict(half)
        if known is not None:
            raise RequestRefused(f"the transaction was {known.value} meanwhile")
        appended = self._append(half_copy(stored, 0))
        self._store.end_run()
        return appended

    def _append(self, message: NewMessage) -> Appended:
        appended = self._store.append((message,))
        self._stats.stored(message.topic, 1, appended.end - appended.offset)
        return appended

    def _append_op(self, half: HalfMessage, committed: bool = True) -> Appended | None:
        """
        Append the op message of a half message.

        @param committed: the commit is stored, so a refusal must not undo it: the op message is appended later.
        @raise RequestRefused: the store takes nothing, and C{committed} is false.
        """
        self._topics.create_system(OP_HALF_TOPIC, 1)
        try:
            appended = self._append(op_message(half.offset, self._clock.wall_ms(), self.host))
        except RequestRefused:
            if not committed:
                raise
            self._owed_ops.append(half)
            return None
        self.pending.note_op(appended.queue_offset, [half.offset])
        return appended

    # -- rounds of check-backs -----------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Set the timer for the next round, if one is needed."""
        if not self.pending:
            self.oldest_ms = None
        needed = self.pending or self._owed_ops or self.pending.positions() != self._saved
        if self._running and not self._busy and self._timer is None and needed:
            self._timer = self._clock.callLater(self._settings.broker.transaction_check_interval, self._begin_round)

    def _begin_round(self) -> None:
        self._timer = None
        if not self._busy:
            self.run(self._round())

    @property
    def idle(self) -> bool:
        """True after the start while no round is under way, nor other work that appends copies."""
        return self._running and not self._busy

    def run(self, work: Coroutine[Deferred[object], object, None]) -> None:
        """Do some work, while which no round begins."""
        self._busy = True
        Deferred.fromCoroutine(work).addBoth(self._round_ended)

    def _round_ended(self, result: Failure | None) -> None:
        self._busy = False
        if isinstance(result, Failure):
            if result.check(RequestRefused):
                self._log.warn("check-backs wait until the broker takes messages: {error}", error=str(result.value))
            else:
                self._log.failure("a round of check-backs failed", result)
        self._arm()

    async def _round(self) -> None:
        config = self._settings.broker
        owed, self._owed_ops = self._owed_ops, []
        for half in owed:
            self._append_op(half)
        if owed:
            self._store.end_run()
        rules = CheckRules(
            round(config.transaction_time_out * 1000),
            config.transaction_check_max,
            round(self._settings.store.file_reserved_time * 1000),
        )
        now_ms, oldest_ms = self._clock.wall_ms(), None
        offsets = self.pending.offsets()
        for begin in range(0, len(offsets), _LOOKED_AT):
            some = offsets[begin : begin + _LOOKED_AT]
            found = self.pending.due(some, now_ms, rules)
            oldest_ms = self.pending.oldest_ms(some, oldest_ms)
            for first in range(0, len(found), _TURN):
                if not self._running:
                    return
                await self._do_some(found[first : first + _TURN])
                await deferLater(self._clock, 0.0)
            await deferLater(self._clock, 0.0)
        self.oldest_ms = oldest_ms if self.pending else None
        await self._save()

    async def _do_some(self, found: list[Due]) -> None:
        """Do what is due about some half messages, and ask their producers."""
        copies: list[_CheckedCopy] = []
        try:
            for due in found:
                if not self._running:
                    return
                copy = await self._do(due)
                if copy is not None:
                    copies.append(copy)
        finally:
            self._store.end_run()
            await self._ask(copies)

    async def _do(self, due: Due) -> _CheckedCopy | None:
        """Give up one half message, or append the copy that its producer is asked about, and return that."""
        half = due.half
        self._finish(await self._unfinished.named(half))
        try:
            stored = decode(await self._store.at(half.physical_offset))
        except (NoSuchMessage, BadRecord) as error:
            self._log.error(
                "the half message at {offset} for {topic} is lost: {error}",
                offset=half.physical_offset,
                topic=half.topic,
                error=str(error),
            )
            self.pending.drop(half)
            return None
        if half not in self.pending:
            return None  # decided meanwhile
        if due.given_up:
            self._topics.create_system(CHECK_MAX_TIME_TOPIC, 1)
            self._append(given_up_copy(stored, due.checks))
            self.pending.give_up(half)
            self.given_up += 1
            self._log.warn(
                "a transaction of group {group} for {topic} is given up after {checks} check-backs; its half message is"
                " in {given_up} now",
                group=half.group,
                topic=half.topic,
                checks=half.checks,
                given_up=CHECK_MAX_TIME_TOPIC,
            )
            return None
        message = half_copy(stored, due.checks or 0)
        return _CheckedCopy(half, message, self._append(message), stored.stored_ms)

    async def _ask(self, copies: list[_CheckedCopy]) -> None:
        """Ask producers about copies, once these are as durable as promised and readable: an answer names them."""
        if not copies:
            return
        waiting = self._store.durable(copies[-1].appended)
        if waiting is not None:
            await waiting
        await self.read_halves()
        for old, message, appended, stored_ms in copies:
            new = old._replace(offset=appended.queue_offset, physical_offset=appended.offset, checks=old.checks + 1)
            if old.key is None and old in self.pending:
                self.pending.replace(old, new)
            if self.pending.find(new) is None:
                continue  # decided meanwhile
            peer = self._producers.pick(old.group)
            if peer is None:
                self.unasked += 1
                continue
            self.checked += 1
            peer.tell(check_request(message, appended.queue_offset, appended.offset, stored_ms))

    async def _save(self) -> None:
        """Save how far both queues are done with, once all that this rests on is on the disk."""
        positions = self.pending.positions()
        if positions == self._saved or self._owed_ops or await self._store.flush() is not PutStatus.OK:
            return
        for topic, offset in zip((HALF_TOPIC, OP_HALF_TOPIC), positions, strict=True):
            self._offsets.commit(TRANSACTION_GROUP, topic, 0, offset)
        self._saved = positions
