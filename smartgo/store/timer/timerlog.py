"""
The timer log of a store: the messages that wait for a delivery time, taken from the timer topic.

It is made from the CommitLog, and can be made anew from it: entries from the records of the timer topic, and what was
delivered from the copies (L{smartgo.schema.timers}). At the start a thread reads what the log has behind the last
checkpoint; nothing is due before that has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import deferLater
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadRecord, NoSuchMessage
from smartgo.schema.consumequeue import Unit
from smartgo.schema.record import decode
from smartgo.schema.timers import TimerEntry, wheel_ms
from smartgo.schema.topics import TIMER_TOPIC
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.interfaces import IDispatcher
from smartgo.store.pagereads import TolerantFiles, is_unreadable
from smartgo.store.timer.logrecords import Arrival, complain, entry_of
from smartgo.store.timer.oldentries import OldEntries
from smartgo.store.timer.recovery import TimerRecovery
from smartgo.store.timer.slotfiles import SlotFiles, TimerCancelled
from smartgo.store.timer.slotstorage import PeerProgress, SlotStorage
from smartgo.store.timer.source import TimerSource
from smartgo.store.timer.waiting import WaitingTimers
from smartgo.store.timer.waitingrecords import LASTING, WaitingRecords

_UNITS: Final = 256  # taken from the timer topic in one turn of the reactor
_RETRY: Final = 5.0
_KEY: Final = (TIMER_TOPIC, 0)


@implementer(IDispatcher)
class TimerLog:
    """
    The timer log of one store; see L{IDispatcher}.

    @ivar position: physical offset up to which the messages of the timer topic were taken.
    @ivar ready: all that waits is known; nothing is due before.
    """

    _log = Logger()
    name = "the timer log"

    def __init__(self, env: IEnvironment, root: str, source: TimerSource, limit: int) -> None:
        """
        @param root: of the store.
        @param limit: entries that are loaded at once; memory holds twice as many at most.
        """
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._source = source
        self._commitlog = source.log
        self._by_key = source.queues.by_key
        self._limit = limit = 2 if env.buggify("timer.small-memory") else limit
        self._storage = SlotStorage(env.files, root)
        self._slots = SlotFiles(env.clock, env.threads, self._storage, source, limit, self._loaded)
        self._waiting = WaitingTimers(limit)
        self._records = WaitingRecords(env.clock, env.threads, env.files, source)
        self._tasks = BackgroundTask(self.name)
        self._end = source.log.end
        self._next = 0  # logical offset in the timer topic of the next message to be taken
        self._call: IDelayedCall | None = None
        self._pause: Deferred[None] | None = None  # between two attempts to read
        self._stopped = False
        self._failed_at: float | None = None  # when the disk first failed to read the log at the start
        self._changed: Callable[[], None] = _nothing
        self.ready = False
        self.position = 0

    # -- for the store -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """See L{IDispatcher.start}."""
        self._tasks.follow(Deferred.fromCoroutine(self._open()), _ignore)

    def dispatch(self, end: int) -> None:
        """See L{IDispatcher.dispatch}."""
        self._end = end
        if not self.ready:
            return
        queue = self._by_key.get(_KEY)
        if queue is None:
            self.position = end
        elif queue.visible == self._next:
            self.position = end
            self._slots.taken(self._next, end)
        elif self._call is None and not self._stopped:
            self._call = self._clock.callLater(0, self._take)

    def recover(self, position: int) -> None:
        """See L{IDispatcher.recover}."""
        self.position = self._end = position

    def expire(self, minimum: int) -> None:
        """See L{IDispatcher.expire}. Entries whose records are gone stay: they are discarded when they are due."""

    def log_flushed(self, position: int) -> None:
        """Take note that the log is durable below a physical offset."""
        self._slots.log_flushed(position)

    def stop(self) -> None:
        """See L{IDispatcher.stop}."""
        self._stopped = True
        if self._call is not None:
            self._call.cancel()
            self._call = None
        if self._pause is not None:
            self._pause.cancel()
        self._slots.stop()

    def flush(self) -> Deferred[bool]:
        """See L{IDispatcher.flush}."""
        return Deferred.fromCoroutine(self._flush())

    async def _flush(self) -> bool:
        await self._tasks.idle()
        return await self._slots.finish()

    def close(self) -> None:
        """See L{IDispatcher.close}; no file is kept open."""

    # -- for the delivery --------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of messages that wait and are not recalled."""
        return self._waiting.count

    @property
    def next_ms(self) -> int | None:
        """The delivery time of the next message in memory; C{None}: none is in memory."""
        return self._waiting.next_ms

    @property
    def next_between_ms(self) -> tuple[int, int] | None:
        """See L{WaitingTimers.next_between_ms}."""
        return self._waiting.next_between_ms

    def progress(self, now_ms: int) -> PeerProgress:
        """Return how far messages were taken and delivered, as RocketMQ counts it. @param now_ms: the wall clock."""
        earliest_ms = self._waiting.earliest_ms
        due_ms = now_ms if earliest_ms is None else min(now_ms, wheel_ms(earliest_ms))
        return PeerProgress(due_ms // 1000 * 1000, self._next)

    @property
    def oldest(self) -> int | None:
        """A physical offset of the log below which no waiting message lies; C{None}: nothing waits."""
        return self._waiting.oldest

    def may_need(self, offset: int) -> bool:
        """
        Tell whether a record below a physical offset may be one that waits.

        While it is not known what waits (C{ready}) the records of all timed messages may be needed.
        """
        if self.ready:
            return self.position < offset or self._waiting.has_old(offset)
        queue = self._by_key.get(_KEY)
        if queue is None or queue.minimum >= queue.visible:
            return False
        first = queue.units(queue.minimum, 1)
        return not first or first[0].commitlog_offset < offset

    async def old_entries(self, below: int) -> OldEntries | None:
        """
        Return entries whose records lie below a physical offset, C{None} where there are none.

        Each portion has to be ended (L{OldEntries.end}) before the next is asked for.

        @raise OSError: as the system says.
        """
        return await self._slots.old_entries(below)

    def when_changed(self, callback: Callable[[], None]) -> None:
        """Call C{callback} whenever another entry may be the earliest."""
        self._changed = callback

    def take_due(self, now_ms: int, count: int) -> list[TimerEntry]:
        """Take the earliest of what is due, C{count} at most: each is to be L{done} or to be given back."""
        if not self.ready:
            return []
        found = self._waiting.take_due(now_ms, count)
        self._slots.load()
        return [TimerEntry.unpack(entry) for entry in found]

    def is_clear(self, due_ms: int) -> bool:
        """Tell whether nothing waits any more, but what was taken, that is due at a time or before it."""
        return self._waiting.is_clear(due_ms)

    def done(self, entry: TimerEntry) -> None:
        """Forget a message that was delivered or recalled, or can never be delivered."""
        self._waiting.done(entry.pack())
        self._slots.changed()

    def give_back(self, entry: TimerEntry) -> None:
        """Let a message wait again that was taken."""
        self._waiting.give_back(entry.pack())

    def read(self, entries: Sequence[TimerEntry]) -> Deferred[list[bytes | OSError | None]]:
        """Read the records of entries, each by itself; see L{WaitingRecords.read}."""
        return self._records.read(entries)

    def records(self, entries: Sequence[TimerEntry]) -> Deferred[list[bytes | None]]:
        """
        Return the records of entries, checked; C{None} for each that is gone or damaged, or cannot be read any more.

        @raise OSError: through the Deferred: one of them cannot be read now, and may be later.
        """
        return self._records.read(entries).addCallback(_all_read)

    # -- the start ---------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """@raise TimerCancelled: the store is being closed."""
        if self._stopped:
            raise TimerCancelled

    async def _open(self) -> None:
        """Find out what waits; after an error it is tried again."""
        try:
            while not await self._recover():
                self._pause = deferLater(self._clock, _RETRY)
                await self._pause
        except (TimerCancelled, CancelledError):
            return
        self._log.info("{count} timed messages wait", count=self._waiting.count)
        self.dispatch(self._end)
        self._changed()

    async def _recover(self) -> bool:
        """
        Find out what waits; return whether the files could be read.

        @raise TimerCancelled: the store is being closed.
        """
        waiting = WaitingTimers(self._limit)
        now = self._clock.seconds()
        tolerant = self._failed_at is not None and now - self._failed_at >= LASTING
        files = TolerantFiles(self._files) if tolerant else self._files
        recovery = TimerRecovery(self._threads, files, self._source, self._storage, waiting, self._check)
        try:
            self._next = await recovery.run(self._end, self._slots.horizon_ms())
        except OSError as error:
            if self._failed_at is None and is_unreadable(error):
                self._failed_at = now
            self._log.warn("the timer log cannot be read; trying again: {error}", error=str(error))
            return False
        self._check()
        self._waiting = waiting
        self.ready = True
        self._slots.taken(self._next, recovery.position)
        self._slots.begin(waiting, recovery.position, recovery.changes)
        return True

    # -- following the timer topic -----------------------------------------------------------------------------

    def _take(self) -> None:
        """Take some messages of the timer topic that became readable."""
        self._call = None
        try:
            units = self._by_key[_KEY].units(self._next, _UNITS)
            arrivals = [None if unit.is_filler else self._entry(unit) for unit in units]
        except OSError as error:  # a file cannot be mapped
            self._log.warn("timed messages cannot be taken; trying again: {error}", error=str(error))
            self._call = self._clock.callLater(_RETRY, self._take)
            return
        horizon_ms = self._slots.horizon_ms()
        for arrival in arrivals:
            if arrival is not None:
                self._waiting.put(arrival.entry, horizon_ms, arrival.recalled)
        self._next += len(units)
        self._slots.taken(self._next, self._end)
        self._slots.changed(len(units))
        self._slots.load()
        self._slots.write_soon()
        self._changed()
        if units:
            self.dispatch(self._end)

    def _entry(self, unit: Unit) -> Arrival | None:
        """Return the entry for a message that was just appended; its pages are in memory still."""
        try:
            return entry_of(decode(self._commitlog.slice(unit.commitlog_offset, unit.size)))
        except NoSuchMessage as error:
            complain(unit.commitlog_offset, BadRecord(str(error)))
        except BadRecord as error:
            complain(unit.commitlog_offset, error)
        return None

    def _loaded(self) -> None:
        self._changed()


def _nothing() -> None:
    """Do nothing: nobody wants to know."""


def _ignore(_: object) -> None:
    """Do nothing with a result."""


def _all_read(found: list[bytes | OSError | None]) -> list[bytes | None]:
    """Return records. @raise OSError: one of them could not be read."""
    records: list[bytes | None] = []
    for one in found:
        if isinstance(one, OSError):
            raise one
        records.append(one)
    return records
