"""
Consumer offsets: how far each group has come in each queue.

Rules: C{broker.md} section 9, C{reliability.md} D9: written at most every 5 s while something changes, and at stop; a
saved offset may be older than the last commit, never newer. The file is RocketMQ's C{consumerOffset.json}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.saving import Saving
from smartgo.env.interfaces import IClock
from smartgo.schema.bodies import ConsumerOffsetTable
from smartgo.schema.topics import is_group, is_topic
from smartgo.tablefile import TableFile, holding

FLUSH_INTERVAL = 5.0
"""Seconds, C{flushConsumerOffsetInterval}."""

_TALK = 60.0  # seconds between two lines about offsets that went back


class OffsetTable:
    """
    Logical offsets by group, topic and queue.

    @ivar went_back: commits that were smaller than what was there; they count all the same.
    """

    _log = Logger()

    def __init__(self, clock: IClock, file: TableFile | None = None, *, interval: float = FLUSH_INTERVAL) -> None:
        """
        @param file: C{consumerOffset.json}; C{None} keeps the table in memory alone.
        @param interval: seconds from the first unsaved commit to the save.
        """
        self._clock = clock
        self._file = file
        self._table: dict[str, dict[str, dict[int, int]]] = {}
        self._saving = Saving(clock, file, self.wrapper, interval, "offset table")
        self._quiet_until = clock.seconds()
        self.went_back = 0

    def __contains__(self, group: object) -> bool:
        return group in self._table

    def __len__(self) -> int:
        return len(self._table)

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set how far a group has come in a queue, forwards or back. Names and ranges are the caller's affair."""
        try:
            queues = self._table[group][topic]
        except KeyError:
            queues = self._table.setdefault(group, {}).setdefault(topic, {})
        old = queues.get(queue_id)
        if old != offset:
            queues[queue_id] = offset
            self._saving.changed()
            if old is not None and offset < old:
                self._back(group, topic, queue_id, offset, old)

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """How far a group has come in a queue; C{None}: it never committed there."""
        try:
            return self._table[group][topic].get(queue_id)
        except KeyError:
            return None

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """A copy of a group's offsets in a topic, by queue id."""
        return dict(self._table.get(group, {}).get(topic, {}))

    def topics_of(self, group: str) -> list[str]:
        """The topics in which a group has committed, sorted."""
        return sorted(self._table.get(group, {}))

    def groups_of(self, topic: str) -> list[str]:
        """The groups that have committed in a topic, sorted."""
        return sorted(group for group, topics in self._table.items() if topic in topics)

    def items(self) -> Iterator[tuple[str, str, dict[int, int]]]:
        """Every (group, topic, offsets by queue id); do not change the table meanwhile, nor the offsets ever."""
        for group, topics in self._table.items():
            for topic, queues in topics.items():
                yield group, topic, queues

    def remove_group(self, group: str) -> bool:
        """Forget a group's offsets; false where there are none."""
        if self._table.pop(group, None) is None:
            return False
        self._saving.changed()
        return True

    def remove(self, group: str, topic: str) -> bool:
        """Forget a group's offsets in one topic; false where there are none."""
        topics = self._table.get(group, {})
        if topics.pop(topic, None) is None:
            return False
        if not topics:
            del self._table[group]
        self._saving.changed()
        return True

    def drop_stale(self, subscribed: Callable[[str, str], bool], minimum: Callable[[str, int], int]) -> int:
        """
        Forget what a group left in topics it no longer reads, once the store has dropped all that lay there.

        @param subscribed: whether a group (first) has a connected member that reads a topic (second).
        @param minimum: the first offset that a queue still has.
        @return: how many (group, topic) pairs were dropped.
        """
        stale = [
            (group, topic)
            for group, topic, queues in self.items()
            if not subscribed(group, topic)
            and all(offset < minimum(topic, queue_id) for queue_id, offset in queues.items())
        ]
        for group, topic in stale:
            self.remove(group, topic)
        return len(stale)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Give one group the offsets of another in a topic; without any there, change nothing."""
        queues = self.queues(source, topic)
        if queues:
            self._table.setdefault(target, {})[topic] = queues
            self._saving.changed()

    def merge(self, table: ConsumerOffsetTable) -> None:
        """Overwrite with the entries of another table, one by one: a slave, from its master."""
        if self._take(table.offset_table):
            self._saving.changed()

    def wrapper(self) -> ConsumerOffsetTable:
        """The table as it is saved, and as it is answered to 43; a view, to be written before the table changes."""
        return ConsumerOffsetTable({f"{topic}@{group}": queues for group, topic, queues in self.items()})

    def load(self) -> None:
        """
        Read the file; without one the table stays empty.

        @raise smartgo.errors.BrokenTable: there is one, and neither it nor its backup can be read.
        """
        saved = (
            None
            if self._file is None
            else self._file.load(holding(ConsumerOffsetTable.decode, "offsetTable", "offsets"))
        )
        if saved is not None:
            self._take(saved.offset_table)

    def save(self) -> Deferred[None]:
        """Save now what is not saved; fires when it is. @raise ServiceNotAvailable: through the Deferred."""
        return self._saving.save()

    def stop(self) -> Deferred[None]:
        """Set no more timers and save what is not saved; fires and fails as L{save}."""
        return self._saving.stop()

    def _take(self, table: Mapping[str, Mapping[int, int]]) -> bool:
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            if is_topic(topic) and is_group(group) and min(queues, default=0) >= 0:
                self._table.setdefault(group, {}).setdefault(topic, {}).update(queues)
            else:
                self._log.warn("leaving out the offsets of {key}, which is no topic@group", key=key)
        return bool(table)

    def _back(self, group: str, topic: str, queue_id: int, offset: int, old: int) -> None:
        self.went_back += 1
        now = self._clock.seconds()
        if now >= self._quiet_until:
            self._quiet_until = now + _TALK
            self._log.warn(
                "group {group} went back from {old} to {offset} in {topic} queue {queue}; {count} times in all groups",
                group=group,
                old=old,
                offset=offset,
                topic=topic,
                queue=queue_id,
                count=self.went_back,
            )
