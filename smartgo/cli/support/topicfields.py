"""The permission and the queue offsets of a topic, as commands show them."""

from __future__ import annotations

import msgspec

from smartgo.client.internal.route import READ, WRITE
from smartgo.schema.bodies import TopicStatsTable


class QueueBounds(msgspec.Struct, frozen=True):
    """The offsets of one queue."""

    broker: str
    queue: int
    minimum: int
    maximum: int
    messages: int
    last_ms: int


def perm_text(perm: int) -> str:
    """Return a topic's permission as letters, such as C{rw}."""
    return ("r" if perm & READ else "-") + ("w" if perm & WRITE else "-")


def queue_bounds(found: TopicStatsTable) -> list[QueueBounds]:
    """Return the offsets of each queue of a topic."""
    return [
        QueueBounds(
            queue.broker_name,
            queue.queue_id,
            one.min_offset,
            one.max_offset,
            one.max_offset - one.min_offset,
            one.last_update_timestamp,
        )
        for queue, one in sorted(found.offset_table.items())
    ]
