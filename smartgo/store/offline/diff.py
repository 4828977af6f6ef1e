"""
Compares two store directories record by record, such as a master's and its slave's, or a store and its backup.

The logs of a master and its slaves hold the same bytes at the same physical offsets, so records are compared by
physical offset. What only one log can have, as the other begins later or ends earlier, is counted and is no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from smartgo.schema.message import StoredMessage
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.logwalk import LogDamage, LogWalk

KEPT: Final = 200
"""Differences that are kept; further ones are only counted."""
_WAITING: Final = 10_000  # records behind the end of the other log that wait to be counted
_FIELDS: Final = tuple(name for name in StoredMessage._fields if name != "body")


LogItem = StoredMessage | LogDamage


class RecordDifference(msgspec.Struct, frozen=True):
    """
    One record that is not the same in both.

    @ivar what: C{differs}, C{only in first}, C{only in second}, C{damaged in first}, C{damaged in second}.
    @ivar fields: names of the fields that differ.
    """

    physical_offset: int
    what: str
    topic: str = ""
    queue_id: int = -1
    queue_offset: int = -1
    fields: list[str] = []


class StoreDifference(msgspec.Struct, kw_only=True):
    """
    The result of a comparison.

    @ivar equal: records that both have with the same content.
    @ivar different: the number of differences, C{more} of them not in C{differences}.
    @ivar begin: physical offset from which both logs go on; C{end}: where the first of them ends.
    @ivar before: records of one log below C{begin}; C{after}: at C{end} or behind it.
    """

    first: str
    second: str
    begin: int = 0
    end: int = 0
    first_end: int = 0
    second_end: int = 0
    equal: int = 0
    before: int = 0
    after: int = 0
    different: int = 0
    differences: list[RecordDifference] = []
    more: int = 0

    def find(self, difference: RecordDifference) -> None:
        """Add a difference."""
        self.different += 1
        if len(self.differences) < KEPT:
            self.differences.append(difference)
        else:
            self.more += 1


class StoreComparison:
    """One comparison of two stores. L{run} blocks."""

    def __init__(
        self,
        first: OfflineStore,
        second: OfflineStore,
        check_cancelled: Callable[[], None],
        told: Callable[[int], None],
    ) -> None:
        """
        @param check_cancelled: called between pieces of some MiB; may raise.
        @param told: called often with the number of records so far.
        """
        self._stores = (first, second)
        self._check_cancelled = check_cancelled
        self._told = told
        self._seen = 0

    def run(self) -> StoreDifference:
        """Read both logs once, side by side; return what differs."""
        first, second = self._stores
        result = StoreDifference(first=first.root, second=second.root, begin=max(first.begin, second.begin))
        walks = [LogWalk(store, self._check_cancelled) for store in self._stores]
        left, right = map(iter, walks)
        one, other = next(left, None), next(right, None)
        ended: list[tuple[str, LogItem]] = []  # what one log has, where the other has nothing more
        while one is not None or other is not None:
            self._seen += 1
            if not self._seen & 0xFFF:
                self._told(self._seen)
            if one is not None and other is not None and _at(one) == _at(other):
                self._compare(one, other, result)
                one, other = next(left, None), next(right, None)
                continue
            if one is not None and (other is None or _at(one) < _at(other)):
                side, item, is_last = "first", one, other is None
                one = next(left, None)
            elif other is not None:
                side, item, is_last = "second", other, one is None
                other = next(right, None)
            if is_last:
                ended.append((side, item))
            else:
                _alone(side, item, result)
            if len(ended) >= _WAITING:
                self._settle(ended, walks, result)
        self._settle(ended, walks, result)
        result.first_end, result.second_end = walks[0].position, walks[1].position
        result.end = min(result.first_end, result.second_end)
        return result

    def _settle(
        self,
        ended: list[tuple[str, LogItem]],
        walks: list[LogWalk],
        result: StoreDifference,
    ) -> None:
        """Count what one log has behind the last record of the other: behind the other's end it is no difference."""
        for side, item in ended:
            if _at(item) >= walks[1 if side == "first" else 0].position:
                result.after += 1
            else:
                _alone(side, item, result)
        ended.clear()

    def _compare(self, one: LogItem, other: LogItem, result: StoreDifference) -> None:
        """Compare what both have at one physical offset."""
        if isinstance(one, LogDamage) or isinstance(other, LogDamage):
            for side, item in (("first", one), ("second", other)):
                if isinstance(item, LogDamage):
                    result.find(RecordDifference(_at(item), f"damaged in {side}"))
            return
        fields = [name for name in _FIELDS if getattr(one, name) != getattr(other, name)]
        if bytes(one.body) != bytes(other.body):
            fields.append("body")
        if fields:
            result.find(_difference(one, "differs", fields))
        else:
            result.equal += 1


def _alone(side: str, item: LogItem, result: StoreDifference) -> None:
    """Count what only one log has; below the other's first record it is no difference."""
    if _at(item) < result.begin:
        result.before += 1
    elif isinstance(item, LogDamage):
        result.find(RecordDifference(_at(item), f"damaged in {side}"))
    else:
        result.find(_difference(item, f"only in {side}", []))


def _difference(message: StoredMessage, what: str, fields: list[str]) -> RecordDifference:
    return RecordDifference(
        message.physical_offset, what, message.topic, message.queue_id, message.queue_offset, fields
    )


def _at(item: LogItem) -> int:
    return item.begin if isinstance(item, LogDamage) else item.physical_offset
