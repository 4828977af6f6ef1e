"""Ranges of queues: what a batch reads, its cut into partitions, and the size of a micro-batch. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class Queue(NamedTuple):
    """
    One queue of a topic at one broker.

    @ivar broker: the broker's name, which a master and its slaves share.
    """

    topic: str
    broker: str
    queue_id: int

    @property
    def place(self) -> str:
        """C{broker:queue id}, the form of offsets."""
        return f"{self.broker}:{self.queue_id}"

    def __str__(self) -> str:
        """Name the queue in messages to people."""
        return f"topic {self.topic}, queue {self.place}"


@dataclass(frozen=True)
class QueueRange:
    """
    A part of one queue that one task reads.

    @ivar begin: queue offset of the first message; C{end} after the last.
    @ivar addresses: C{host:port} of the broker's master, then of its slaves.
    """

    queue: Queue
    begin: int
    end: int
    addresses: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """The offsets in it."""
        return self.end - self.begin


Offsets = Mapping[Queue, int]


def ranges(begins: Offsets, ends: Offsets) -> list[QueueRange]:
    """Return what lies between two offsets of each queue, the queues in order, empty ranges left out."""
    return [
        QueueRange(queue, begins[queue], end)
        for queue, end in sorted(ends.items())
        if queue in begins and begins[queue] < end
    ]


def cut(whole: Sequence[QueueRange], minimum: int | None, most: int | None) -> list[QueueRange]:
    """
    Cut ranges into partitions.

    @param minimum: partitions wanted, C{minPartitions}: the longest parts are halved, as it were, until there are as
        many; fewer where there are not so many messages.
    @param most: messages of a partition at most, C{maxRecordsPerPartition}.
    """
    parts = [1 if most is None else -(-one.count // most) for one in whole]
    for _ in range(sum(parts), min(minimum or 0, sum(one.count for one in whole))):
        longest = max(range(len(whole)), key=lambda at: whole[at].count / parts[at])
        parts[longest] += 1
    return [piece for one, count in zip(whole, parts, strict=True) for piece in _pieces(one, count)]


def _pieces(whole: QueueRange, count: int) -> list[QueueRange]:
    """Cut a range into so many parts of about the same length."""
    bounds = [whole.begin + whole.count * at // count for at in range(count + 1)]
    return [replace(whole, begin=bounds[at], end=bounds[at + 1]) for at in range(count)]


def share(begins: Offsets, ends: Offsets, limit: int | None) -> dict[Queue, int]:
    """
    Return where a micro-batch of at most about C{limit} messages ends in each queue, in proportion to what waits.

    As with Kafka's source, each queue in which something waits gets one message at least.

    @param limit: C{maxOffsetsPerTrigger}, C{None} for all.
    """
    waiting = {queue: max(0, end - begins[queue]) for queue, end in ends.items()}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return dict(ends)
    return {
        queue: min(ends[queue], begins[queue] + max(1, limit * waits // total)) if waits else ends[queue]
        for queue, waits in waiting.items()
    }
