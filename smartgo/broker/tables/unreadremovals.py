"""Counts of the messages that retention removed before groups read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from smartgo.broker.tables.offsets import OffsetTable
from smartgo.store.queues.expiry import ExpiredUnits

_NONE: Final[Mapping[int, int]] = MappingProxyType({})


class UnreadRemovals:
    """
    Messages that are gone and were not consumed, by group, topic and queue; the counts are kept with the offsets.

    Only groups count that have committed an offset in the queue: nobody knows what others would have read.
    """

    def __init__(self, offsets: OffsetTable) -> None:
        self._offsets = offsets

    def expired(self, units: ExpiredUnits) -> None:
        """Count what a queue lost; called when its first offset moved."""
        topic, queue_id, begin, end = units
        for group in self._offsets.groups_of(topic):
            offset = self._offsets.query(group, topic, queue_id)
            if offset is not None and offset < end:
                self._offsets.count_removed(group, topic, queue_id, end - max(offset, begin))

    def of(self, group: str, topic: str) -> Mapping[int, int]:
        """Return the counts of a group in a topic, by queue id; queues that lost nothing are left out."""
        found = self._offsets.removed_of(group, topic)
        return _NONE if found is None else found.queues

    def totals(self) -> Iterator[tuple[str, str, int]]:
        """Yield every group and topic with its count, as long as the group has offsets there."""
        self._offsets.forget_removed()
        for (group, topic), removed in list(self._offsets.removed_unread.items()):
            yield group, topic, sum(removed.queues.values())
