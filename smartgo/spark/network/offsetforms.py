"""
The forms in which options name queues and positions, as JSON: C{{"topic": {"broker:queue": offset}}}. No I/O.

A queue is C{broker:queue id}, or the id alone where the topic is at one broker.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from smartgo.errors import SettingError
from smartgo.spark.network.queueranges import Queue
from smartgo.spark.options import EARLIEST, LATEST

_OFFSETS: Final = 'earliest, latest and {"TOPIC": {"BROKER:QUEUE": OFFSET}}'


@dataclass(frozen=True, order=True)
class NamedQueue:
    """
    A queue as an option names it.

    @ivar broker: C{None} if it is not told.
    """

    topic: str
    broker: str | None
    queue_id: int

    def __str__(self) -> str:
        """Name the queue as the option does."""
        place = str(self.queue_id) if self.broker is None else f"{self.broker}:{self.queue_id}"
        return f"topic {self.topic}, queue {place}"


@dataclass(frozen=True)
class PositionByQueue:
    """
    A position in every queue: where to begin, or to end at (exclusive).

    @ivar named: L{EARLIEST} or L{LATEST}, for queues that are not named otherwise.
    @ivar offsets: by queue, L{EARLIEST} and L{LATEST} for the ends.
    @ivar at_ms: the first message stored at or after this time, in each queue that C{times} does not name.
    @ivar times: such times by queue, in ms.
    """

    named: int = EARLIEST
    offsets: Mapping[NamedQueue, int] = field(default_factory=dict)
    at_ms: int | None = None
    times: Mapping[NamedQueue, int] = field(default_factory=dict)

    @property
    def queues(self) -> Collection[NamedQueue]:
        """The queues that are named."""
        return [*self.offsets, *self.times]


def named_offsets(text: str, otherwise: int) -> PositionByQueue:
    """
    Read C{startingOffsets} or C{endingOffsets}.

    @param otherwise: what holds for queues that are not named.
    @raise ValueError: it has none of the forms.
    """
    ends = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in ends:
        return PositionByQueue(ends[text.lower()])
    return PositionByQueue(otherwise, _by_queue(text, EARLIEST, _OFFSETS))


def named_times(text: str, otherwise: int) -> PositionByQueue:
    """Read C{startingOffsetsByTimestamp} or C{endingOffsetsByTimestamp}. @raise ValueError: it has another form."""
    return PositionByQueue(otherwise, times=_by_queue(text, 0, '{"TOPIC": {"BROKER:QUEUE": MILLISECONDS}}'))


def _by_queue(text: str, least: int, forms: str) -> dict[NamedQueue, int]:
    value = _loaded(text)
    if not isinstance(value, dict) or not value or not all(isinstance(one, dict) for one in value.values()):
        raise ValueError(f"{text!r} is not one of {forms}")
    found = {}
    for topic, queues in value.items():
        for place, number in queues.items():
            if not isinstance(number, int) or isinstance(number, bool) or number < least:
                raise ValueError(f"{number!r} of topic {topic}, queue {place}, is not a number from {least} on")
            found[named_queue(topic, place)] = number
    return found


def assigned(text: str) -> frozenset[NamedQueue]:
    """Read C{assign}: C{{"topic": ["broker:0", 1]}}. @raise ValueError: it has another form."""
    value = _loaded(text)
    if not isinstance(value, dict) or not value or not all(isinstance(one, list) and one for one in value.values()):
        raise ValueError(f'{text!r} is not of the form {{"TOPIC": ["BROKER:QUEUE", ...]}}')
    return frozenset(named_queue(topic, place) for topic, places in value.items() for place in places)


def named_queue(topic: str, place: Any) -> NamedQueue:
    """Read C{broker:queue id} or a queue id. @raise ValueError: it is neither."""
    broker, colon, digits = str(place).rpartition(":")
    if isinstance(place, bool) or not (digits.isascii() and digits.isdigit()) or bool(colon) != bool(broker):
        raise ValueError(f"{place!r} of topic {topic} is neither a queue number nor BROKER:QUEUE")
    return NamedQueue(topic, broker or None, int(digits))


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def resolved(named: Iterable[NamedQueue], queues: Collection[Queue], option: str) -> dict[NamedQueue, Queue]:
    """
    Find the queues that an option names.

    @param queues: those that are read.
    @raise SettingError: one is none of them, or several brokers have it.
    """
    found = {}
    for one in named:
        alike = [
            queue
            for queue in queues
            if (queue.topic, queue.queue_id) == (one.topic, one.queue_id) and one.broker in (None, queue.broker)
        ]
        if not alike:
            raise SettingError(f"option {option}: {one} is not among the queues that are read")
        if len(alike) > 1:
            brokers = ", ".join(sorted(queue.broker for queue in alike))
            raise SettingError(f"option {option}: {one} is at brokers {brokers}: name it as BROKER:QUEUE")
        found[one] = alike[0]
    return found


def as_json(offsets: Mapping[Queue, int]) -> dict[str, dict[str, int]]:
    """Return offsets in the form of options, checkpoints and progress reports, sorted: Spark compares the texts."""
    found: dict[str, dict[str, int]] = {}
    for queue, offset in sorted(offsets.items()):
        found.setdefault(queue.topic, {})[queue.place] = offset
    return found


def from_json(value: Mapping[str, Mapping[str, int]]) -> dict[Queue, int]:
    """Return the offsets that L{as_json} wrote. @raise SettingError: it did not write them."""
    found = {}
    for topic, queues in value.items():
        for place, offset in queues.items() if isinstance(queues, Mapping) else [("", 0)]:
            broker, _, digits = place.rpartition(":")
            if not broker or not digits.isdigit():
                raise SettingError(f"the checkpoint is of another source: {topic!r} has no offsets of queues in it")
            found[Queue(topic, broker, int(digits))] = offset
    return found
