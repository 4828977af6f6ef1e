"""
The messages of one queue that a push consumer has pulled and not yet consumed.

Source: C{client/impl/consumer/ProcessQueue.java}.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec
from twisted.internet.defer import Deferred, succeed

from smartgo.client.internal.settingchecks import check_int, check_optional_int
from smartgo.client.messages import ReceivedMessage
from smartgo.net.limits import MIB
from smartgo.observer import Waiters
from smartgo.schema.bodies import MessageQueue, ProcessQueueInfo

LOCK_VALID = 30.0
"""Seconds for which a lock that the broker granted counts, unless it is renewed."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """
    The limits of messages that are fetched from a queue and not consumed yet; at one of them pulling pauses.

    @ivar count: the number of messages.
    @ivar size: the bytes of their bodies.
    @ivar span: the distance between their first and last offset; C{None} for any (orderly consumers).
    @ivar topic_count: the number of messages of all assigned queues of a topic, which is divided among these queues and
        takes the place of C{count}; C{None} for no such limit.
    @ivar topic_size: the same of the bytes of their bodies, in the place of C{size}.
    """

    count: int = 1000
    size: int = 100 * MIB
    span: int | None = 2000
    topic_count: int | None = None
    topic_size: int | None = None

    def __post_init__(self) -> None:
        """@raise smartgo.errors.SettingError: a value is none that a limit can have."""
        check_int(self, "count")
        check_int(self, "size", most=2**63 - 1)
        for field in ("span", "topic_count", "topic_size"):
            check_optional_int(self, field)

    def of_queue(self, queues: int) -> Thresholds:
        """
        Return the limits of one queue of a topic of which C{queues} are assigned.

            >>> Thresholds(topic_count=100).of_queue(4).count
            25
        """
        found = self
        if self.topic_count is not None:
            found = msgspec.structs.replace(found, count=max(1, self.topic_count // queues))
        if self.topic_size is not None:
            found = msgspec.structs.replace(found, size=max(1, self.topic_size // queues))
        return found


class ProcessQueue:
    """
    The messages of one queue, from their pull until they are consumed.

    @ivar queue: the queue.
    @ivar next_offset: where the next pull goes on.
    @ivar dropped: the queue is no longer ours: nothing more is pulled, begun or committed.
    @ivar running: listener calls under way.
    @ivar locked: orderly: the broker gave us the queue; see L{lock_holds}.
    @ivar pulled_at: clock of the last pull that was answered, C{consumed_at} of the last message done with or, before
        the first one, of the queue's start, seconds.
    @ivar has_consumed: whether a message was done with.
    @ivar broker_id: the broker to pull from.
    """

    def __init__(self, queue: MessageQueue, next_offset: int, thresholds: Thresholds, now: float) -> None:
        """
        @param next_offset: where the first pull begins.
        @param now: the monotonic clock, in seconds.
        """
        self.queue = queue
        self.next_offset = next_offset
        self.dropped = False
        self.running = 0
        self.locked = False
        self.locked_at = now
        self.pulled_at = now
        self.consumed_at = now
        self.has_consumed = False
        self.broker_id = 0
        self._thresholds = thresholds
        self._order: deque[int] = deque()
        self._held: dict[int, ReceivedMessage] = {}
        self._size = 0
        self._room: Waiters[None] = Waiters()
        self._idle: Waiters[None] = Waiters()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message: ReceivedMessage) -> bool:
        return self._held.get(message.queue_offset) is message

    @property
    def size(self) -> int:
        """Return the bytes of the bodies held."""
        return self._size

    # -- in and out ------------------------------------------------------------------------------------------

    def put(self, messages: Iterable[ReceivedMessage]) -> None:
        """Add the messages of a pull; offsets rise from pull to pull."""
        held, order = self._held, self._order
        for message in messages:
            offset = message.queue_offset
            if offset not in held:
                held[offset] = message
                order.append(offset)
                self._size += len(message.body)

    def remove(self, messages: Iterable[ReceivedMessage]) -> None:
        """Remove messages that are consumed; those that are no longer held are ignored."""
        held, order = self._held, self._order
        for message in messages:
            offset = message.queue_offset
            if held.get(offset) is message:
                del held[offset]
                self._size -= len(message.body)
        while order and order[0] not in held:
            order.popleft()
        if self._room and self.full is None:
            self._room.fire(None)

    def first(self, count: int) -> list[ReceivedMessage]:
        """Return the first messages held, at most C{count}, without removing them."""
        found: list[ReceivedMessage] = []
        for offset in self._order:
            if len(found) == count:
                break
            message = self._held.get(offset)
            if message is not None:
                found.append(message)
        return found

    @property
    def commit_offset(self) -> int:
        """Return the offset to commit: the lowest one that is not consumed, or that of the next pull."""
        return self._order[0] if self._order else self.next_offset

    def limit(self, thresholds: Thresholds) -> None:
        """Set other limits: another number of queues shares those of the topic."""
        self._thresholds = thresholds
        if self._room and self.full is None:
            self._room.fire(None)

    # -- flow control ----------------------------------------------------------------------------------------

    @property
    def full(self) -> str | None:
        """Return the reason why pulling must pause; C{None} if it may continue."""
        limits = self._thresholds
        if len(self._held) > limits.count:
            return f"{len(self._held)} messages are held, more than {limits.count}"
        if self._size > limits.size:
            return f"{self._size} B are held, more than {limits.size} B"
        if limits.span is not None and self._order and self._order[-1] - self._order[0] > limits.span:
            return f"offsets {self._order[0]} to {self._order[-1]} are held, more than {limits.span} apart"
        return None

    def room(self) -> Deferred[None]:
        """Fire when the queue is no longer full, or was dropped. The Deferred can be cancelled."""
        return succeed(None) if self.full is None or self.dropped else self._room.wait()

    # -- the end ---------------------------------------------------------------------------------------------

    def drop(self) -> None:
        """The queue is no longer ours."""
        self.dropped = True
        self._room.fire(None)

    def begin(self) -> None:
        """Count a listener call that begins."""
        self.running += 1

    def ended(self, now: float) -> None:
        """A listener call, and what follows from its outcome, ended. @param now: clock, in seconds."""
        self.running -= 1
        self.consumed_at = now
        self.has_consumed = True
        if not self.running:
            self._idle.fire(None)

    def idle(self) -> Deferred[None]:
        """Fire when no listener call is in progress. The Deferred can be cancelled."""
        return self._idle.wait() if self.running else succeed(None)

    # -- orderly consumption ---------------------------------------------------------------------------------

    def lock(self, granted: bool, now: float) -> None:
        """The broker granted the queue to us, or to somebody else. @param now: clock, in seconds."""
        self.locked = granted
        if granted:
            self.locked_at = now

    def lock_holds(self, now: float) -> bool:
        """Tell whether the queue is surely ours alone. @param now: clock, in seconds."""
        return self.locked and now - self.locked_at < LOCK_VALID

    def info(self, committed: int, now: float, wall_ms: int) -> ProcessQueueInfo:
        """
        Return the figures of the queue for tools.

        @param committed: where the group stands as far as brokers were told.
        @param now: clock, in seconds; C{wall_ms} the same moment by the wall clock.
        """

        def wall(moment: float) -> int:
            return wall_ms - round((now - moment) * 1000)

        return ProcessQueueInfo(
            commit_offset=committed,
            cached_msg_min_offset=self._order[0] if self._order else 0,
            cached_msg_max_offset=self._order[-1] if self._order else 0,
            cached_msg_count=len(self._held),
            cached_msg_size_in_mib=self._size // MIB,
            locked=self.locked,
            last_lock_timestamp=wall(self.locked_at) if self.locked else 0,
            dropped=self.dropped,
            last_pull_timestamp=wall(self.pulled_at),
            last_consume_timestamp=wall(self.consumed_at),
            never_consumed=None if self.has_consumed else True,
        )
