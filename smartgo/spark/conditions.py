"""
The conditions that select rows by columns alone, from pushed filters and from the options.

Spark looks at every row again, so a condition that is left out here costs time and never rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import numpy as np
from numpy import ndarray

from smartgo.spark.options import EARLIEST, LATEST, ReadOptions, is_subscribed

NUMBERS: Final = ("queue_id", "queue_offset", "physical_offset", "store_timestamp")
"""Columns that conditions may be about, besides C{topic}; C{store_timestamp} is in milliseconds here."""

Operator = Literal["==", "<", "<=", ">", ">="]
_COMPARE: Final[Mapping[Operator, Callable[[Any, int], Any]]] = {
    "==": lambda column, value: column == value,
    "<": lambda column, value: column < value,
    "<=": lambda column, value: column <= value,
    ">": lambda column, value: column > value,
    ">=": lambda column, value: column >= value,
}
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1


@dataclass(frozen=True)
class Comparison:
    """A column compared with a number."""

    column: str
    operator: Operator
    value: int


@dataclass(frozen=True)
class OneOf:
    """The condition that a column equals one of some numbers."""

    column: str
    values: frozenset[int]


@dataclass(frozen=True)
class Conditions:
    """
    Conditions that a row must meet, all of them.

    @ivar topics: the topics wanted, C{None} for all; C{topic_pattern}: what all of a topic's name must match besides.
    @ivar first_offsets: queue offsets below which nothing is wanted, by topic and queue id; C{end_offsets}: from which
        on.
    @ivar key: a key that a message must have; C{unique_key}: the id that its client gave it; C{None} for any.
    """

    topics: frozenset[str] | None = None
    numbers: tuple[Comparison | OneOf, ...] = ()
    first_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    end_offsets: Mapping[tuple[str, int], int] = field(default_factory=dict)
    topic_pattern: re.Pattern[str] | None = None
    key: str | None = None
    unique_key: str | None = None

    @property
    def is_empty(self) -> bool:
        """Tell whether every row is wanted."""
        return not (self.names_topics or self.numbers or self.first_offsets or self.end_offsets or self.names_keys)

    @property
    def names_keys(self) -> bool:
        """Tell whether messages without some key are not wanted."""
        return self.key is not None or self.unique_key is not None

    @property
    def names_topics(self) -> bool:
        """Tell whether some topics are not wanted."""
        return self.topics is not None or self.topic_pattern is not None

    def and_topics(self, topics: Iterable[str]) -> Conditions:
        """Return these conditions with the topic limited to some names."""
        wanted = frozenset(topics)
        kept = wanted if self.topics is None else wanted & self.topics
        return replace(self, topics=kept)

    def and_number(self, condition: Comparison | OneOf) -> Conditions:
        """Return these conditions and one more."""
        return replace(self, numbers=(*self.numbers, condition))

    def span(self, column: str) -> tuple[int, int]:
        """Return the least and the greatest value that a column may have, both inclusive."""
        low, high = _LOWEST, _HIGHEST
        for each in self.numbers:
            if each.column != column:
                continue
            if isinstance(each, OneOf):
                low, high = max(low, min(each.values, default=high)), min(high, max(each.values, default=low))
            elif each.operator in ("==", ">", ">="):
                low = max(low, each.value + (each.operator == ">"))
            if isinstance(each, Comparison) and each.operator in ("==", "<", "<="):
                high = min(high, each.value - (each.operator == "<"))
        return low, high

    def allows_topic(self, topic: str) -> bool:
        """Tell whether rows of a topic can be wanted."""
        return is_subscribed(topic, self.topics, self.topic_pattern)

    def allows_queue(self, topic: str, queue_id: int) -> bool:
        """Tell whether rows of a queue can be wanted."""
        if not self.allows_topic(topic):
            return False
        low, high = self.queue_span(topic, queue_id)
        return low <= high and all(_holds(each, queue_id) for each in self.numbers if each.column == "queue_id")

    def queue_span(self, topic: str, queue_id: int) -> tuple[int, int]:
        """Return the least and the greatest queue offset wanted of a queue."""
        low, high = self.span("queue_offset")
        key = (topic, queue_id)
        return max(low, self.first_offsets.get(key, low)), min(high, self.end_offsets.get(key, high + 1) - 1)

    def select(self, columns: Mapping[str, ndarray[Any, Any]]) -> ndarray[Any, Any] | None:
        """
        Tell which rows meet the conditions about numbers.

        @param columns: by the names of L{NUMBERS}.
        @return: an array of truth values, C{None} for all.
        """
        mask = None
        for each in self.numbers:
            found = _holds(each, columns[each.column])
            mask = found if mask is None else mask & found
        return mask


def _holds(condition: Comparison | OneOf, column: Any) -> Any:
    if isinstance(condition, OneOf):
        return np.isin(column, list(condition.values))
    return _COMPARE[condition.operator](column, condition.value)


def of_options(options: ReadOptions) -> Conditions:
    """Return what the options alone ask for; physical offsets are left to those who cut the log."""
    found = Conditions(
        first_offsets={key: offset for key, offset in options.starting.by_queue.items() if offset != EARLIEST},
        end_offsets={key: offset for key, offset in options.ending.by_queue.items() if offset != LATEST},
        topics=options.topics,
        topic_pattern=options.topic_pattern,
        key=options.key,
        unique_key=options.unique_key,
    )
    if options.queues is not None:
        found = found.and_number(OneOf("queue_id", options.queues))
    if options.starting_ms is not None:
        found = found.and_number(Comparison("store_timestamp", ">=", options.starting_ms))
    if options.ending_ms is not None:
        found = found.and_number(Comparison("store_timestamp", "<", options.ending_ms))
    return found
