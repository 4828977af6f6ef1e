"""The model of a store: a plain list of messages in the order of the log, and the rules of what a crash may take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tests.histories.history import Violation

Key: TypeAlias = tuple[str, int]  # topic, queue id


class Found(NamedTuple):
    """One message as it was read."""

    offset: int
    physical: int
    body: bytes


@dataclass
class Entry:
    """One appended message."""

    number: int
    key: Key
    body: bytes
    offset: int
    physical: int
    end: int  # of its record
    batch_end: int  # of the last record that was appended together with it
    generation: int  # how often its topic had been deleted


@dataclass
class Deletion:
    """One deletion of a topic; C{confirmed}: its caller was told that it is done."""

    confirmed: bool = False


@dataclass
class StoreModel:
    """
    The messages of one store.

    @ivar log: all messages that the log has.
    @ivar required: physical offset below which a power cut may take nothing.
    """

    log: list[Entry] = field(default_factory=list)
    required: int = 0
    _promised: int = 0
    _queues: dict[Key, list[Entry]] = field(default_factory=dict)
    _deletions: dict[str, list[Deletion]] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The end of the last record."""
        return max((one.end for one in self.log), default=0)

    def keys(self) -> set[Key]:
        """Every queue that ever had a message."""
        return set(self._queues)

    def queue(self, key: Key) -> list[Entry]:
        """The messages that a queue must show once all are readable."""
        return self._queues.get(key, [])

    def topics(self) -> list[str]:
        """Every topic that ever had a message."""
        return sorted({topic for topic, _ in self._queues})

    # -- what happens --------------------------------------------------------------------------------------------

    def append(
        self, key: Key, bodies: Sequence[tuple[int, bytes]], offset: int, physical: Sequence[int], end: int
    ) -> None:
        """Messages were appended. @raise Violation: they got offsets that are not the queue's next ones."""
        queue = self._queues.setdefault(key, [])
        following = queue[-1].offset + 1 if queue else 0
        if offset != following:
            raise Violation("offset", f"{key}: a message got the offset {offset} where the next one is {following}")
        if physical[0] < self.end:
            raise Violation("offset", f"{key}: a record at {physical[0]}, and the log ends at {self.end}")
        ends = [*physical[1:], end]
        generation = len(self._deletions.get(key[0], ()))
        for place, (number, body) in enumerate(bodies):
            entry = Entry(number, key, body, offset + place, physical[place], ends[place], end, generation)
            queue.append(entry)
            self.log.append(entry)

    def delete(self, topic: str) -> Deletion:
        """The deletion of a topic began: from now on its queues show nothing of it."""
        for key in self._queues:
            if key[0] == topic:
                self._queues[key] = []
        deletion = Deletion()
        self._deletions.setdefault(topic, []).append(deletion)
        return deletion

    def require(self, end: int) -> None:
        """Everything below a physical offset was promised to survive a power cut."""
        self.required = max(self.required, end)

    # -- what is found -------------------------------------------------------------------------------------------

    def check(self, key: Key, low: int, high: int, found: Iterable[Found], whole: bool = True) -> list[Entry]:
        """
        Compare what was read of a queue.

        @param found: some of its messages, in order.
        @param whole: all messages are readable now, and all were read.
        @return: the entries that were found.
        @raise Violation: they are not what was appended.
        """
        queue = self.queue(key)
        if low != 0 and queue:
            raise Violation("hidden", f"{key} begins at {low}")
        if high > len(queue):
            raise Violation("phantom", f"{key} ends at {high}, and {len(queue)} messages were appended")
        if whole and high < len(queue):
            raise Violation("lost", f"{key} ends at {high}, and {len(queue)} messages were appended")
        entries = []
        for one in found:
            if not 0 <= one.offset < len(queue):
                raise Violation("phantom", f"{key} has a message at {one.offset}, and {len(queue)} were appended")
            entry = queue[one.offset]
            if one.body != entry.body:
                raise Violation(
                    "wrong body", f"{key} at {one.offset}: {one.body[:40]!r} instead of {entry.body[:40]!r}"
                )
            if one.physical != entry.physical:
                raise Violation("moved", f"{key} at {one.offset}: it lies at {one.physical}, not {entry.physical}")
            entries.append(entry)
        if whole and [one.offset for one in entries] != list(range(len(queue))):
            raise Violation("hole", f"{key}: read {[one.offset for one in entries]} of {len(queue)}")
        return entries

    # -- crashes -------------------------------------------------------------------------------------------------

    def cut(self, end: int, promised: int) -> None:
        """
        A crash left the log with this end; call L{settle} for each queue afterwards.

        @param promised: physical offset below which it must have every message; the blank behind the last one may go.
        @raise Violation: it has lost what it must have, or half of a batch.
        """
        needed = max((one.end for one in self.log if one.end <= promised), default=0)
        if end < needed:
            raise Violation("lost", f"the log ends at {end}, and everything below {needed} had to survive")
        for one in self.log:
            if one.end <= end < one.batch_end:
                raise Violation("half a batch", f"{one.key}: the log ends at {end}, its batch at {one.batch_end}")
        self.log = [one for one in self.log if one.end <= end]
        self.required = min(self.required, end)
        self._promised = promised

    def settle(self, key: Key, low: int, found: Sequence[int]) -> None:
        """
        Take over what a recovered store has of a queue.

        The messages of its last generation must be there, from offset 0 on. If its topic was deleted after them they
        must be gone once that was confirmed; before that both is right. Messages that nobody was promised may be there
        by chance, and the deletion before them not: then those that were deleted are back instead.

        @param low: its first offset; its next one where it has no messages.
        @param found: physical offsets of its messages, in order.
        @raise Violation: it is neither.
        """
        if low:
            raise Violation("hole", f"{key}: after the restart it begins at {low}, with {len(found)} messages")
        deletions = self._deletions.get(key[0], [])
        survivors = [one for one in self.log if one.key == key]
        last = max((one.generation for one in survivors), default=0)
        if list(found) != [one.physical for one in survivors if one.generation == last]:
            before = [one for one in survivors if one.generation < last]
            by_chance = all(one.end > self._promised for one in survivors if one.generation == last)
            if (
                before
                and by_chance
                and list(found) == [one.physical for one in before if one.generation == before[-1].generation]
            ):
                gone = {id(one) for one in survivors if one.generation == last}
                self.log = [one for one in self.log if id(one) not in gone]
                survivors, last = before, before[-1].generation
        queue = [one for one in survivors if one.generation == last]
        places = [one.physical for one in queue]
        if list(found) == places and not any(one.confirmed for one in deletions[last:]):
            pass
        elif deletions[last:] and not found:
            queue = []
            gone = {id(one) for one in survivors}
            self.log = [one for one in self.log if id(one) not in gone]
        else:
            wanted = "nothing" if deletions[last:] else f"the messages at {places}"
            kind = "deleted message" if set(found) - set(places) or deletions[last:] else "lost"
            raise Violation(kind, f"{key}: after the restart it has {list(found)} instead of {wanted}")
        for one in queue:
            one.generation = len(deletions)
        self._queues[key] = queue
