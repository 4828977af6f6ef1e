"""Read the newest messages of a topic, of all its queues together."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import inf
from typing import Final

from smartgo.client.internal.records import FoundMessage
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import PartialView, each
from smartgo.schema.bodies import MessageQueue

_LEAST: Final = 2  # messages that are read of a queue at a time
_TURNS: Final = 4  # looks at a queue for each message that is wanted, at most


@dataclass
class _QueueEnd:
    """One queue, read from its end: C{read} has what was not given out yet, the newest last; C{bound} their age."""

    queue: MessageQueue
    low: int
    at: int
    bound_ms: int
    read: deque[FoundMessage] = field(default_factory=deque)

    @property
    def age(self) -> tuple[float, float]:
        """Return when its next message was stored, and where in the log; as late as possible if it was not read yet."""
        if not self.read:
            return self.bound_ms, inf
        return self.read[-1].stored.stored_ms, self.read[-1].stored.physical_offset


class NewestMessages:
    """Reads the ends of queues. Of a broker that does not answer, the view notes that it is missing."""

    def __init__(self, view: PartialView) -> None:
        self._view = view
        self._reader = ClusterQueueReader(view)

    async def of(self, topic: str, count: int) -> list[FoundMessage]:
        """
        Return the newest messages of a topic, the newest first.

        So many lie in as many queues at most: those whose last message is the newest. All of them are read a little,
        and those whose turn comes again more.

        @raise Problem: 404, there is no such topic.
        @raise CallFailed: no broker lets it be read.
        """
        entry = await self._view.topic(topic)
        stats = await self._view.admin.topics.stats(entry.name)
        ends = [
            _QueueEnd(queue, one.min_offset, one.max_offset, one.last_update_timestamp)
            for queue, one in stats.offset_table.items()
            if one.max_offset > one.min_offset
        ]
        if not ends:
            return []
        ends.sort(key=lambda one: -one.bound_ms)
        last_ms = ends[min(count, len(ends)) - 1].bound_ms  # several may end at the same time
        ends = [one for one in ends[: 2 * count] if one.bound_ms >= last_ms]
        piece = max(_LEAST, -(-count // len(ends)))
        failures = [one for one in await each(ends, lambda end: self._extend(end, piece)) if one is not None]
        if len(failures) == len(ends):
            raise failures[0]
        found: list[FoundMessage] = []
        for _ in range(_TURNS * count):  # whole ranges may be unreadable
            left = [one for one in ends if one.read or one.at > one.low]
            if not left or len(found) == count:
                break
            end = max(left, key=lambda one: one.age)
            if end.read:
                found.append(end.read.pop())
                end.bound_ms = found[-1].stored.stored_ms
            else:
                await self._extend(end, piece)
        return found

    async def _extend(self, end: _QueueEnd, count: int) -> CallFailed | None:
        """Read some messages before those that were read; return why not, and read no more of the queue then."""
        begin = max(end.low, end.at - count)
        try:
            messages = await self._reader.piece(end.queue, begin, end.at)
        except PeerRefused as error:
            end.at = end.low
            return error
        except CallFailed as error:
            self._view.missing.note(end.queue.broker_name, error)
            end.at = end.low
            return error
        end.at = begin
        end.read.extend(messages)
        return None
