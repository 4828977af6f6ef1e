"""The states of copies of dead letters that were sent again, and the number that a group has still to consume."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from twisted.internet.defer import Deferred, gatherResults

from smartgo.client.administration.asking import Asking
from smartgo.client.internal.copies import RESENT_FROM
from smartgo.client.internal.deadletterjournal import DeadLetterJournal, LetterMark, ResentMark
from smartgo.client.internal.reading import QueueQueries, Span
from smartgo.client.internal.redeliveries import CONSUMED, FAILED, UNKNOWN, WAITING, Fate, Redeliveries
from smartgo.errors import CallFailed, NoSuchMessage
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import RETRY_PREFIX

FOLLOWED: Final = 2000
"""Dead letters that are read, at most, to find out which copies became dead letters again."""
COUNTED: Final = 500
"""Acknowledged copies of a group, the newest ones, that are looked up at most to count those that were refused."""

_AT_ONCE: Final = 16
_SETTLED: Final = 60.0  # seconds after which a copy that is found consumed again stays so: indexes follow the log

T = TypeVar("T")
R = TypeVar("R")


class CopyStates:
    """The states of copies of dead letters, for one command or request."""

    def __init__(self, asking: Asking, reader: QueueQueries) -> None:
        self._reader = reader
        self._redeliveries = Redeliveries(asking)
        self._seconds = asking.client.env.clock.seconds
        self._committed: dict[tuple[str, MessageQueue], int | None] = {}

    async def of(self, group: str, letters: Sequence[MessageQueue], marks: Mapping[str, ResentMark]) -> dict[str, Fate]:
        """
        Return what became of the copies of dead letters, by the offset ids of the dead letters.

        @param letters: the queues of the group's dead letters.
        @param marks: by the same ids.
        """
        if not marks:
            return {}
        failed = await self._failed_again(letters, min(mark.at_ms for mark in marks.values()))

        async def ask(letter: tuple[str, ResentMark]) -> Fate:
            id_, mark = letter
            if failed.get(id_, 0) >= mark.at_ms:
                return FAILED
            try:
                return await self._fate(group, mark, id_)
            except CallFailed:
                return UNKNOWN

        return dict(zip(marks, await _each(marks.items(), ask), strict=True))

    async def in_retry(self, group: str, journal: DeadLetterJournal, spans: Iterable[Span]) -> int:
        """
        Count the messages of a group's dead letters that were sent again and that the group has still to consume: it
        did not get the copy yet, or refused it and will get it again.

        Of the copies that it acknowledged, the L{COUNTED} newest are looked up. Brokers that do not answer count as
        having none. A copy that went to a topic in which the group has no offset does not wait for this group.
        """
        acknowledged: list[LetterMark] = []
        found: set[str] = set()
        for mark in [mark for span in spans for mark in journal.followed(group, span)]:
            try:
                if mark.resent is None:
                    continue
                if await self._is_past(group, mark.resent):
                    acknowledged.append(mark)
                elif await self._is_for(group, mark.resent):
                    found.add(mark.resent.copy.message_id or mark.resent.copy.offset_id)
            except CallFailed:
                continue
        acknowledged.sort(key=lambda one: one.resent.at_ms if one.resent else 0)

        async def ask(mark: LetterMark) -> None:
            if mark.resent is None:
                return
            try:
                fate = await self._fate(group, mark.resent)
            except CallFailed:
                return
            if fate.state in ("waiting", "refused"):
                found.add(mark.resent.copy.message_id or mark.resent.copy.offset_id)
            elif fate.state == "failed":
                mark.settled = True
            elif fate.state == "consumed":
                now = self._seconds()
                if mark.consumed_at is None:
                    mark.consumed_at = now
                mark.settled = now - mark.consumed_at >= _SETTLED

        await _each(acknowledged[-COUNTED:], ask)
        return len(found)

    async def _fate(self, group: str, mark: ResentMark, letter: str = "") -> Fate:
        """
        Return what became of a copy.

        @param letter: the offset id of its dead letter; without, copies of its copies count as well.
        """
        copy = mark.copy
        if not await self._is_past(group, mark):
            return WAITING
        unique = copy.message_id
        if not unique:  # noted by an older version
            try:
                unique = (await self._reader.at(copy.queue, copy.queue_offset)).message_id
            except NoSuchMessage:
                return CONSUMED
        fate = await self._redeliveries.fate(group, unique, letter)
        if fate is None and copy.topic.startswith(RETRY_PREFIX):
            # The copy itself is one of the records: a broker without it has no index, or has removed the copy.
            low, _ = await self._reader.bounds(copy.queue)
            return UNKNOWN if low <= copy.queue_offset else CONSUMED
        return CONSUMED if fate is None else fate

    async def _is_past(self, group: str, mark: ResentMark) -> bool:
        """Tell whether the offset of a group is past a copy."""
        at = await self._offset(group, mark.copy.queue)
        return at is not None and at > mark.copy.queue_offset

    async def _is_for(self, group: str, mark: ResentMark) -> bool:
        """Tell whether a group gets a copy: it is in the group's retry topic, or in a topic that the group reads."""
        copy = mark.copy
        return copy.topic.startswith(RETRY_PREFIX) or await self._offset(group, copy.queue) is not None

    async def _offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset of a group in a queue; C{None} if it has none. Each queue is asked for once."""
        if (group, queue) not in self._committed:
            self._committed[group, queue] = await self._reader.committed(group, queue)
        return self._committed[group, queue]

    async def _failed_again(self, letters: Sequence[MessageQueue], from_ms: int) -> dict[str, int]:
        """
        Return which dead letters are the originals of later ones, with the time of the last one, by their offset ids.

        Reads the first L{FOLLOWED} dead letters that were stored at C{from_ms} or later.
        """
        found: dict[str, int] = {}
        count = 0
        for queue in letters:
            try:
                (span,) = await self._reader.spans([queue], from_ms)
                async with aclosing(self._reader.scan(span)) as pulls:
                    async for pulled in pulls:
                        for one in pulled.messages:
                            original = one.properties.get(RESENT_FROM)
                            if original:
                                found[original] = max(one.stored.stored_ms, found.get(original, 0))
                        count += len(pulled.messages)
                        if count >= FOLLOWED:
                            return found
            except CallFailed:
                continue  # its letters are not shown either
        return found


async def _each(items: Iterable[T], ask: Callable[[T], Awaitable[R]]) -> list[R]:
    """Ask for each of some items, some at a time; return the answers in their order."""

    async def one(item: T) -> R:
        return await ask(item)

    rest = list(items)
    found: list[R] = []
    while rest:
        few, rest = rest[:_AT_ONCE], rest[_AT_ONCE:]
        found += await gatherResults([Deferred.fromCoroutine(one(item)) for item in few], consumeErrors=True)
    return found
