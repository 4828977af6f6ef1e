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

    @ivar misplaced: the records that were found out of step.
    """

    def __init__(self) -> None:
        self._ends: dict[QueueKey, int] = {}  # the offset that follows in a queue
        self._odd: dict[QueueKey, StoredMessage] = {}  # a record that does not follow
        self.misplaced: list[StoredMessage] = []

    def take(self, message: StoredMessage) -> list[StoredMessage]:
        """Take the next record of the log; return those records of its queue that are in step, oldest first."""
        key = (message.topic, message.queue_id)
        end = self._ends.get(key)
        odd = self._odd.pop(key, None)
        if odd is not None and end is not None:
            if message.queue_offset == end + 1 or (message.queue_offset == end and not _goes_on(odd, message)):
                self.misplaced.append(odd)
                self._ends[key] = message.queue_offset + 1
                return [message]
            if not _is_possible(odd.queue_offset, end):
                self.misplaced.append(odd)
                return self.take(message)
            self._ends[key] = odd.queue_offset + 1
            return [odd, *self.take(message)]
        if (end is None and message.queue_offset < HIGHEST) or message.queue_offset == end:
            self._ends[key] = message.queue_offset + 1
            return [message]
        if end is None:
            self.misplaced.append(message)
        else:
            self._odd[key] = message
        return []

    def finish(self) -> list[StoredMessage]:
        """Return the last records of queues that are in step after all."""
        found = []
        for key, odd in self._odd.items():
            if _is_possible(odd.queue_offset, self._ends[key]):
                found.append(odd)
            else:
                self.misplaced.append(odd)
        self._odd.clear()
        return found


def _goes_on(odd: StoredMessage, message: StoredMessage) -> bool:
    return message.queue_offset == odd.queue_offset + 1


def _is_possible(offset: int, end: int) -> bool:
    """Tell whether a queue may go on there: after messages that are lost, or anew after it was deleted."""
    return offset == 0 or end <= offset <= end + LONGEST_GAP
