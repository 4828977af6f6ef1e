"""
The delivery of delayed messages (docs/spec/broker#delay), which wait in C{SCHEDULE_TOPIC_XXXX}, one queue a level.

The third field of a unit there is the deliver time. One timer waits for the earliest of the levels' next messages; an
arrival sets it anew. It looks at the wall clock again each second at the latest while something waits, so that a clock
that was set forward delays nothing by more than that. Where the wall clock was set back, the messages of a level that
wait then are due later than their level allows. They share one deadline: the level's whole delay from that look on, by
the clock that is never set.

A message is delivered with the properties it was stored with, DELAY, REAL_TOPIC and REAL_QID included, as RocketMQ
4.9.7 does (its source removes DELAY after it has built the stored string).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.env.interfaces import IClock
from smartgo.errors import BadRecord, MessageIllegal, NoSuchMessage, RequestRefused
from smartgo.schema import properties as names
from smartgo.schema.consumequeue import Unit
from smartgo.schema.delay import DelayLevels
from smartgo.schema.message import NewMessage, StoredMessage
from smartgo.schema.properties import decode, tag_code
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import HALF_TOPIC, SCHEDULE_TOPIC
from smartgo.store.interfaces import IArrivalListener, IMessageStore, PutStatus
from smartgo.tablefile import TableFile, holding, read_object

_RETRY_SECONDS: Final = 10.0  # after an error, as RocketMQ
_LOOK_AGAIN_SECONDS: Final = 1.0
TURN: Final = 64
"""Messages of one level that are delivered before the reactor is given back."""


def deliverable(stored: StoredMessage) -> NewMessage | None:
    """Return what to append when a scheduled message is due; C{None} where it has to be discarded."""
    properties = decode(stored.properties)
    topic = properties.get(names.REAL_TOPIC)
    queue = properties.get(names.REAL_QID, "")
    if topic is None or topic == HALF_TOPIC or not (queue.isascii() and queue.isdigit()):
        return None
    tags = tag_code(properties.get(names.TAGS))
    return stored.copy_to(topic, int(queue), stored.properties, stored.prepared_offset, tags)


@implementer(IArrivalListener)
class DelayDelivery:
    """
    The delivery of one broker's delayed messages.

    @ivar offsets: level -> logical offset of its next message to be delivered; what C{delayOffset.json} holds.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        store: IMessageStore,
        levels: DelayLevels,
        changed: Callable[[], None] = lambda: None,
        delivered: Callable[[str, int, int], None] = lambda topic, queue_id, offset: None,
        turn: int = TURN,
    ) -> None:
        """
        @param changed: told whenever C{offsets} changed.
        @param delivered: told topic, queue id and physical offset of each message that was delivered.
        @param turn: messages of one level that are delivered before the reactor is given back.
        """
        self._clock = clock
        self._store = store
        self._levels = levels
        self._changed = changed
        self._delivered = delivered
        self._turn_size = turn
        self._timer: IDelayedCall | None = None
        self._timer_at = 0.0
        self._running = False
        self._busy: set[int] = set()
        self._deadlines: dict[int, tuple[int, float]] = {}  # level -> messages below this offset are due at this time
        self.offsets: dict[int, int] = {}

    def start(self, offsets: Mapping[int, int]) -> bool:
        """
        Begin, from what was saved; an offset outside its queue is moved to its nearest end.

        @return: whether one was beyond the end of its queue, as after the promotion of a slave that has only the end of
            its master's log. New messages will get offsets below it, so the offsets have to be saved before that.
        """
        beyond = False
        for level in range(1, self._levels.highest + 1):
            low, high = self._store.bounds(SCHEDULE_TOPIC, level - 1)
            offset = offsets.get(level, low)
            self.offsets[level] = min(max(offset, low), high)
            beyond = beyond or offset > high
        self._running = True
        self._turn()
        return beyond

    def stop(self) -> None:
        """Stop delivering."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def arrived(self, topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """Note that a message was scheduled: its deliver time may be the earliest now."""
        if topic == SCHEDULE_TOPIC and self._running:
            self._wait((min(tag_codes) - self._clock.wall_ms()) / 1000)

    def _wait(self, seconds: float) -> None:
        seconds = min(max(seconds, 0.0), _LOOK_AGAIN_SECONDS)
        at = self._clock.seconds() + seconds
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._turn)
            self._timer_at = at
        elif at < self._timer_at:
            self._timer.reset(seconds)
            self._timer_at = at

    def _turn(self) -> None:
        """Deliver what is due of every level that no delivery is under way from."""
        self._timer = None
        for level in self.offsets:
            if level not in self._busy:
                self._busy.add(level)
                Deferred.fromCoroutine(self._deliver_due(level)).addBoth(self._looked_at, level)

    def _looked_at(self, result: float | Failure | None, level: int) -> None:
        self._busy.discard(level)
        if isinstance(result, Failure):
            self._log.failure("delivery from delay level {delay} is paused", result, delay=level)
            result = _RETRY_SECONDS
        if result is not None and self._running:
            self._wait(result)

    async def _deliver_due(self, level: int) -> float | None:
        """Deliver some of what is due of one level; return the seconds until it is to be looked at again, if ever."""
        offset = self.offsets[level]
        low, high = self._store.bounds(SCHEDULE_TOPIC, level - 1)
        if offset < low:  # what is before is gone
            self.offsets[level] = offset = low
            self._changed()
        units = self._store.units(SCHEDULE_TOPIC, level - 1, offset, self._turn_size)
        if not units:
            return None if offset >= high else _RETRY_SECONDS
        now = self._clock.wall_ms()
        try:
            for unit in units:
                wait = 0.0 if unit.is_filler else self._due_in(level, offset, unit.tag_hash - now)
                if wait > 0:
                    return wait
                if not self._running:
                    return None
                if not unit.is_filler:
                    await self._deliver(unit)
                offset += 1
                self.offsets[level] = offset
                self._changed()
        except RequestRefused as error:
            self._log.warn("delivery from delay level {delay} is paused: {error}", delay=level, error=str(error))
            return _RETRY_SECONDS
        finally:
            self._store.end_run()
        return 0.0

    def _due_in(self, level: int, offset: int, left_ms: int) -> float:
        """
        Return how many seconds a message has to wait still; 0 or less: it is due.

        One that is due later than its level allows came before the wall clock was set back. All messages that the
        level holds then are due at the same time, so that none waits for the one before it.

        @param left_ms: from now to its deliver time by the wall clock.
        """
        if left_ms <= 0:
            return 0.0
        now = self._clock.seconds()
        end, deadline = self._deadlines.get(level, (0, 0.0))
        if offset < end:
            return min(left_ms / 1000, deadline - now)
        delay_ms = self._levels.delay_ms(level)
        if left_ms > delay_ms:
            left_ms = delay_ms
            end = self._store.bounds(SCHEDULE_TOPIC, level - 1)[1]
            self._deadlines[level] = end, now + delay_ms / 1000
        return left_ms / 1000

    async def _deliver(self, unit: Unit) -> None:
        """
        Append the delivered copy of one scheduled message, or discard what can never be delivered.

        @raise RequestRefused: the store takes nothing at the moment.
        """
        offset = unit.commitlog_offset
        try:
            message = deliverable(decode_record(await self._store.at(offset, unit.size)))
            if message is None:
                self._log.error("the delayed message at {offset} has no destination and is discarded", offset=offset)
            else:
                appended = self._store.append((message,))
                self._delivered(message.topic, message.queue_id, appended.offset)
        except (NoSuchMessage, BadRecord, MessageIllegal) as error:
            self._log.error("the delayed message at {offset} is discarded: {error}", offset=offset, error=str(error))


def read_progress(file: TableFile) -> dict[int, int]:
    """Return the offset of each level that is saved in C{delayOffset.json}. @raise BrokenTable: it cannot be read."""
    saved = file.load(holding(read_object, "offsetTable"))
    table = saved.get("offsetTable") if isinstance(saved, dict) else None
    if not isinstance(table, dict):
        return {}
    found = {}
    for level, offset in table.items():
        if str(level).isdecimal() and isinstance(offset, int) and offset >= 0:
            found[int(level)] = offset
    return found


class DelayProgress:
    """
    The delivery offset of each delay level, kept in RocketMQ's C{delayOffset.json}.

    An offset is saved only once everything it passed is on the disk: saved before, a power failure would lose the
    delivered copy of a message that nobody delivers again. What was delivered and not saved is delivered again after a
    kill, so the first change is saved at once, and those after it an interval later at most: each life of a broker,
    however short, goes on where the one before it stood.
    """

    _log = Logger()

    def __init__(self, clock: IClock, store: IMessageStore, file: TableFile, interval: float = 1.0) -> None:
        """
        @param file: C{delayOffset.json}.
        @param interval: seconds between the beginnings of two saves.
        """
        self._clock = clock
        self._store = store
        self._file = file
        self._interval = interval
        self._timer: IDelayedCall | None = None
        self._next = 0.0  # no save begins before
        self._unsaved = False
        self._saving: Deferred[None] | None = None
        self._stopped = False
        self.offsets: Mapping[int, int] = {}

    def load(self) -> dict[int, int]:
        """Return what was saved. @raise BrokenTable: it cannot be read."""
        return read_progress(self._file)

    def changed(self) -> None:
        """Save the offsets soon."""
        self._unsaved = True
        self._set_timer()

    def save(self) -> Deferred[None]:
        """Save the offsets now; fires when they are saved, or could not be, which is logged and tried again."""
        return self._save().addCallback(self._saved)

    def stop(self) -> Deferred[None]:
        """Save what is not saved; fires when it is."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return Deferred.fromCoroutine(self._save_last())

    async def _save_last(self) -> None:
        if self._saving is not None:
            under_way: Deferred[None] = Deferred()
            self._saving.addCallback(lambda _: under_way.callback(None))
            await under_way
        if self._unsaved:
            await self._save()

    def _set_timer(self) -> None:
        if self._timer is None and self._saving is None and not self._stopped:
            self._timer = self._clock.callLater(max(0.0, self._next - self._clock.seconds()), self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._next = self._clock.seconds() + self._interval
        saving = self._save()
        if not saving.called:
            self._saving = saving
        saving.addCallback(self._saved)

    def _save(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._save_flushed()).addErrback(self._failed)

    def _saved(self, _: None) -> None:
        self._saving = None
        if self._unsaved:
            self._set_timer()

    async def _save_flushed(self) -> None:
        self._unsaved = False
        taken = {str(level): offset for level, offset in self.offsets.items()}
        if await self._store.flush() is PutStatus.OK:
            await self._file.save({"offsetTable": taken})
        else:
            self._try_again()

    def _failed(self, failure: Failure) -> None:
        self._log.failure("the delivery offsets of delayed messages were not saved", failure)
        self._try_again()

    def _try_again(self) -> None:
        self._unsaved = True
        self._next = self._clock.seconds() + _RETRY_SECONDS
