"""
Deletion of consumer groups that were created by their first use and hold nothing (reliability L18).

A group that nobody created on purpose, that committed no offset and had no dead letters holds nothing but default
settings: once it has had no member for some minutes it is deleted, with its empty retry topic. The next use brings it
about anew. A group that had members for an hour stays, as the members of broadcasting groups commit nothing here. So
does every group while groups do not come about by themselves.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.broker.tables.consumers import ConsumerTable
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.topics import TopicTable
from smartgo.env.interfaces import IClock
from smartgo.schema.topics import dlq_topic, retry_topic
from smartgo.store.interfaces import IMessageStore

ALONE: Final = 600.0
"""Seconds without a member after which an unused group is deleted."""
USED: Final = 3600.0
"""Seconds with members after which a group counts as used."""
INTERVAL: Final = 60.0
"""Seconds between two looks at the unused groups, while there are any."""

_AT_ONCE: Final = 500  # groups looked at in one turn of the reactor


class GroupExpiry:
    """Deletes groups that stay unused; sets no timer while there are none."""

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        groups: GroupTable,
        topics: TopicTable,
        offsets: OffsetTable,
        consumers: ConsumerTable,
        store: IMessageStore,
    ) -> None:
        self._clock = clock
        self._groups = groups
        self._topics = topics
        self._offsets = offsets
        self._consumers = consumers
        self._store = store
        self._timer: IDelayedCall | None = None
        self._running = False
        self._left: list[str] = []  # to be looked at in this round
        self._deleted = 0  # in this round

    def start(self) -> None:
        """Begin to check the unused groups."""
        self._running = True
        self._groups.when_unused(self._begin)
        self._begin()

    def stop(self) -> None:
        """Set no more timers."""
        self._running = False
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _begin(self) -> None:
        """Set the timer for the next round, unless it is set."""
        if self._running and self._timer is None and self._groups.unused:
            self._timer = self._clock.callLater(INTERVAL, self._look)

    def _look(self) -> None:
        self._timer = None
        if not self._left:
            self._left = list(self._groups.unused)
            self._deleted = 0
        now = self._clock.seconds()
        for _ in range(min(_AT_ONCE, len(self._left))):
            self._look_at(self._left.pop(), now)
        if self._left:
            self._timer = self._clock.callLater(0, self._look)
            return
        if self._deleted:
            self._log.info("deleted {count} consumer groups that were never used", count=self._deleted)
        self._begin()

    def _look_at(self, name: str, now: float) -> None:
        unused = self._groups.unused.get(name)
        if unused is None:
            return
        if name in self._offsets or dlq_topic(name) in self._topics:
            self._groups.keep(name)
        elif self._consumers.get(name) is not None:
            unused.alone_since = now
            if now - unused.since >= USED:
                self._groups.keep(name)
        elif self._groups.auto_create and now - unused.alone_since >= ALONE:
            self._groups.delete(name)
            self._topics.drop_empty(retry_topic(name), lambda topic, queue_id: self._store.bounds(topic, queue_id)[1])
            self._deleted += 1
