"""
The delivery of timed messages (docs/spec/broker#timer), which the store's timer log knows by their delivery time.

A message is delivered when the broker's wall clock shows its time, to the millisecond, and never before. One timer
waits for the earliest. It looks at the wall clock again each second at the latest while something waits, so that a
clock that was set forward delays nothing by more than that. After the clock was set back a message waits until the
clock shows its time again.

The copy and the note that it was delivered are one record of the log (L{smartgo.schema.timers}). So after a kill no
message is delivered again, and none is lost; after a power failure a copy that was not flushed is made again.

A message whose record cannot be read now waits aside and is tried again, and stops no other; so do the messages that a
recall may concern whose record cannot be read.

A recall is a message of its own, which comes before all messages that are due in the same second, as in RocketMQ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.broker.figures.lateness import Lateness
from smartgo.env.interfaces import IClock
from smartgo.errors import BadRecord, MessageIllegal, RequestRefused
from smartgo.schema import properties as names
from smartgo.schema.message import NewMessage, StoredMessage
from smartgo.schema.properties import decode, encode, tag_code
from smartgo.schema.record import decode as decode_record
from smartgo.schema.timers import RECALL_ENTRY, TimerEntry, mark_of
from smartgo.schema.topics import CLOSED_TO_SENDS, is_topic
from smartgo.store.interfaces import Appended, IMessageStore
from smartgo.store.timer.timerlog import TimerLog

_RETRY_SECONDS: Final = 1.0  # after a refusal
_ERROR_SECONDS: Final = 10.0  # after a bug
_LOOK_AGAIN_SECONDS: Final = 1.0
_TURN: Final = 64  # messages delivered before the reactor is given back
_SECOND_MS: Final = 1000
_ASIDE_SECONDS: Final = 10.0  # from a failed read of a record to the next attempt
_MOST_ASIDE: Final = 1024  # messages that wait for that; with more, all others wait too


def delivered_copy(stored: StoredMessage, now_ms: int) -> NewMessage | None:
    """
    Return what to append when a timed message is due; C{None} where it has to be discarded.

    TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS are added as in RocketMQ, except where there is no room for them. REAL_TOPIC
    and REAL_QID stay, as a running broker of RocketMQ 5.3.3 shows (its source removes them after it built the string).

    @param now_ms: the wall clock.
    """
    properties = decode(stored.properties)
    topic = properties.get(names.REAL_TOPIC)
    queue = properties.get(names.REAL_QID, "")
    if topic is None or topic in CLOSED_TO_SENDS or not is_topic(topic) or not (queue.isascii() and queue.isdigit()):
        return None
    properties[names.TIMER_ENQUEUE_MS] = str(stored.stored_ms)
    properties[names.TIMER_DEQUEUE_MS] = str(now_ms)
    raw = encode(properties)
    if len(raw) > names.SIZE_LIMIT:
        raw = bytes(stored.properties)
    tags = tag_code(properties.get(names.TAGS))
    return stored.copy_to(topic, int(queue), raw, mark_of(stored.physical_offset), tags)


class TimerDelivery:
    """
    The delivery of one broker's timed messages.

    @ivar lateness: how long after their time messages were delivered.
    @ivar recalled: how many messages were recalled, since the start.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        store: IMessageStore,
        timers: TimerLog,
        delivered: Callable[[NewMessage, Appended], None] = lambda message, appended: None,
    ) -> None:
        """
        @param delivered: told each message that was delivered, and where.
        """
        self._clock = clock
        self._store = store
        self._timers = timers
        self._delivered = delivered
        self._timer: IDelayedCall | None = None
        self._running = False
        self._busy = False
        self._refused = False  # the broker took no messages when the last ones were due
        self._recalls: dict[TimerEntry, tuple[str, str]] = {}  # those that may still meet their message
        self._aside: list[TimerEntry] = []  # those whose records cannot be read now
        self._aside_until = 0.0  # by the clock
        self.lateness = Lateness()
        self.recalled = 0

    @property
    def waiting(self) -> int | None:
        """The number of messages that wait and are not recalled; C{None} until the store has found out what waits."""
        return self._timers.count if self._timers.ready else None

    @property
    def idle(self) -> bool:
        """True while nothing is being delivered."""
        return not self._busy

    def start(self) -> None:
        """Begin to deliver."""
        self._running = True
        self._timers.when_changed(self._look)
        self._look()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._running = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._take_back()

    # -- when --------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Set the timer for the earliest message."""
        if not self._running or self._busy:
            return
        next_ms = self._timers.next_ms
        if next_ms is not None:
            self._wait((next_ms - self._clock.wall_ms()) / 1000)
        elif self._timers.count or self._recalls or self._aside:
            self._wait(_LOOK_AGAIN_SECONDS)

    def _wait(self, seconds: float) -> None:
        seconds = min(max(seconds, 0.0), _LOOK_AGAIN_SECONDS)
        if self._timer is None:
            self._timer = self._clock.callLater(seconds, self._turn)
        elif self._clock.seconds() + seconds < self._timer.getTime():
            self._timer.reset(seconds)

    def _turn(self) -> None:
        self._timer = None
        self._busy = True
        Deferred.fromCoroutine(self._deliver_due()).addBoth(self._looked)

    def _looked(self, result: float | Failure) -> None:
        self._busy = False
        if isinstance(result, Failure):
            self._log.failure("timed messages are not delivered for now", result)
            result = _ERROR_SECONDS
        if not self._running:
            return
        if result > 0:
            self._timer = self._clock.callLater(result, self._turn)
        else:
            self._look()

    # -- what --------------------------------------------------------------------------------------------------

    async def _deliver_due(self) -> float:
        """Deliver some of what is due; return how many seconds to wait, 0: until the next one is due."""
        if self._aside and self._clock.seconds() >= self._aside_until:
            self._take_back()
        entries = self._timers.take_due(self._clock.wall_ms(), _TURN)
        if not entries:
            self._forget_recalls()
            return 0.0
        left = list(entries)
        try:
            records = await self._timers.read(entries)
            for entry, record in zip(entries, records, strict=True):
                if not self._running:
                    return 0.0
                if isinstance(record, OSError) or self._awaits_recall(entry):
                    if len(self._aside) >= _MOST_ASIDE:
                        return _ASIDE_SECONDS
                    self._put_aside(entry, record)
                else:
                    self._deliver(entry, record)
                left.remove(entry)
        except RequestRefused as error:
            if not self._refused:
                self._log.warn("timed messages wait until the broker takes messages: {error}", error=str(error))
            self._refused = True
            return _RETRY_SECONDS
        finally:
            for entry in left:
                self._timers.give_back(entry)
            self._store.end_run()
        if self._refused:
            self._refused = False
            self._log.info("timed messages are delivered again")
        self._forget_recalls()
        return 0.0

    def _put_aside(self, entry: TimerEntry, record: bytes | OSError | None) -> None:
        """Let a message wait that cannot be delivered now; others are delivered meanwhile."""
        if not self._aside:
            self._aside_until = self._clock.seconds() + _ASIDE_SECONDS
            self._log.warn(
                "timed messages cannot be read, the first at {offset}; trying again: {error}",
                offset=entry.commitlog_offset,
                error=str(record),
            )
        self._aside.append(entry)

    def _awaits_recall(self, entry: TimerEntry) -> bool:
        """Tell whether a recall waits aside that may be of this message."""
        return any(
            one.kind == RECALL_ENTRY and one.due_ms <= entry.due_ms < one.due_ms + _SECOND_MS for one in self._aside
        )

    def _take_back(self) -> None:
        """Let the messages that wait aside wait with all others again."""
        aside, self._aside = self._aside, []
        for entry in aside:
            self._timers.give_back(entry)

    def _deliver(self, entry: TimerEntry, record: bytes | None) -> None:
        """
        Append the copy of one message that is due, or discard what can never be delivered.

        @raise RequestRefused: the store takes nothing at the moment.
        """
        if record is None:
            self._discard(entry, "its record cannot be read")
            return
        stored = decode_record(record)
        properties = decode(stored.properties)
        real = properties.get(names.REAL_TOPIC, "")
        if entry.kind == RECALL_ENTRY:
            self._recalls[entry] = real, properties.get(names.TIMER_DEL_UNIQKEY, "")
            return
        if self._is_recalled(entry, real, properties.get(names.UNIQ_KEY)):
            self.recalled += 1
            self._timers.done(entry)
            return
        now_ms = self._clock.wall_ms()
        message = delivered_copy(stored, now_ms)
        if message is None:
            self._discard(entry, "it has no destination")
            return
        try:
            appended = self._store.append((message,))
        except (BadRecord, MessageIllegal) as error:
            self._discard(entry, str(error))
            return
        self._timers.done(entry)
        self.lateness.add(now_ms - entry.due_ms)
        self._delivered(message, appended)

    def _discard(self, entry: TimerEntry, reason: str) -> None:
        self._log.error(
            "the timed message at {offset} is discarded: {reason}", offset=entry.commitlog_offset, reason=reason
        )
        self._timers.done(entry)

    def _is_recalled(self, entry: TimerEntry, topic: str, unique_id: str | None) -> bool:
        return any(
            what == (topic, unique_id) and recall.due_ms <= entry.due_ms < recall.due_ms + _SECOND_MS
            for recall, what in self._recalls.items()
        )

    def _forget_recalls(self) -> None:
        """Forget the recalls of seconds of which everything was delivered."""
        if self._aside:
            return
        for recall in list(self._recalls):
            if self._timers.is_clear(recall.due_ms + _SECOND_MS - 1):
                del self._recalls[recall]
                self._timers.done(recall)
