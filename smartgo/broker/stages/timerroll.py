"""
Waiting messages that are written again before retention removes their records (docs/spec/broker#timer).

The copy goes to the end of the log, into the timer topic again, with TIMER_ROLL_TIMES as in RocketMQ. It carries the
mark of a delivered copy, so that after a kill the old record is known to be done with (L{smartgo.schema.timers}).
RocketMQ writes a message again every two days that it waits; here that happens when its log file is about to go.
"""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.errors import BadRecord, MessageIllegal, RequestRefused
from smartgo.schema import properties as names
from smartgo.schema.message import NewMessage, StoredMessage
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.record import decode as decode_record
from smartgo.schema.timers import TimerEntry, mark_of
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.interfaces import ILogNeed
from smartgo.store.openstore import OpenStore
from smartgo.store.timer.oldentries import OldEntries
from smartgo.store.timer.timerlog import TimerLog

_log = Logger()
_DISPENSABLE = (
    names.TIMER_DELAY_SEC,
    names.TIMER_DELAY_MS,
    names.TIMER_ROLL_TIMES,
    names.TIMER_ENQUEUE_MS,
    names.TIMER_OUT_MS,
)  # left out of a copy, in this order, where its properties are too long; TIMER_DELIVER_MS says when it is due
_TURN = 64  # messages written before the reactor is given back


def rolled_copy(stored: StoredMessage, due_ms: int) -> NewMessage:
    """
    Return what to append in place of a waiting message.

    @param due_ms: its delivery time; a delay would count from the copy's store timestamp.
    """
    properties = decode(stored.properties)
    times = properties.get(names.TIMER_ROLL_TIMES, "0")
    properties[names.TIMER_ROLL_TIMES] = str(int(times) + 1 if times.isdecimal() else 1)
    if names.TIMER_DELAY_SEC in properties or names.TIMER_DELAY_MS in properties:
        properties[names.TIMER_DELIVER_MS] = str(due_ms)
    raw = encode(properties)
    for name in _DISPENSABLE:
        if len(raw) > names.SIZE_LIMIT:
            properties[names.TIMER_DELIVER_MS] = str(due_ms)
            properties.pop(name, None)
            raw = encode(properties)
    tags = tag_code(properties.get(names.TAGS))
    return stored.copy_to(TIMER_TOPIC, 0, raw, mark_of(stored.physical_offset), tags)


def warn_of_undelivered(store: OpenStore) -> None:
    """Warn where timed messages are switched off (timerWheelEnable) though the log of a master has some."""
    first, end = store.bounds(TIMER_TOPIC, 0)
    if end > first and not store.settings.replica:
        _log.warn(
            "timerWheelEnable is false: of the {count} timed messages in the log those that wait are not delivered, and"
            " retention removes them like others",
            count=end - first,
        )


@implementer(ILogNeed)
class TimerRoll:
    """
    Writes waiting messages again whose records are about to be removed; see L{ILogNeed}.

    @ivar rolled: how many were, since the start.
    """

    _log = Logger()

    def __init__(self, clock: IClock, store: OpenStore, timers: TimerLog) -> None:
        self._clock = clock
        self._store = store
        self._timers = timers
        self._running = True
        self._busy = False
        self._clear = 0, 0  # nothing waits below the first offset, and its copies end below the second
        self._trouble: str | None = None  # why the last attempt ended before all was written
        self.rolled = 0

    def stop(self) -> None:
        """Write nothing more."""
        self._running = False

    def release(self, end: int) -> bool:
        """
        Tell whether nothing waits below a physical offset, and the copies of what waited there are flushed.

        Begins to write again what does. Copies are those of L{rolled_copy}, and those that were delivered.
        """
        if not self._timers.may_need(end):
            return self._is_flushed(end)
        if self._timers.ready and not self._busy and self._running:
            self._busy = True
            Deferred.fromCoroutine(self._roll(end)).addBoth(self._ended)
        return False

    def _is_flushed(self, end: int) -> bool:
        """Tell whether all copies are flushed of what waited below a physical offset; nothing waits there now."""
        if end > self._clear[0]:
            oldest, position = self._timers.oldest, self._timers.position
            self._clear = position if oldest is None else min(oldest, position), self._store.log_bounds()[1]
        return self._store.flushed >= self._clear[1]

    def obstacle(self, end: int) -> str | None:
        """Return why messages that wait below a physical offset cannot be written again; C{None}: they can."""
        if not self._timers.may_need(end):
            return None
        if not self._timers.ready:
            return "timed messages may wait in it, and the timer log is not ready"
        refusal = self._store.copies.refusal
        reason = self._trouble if refusal is None else refusal.words
        return None if reason is None else f"timed messages wait in it that cannot be written again: {reason}"

    def _ended(self, result: object) -> None:
        self._busy = False
        if isinstance(result, Failure):
            self._log.failure("waiting messages could not be written again", result)

    async def _roll(self, below: int) -> None:
        """Write all waiting messages again whose records lie below a physical offset."""
        before = self.rolled
        try:
            while self._running:
                portion = await self._timers.old_entries(below)
                if portion is None:
                    break
                await self._write_again(portion, below)
            self._trouble = None
        except (RequestRefused, OSError) as error:
            if str(error) != self._trouble:  # it is tried again at each look
                self._log.warn("waiting messages cannot be written again now: {error}", error=str(error))
            self._trouble = str(error)
        if self.rolled > before:
            count = self.rolled - before
            self._log.info("{count} waiting messages were written again: their log file goes", count=count)

    async def _write_again(self, portion: OldEntries, below: int) -> None:
        """
        Write the messages of one portion again.

        @raise RequestRefused: the store takes nothing at the moment.
        @raise OSError: records cannot be read.
        """
        try:
            for begin in range(0, len(portion.entries), _TURN):
                entries = portion.entries[begin : begin + _TURN]
                records = await self._timers.records([TimerEntry.unpack(entry) for entry in entries])
                if not self._running:
                    return
                for entry, record in zip(entries, records, strict=True):
                    if record is None:
                        self._log.error("a waiting message is discarded: its record cannot be read")
                    else:
                        self._append(TimerEntry.unpack(entry), record, below)
                    portion.done(entry)
                self._store.end_run()
                await deferLater(self._clock, 0.0)
        finally:
            portion.end()
            self._store.end_run()

    def _append(self, entry: TimerEntry, record: bytes, below: int) -> None:
        """
        Append the copy of one message; one that fits into no record is given up.

        @raise ServiceNotAvailable: the store takes nothing at the moment.
        """
        copies = self._store.copies
        copies.spend(entry.size, below)
        try:
            copies.append(rolled_copy(decode_record(record), entry.due_ms))
            self.rolled += 1
        except (MessageIllegal, BadRecord) as error:
            self._log.error("a waiting message is discarded: {error}", error=str(error))
