"""
Undecided half messages that are written again before retention removes their records (docs/spec/broker#transactions).

The copy goes to the end of the half queue, with the number of check-backs of the one before, and takes its place. A
producer that names the record that went is told that it is not found, and is asked about the copy later. RocketMQ
removes undecided messages with their log file.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.stages.transactions import Transactions
from smartgo.env.interfaces import IClock
from smartgo.errors import BadRecord, MessageIllegal, NoSuchMessage, RequestRefused
from smartgo.schema.record import decode
from smartgo.schema.topics import HALF_TOPIC
from smartgo.schema.transactions import HalfMessage, moved_copy
from smartgo.store.interfaces import Appended, ILogNeed
from smartgo.store.openstore import OpenStore

_TURN: Final = 64  # messages written before the reactor is given back


@implementer(ILogNeed)
class TransactionRoll:
    """
    Writes undecided half messages again whose records are about to be removed; see L{ILogNeed}.

    @ivar rolled: how many were, since the start.
    """

    _log = Logger()

    def __init__(self, clock: IClock, store: OpenStore, transactions: Transactions) -> None:
        self._clock = clock
        self._store = store
        self._transactions = transactions
        self._clear = 0, 0  # nothing undecided lies below the first offset, and its copies end below the second
        self._trouble: str | None = None  # why the last attempt ended before all was written
        self.rolled = 0

    def release(self, end: int) -> bool:
        """
        Tell whether nothing undecided lies below a physical offset, and the copies of what lay there are flushed.

        Begins to write again what does, unless check-backs are under way, which append copies as well.
        """
        if not self._is_needed(end):
            if end > self._clear[0]:
                self._clear = end, self._store.log_bounds()[1]
            return self._store.flushed >= self._clear[1]
        if self._transactions.idle:
            self._transactions.run(self._roll(end))
        return False

    def obstacle(self, end: int) -> str | None:
        """Return why messages below a physical offset cannot be written again; C{None}: they can, or need not."""
        if not self._is_needed(end):
            return None
        refusal = self._store.copies.refusal
        reason = self._trouble if refusal is None else refusal.words
        return None if reason is None else f"undecided half messages lie in it that cannot be written again: {reason}"

    def _is_needed(self, end: int) -> bool:
        """Tell whether a half message below a physical offset may be undecided."""
        pending = self._transactions.pending
        oldest = pending.oldest
        if oldest is not None and oldest.physical_offset < end:
            return True
        position = max(pending.half_end, self._store.bounds(HALF_TOPIC, 0)[0])
        units = self._store.units(HALF_TOPIC, 0, position, 1)
        return bool(units) and units[0].commitlog_offset < end

    async def _roll(self, below: int) -> None:
        """Write all undecided half messages again whose records lie below a physical offset."""
        before = self.rolled
        trouble = None
        try:
            await self._transactions.read_halves()
            while halves := self._transactions.pending.below(below, _TURN):
                await self._write_again(halves, below)
                await deferLater(self._clock, 0.0)
        except (RequestRefused, OSError) as error:
            trouble = str(error)
            if trouble != self._trouble:  # it is tried again at each look
                self._log.warn("undecided half messages cannot be written again now: {error}", error=trouble)
        self._trouble = trouble
        if self.rolled > before:
            count = self.rolled - before
            self._log.info("{count} undecided half messages were written again: their log file goes", count=count)

    async def _write_again(self, halves: list[HalfMessage], below: int) -> None:
        """
        Write some half messages again, and return when their copies are noted in their place.

        @raise RequestRefused: the store takes nothing at the moment, or does not flush it.
        @raise OSError: records cannot be read.
        """
        pending = self._transactions.pending
        last: Appended | None = None
        try:
            for half in halves:
                try:
                    stored = decode(await self._store.at(half.physical_offset))
                    if half not in pending:
                        continue  # decided meanwhile
                    self._store.copies.spend(stored.size, below)
                    last = self._store.copies.append(moved_copy(stored))
                    self.rolled += 1
                except (NoSuchMessage, BadRecord, MessageIllegal) as error:
                    self._log.error(
                        "the half message at {offset} for {topic} is lost: {error}",
                        offset=half.physical_offset,
                        topic=half.topic,
                        error=str(error),
                    )
                    pending.drop(half)
        finally:
            self._store.end_run()
        if last is None:
            return
        waiting = self._store.durable(last)
        if waiting is not None:
            await waiting
        await self._transactions.read_halves()
        if pending.half_end <= last.queue_offset:
            raise RequestRefused("the copies are not flushed")
