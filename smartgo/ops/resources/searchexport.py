"""The resource that exports the messages that a search found."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Final

import msgspec

from smartgo.client.internal.reading import Span
from smartgo.client.internal.records import FoundMessage
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import MessageRow
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.messagelines import ExportedLine, ExportLimit, MissingLine, in_pieces, line_of, shared
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.search import SEARCH
from smartgo.ops.web.jobs import JobPath, JobTable
from smartgo.ops.web.partial import Missing
from smartgo.ops.web.routes import READ, LinesAnswer, RouteCall, route
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode

_TOGETHER: Final = 32
"""Messages that lie beside each other and are asked for at once."""


class FoundQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Limit on the number of exported messages."""

    limit: ExportLimit = 100_000


class FoundLine(ExportedLine):
    """
    One line of an export of found messages.

    @ivar missing: the message was removed: the line has its position, but no properties and no body.
    """

    missing: bool = False


class FoundApi:
    """Exports of search results."""

    def __init__(self, view: ClusterView, jobs: JobTable, inflater: Inflater) -> None:
        self._view = view
        self._jobs = jobs
        self._inflater = inflater

    @route(
        "GET",
        "/jobs/{id}/export",
        scope=READ,
        path_type=JobPath,
        query=FoundQuery,
        answer=LinesAnswer,
        names=(FoundLine, MissingLine),
        refuses={
            404: "There is no such job, or it is no longer kept.",
            409: "The job is not a search, or is still running.",
        },
    )
    async def export(self, call: RouteCall[JobPath, FoundQuery, None]) -> AsyncGenerator[bytes, None]:
        """
        Export the messages that a search found as JSON lines, with their bodies; they are read again for it.

        Each line is a `FoundLine`, in the order in which they were found. A message that was removed since is marked
        `missing`. Messages of a broker that does not answer are left out, and a `MissingLine` at the end names it. A
        connection that breaks off means an incomplete export.
        """
        job = self._jobs.get(call.path.id)
        if job.kind != SEARCH:
            raise Problem(409, f"job {job.id} is not a search but {job.kind}", "not-a-search")
        if job.state == "running":
            raise Problem(409, f"job {job.id} is still running: wait for its end, or cancel it", "job-running")
        call.headers["Content-Disposition"] = f'attachment; filename="search-{job.id}.jsonl"'
        return in_pieces(self._lines(job.rows[: call.query.limit]))

    async def _lines(self, rows: Sequence[MessageRow]) -> AsyncGenerator[FoundLine | MissingLine, None]:
        view = self._view.partial(Missing(), None)
        reader = ClusterQueueReader(view)
        for run in _runs(rows):
            waiting = deque(run)
            try:
                async with aclosing(reader.scan(_span_of(run))) as pulls:
                    async for pulled in pulls:
                        for one in pulled.messages:
                            while waiting and waiting[0].queue_offset < one.stored.queue_offset:
                                yield _missing(waiting.popleft())
                            if waiting and waiting[0].queue_offset == one.stored.queue_offset:
                                row = waiting.popleft()
                                there = one.stored.message_id == row.offset_id
                                yield await self._line(one) if there else _missing(row)
            except CallFailed as error:
                if not isinstance(error, PeerRefused) or error.code != ResponseCode.TOPIC_NOT_EXIST:
                    view.missing.note(run[0].broker, error)
                    continue
            for row in waiting:
                yield _missing(row)
        if view.missing:
            yield MissingLine(missing=view.missing.rows)

    async def _line(self, one: FoundMessage) -> FoundLine:
        return FoundLine(**msgspec.structs.asdict(await line_of(one, self._inflater)))


def _missing(row: MessageRow) -> FoundLine:
    return FoundLine(**shared(row), properties={}, body=None, body_base64=None, missing=True)


def _span_of(run: Sequence[MessageRow]) -> Span:
    first = run[0]
    return Span(MessageQueue(first.topic, first.broker, first.queue_id), first.queue_offset, run[-1].queue_offset + 1)


def _runs(rows: Sequence[MessageRow]) -> Iterator[list[MessageRow]]:
    """Yield runs of rows that are adjacent in a queue, in their order."""
    run: list[MessageRow] = []
    for row in rows:
        if run and not (len(run) < _TOGETHER and _follows(run[-1], row)):
            yield run
            run = []
        run.append(row)
    if run:
        yield run


def _follows(one: MessageRow, other: MessageRow) -> bool:
    places = ((row.topic, row.broker, row.queue_id, row.queue_offset) for row in (one, other))
    (*queue, offset), (*other_queue, other_offset) = places
    return queue == other_queue and offset + 1 == other_offset
