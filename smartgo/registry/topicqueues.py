"""
The queues of every topic, by broker name: the registry's largest table, and how much of it one source may fill.

Every topic has a broker name, and every broker name that is here was given by L{RouteTable}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec

from smartgo.registry.registration import TableFull
from smartgo.schema.bodies import QueueData

READ, WRITE = 4, 2
"""Bits of a topic's permission."""

UNIT, UNIT_SUB = 1, 2
"""Bits of a topic's sys flag."""


class TopicQueues:
    """The queues of topics by topic and broker name. Mutable, single-threaded."""

    def __init__(self, limit: int) -> None:
        """
        @param limit: the most topics, in all.
        """
        self._limit = limit
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._topics_of: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._queues)

    def check_room(self, topics: Iterable[str], name: str, names: Iterable[str]) -> None:
        """
        Refuse what would fill the table: the topics of one source may be at most as many as there is room left.

        So one source gets half of an empty table at most, the next one half of the rest, and no source fills the table
        (the dynamic threshold of shared buffers, with a factor of 1).

        @param topics: those that are registered now.
        @param name: by which broker.
        @param names: all broker names of the same source, with or without C{name}.
        @raise TableFull: there is no room.
        """
        new = sum(topic not in self._queues for topic in topics)
        if not new:
            return
        served = self._topics_of.get(name, set())
        added = sum(topic not in served for topic in topics)
        held = sum(len(self._topics_of.get(one, ())) for one in {name, *names}) + added
        left = self._limit - len(self._queues) - new
        if held > left:
            raise TableFull(
                f"with {new} more topics this source would have {held} of {self._limit} (maxRouteTopics) and must"
                f" leave as many to others; {max(0, left)} would be left"
            )

    # -- changes -------------------------------------------------------------------------------------------

    def serve(self, name: str, queues: Mapping[str, QueueData]) -> None:
        """Add topics to those that a broker serves."""
        self._topics_of.setdefault(name, set()).update(queues)
        table = self._queues
        for topic, queue in queues.items():
            found = table.get(topic)
            if found is None:
                table[topic] = {name: queue}
            else:
                found[name] = queue

    def stand_in(self, name: str, queues: Mapping[str, QueueData], names: Iterable[str]) -> bool:
        """
        Add topics of a broker that has no master, for reading; return whether there was room for them.

        @param names: as for L{check_room}.
        """
        try:
            self.check_room(queues, name, names)
        except TableFull:
            return False
        self.serve(name, {topic: msgspec.structs.replace(one, perm=one.perm & ~WRITE) for topic, one in queues.items()})
        return True

    def delete(self, topic: str, names: Iterable[str]) -> int:
        """Forget that these brokers have a topic; return how many of them had it."""
        found = [name for name in names if name in self._queues.get(topic, ())]
        for name in found:
            self._topics_of[name].discard(topic)
            self._unserve(topic, name)
        return len(found)

    def drop(self, name: str) -> None:
        """Forget a broker with all its topics."""
        for topic in self._topics_of.pop(name, ()):
            self._unserve(topic, name)

    def permit(self, name: str, change: Callable[[int], int]) -> int:
        """Change the permission of all topics of a broker; return how many it has."""
        topics = self._topics_of.get(name, set())
        for topic in topics:
            queues = self._queues[topic]
            # A new value, as the broker's own table and answers under way may hold the old one.
            queues[name] = msgspec.structs.replace(queues[name], perm=change(queues[name].perm))
        return len(topics)

    def _unserve(self, topic: str, name: str) -> None:
        queues = self._queues[topic]
        del queues[name]
        if not queues:
            del self._queues[topic]

    # -- questions -----------------------------------------------------------------------------------------

    def of(self, topic: str) -> Mapping[str, QueueData]:
        """Return a topic's queues by broker name, not to be changed; none for an unknown topic."""
        return self._queues.get(topic, {})

    def topics(self) -> list[str]:
        """Return all topics."""
        return list(self._queues)

    def topics_of(self, name: str) -> list[str]:
        """Return the topics of a broker, sorted."""
        return sorted(self._topics_of.get(name, ()))

    def with_flags(self, unit: bool | None, subscribed: bool | None) -> list[str]:
        """
        Return the topics whose sys flag, as their first broker has it, has or has not these bits.

        @param unit: bit 1, or C{None} for either.
        @param subscribed: bit 2, or C{None} for either.
        """

        def fits(flag: int) -> bool:
            return unit in (None, bool(flag & UNIT)) and subscribed in (None, bool(flag & UNIT_SUB))

        return [topic for topic, queues in self._queues.items() if fits(next(iter(queues.values())).topic_sys_flag)]
