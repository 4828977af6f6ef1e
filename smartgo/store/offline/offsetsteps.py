"""
Records whose queue offset is out of step: the head of a record has no checksum, so the offset in it may be damaged.

A record is out of step if those before and after it in its queue go on counting without it, or if its offset lies where
no queue gets. The recovery leaves such a record out (L{smartgo.store.queues.unitruns}).
"""

from __future__ import annotations

from smartgo.schema.message import StoredMessage
from smartgo.store.queues.file import QueueKey
from smartgo.store.queues.unitruns import HIGHEST, LONGEST_GAP


class OffsetSteps:
    """
    Follows the offsets of all queues through a log.

    @ivar misplaced: the records that were found out of step, without their bodies.
    """

    def __init__(self) -> None:
        self._queues: dict[QueueKey, _QueueSteps] = {}
        self.misplaced: list[StoredMessage] = []

    def take(self, message: StoredMessage) -> list[StoredMessage]:
        """Take the next record of the log; return those records of its queue that are in step, oldest first."""
        key = (message.topic, message.queue_id)
        steps = self._queues.get(key)
        if steps is None:
            steps = self._queues[key] = _QueueSteps(self.misplaced)
        return steps.take(message)

    def finish(self) -> list[StoredMessage]:
        """Return the last records of queues that are in step after all."""
        found = [message for steps in self._queues.values() for message in steps.finish()]
        self._queues.clear()
        return found


class _QueueSteps:
    """Follows the offsets of one queue; records that are kept for later are kept without their bodies."""

    __slots__ = ("_end", "_end_before", "_misplaced", "_odd", "_unconfirmed")

    def __init__(self, misplaced: list[StoredMessage]) -> None:
        """@param misplaced: gets the records that are out of step."""
        self._misplaced = misplaced
        self._end: int | None = None  # the offset that follows
        self._end_before: int | None = None  # the one that followed before the unconfirmed record
        self._unconfirmed: StoredMessage | None = None  # the first record of a run, until a second one continues it
        self._odd: StoredMessage | None = None  # a record that does not follow

    def take(self, message: StoredMessage) -> list[StoredMessage]:
        """Take the next record; return those that are in step, oldest first."""
        end, odd = self._end, self._odd
        if end is None:
            if message.queue_offset >= HIGHEST:
                self._misplaced.append(_without_body(message))
                return []
            return self._begin_run(message)
        if odd is None:
            if message.queue_offset == end:
                return self._continue_run(message)
            self._odd = _without_body(message)
            return []
        self._odd = None
        if message.queue_offset == end + 1 or (message.queue_offset == end and not _follows(odd, message)):
            self._misplaced.append(odd)
            return self._continue_run(message)
        if _is_possible(odd.queue_offset, end):
            return [*self._begin_run(odd), *self.take(message)]
        if self._unconfirmed is not None and self._contradict(end, odd, message):
            self._misplaced.append(self._unconfirmed)
            self._unconfirmed = None
            self._end = self._end_before
            return [*self.take(odd), *self.take(message)]
        self._misplaced.append(odd)
        return self.take(message)

    def finish(self) -> list[StoredMessage]:
        """Return the last records that are in step after all."""
        found = [] if self._unconfirmed is None else [self._unconfirmed]
        if self._odd is not None and self._end is not None:
            if _is_possible(self._odd.queue_offset, self._end):
                found.append(self._odd)
            else:
                self._misplaced.append(self._odd)
        return found

    def _begin_run(self, message: StoredMessage) -> list[StoredMessage]:
        """Go on at a record's offset; return the record that waited for its run to be continued."""
        found = [] if self._unconfirmed is None else [self._unconfirmed]
        self._end_before, self._end = self._end, message.queue_offset + 1
        self._unconfirmed = _without_body(message)
        return found

    def _continue_run(self, message: StoredMessage) -> list[StoredMessage]:
        """Go on with a record that confirms those before it; return it and the one that waited for it."""
        found = [message] if self._unconfirmed is None else [self._unconfirmed, message]
        self._unconfirmed = None
        self._end = message.queue_offset + 1
        return found

    def _contradict(self, end: int, odd: StoredMessage, message: StoredMessage) -> bool:
        """Tell whether the last two records go with one another, and not with the unconfirmed one before them."""
        before = self._end_before
        return (
            (_follows(odd, message) or not _is_possible(message.queue_offset, end))
            and odd.queue_offset < message.queue_offset <= odd.queue_offset + LONGEST_GAP
            and (before is None or _is_possible(odd.queue_offset, before))
        )


def _without_body(message: StoredMessage) -> StoredMessage:
    """Return a record whose body does not keep the piece of the log in memory that it was decoded from."""
    return message._replace(body=b"")


def _follows(odd: StoredMessage, message: StoredMessage) -> bool:
    return message.queue_offset == odd.queue_offset + 1


def _is_possible(offset: int, end: int) -> bool:
    """Tell whether a queue may go on there: after messages that are lost, or anew after it was deleted."""
    return offset == 0 or end <= offset <= end + LONGEST_GAP
