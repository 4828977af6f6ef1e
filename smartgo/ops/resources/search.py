"""The resource that searches for messages: a job."""

from __future__ import annotations

from contextlib import aclosing
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from smartgo.client.internal.reading import Span
from smartgo.client.internal.records import FoundMessage
from smartgo.errors import CallFailed
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import MessageRow, OptionalBroker, QueueId, TimeMs, row_of
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.lookup import Lookup
from smartgo.ops.reading.matching import Filter, FilterTerms
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView, PartialView, each
from smartgo.ops.resources.names import TopicName
from smartgo.ops.web.jobs import JobTable, JobView, RestJob
from smartgo.ops.web.partial import Missing, MissingBroker
from smartgo.ops.web.routes import READ, RouteCall, route
from smartgo.schema.bodies import MessageQueue

SEARCH: Final = "search"
"""The kind of these jobs."""

_QUEUES_AT_ONCE: Final = 4

Word = Annotated[str, Meta(max_length=255, description="A complete key of the message.")]
Needle = Annotated[str, Meta(max_length=255)]


SearchOrderUniqueKey = Annotated[str, Meta(max_length=255, description="The unique id that its producer assigned.")]
SearchOrderOffsetId = Annotated[str, Meta(max_length=56, pattern="^([0-9A-Fa-f]{32}|[0-9A-Fa-f]{56})?$")]
SearchOrderUntilMs = Annotated[int, Meta(ge=0, le=253_402_300_799_999, description="0: until now.")]
SearchOrderTag = Annotated[Needle, Meta(description="Only messages with this tag; `A || B`: with either.")]
SearchOrderBody = Annotated[Needle, Meta(description="Text that the body contains.")]
SearchOrderProperty = Annotated[Needle, Meta(description="The name of a property.")]
SearchOrderValue = Annotated[
    Needle, Meta(description="Text that the property contains; without a name, that any property contains.")
]
SearchOrderLimit = Annotated[int, Meta(ge=1, le=10_000, description="Stop after this many matches.")]
SearchOrderScan = Annotated[int, Meta(ge=1, le=1_000_000, description="Stop after reading this many messages.")]


class SearchOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Conditions and limits of a search.

    With C{key}, C{uniqueKey} or C{offsetId} (one of them) the brokers' indexes are searched; otherwise the topic is
    read from C{fromMs} to C{untilMs}. The other filters apply to the messages found.

    @ivar queue_id: only this queue of each broker.
    """

    topic: TopicName
    key: Word = ""
    unique_key: SearchOrderUniqueKey = ""
    offset_id: SearchOrderOffsetId = ""
    from_ms: TimeMs = 0
    until_ms: SearchOrderUntilMs = 0
    broker: OptionalBroker = ""
    queue_id: QueueId | None = None
    tag: SearchOrderTag = ""
    body: SearchOrderBody = ""
    property: SearchOrderProperty = ""
    value: SearchOrderValue = ""
    limit: SearchOrderLimit = 1000
    scan: SearchOrderScan = 100_000


class SearchResult(msgspec.Struct, rename="camel"):
    """
    The result of a search; the messages are the job's rows.

    @ivar found: number of messages found; C{scanned}: number of messages read.
    @ivar ended: C{complete}; C{found-enough} and C{scanned-enough}: there may be more.
    @ivar shortened: compressed messages of which only the first 4 MiB of the body were searched.
    @ivar missing: brokers that were not searched, or only in part.
    """

    found: int
    scanned: int
    ended: str
    shortened: int
    missing: list[MissingBroker] = []


class SearchApi:
    """Searches."""

    def __init__(self, view: ClusterView, jobs: JobTable, inflater: Inflater) -> None:
        self._view = view
        self._jobs = jobs
        self._inflater = inflater

    @route(
        "POST",
        "/messages/search",
        scope=READ,
        body=SearchOrder,
        answer=JobView,
        names=(MessageRow, SearchResult),
        status=202,
        refuses={404: "There is no such topic, or no such queue.", 409: "Too many jobs run."},
    )
    async def search(self, call: RouteCall[None, None, SearchOrder]) -> JobView:
        """
        Search for messages by key, or by reading the topic; a job whose rows are `MessageRow`s.

        Its result is a `SearchResult`: found, scanned, and how it ended: complete, found-enough or scanned-enough.
        """
        order = call.body
        if sum(map(bool, (order.key, order.unique_key, order.offset_id))) > 1:
            raise Problem(400, "give only one of key, uniqueKey and offsetId", "invalid-value")
        if order.until_ms and order.until_ms < order.from_ms:
            raise Problem(400, "untilMs is before fromMs", "invalid-value")
        # A job takes as long as it takes: its view has no limit for all questions together.
        view = self._view.partial(Missing(), None)
        queues = await ClusterQueueReader(view).queues(order.topic, order.broker, order.queue_id)
        work = MessageSearch(view, self._inflater, order, queues)
        return self._jobs.start(SEARCH, call.principal, work.run, owner=call.owner)


class MessageSearch:
    """Runs one search as a job."""

    def __init__(self, view: PartialView, inflater: Inflater, order: SearchOrder, queues: list[MessageQueue]) -> None:
        self._missing = view.missing
        self._reader = ClusterQueueReader(view)
        self._lookup = Lookup(view)
        self._order = order
        self._queues = queues
        self._filter = Filter(
            inflater,
            FilterTerms(
                tag=order.tag,
                key=order.key,
                body=order.body,
                property=order.property,
                value=order.value,
                from_ms=order.from_ms,
                until_ms=order.until_ms,
            ),
        )
        self._scanned = 0
        self._failures: list[CallFailed] = []
        self._ended = ""

    async def run(self, job: RestJob) -> SearchResult:
        """Search; the job gets the messages found as rows."""
        order = self._order
        if order.key or order.unique_key or order.offset_id:
            job.progress(0, 1, "asking the brokers' indexes")
            hits = await self._indexed()
            for one in hits:
                if len(job.rows) < order.limit and await self._filter.lets_in(one):
                    job.add(row_of(one))
            job.progress(1, 1)
            return SearchResult(len(job.rows), len(hits), "complete", self._filter.shortened, self._missing.rows)
        ended = await self._scan(job)
        return SearchResult(len(job.rows), self._scanned, ended, self._filter.shortened, self._missing.rows)

    async def _indexed(self) -> list[FoundMessage]:
        order = self._order
        if order.offset_id:
            try:
                one = await self._lookup.by_id(order.offset_id, "", order.broker)
            except Problem as problem:
                if problem.status != 404:
                    raise
                return []
            return [one] if one.stored.topic == order.topic else []
        if order.unique_key:
            return await self._lookup.by_unique_key(order.topic, order.unique_key, order.broker)
        return await self._lookup.by_key(order.topic, order.key, order.from_ms, order.until_ms)

    async def _scan(self, job: RestJob) -> str:
        """Read the topic, some queues at a time; return how that ended."""
        job.progress(0, 0, "looking for the range of time")
        spans = await self._reader.spans_there(self._queues, self._order.from_ms, self._missing.note)
        total = min(sum(one.end - one.begin for one in spans), self._order.scan)
        await each(spans, lambda span: self._scan_queue(job, span, total), _QUEUES_AT_ONCE)
        if self._failures and not self._scanned:
            raise self._failures[0]
        return self._ended or "complete"

    def _leave_out(self, broker: str, error: CallFailed) -> None:
        self._failures.append(error)
        self._missing.note(broker, error)

    async def _scan_queue(self, job: RestJob, span: Span, total: int) -> None:
        order = self._order
        doing = f"queue {span.queue.queue_id} of {span.queue.broker_name}"
        at = span.begin
        if self._ended:
            return
        pulls = self._reader.scan_there(span, self._leave_out, self._filter.wants)
        async with aclosing(pulls):
            async for pulled in pulls:
                if self._ended:
                    return
                self._scanned += min(pulled.next_offset, span.end) - at
                at = pulled.next_offset
                job.progress(min(self._scanned, total), total, doing)
                for one in pulled.messages:
                    if self._is_over():
                        return  # by what another queue brought, while a body was looked at
                    if await self._filter.lets_in(one) and not self._is_over():
                        job.add(row_of(one))
                        if len(job.rows) >= order.limit:
                            self._ended = "found-enough"
                            return
                if self._scanned >= order.scan:
                    self._ended = "scanned-enough"
                if self._is_past(pulled.messages):
                    return

    def _is_over(self) -> bool:
        return bool(self._ended)

    def _is_past(self, messages: list[FoundMessage]) -> bool:
        return bool(self._order.until_ms and messages and messages[-1].stored.stored_ms > self._order.until_ms)
