"""Resources about dead letters: list the groups that have some, read and export them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.client.administration.topics import TopicKind
from smartgo.client.internal.reading import Span
from smartgo.client.internal.records import FoundMessage
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.reading.content import MessageRow, OptionalBroker, TimeMs, row_of
from smartgo.ops.reading.deadletterreader import DeadLetters
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.matching import Filter, FilterTerms
from smartgo.ops.reading.messagelines import ExportedLine, ExportLimit, MissingLine, in_pieces, line_of
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView, PartialView, TopicEntry, each
from smartgo.ops.resources.names import GroupPath
from smartgo.ops.web.pagination import Cursor, ListQuery, Offset, Page, cut, page_of
from smartgo.ops.web.partial import Missing
from smartgo.ops.web.routes import READ, LinesAnswer, RouteCall, route
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.topics import DLQ_PREFIX

_GONE: Final = {404: "The group has no dead letters, or not this one."}


class DeadRow(msgspec.Struct, rename="camel"):
    """
    The dead letters of one group.

    @ivar topic: the dead-letter topic.
    @ivar messages: how many there are; those that were sent again stay until the broker removes old messages.
    @ivar oldest_ms: when the oldest became a dead letter, C{newest_ms} the newest; null if there is none.
    """

    group: str
    topic: str
    brokers: list[str]
    messages: int
    oldest_ms: int | None
    newest_ms: int | None


LettersLimit = Annotated[int, Meta(ge=1, le=64, description="Number of rows on this page.")]
LettersSort = Annotated[
    Literal["storedMs", "-storedMs"],
    Meta(description="By time, queue by queue; with `-` in front newest first."),
]


class LettersQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Filters of dead letters."""

    limit: LettersLimit = 32
    cursor: Cursor = ""
    offset: Offset = 0
    sort: LettersSort = "-storedMs"
    broker: OptionalBroker = ""


ExportFromMs = Annotated[TimeMs, Meta(description="Became a dead letter then or later.")]
ExportUntilMs = Annotated[TimeMs, Meta(description="Became a dead letter then or earlier; 0: until now.")]


class ExportQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Filters of the dead letters to export."""

    from_ms: ExportFromMs = 0
    until_ms: ExportUntilMs = 0
    limit: ExportLimit = 100_000


class DeadApi:
    """Dead letters."""

    def __init__(self, view: ClusterView, inflater: Inflater) -> None:
        self._view = view
        self._inflater = inflater

    # -- looking -----------------------------------------------------------------------------------------------

    @route("GET", "/dlq", scope=READ, query=ListQuery, answer=Page[DeadRow])
    async def list(self, call: RouteCall[None, ListQuery, None]) -> Page[DeadRow]:
        """List groups that have or had dead letters; sorted by group, messages, newestMs or oldestMs."""
        view = self._view.partial(call.missing)
        entries = [one for one in (await view.topics.get()).values() if one.kind == TopicKind.DEAD]
        query = call.query
        if (query.sort or "group").lstrip("-") == "group":  # amounts are asked for those of the page alone
            page = page_of(entries, query, {"group": _group}, _group, "group")
            return Page(await each(page.items, lambda entry: _row(view, entry)), page.total, page.next)
        if query.q:
            entries = [one for one in entries if query.q.lower() in _group(one).lower()]
        rows = await each(entries, lambda entry: _row(view, entry))
        return page_of(rows, query, _SORTS, lambda one: one.group, "group")

    @route(
        "GET",
        "/dlq/{name}",
        scope=READ,
        path_type=GroupPath,
        query=LettersQuery,
        answer=Page[MessageRow],
        refuses=_GONE,
    )
    async def show(self, call: RouteCall[GroupPath, LettersQuery, None]) -> Page[MessageRow]:
        """List the dead letters of a group."""
        query = call.query
        view = self._view.partial(call.missing)
        reader = ClusterQueueReader(view)
        queues = await DeadLetters(view).queues(call.path.name, query.broker)
        spans = await reader.spans_there(queues, 0, view.missing.note)
        bounds = [(span.queue, span.begin, span.end) for span in spans]
        total = sum(high - low for _, low, high in bounds)
        wanted = ListQuery(limit=query.limit, cursor=query.cursor, offset=query.offset)
        page = cut(range(total), wanted, query.sort)
        down = query.sort.startswith("-")
        rows: list[MessageRow] = []
        for queue, begin, end in _runs(bounds, page.items, down):
            piece: list[MessageRow] = []
            async with aclosing(reader.scan_there(Span(queue, begin, end), view.missing.note)) as pulls:
                async for pulled in pulls:
                    piece += map(row_of, pulled.messages)
            rows += reversed(piece) if down else piece
        return Page(rows, page.total, page.next)

    @route(
        "GET",
        "/dlq/{name}/export",
        scope=READ,
        path_type=GroupPath,
        query=ExportQuery,
        answer=LinesAnswer,
        names=(ExportedLine, MissingLine),
        refuses=_GONE,
    )
    async def export(self, call: RouteCall[GroupPath, ExportQuery, None]) -> AsyncGenerator[bytes, None]:
        """
        Export the dead letters of a group as JSON lines while they are read.

        Each line is an `ExportedLine`. Messages of a broker that does not answer are left out, and a `MissingLine` at
        the end names it. A connection that breaks off means an incomplete export.
        """
        query = call.query
        view = self._view.partial(Missing(), None)
        letters = DeadLetters(view)
        queues = await letters.queues(call.path.name)
        call.headers["Content-Disposition"] = f'attachment; filename="{call.path.name.replace("%", "_")}.jsonl"'
        wanted = Filter(self._inflater, FilterTerms(from_ms=query.from_ms, until_ms=query.until_ms))
        missing = view.missing
        return in_pieces(self._lines(letters.matching(queues, wanted, query.from_ms, missing.note), missing, query))

    async def _lines(
        self, found: AsyncGenerator[FoundMessage, None], missing: Missing, query: ExportQuery
    ) -> AsyncGenerator[ExportedLine | MissingLine, None]:
        count = 0
        async with aclosing(found) as messages:
            async for one in messages:
                yield await line_of(one, self._inflater)
                count += 1
                if count >= query.limit:
                    break
        if missing:
            yield MissingLine(missing=missing.rows)


async def _row(view: PartialView, entry: TopicEntry) -> DeadRow:
    try:
        table = (await view.admin.topics.stats(entry.name)).offset_table
    except CallFailed:
        table = {}  # just gone, or its brokers do not answer
    there = {queue: one for queue, one in table.items() if one.max_offset > one.min_offset}
    oldest: list[FoundMessage] = []
    reader = ClusterQueueReader(view)
    for queue, one in there.items():
        try:
            oldest += (await reader.pull(queue, one.min_offset, 1)).messages
        except PeerRefused:
            continue  # RocketMQ makes topics of dead letters that cannot be read
        except CallFailed as error:
            view.missing.note(queue.broker_name, error)
    return DeadRow(
        _group(entry),
        entry.name,
        sorted(entry.configs),
        sum(one.max_offset - one.min_offset for one in there.values()),
        min((one.stored.stored_ms for one in oldest), default=None),
        max((one.last_update_timestamp for one in there.values()), default=None),
    )


def _group(entry: TopicEntry) -> str:
    return entry.name.removeprefix(DLQ_PREFIX)


def _runs(
    bounds: Sequence[tuple[MessageQueue, int, int]], places: Sequence[int], down: bool
) -> list[tuple[MessageQueue, int, int]]:
    """
    Return the ranges of queues that a range of their concatenation covers.

    @param places: some numbers in a row.
    @param down: each queue is taken from its end.
    """
    found = []
    base = 0
    for queue, low, high in bounds:
        count = high - low
        if places:
            begin, end = max(places[0] - base, 0), min(places[-1] + 1 - base, count)
            if begin < end:
                found.append((queue, high - end, high - begin) if down else (queue, low + begin, low + end))
        base += count
    return found


_SORTS: Final = {
    "group": lambda one: one.group,
    "messages": lambda one: one.messages,
    "newestMs": lambda one: one.newest_ms or 0,
    "oldestMs": lambda one: one.oldest_ms or 0,
}
