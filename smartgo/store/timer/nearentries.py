"""The entries of the timer log that are in memory: a heap by delivery time, from which any entry can be taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from smartgo.schema.timers import due_of, offset_of


class NearEntries:
    """
    The entries in memory. No two of them are equal.

    What is taken from the middle stays in the heap until it comes to its top, or half of the heap is such.
    """

    def __init__(self, entries: Iterable[bytes] = ()) -> None:
        self._heap: list[bytes] = []
        self._taken: set[bytes] = set()  # in the heap still, though they were taken
        self._below = 0
        self._old: dict[bytes, None] = {}  # the entries whose records lie below that physical offset
        self.replace(entries)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._heap) - len(self._taken)

    def __iter__(self) -> Iterator[bytes]:
        """Give out all of them, in no order."""
        taken = self._taken
        return (entry for entry in self._heap if entry not in taken) if taken else iter(self._heap)

    @property
    def first(self) -> bytes | None:
        """The earliest one."""
        heap, taken = self._heap, self._taken
        while taken and heap and heap[0] in taken:
            taken.discard(heappop(heap))
        return heap[0] if heap else None

    def add(self, entry: bytes) -> None:
        """Add one, which may be one that was taken."""
        if entry in self._taken:
            self._taken.discard(entry)
        else:
            heappush(self._heap, entry)
        if offset_of(entry) < self._below:
            self._old[entry] = None

    def replace(self, entries: Iterable[bytes]) -> None:
        """Hold these in place of all others."""
        self._heap = list(entries)
        self._taken = set()
        self._below = 0
        self._old = {}
        heapify(self._heap)

    def take_due(self, now_ms: int, count: int) -> list[bytes]:
        """Take the earliest ones that are due, C{count} at most."""
        found: list[bytes] = []
        while len(found) < count and (first := self.first) is not None and due_of(first) <= now_ms:
            heappop(self._heap)
            self._old.pop(first, None)
            found.append(first)
        return found

    def has_old(self, below: int) -> bool:
        """Tell whether the record of one of them lies below a physical offset."""
        if below != self._below:  # all are looked through once for each log file that goes
            self._below = below
            self._old = {entry: None for entry in self if offset_of(entry) < below}
        return bool(self._old)

    def take_old(self, below: int, count: int) -> list[bytes]:
        """Take some whose records lie below a physical offset, C{count} at most."""
        found: list[bytes] = []
        if self.has_old(below):
            while self._old and len(found) < count:
                found.append(self._old.popitem()[0])
            self._taken.update(found)
            if 2 * len(self._taken) > len(self._heap):
                self._heap = list(self)
                self._taken = set()
                heapify(self._heap)
        return found
