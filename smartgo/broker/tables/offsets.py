"""
Consumer offsets: how far each group has come in each queue.

Rules: docs/spec/broker#offsets, reliability D9: written at most every 5 s while something changes, and at stop; a
saved offset may be older than the last commit, never newer. The file is RocketMQ's C{consumerOffset.json}.

A slave's table is a copy of its master's. What groups committed here while the master was away is owed to it (H5): such
an entry is not overwritten by a smaller one, and the file has one more member, C{owedTable}, with the queue ids of each
C{topic@group} (RocketMQ ignores it). C{removedUnreadTable}, ignored likewise, counts the messages that retention
removed before groups read them; a count is forgotten a week after it last grew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.tables.saving import Saving
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused
from smartgo.schema.bodies import ConsumerOffsetTable
from smartgo.schema.topics import is_group, is_topic
from smartgo.tablefile import TableFile, holding

FLUSH_INTERVAL = 5.0
"""Seconds, C{flushConsumerOffsetInterval}."""

_REMEMBERED = 7 * 24 * 3600 * 1000  # ms for which counts of removed messages are kept
_TALK = 60.0  # seconds between two lines about offsets that went back


class RemovedUnread(msgspec.Struct, rename="camel"):
    """
    The messages of one topic that retention removed before one group read them.

    @ivar queues: their number, by queue id.
    @ivar last_ms: when it last grew, by the wall clock.
    """

    queues: dict[int, int]
    last_ms: int


class _OffsetsFile(ConsumerOffsetTable):
    """The content of C{consumerOffset.json}."""

    owed_table: dict[str, list[int]] = msgspec.field(default_factory=dict)
    removed_unread_table: dict[str, RemovedUnread] = msgspec.field(default_factory=dict)


class Owed(NamedTuple):
    """An offset that a slave has to send to its master."""

    group: str
    topic: str
    queue_id: int
    offset: int


class OffsetTable:
    """
    Logical offsets by group, topic and queue.

    @ivar count: how many offsets there are.
    @ivar removed_unread: what retention removed unread, by group and topic; for reading.
    @ivar went_back: commits that were smaller than what was there; they count all the same.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        file: TableFile | None = None,
        *,
        interval: float = FLUSH_INTERVAL,
        slave: bool = False,
        limit: int = 1_000_000,
    ) -> None:
        """
        @param file: C{consumerOffset.json}; C{None} keeps the table in memory alone.
        @param interval: seconds from the first unsaved commit to the save.
        @param slave: the table is a copy of a master's, to which commits are owed.
        @param limit: how many offsets commits may bring about.
        """
        self._limit = limit
        self.count = 0
        self._clock = clock
        self._file = file
        self._slave = slave
        self._table: dict[str, dict[str, dict[int, int]]] = {}
        self._owed: dict[tuple[str, str, int], None] = {}
        self.removed_unread: dict[tuple[str, str], RemovedUnread] = {}
        self._saving = Saving(clock, file, self._snapshot, interval, "offset table")
        self._quiet_until = clock.seconds()
        self.went_back = 0

    def __contains__(self, group: object) -> bool:
        return group in self._table

    def __len__(self) -> int:
        return len(self._table)

    @property
    def changes(self) -> int:
        """The number of changes of the table."""
        return self._saving.generation

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> int:
        """
        Set a group's offset in a queue, forwards or back; the caller has checked names and ranges.

        @return: by how many messages the offset advanced: 0 for one that went back, and for the first in a queue, of
            which it is unknown where the group began.

        @raise RequestRefused: it has no offset there, and there are as many as there may be.
        """
        try:
            queues = self._table[group][topic]
            old = queues.get(queue_id)
        except KeyError:
            old = None
        if old is None:
            if self.count >= self._limit:
                raise RequestRefused(f"{self._limit} offsets are kept already (maxOffsets)")
            queues = self._table.setdefault(group, {}).setdefault(topic, {})
            self.count += 1
        if old != offset:
            queues[queue_id] = offset
            self._saving.changed()
            if self._slave:
                self._owed[group, topic, queue_id] = None
            if old is not None:
                if offset > old:
                    return offset - old
                self._back(group, topic, queue_id, offset, old)
        return 0

    def query(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return a group's offset in a queue; C{None}: it never committed there."""
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
        topics = self._table.pop(group, None)
        if topics is None:
            return False
        self.count -= sum(map(len, topics.values()))
        for topic in topics:
            self.removed_unread.pop((group, topic), None)
        self._saving.changed()
        return True

    def remove(self, group: str, topic: str) -> bool:
        """Forget a group's offsets in one topic; false where there are none."""
        topics = self._table.get(group, {})
        queues = topics.pop(topic, None)
        if queues is None:
            return False
        self.count -= len(queues)
        self.removed_unread.pop((group, topic), None)
        if not topics:
            del self._table[group]
        self._saving.changed()
        return True

    def count_removed(self, group: str, topic: str, queue_id: int, count: int) -> None:
        """Count messages of a queue that retention removed before a group read them; saved with the offsets."""
        known = self.removed_of(group, topic)
        if known is None:
            known = self.removed_unread[group, topic] = RemovedUnread({}, 0)
        known.queues[queue_id] = known.queues.get(queue_id, 0) + count
        known.last_ms = self._clock.wall_ms()
        self._saving.changed()

    def forget_removed(self) -> None:
        """Forget the counts of removed messages that last grew a week ago."""
        since = self._clock.wall_ms() - _REMEMBERED
        for key in [key for key, one in self.removed_unread.items() if one.last_ms < since]:
            del self.removed_unread[key]

    def removed_of(self, group: str, topic: str) -> RemovedUnread | None:
        """Return what retention removed of a topic before a group read it, unless that is more than a week ago."""
        found = self.removed_unread.get((group, topic))
        return None if found is None or found.last_ms < self._clock.wall_ms() - _REMEMBERED else found

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
        """
        Give one group the offsets of another in a topic; without any there, change nothing.

        @raise RequestRefused: there would be more offsets than there may be.
        """
        queues = self.queues(source, topic)
        if queues:
            more = len(queues) - len(self._table.get(target, {}).get(topic, ()))
            if more > 0 and self.count + more > self._limit:
                raise RequestRefused(f"there would be more than {self._limit} offsets (maxOffsets)")
            self.count += more
            topics = self._table.setdefault(target, {})
            topics[topic] = queues
            self._saving.changed()

    def keep_within(self, end_of: Callable[[str, int], int]) -> None:
        """
        Lower the offsets beyond the end of their queues: the log has lost messages, and new ones will get their
        offsets.

        @param end_of: the next offset of a queue (topic, queue id); 0 for one without messages, which tells nothing.
        """
        count = 0
        for group, topic, queues in self.items():
            for queue_id, offset in queues.items():
                if offset > (end := end_of(topic, queue_id)) > 0:
                    queues[queue_id] = end
                    count += 1
                    last = group, topic, queue_id
        if count:
            self._saving.changed()
            self._log.warn(
                "{count} offsets were beyond the end of their queue, which has lost messages, and were taken back;"
                " one is that of group {group} in {topic} queue {queue}",
                count=count,
                group=last[0],
                topic=last[1],
                queue=last[2],
            )

    def merge(self, table: ConsumerOffsetTable) -> None:
        """Overwrite with the entries of another table, one by one: a slave, from its master. What is owed may grow."""
        if self._take(table.offset_table):
            self._saving.changed()

    def owed(self) -> list[Owed]:
        """Return the offsets that the master has to be sent, oldest first."""
        entries = ((key, self.query(*key)) for key in self._owed)
        return [Owed(*key, offset) for key, offset in entries if offset is not None]

    def settle(self, owed: Owed) -> None:
        """Note that the master has an offset, or will never take it; a newer one of the group is still owed."""
        key = owed[:3]
        if key in self._owed and self.query(*key) == owed.offset:
            del self._owed[key]
            self._saving.changed()

    def wrapper(self) -> ConsumerOffsetTable:
        """The table as it is saved, and as it is answered to 43; a view, to be written before the table changes."""
        return ConsumerOffsetTable({f"{topic}@{group}": queues for group, topic, queues in self.items()})

    def load(self) -> None:
        """
        Read the file; without one the table stays empty.

        @raise smartgo.errors.BrokenTable: there is one, and neither it nor its backup can be read.
        """
        saved = None if self._file is None else self._file.load(holding(_OffsetsFile.decode, "offsetTable", "offsets"))
        if saved is not None:
            self._take(saved.offset_table)
            if self._slave:
                self._owe(saved.owed_table)
            for key, removed in saved.removed_unread_table.items():
                topic, _, group = key.partition("@")
                if topic in self._table.get(group, {}):
                    self.removed_unread[group, topic] = removed
            self.forget_removed()

    def save(self) -> Deferred[None]:
        """Save now what is not saved; fires when it is. @raise ServiceNotAvailable: through the Deferred."""
        return self._saving.save()

    def stop(self) -> Deferred[None]:
        """Set no more timers and save what is not saved; fires and fails as L{save}."""
        return self._saving.stop()

    def _snapshot(self) -> _OffsetsFile:
        owed: dict[str, list[int]] = {}
        for group, topic, queue_id in self._owed:
            owed.setdefault(f"{topic}@{group}", []).append(queue_id)
        self.forget_removed()
        removed = {f"{topic}@{group}": one for (group, topic), one in self.removed_unread.items()}
        return _OffsetsFile(self.wrapper().offset_table, owed_table=owed, removed_unread_table=removed)

    def _owe(self, table: Mapping[str, list[int]]) -> None:
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            known = self._table.get(group, {}).get(topic, {})
            self._owed.update(((group, topic, queue_id), None) for queue_id in queues if queue_id in known)

    def _take(self, table: Mapping[str, Mapping[int, int]]) -> bool:
        """Return whether anything is different now."""
        changed = False
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            if not (is_topic(topic) and is_group(group) and min(queues, default=0) >= 0):
                self._log.warn("leaving out the offsets of {key}, which is not of the form topic@group", key=key)
                continue
            known = self._table.setdefault(group, {}).setdefault(topic, {})
            for queue_id, offset in queues.items():
                old = known.get(queue_id)
                if offset == old or (old is not None and offset < old and (group, topic, queue_id) in self._owed):
                    continue
                self.count += old is None
                known[queue_id] = offset
                changed = True
        return changed

    def _back(self, group: str, topic: str, queue_id: int, offset: int, old: int) -> None:
        self.went_back += 1
        now = self._clock.seconds()
        if now >= self._quiet_until:
            self._quiet_until = now + _TALK
            self._log.warn(
                "the offset of group {group} in {topic}, queue {queue}, went back from {old} to {offset}; such cases in"
                " all groups since the start: {count}",
                group=group,
                old=old,
                offset=offset,
                topic=topic,
                queue=queue_id,
                count=self.went_back,
            )
