"""
The journal of dead letters: which were sent again or acknowledged, when and by whom.

It is a topic with one queue at each broker that has dead letters. What is done about a dead letter is a message of this
topic at the broker of the dead letter, so that it is kept as long as the letter: retention removes the older one first.
Everybody who can read the cluster finds the same, and nothing is lost with the process that wrote it. Brokers treat the
topic like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import Final, Literal

import msgspec

from smartgo.client.administration.topics import Topics
from smartgo.client.internal.reading import QueueQueries, Span
from smartgo.client.messages import Message
from smartgo.client.producer import Producer
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import DEAD_LETTER_JOURNAL

ENTRY_LETTERS: Final = 500
"""Dead letters of one entry, at most."""

_GONE: Final = (ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR)

Action = Literal["resent", "acknowledged", "reopened"]


class LetterPlace(msgspec.Struct, frozen=True, rename="camel"):
    """The place of a dead letter in its group's dead-letter topic at the broker of the entry."""

    queue_id: int
    queue_offset: int


class CopyPlace(msgspec.Struct, frozen=True, rename="camel"):
    """
    The place of the copy of a dead letter.

    @ivar message_id: its unique id; empty in entries of versions that did not note it.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    offset_id: str
    message_id: str = ""

    @property
    def queue(self) -> MessageQueue:
        """The queue of the copy."""
        return MessageQueue(self.topic, self.broker, self.queue_id)


class JournalEntry(msgspec.Struct, frozen=True, rename="camel"):
    """
    One entry, as JSON the body of a message.

    @ivar places: of the dead letters; one if it was sent again.
    @ivar copy: of the dead letter that was sent again.
    """

    group: str
    action: Action
    who: str
    places: list[LetterPlace]
    copy: CopyPlace | None = None
    comment: str = ""


class ResentMark(msgspec.Struct, frozen=True, rename="camel"):
    """
    The last time that a dead letter was sent again.

    @ivar times: how often that was done.
    """

    at_ms: int
    who: str
    times: int
    copy: CopyPlace


class AckMark(msgspec.Struct, frozen=True, rename="camel"):
    """An acknowledgement of a dead letter, without sending it again."""

    at_ms: int
    who: str
    comment: str


class LetterMark(msgspec.Struct, rename="camel"):
    """
    The mark of a dead letter: what was done about it last.

    @ivar is_open: whether somebody has to see to it still: it was opened again since.
    @ivar consumed_at: when its copy was found consumed for the first time, by the reader's monotonic clock.
    @ivar settled: whether what became of its copy will not change any more.
    """

    resent: ResentMark | None = None
    acknowledged: AckMark | None = None
    is_open: bool = False
    consumed_at: float | None = None
    settled: bool = False


NO_MARK: Final = LetterMark(is_open=True)


class _BrokerJournal:
    """
    The entries of one broker.

    @ivar next: the first offset of the journal that was not read.
    @ivar marks: by group and queue id, then by offset.
    """

    def __init__(self) -> None:
        self.next = 0
        self.marks: dict[tuple[str, int], dict[int, LetterMark]] = {}

    def take(self, entry: JournalEntry, at_ms: int) -> None:
        """Apply an entry."""
        for letter in entry.places:
            mark = self.marks.setdefault((entry.group, letter.queue_id), {}).setdefault(
                letter.queue_offset, LetterMark()
            )
            mark.is_open = entry.action == "reopened"
            if entry.action == "resent" and entry.copy is not None:
                times = 1 if mark.resent is None else mark.resent.times + 1
                mark.resent = ResentMark(at_ms, entry.who, times, entry.copy)
                mark.acknowledged = mark.consumed_at = None
                mark.settled = False
            elif entry.action == "acknowledged":
                mark.acknowledged = AckMark(at_ms, entry.who, entry.comment)
            elif entry.action == "reopened":
                mark.acknowledged = None


class DeadLetterJournal:
    """The journal as it was read last; L{refresh} reads what is new."""

    def __init__(self) -> None:
        self._brokers: dict[str, _BrokerJournal] = {}

    # -- reading -----------------------------------------------------------------------------------------------

    async def refresh(
        self, reader: QueueQueries, brokers: Iterable[str], go_on: Callable[[str, CallFailed], object] | None = None
    ) -> None:
        """
        Read the new entries of some brokers.

        @param go_on: is told which broker is left out, and why.
        @raise CallFailed: a broker does not answer, and C{go_on} is not given.
        """
        for broker in brokers:
            try:
                await self._read(reader, broker)
            except CallFailed as error:
                if go_on is None:
                    raise
                go_on(broker, error)

    async def _read(self, reader: QueueQueries, broker: str) -> None:
        queue = MessageQueue(DEAD_LETTER_JOURNAL, broker, 0)
        try:
            low, high = await reader.bounds(queue)
        except PeerRefused as refusal:
            if refusal.code not in _GONE:
                raise
            low = high = 0  # nobody has done anything about its dead letters yet
        known = self._brokers.setdefault(broker, _BrokerJournal())
        if high < known.next:
            known = self._brokers[broker] = _BrokerJournal()  # it was removed, and begins anew
        if high <= max(low, known.next):
            return
        async with aclosing(reader.scan(Span(queue, max(low, known.next), high))) as pulls:
            async for pulled in pulls:
                for one in pulled.messages:
                    stored = one.stored
                    if stored.queue_offset >= known.next:  # else another reader was faster
                        known.next = stored.queue_offset + 1
                        entry = _entry_of(stored.body)
                        if entry is not None:
                            known.take(entry, stored.stored_ms)

    # -- what it says ------------------------------------------------------------------------------------------

    def mark(self, group: str, queue: MessageQueue, offset: int) -> LetterMark:
        """Return what was done about a dead letter."""
        return self._marks(group, queue).get(offset, NO_MARK)

    def count_open(self, group: str, span: Span) -> int:
        """Return how many dead letters of a range nobody has seen to; marks of removed letters are forgotten."""
        marks = self._marks(group, span.queue)
        for offset in [offset for offset in marks if offset < span.begin]:
            del marks[offset]
        dealt = sum(not mark.is_open and offset < span.end for offset, mark in marks.items())
        return span.end - span.begin - dealt

    def open_places(self, group: str, span: Span) -> Iterator[int]:
        """Yield the offsets of the dead letters of a range that nobody has seen to."""
        marks = self._marks(group, span.queue)
        return (offset for offset in range(span.begin, span.end) if offset not in marks or marks[offset].is_open)

    def closed(self, group: str, span: Span) -> list[LetterMark]:
        """Return the marks of the dead letters of a range that somebody has seen to."""
        marks = self._marks(group, span.queue)
        return [mark for offset, mark in marks.items() if span.begin <= offset < span.end and not mark.is_open]

    def followed(self, group: str, span: Span) -> list[LetterMark]:
        """Return the marks of the dead letters of a range whose copies may have still to be consumed."""
        return [
            mark
            for mark in self.closed(group, span)
            if not (mark.settled or mark.resent is None or mark.acknowledged is not None)
        ]

    def _marks(self, group: str, queue: MessageQueue) -> dict[int, LetterMark]:
        known = self._brokers.get(queue.broker_name)
        return {} if known is None else known.marks.get((group, queue.queue_id), {})


def _entry_of(body: bytes | memoryview) -> JournalEntry | None:
    """Return an entry; C{None} for what somebody else sent to the topic."""
    try:
        return msgspec.json.decode(body, type=JournalEntry)
    except (msgspec.MsgspecError, ValueError):
        return None


class JournalWriter:
    """Writes entries of the journal, as one producer."""

    def __init__(self, producer: Producer, topics: Topics) -> None:
        self._producer = producer
        self._topics = topics
        self._there: set[str] = set()  # brokers that have the journal

    async def resent(self, group: str, who: str, broker: str, letter: LetterPlace, copy: CopyPlace) -> None:
        """
        Note that a dead letter was sent again.

        @raise CallFailed: the broker of the dead letter does not take it.
        """
        await self._write(broker, JournalEntry(group, "resent", who, [letter], copy))

    async def acknowledged(
        self, group: str, who: str, broker: str, letters: Sequence[LetterPlace], comment: str, reopen: bool = False
    ) -> None:
        """
        Note that nobody needs to see to dead letters of a broker any more, or with C{reopen} that somebody has to.

        @raise CallFailed: the broker does not take it; then some may be noted, the first ones.
        """
        action: Action = "reopened" if reopen else "acknowledged"
        for begin in range(0, len(letters), ENTRY_LETTERS):
            part = list(letters[begin : begin + ENTRY_LETTERS])
            await self._write(broker, JournalEntry(group, action, who, part, None, comment))

    async def prepare(self, brokers: Collection[str]) -> None:
        """Make the journal at brokers that do not have it. @raise CallFailed: one declines, or does not answer."""
        missing = set(brokers) - self._there
        if not missing:
            return
        try:
            has = set(await self._topics.config(DEAD_LETTER_JOURNAL))
        except PeerRefused as refusal:
            if refusal.code not in _GONE:
                raise
            has = set()
        if missing - has:
            await self._topics.create(DEAD_LETTER_JOURNAL, 1, brokers=sorted(missing - has))
        self._there |= missing

    async def _write(self, broker: str, entry: JournalEntry) -> None:
        await self.prepare([broker])
        message = Message(
            topic=DEAD_LETTER_JOURNAL, body=msgspec.json.encode(entry), tag=entry.action, keys=[entry.group]
        )
        try:
            await self._producer.send_to(message, MessageQueue(DEAD_LETTER_JOURNAL, broker, 0))
        except CallFailed:
            self._there.discard(broker)  # somebody may have removed the topic
            raise
