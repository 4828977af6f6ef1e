"""
Queues that an operator took away, by deleting or shrinking their topic.

Their messages stay in the log, and those of a topic that shrank stay in the store. So recovery could not tell a queue
that was taken away from one whose settings were lost (D15), without this table. It is saved late, with the topics, and
may be older than the store: so it holds where the log ended, too. A queue whose last message lies behind that place
has been used since, as its topic was made anew or grew again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from smartgo.schema.bodies import TopicConfig

LIMIT: Final = 20_000


class Removed(NamedTuple):
    """
    The queues that one topic lost.

    @ivar queues: how many queues the topic had.
    @ivar at: physical offset of the log's end when it lost some or all of them.
    """

    queues: int
    at: int


class RemovedQueues:
    """The removed queues, by topic; of more than L{LIMIT} topics the oldest are forgotten."""

    def __init__(self, log_end: Callable[[], int]) -> None:
        """@param log_end: returns the physical offset at which the store's log ends."""
        self._log_end = log_end
        self._table: dict[str, Removed] = {}

    def __contains__(self, topic: object) -> bool:
        return topic in self._table

    def clear(self) -> None:
        """Forget all removed queues."""
        self._table.clear()

    def load(self, queues: Mapping[str, int], at: Mapping[str, int]) -> None:
        """Load what L{counts} and L{places} returned; a queue without a place counts as used since."""
        self._table = {topic: Removed(had, at.get(topic, 0)) for topic, had in queues.items()}

    def counts(self) -> dict[str, int]:
        """Return how many queues each topic had."""
        return {topic: one.queues for topic, one in self._table.items()}

    def places(self) -> dict[str, int]:
        """Return where the log ended when each topic lost queues."""
        return {topic: one.at for topic, one in self._table.items()}

    def remember(self, config: TopicConfig) -> None:
        """Note that a topic with these settings loses queues now."""
        topic = config.topic_name
        before = self._table.pop(topic, None)
        had = max(0 if before is None else before.queues, config.read_queue_nums, config.write_queue_nums)
        self._table[topic] = Removed(had, self._log_end())
        if len(self._table) > LIMIT:
            del self._table[next(iter(self._table))]

    def settle(self, config: TopicConfig) -> None:
        """Forget what a topic lost that has as many queues again."""
        removed = self._table.get(config.topic_name)
        if removed is not None and config.read_queue_nums >= removed.queues:
            del self._table[config.topic_name]

    def holds(self, topic: str, queue_id: int, last: Callable[[str, int], int]) -> bool:
        """
        Tell whether a queue was taken away, and not used since.

        @param last: returns the physical offset of the last message of a queue.
        """
        removed = self._table.get(topic)
        return removed is not None and queue_id < removed.queues and last(topic, queue_id) < removed.at

    def keep_within_log(self) -> bool:
        """
        Move log ends behind the end of the log back to it: a power failure cut the log, and what is stored next is new.

        @return: whether anything changed.
        """
        end = self._log_end()
        beyond = {topic: one._replace(at=end) for topic, one in self._table.items() if one.at > end}
        self._table.update(beyond)
        return bool(beyond)
