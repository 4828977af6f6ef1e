"""Resources about dead letters: list the groups that have some, read and export them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.client.administration.topics import TopicKind
from smartgo.client.internal.copies import RESENT_FROM
from smartgo.client.internal.copystates import CopyStates
from smartgo.client.internal.deadletterjournal import AckMark, DeadLetterJournal, ResentMark
from smartgo.client.internal.reading import Span
from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.redeliveries import UNKNOWN, Fate, FateState
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
    @ivar open: of those, how many were neither sent again nor acknowledged.
    @ivar in_retry: how many messages were sent again and have still to be consumed: the group did not get the copy
        yet, or refused it and will get it again.
    @ivar oldest_ms: when the oldest became a dead letter, C{newest_ms} the newest; null if there is none.
    """

    group: str
    topic: str
    brokers: list[str]
    messages: int
    open: int
    in_retry: int
    oldest_ms: int | None
    newest_ms: int | None


class ResentLetter(msgspec.Struct, rename="camel"):
    """
    The last time that a dead letter was sent again.

    @ivar times: how often that was done.
    @ivar topic: of the copy, C{offset_id} the copy's offset id.
    @ivar state: C{waiting}: the group has not consumed the copy; C{refused}: it refused it, and will get it again;
        C{consumed}: it has consumed it; C{failed}: the copy became a dead letter, too; C{unknown}: the copy's broker
        does not tell.
    @ivar retry: the number of the retry that a refused copy waits for; null in other states.
    @ivar retry_limit: the most retries of the group's connected members; null if unknown, or in other states.
    """

    at_ms: int
    who: str
    times: int
    topic: str
    offset_id: str
    state: FateState
    retry: int | None
    retry_limit: int | None


class LetterRow(MessageRow, kw_only=True):
    """
    One dead letter.

    @ivar open: whether it was neither sent again nor acknowledged, or was opened again.
    @ivar resent: the last time that it was sent again; null: never.
    @ivar acknowledged: null if nobody did.
    @ivar resent_from: offset id of the dead letter that this one is a copy of, and that failed again; null for others.
    """

    open: bool
    resent: ResentLetter | None
    acknowledged: AckMark | None
    resent_from: str | None


LettersState = Annotated[
    Literal["", "open", "closed"],
    Meta(description="`open`: only those that nobody sent again or acknowledged; `closed`: only the others."),
]
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
    state: LettersState = ""


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
        """List groups that have or had dead letters; sorted by group, messages, open, inRetry, newestMs or oldestMs."""
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
        answer=Page[LetterRow],
        refuses=_GONE,
    )
    async def show(self, call: RouteCall[GroupPath, LettersQuery, None]) -> Page[LetterRow]:
        """List the dead letters of a group, with what was done about each."""
        query = call.query
        view = self._view.partial(call.missing)
        reader = ClusterQueueReader(view)
        group = call.path.name
        queues = await DeadLetters(view).queues(group, query.broker)
        spans = await reader.spans_there(queues, 0, view.missing.note)
        await view.journal.refresh(reader, {span.queue.broker_name for span in spans}, view.missing.note)
        places = [(span.queue, _places(view.journal, group, span, query.state)) for span in spans]
        total = sum(len(offsets) for _, offsets in places)
        wanted = ListQuery(limit=query.limit, cursor=query.cursor, offset=query.offset)
        page = cut(range(total), wanted, query.sort)
        down = query.sort.startswith("-")
        found: list[FoundMessage] = []
        for span in _runs(places, page.items, down):
            piece: list[FoundMessage] = []
            async with aclosing(reader.scan_there(span, view.missing.note)) as pulls:
                async for pulled in pulls:
                    piece += pulled.messages
            found += reversed(piece) if down else piece
        return Page(await _letter_rows(view, reader, group, queues, found), page.total, page.next)

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
    spans = [Span(queue, one.min_offset, one.max_offset) for queue, one in there.items()]
    await view.journal.refresh(reader, {span.queue.broker_name for span in spans}, view.missing.note)
    return DeadRow(
        _group(entry),
        entry.name,
        sorted(entry.configs),
        sum(span.end - span.begin for span in spans),
        sum(view.journal.count_open(_group(entry), span) for span in spans),
        await CopyStates(view.admin.asking, reader).in_retry(_group(entry), view.journal, spans),
        min((one.stored.stored_ms for one in oldest), default=None),
        max((one.last_update_timestamp for one in there.values()), default=None),
    )


def _group(entry: TopicEntry) -> str:
    return entry.name.removeprefix(DLQ_PREFIX)


def _places(journal: DeadLetterJournal, group: str, span: Span, state: str) -> Sequence[int]:
    """Return the offsets of the dead letters of a range that are in a state."""
    if not state:
        return range(span.begin, span.end)
    if state == "open":
        return list(journal.open_places(group, span))
    return [at for at in range(span.begin, span.end) if not journal.mark(group, span.queue, at).is_open]


def _runs(places: Sequence[tuple[MessageQueue, Sequence[int]]], numbers: Sequence[int], down: bool) -> Iterator[Span]:
    """
    Yield the ranges of queues that a range of the concatenation of some places covers.

    @param places: offsets of each queue, in order.
    @param numbers: some numbers in a row.
    @param down: each queue is taken from its end.
    """
    base = 0
    for queue, offsets in places:
        count = len(offsets)
        if numbers:
            begin, end = max(numbers[0] - base, 0), min(numbers[-1] + 1 - base, count)
            if begin < end:
                wanted = offsets[count - end : count - begin] if down else offsets[begin:end]
                ranges = list(_ranges(queue, wanted))
                yield from reversed(ranges) if down else ranges
        base += count


def _ranges(queue: MessageQueue, offsets: Sequence[int]) -> Iterator[Span]:
    """Yield the ranges without gaps of offsets that are in order."""
    begin = 0
    for number in range(1, len(offsets) + 1):
        if number == len(offsets) or offsets[number] != offsets[number - 1] + 1:
            yield Span(queue, offsets[begin], offsets[number - 1] + 1)
            begin = number


async def _letter_rows(
    view: PartialView,
    reader: ClusterQueueReader,
    group: str,
    queues: Sequence[MessageQueue],
    found: Sequence[FoundMessage],
) -> list[LetterRow]:
    """Return dead letters with what was done about each."""
    marks = {one.stored.message_id: view.journal.mark(group, one.queue, one.stored.queue_offset) for one in found}
    resent = {id_: mark.resent for id_, mark in marks.items() if mark.resent is not None}
    fates = await CopyStates(view.admin.asking, reader).of(group, queues, resent)
    limit = None
    if any(fate.state == "refused" for fate in fates.values()):
        limit = await view.admin.groups.retry_limit(group)
    rows = []
    for one in found:
        mark = marks[one.stored.message_id]
        rows.append(
            LetterRow(
                **msgspec.structs.asdict(row_of(one)),
                open=mark.is_open,
                resent=_resent_letter(mark.resent, fates.get(one.stored.message_id, UNKNOWN), limit),
                acknowledged=mark.acknowledged,
                resent_from=one.properties.get(RESENT_FROM) or None,
            )
        )
    return rows


def _resent_letter(mark: ResentMark | None, fate: Fate, limit: int | None) -> ResentLetter | None:
    if mark is None:
        return None
    refused = fate.state == "refused"
    return ResentLetter(
        mark.at_ms,
        mark.who,
        mark.times,
        mark.copy.topic,
        mark.copy.offset_id,
        fate.state,
        fate.retry if refused else None,
        limit if refused else None,
    )


_SORTS: Final = {
    "group": lambda one: one.group,
    "messages": lambda one: one.messages,
    "open": lambda one: one.open,
    "inRetry": lambda one: one.in_retry,
    "newestMs": lambda one: one.newest_ms or 0,
    "oldestMs": lambda one: one.oldest_ms or 0,
}
