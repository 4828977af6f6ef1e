"""Reads dead letters."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from contextlib import aclosing
from typing import Final

from smartgo.client.internal.lettercopies import LetterCopy, OlderCopy, older_copies
from smartgo.client.internal.reading import Span
from smartgo.client.internal.records import FoundMessage
from smartgo.env.interfaces import IThreads
from smartgo.errors import CallFailed
from smartgo.ops.problems import Problem
from smartgo.ops.reading.lookup import Lookup
from smartgo.ops.reading.matching import Filter
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import PartialView, TopicEntry
from smartgo.ops.web.jobs import RestJob
from smartgo.ops.web.partial import Missing
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import DLQ_PREFIX, dlq_topic

COMPARED: Final = 100_000
"""Dead letters, at most, among which copies of one message are looked for: they take about 450 B of memory each."""

_LANE: Final = "dead-letters"


class DeadLetters:
    """The dead letters of groups, as one view sees them. Fails as L{ClusterQueueReader} does."""

    def __init__(self, view: PartialView) -> None:
        self._view = view
        self._reader = ClusterQueueReader(view)
        self._lookup = Lookup(view)

    async def queues(self, group: str, broker: str = "") -> Sequence[MessageQueue]:
        """Return the queues of a group's dead letters. @raise Problem: 404, it has none."""
        topic = dlq_topic(group)
        missing = Missing()
        if topic not in await self._view.topics.get(missing):
            if missing:
                raise missing.absent(f"dead letters of group {group}", "no-dead-letters")
            raise Problem(404, f"group {group} has no dead letters", "no-dead-letters")
        return await self._reader.queues(topic, broker)

    async def letter(self, group: str, id: str) -> FoundMessage:
        """Return one of a group. @raise Problem: 404, it is none."""
        topic = dlq_topic(group)
        one = await self._lookup.by_id(id, topic)
        if one.stored.topic != topic:
            raise Problem(404, f"message {id} is not a dead letter of group {group}", "message-not-found")
        return one

    async def matching(
        self,
        queues: Sequence[MessageQueue],
        wanted: Filter,
        from_ms: int,
        go_on: Callable[[str, CallFailed], object],
        job: RestJob | None = None,
    ) -> AsyncGenerator[FoundMessage, None]:
        """
        Give out the dead letters that a filter lets in; to be closed by C{aclosing}.

        @param from_ms: where to begin to read.
        @param go_on: is told which broker is left out, and why; where that is each one the work fails.
        @param job: is told how far it is.
        """
        spans = await self._reader.spans_there(queues, from_ms, go_on)
        total = sum(one.end - one.begin for one in spans)
        done = 0
        answered = False
        failures: list[CallFailed] = []

        def leave_out(broker: str, error: CallFailed) -> None:
            failures.append(error)
            go_on(broker, error)

        for span in spans:
            async with aclosing(self._reader.scan_there(span, leave_out)) as pulls:
                async for pulled in pulls:
                    answered = True
                    for one in pulled.messages:
                        if await wanted.lets_in(one):
                            yield one
                    if job is not None:
                        read = done + min(pulled.next_offset, span.end) - span.begin
                        job.progress(read, total, "going through the dead letters")
            done += span.end - span.begin
        if failures and not answered:
            raise failures[0]


async def older_of(letters: AsyncIterable[FoundMessage], threads: IThreads) -> dict[str, list[OlderCopy]]:
    """
    Return those of the first L{COMPARED} of some dead letters that are copies of the message of a later one, by the
    offset id of the latest. They are compared in a thread: with so many that takes up to a second.
    """
    found: list[LetterCopy] = []
    places: dict[str, tuple[MessageQueue, int]] = {}
    async for one in letters:
        stored = one.stored
        found.append(LetterCopy.of(stored.message_id, stored.stored_ms, one.properties))
        places[stored.message_id] = one.queue, stored.queue_offset
        if len(found) == COMPARED:
            break
    older: dict[str, str] = await threads.run(_LANE, older_copies, found)
    copies: dict[str, list[OlderCopy]] = {}
    for id_, latest in older.items():
        copies.setdefault(latest, []).append(OlderCopy(id_, *places[id_]))
    return copies


async def count_open(view: PartialView, topic: TopicEntry) -> int | None:
    """Return how many dead letters of a topic nobody has seen to; C{None} where a broker of the topic does not tell."""
    try:
        table = (await view.admin.topics.stats(topic.name)).offset_table
        if topic.configs.keys() - {queue.broker_name for queue in table}:
            return None
        spans = [Span(queue, one.min_offset, one.max_offset) for queue, one in table.items()]
        brokers = {span.queue.broker_name for span in spans if span.end > span.begin}
        await view.journal.refresh(ClusterQueueReader(view), brokers)
    except CallFailed:
        return None
    return sum(view.journal.count_open(topic.name.removeprefix(DLQ_PREFIX), span) for span in spans)
