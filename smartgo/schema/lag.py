"""
The lag of consumer groups, in messages and in time, from their progress (208).

REST, console, command line, alerts and metrics all use this one definition (docs/spec/broker#statistics): a message
waits until its group has acknowledged it, or retention has removed it; the time lag is the age of the oldest message
that waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from smartgo.schema.bodies.progress import ConsumeStats, OffsetWrapper


class Lag(NamedTuple):
    """
    The lag of a group over some queues.

    @ivar messages: how many wait.
    @ivar oldest_ms: when the oldest of them was stored, in ms since the epoch; 0 if none waits; C{None} if brokers do
        not tell.
    """

    messages: int
    oldest_ms: int | None

    def waited_ms(self, now_ms: int) -> int | None:
        """Return the age of the oldest message that waits, in ms; 0 if none waits; C{None} if unknown."""
        if self.oldest_ms is None:
            return None
        return max(0, now_ms - self.oldest_ms) if self.oldest_ms else 0


def lag_over(queues: Iterable[OffsetWrapper]) -> Lag:
    """
    Sum up the lag of a group over queues.

    For the queue of a RocketMQ broker, which does not tell the oldest message, the last consumed message stands in; if
    the group has consumed none there, the age is unknown.
    """
    messages = oldest_ms = 0
    known = True
    for one in queues:
        waiting = max(0, one.broker_offset - max(one.consumer_offset, one.min_offset))
        if not waiting:
            continue
        messages += waiting
        since_ms = one.waiting_since or one.last_timestamp
        if since_ms > 0:
            oldest_ms = min(oldest_ms or since_ms, since_ms)
        else:
            known = False
    return Lag(messages, oldest_ms if known or oldest_ms else None)


def acknowledged_tps(stats: ConsumeStats) -> float:
    """
    Return the messages per second that a group acknowledged in the last minute.

    RocketMQ's brokers tell only what they delivered to it.
    """
    return stats.consume_tps if stats.acknowledged_tps is None else stats.acknowledged_tps
