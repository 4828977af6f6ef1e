"""Resources that resend dead letters, edited if requested."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from smartgo.client.internal.copies import copy_for, copy_to
from smartgo.client.internal.deadletterjournal import CopyPlace, LetterPlace
from smartgo.client.internal.lettercopies import OlderCopy
from smartgo.client.internal.records import FoundMessage
from smartgo.client.messages import Message
from smartgo.errors import CallFailed, NoOrigin, RequestRefused
from smartgo.ops.problems import Problem, problem_of
from smartgo.ops.reading.content import MessageId, TimeMs
from smartgo.ops.reading.deadletterreader import DeadLetters, older_of
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.matching import Filter, FilterTerms
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView, PartialView
from smartgo.ops.resources.names import GroupName, GroupPath
from smartgo.ops.resources.send import Keys, Outbox, Properties, SentMessage, Tag, body_of, check_own
from smartgo.ops.web.jobs import JobTable, JobView, RestJob
from smartgo.ops.web.partial import Missing, MissingBroker
from smartgo.ops.web.routes import PUBLISH, PUBLISH_LIMIT, RouteCall, route
from smartgo.schema.bodies import MessageQueue

_LEFT_OUT: Final = 1000  # dead letters that a result names
_GONE: Final = {404: "The group has no dead letters, or not this one; or the destination topic does not exist."}

To = Annotated[
    Literal["group", "topic"],
    Meta(
        description="`group`: only to this group, by its retry topic; `topic`: to its original topic, for all groups."
    ),
]


class LetterPath(msgspec.Struct):
    """One dead letter of a group."""

    name: GroupName
    id: MessageId


class Mending(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Changes to a message before it is sent; members that are null stay as they are. A body is C{text} or C{base64}.

    @ivar properties: to be set; with an empty value, to be removed. The system's cannot be.
    """

    text: str | None = None
    base64: str | None = None
    tag: Tag | None = None
    keys: Keys | None = None
    properties: Properties = {}


class LetterOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Options for resending one dead letter."""

    to: To = "group"
    mend: Mending | None = None
    dry_run: bool = False


LettersOrderIds = Annotated[list[MessageId], Meta(min_length=1, max_length=1000)]
LettersOrderFromMs = Annotated[TimeMs, Meta(description="Became a dead letter then or later.")]
LettersOrderUntilMs = Annotated[TimeMs, Meta(description="Became a dead letter then or earlier; 0: until now.")]
LettersOrderBody = Annotated[str, Meta(max_length=255, description="Text that the body contains.")]
LettersOrderKey = Annotated[str, Meta(max_length=255, description="One of its keys.")]
LettersOrderLimit = Annotated[int, Meta(ge=1, le=10_000, description="The most to process.")]


class LettersOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Dead letters to resend: those in C{ids}, or, if that is null, all that match the filters. Of several dead letters of
    one message the latest is sent, as far as they are among the first 100,000 that match.

    @ivar again: those of the filters that were sent again or acknowledged before, too; those in C{ids} are always sent.
    """

    ids: LettersOrderIds | None = None
    from_ms: LettersOrderFromMs = 0
    until_ms: LettersOrderUntilMs = 0
    body: LettersOrderBody = ""
    key: LettersOrderKey = ""
    to: To = "group"
    limit: LettersOrderLimit = 10_000
    again: bool = False
    dry_run: bool = False


class ResentRow(msgspec.Struct, rename="camel"):
    """
    The outcome of resending one dead letter.

    @ivar message_id, offset_id: the dead letter's.
    @ivar topic: the topic of the copy.
    @ivar sent_id: the copy's unique id, C{sent_offset_id} its offset id; null if it was not sent.
    @ivar error: why it was not sent; where it was sent, what could not be noted of it.
    """

    message_id: str
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: int
    topic: str
    sent_id: str | None
    sent_offset_id: str | None
    error: str | None


class LeftOut(msgspec.Struct, rename="camel"):
    """
    A dead letter that was left out, as it is a copy of the message of a later one.

    @ivar offset_id: its own; C{instead} that of the dead letter that was sent.
    """

    offset_id: str
    instead: str


class ResentResult(msgspec.Struct, rename="camel"):
    """
    The result of resending dead letters; the rows are L{ResentRow}s.

    @ivar missing: ids without a dead letter.
    @ivar missing_brokers: brokers that did not answer: their dead letters were not read, or not all.
    @ivar left_out: dead letters that were not sent, as a later one of the same message was; those that were open are
        acknowledged. The first 1000.
    """

    found: int
    sent: int
    failed: int
    missing: list[str]
    dry_run: bool
    missing_brokers: list[MissingBroker] = []
    left_out: list[LeftOut] = []


class ResendApi:
    """Resending of dead letters."""

    def __init__(self, view: ClusterView, outbox: Outbox, jobs: JobTable, inflater: Inflater) -> None:
        self._view = view
        self._outbox = outbox
        self._inflater = inflater
        self._jobs = jobs

    @route(
        "POST",
        "/dlq/{name}/messages/{id}/resend",
        scope=PUBLISH,
        path_type=LetterPath,
        body=LetterOrder,
        answer=ResentRow,
        body_limit=PUBLISH_LIMIT,
        refuses={**_GONE, 409: "The body cannot be decompressed, the original topic is unknown, or a broker refused."},
    )
    async def resend(self, call: RouteCall[LetterPath, None, LetterOrder]) -> ResentRow:
        """Send one dead letter again, edited if requested; the dead letter itself stays, and is marked."""
        group = call.path.name
        letters = DeadLetters(self._view.partial(call.missing))
        await letters.queues(group)
        one = await letters.letter(group, call.path.id)
        order = call.body
        copy = await _copy(self._inflater, one, group, order.to, order.mend or Mending())
        copy.check()
        await self._outbox.check(copy.topic)
        sent = None if order.dry_run else await self._outbox.send(copy)
        error = None if sent is None else await mark_resent(self._outbox, group, call.principal.name, one, sent)
        row = _resent(one, copy.topic, sent, error)
        call.noted["sent"] = row.sent_offset_id
        return row

    @route(
        "POST",
        "/dlq/{name}/resend",
        scope=PUBLISH,
        path_type=GroupPath,
        body=LettersOrder,
        answer=JobView,
        names=(ResentRow, ResentResult),
        status=202,
        refuses={**_GONE, 409: "Too many jobs run."},
    )
    async def resend_many(self, call: RouteCall[GroupPath, None, LettersOrder]) -> JobView:
        """
        Send dead letters again, some by id or all that match the filters; a job.

        Without `ids` those are left out that were sent again or acknowledged before, unless `again` is true. Its rows
        are `ResentRow`s, its result a `ResentResult`. A dead letter that cannot be sent does not stop the others.
        """
        group = call.path.name
        view = self._view.partial(Missing(), None)
        queues = await DeadLetters(view).queues(group)
        work = Resending(
            view, self._outbox, self._inflater, DeadLetterQueues(group, queues), call.body, call.principal.name
        )
        return self._jobs.start("dlq-resend", call.principal, work.run, owner=call.owner)


class DeadLetterQueues(NamedTuple):
    """The queues of the dead letters of a group."""

    group: str
    queues: Sequence[MessageQueue]


class Resending:
    """Sends dead letters again."""

    def __init__(
        self,
        view: PartialView,
        outbox: Outbox,
        inflater: Inflater,
        letters: DeadLetterQueues,
        order: LettersOrder,
        who: str,
    ) -> None:
        """@param who: sends them, for the journal."""
        self._view = view
        self._brokers = view.missing
        self._dead_letters = DeadLetters(view)
        self._outbox = outbox
        self._inflater = inflater
        self._group, self._queues = letters
        self._order = order
        self._who = who
        self._missing: list[str] = []

    async def run(self, job: RestJob) -> ResentResult:
        """Send the dead letters; the job gets a row for each."""
        order = self._order
        found = sent = failed = 0
        brokers = {queue.broker_name for queue in self._queues}
        await self._view.journal.refresh(ClusterQueueReader(self._view), brokers, self._brokers.note)
        async with aclosing(self._chosen(job)) as messages:
            copies = await older_of(messages, self._view.admin.asking.client.env.threads)
        older = {copy.offset_id for those in copies.values() for copy in those}
        left_out: list[LeftOut] = []
        async with aclosing(self._chosen(job)) as messages:
            async for one in messages:
                id_ = one.stored.message_id
                if id_ in older:
                    continue
                row = await self._again(one)
                if row.sent_id is not None or (order.dry_run and row.error is None):
                    left_out += [LeftOut(copy.offset_id, id_) for copy in copies.get(id_, ())]
                    row.error = await self._leave_out(copies.get(id_, ())) or row.error
                job.add(row)
                found += 1
                failed += row.error is not None
                sent += row.sent_id is not None
                if found >= order.limit:
                    break
        named = left_out[:_LEFT_OUT]
        return ResentResult(found, sent, failed, self._missing, order.dry_run, self._brokers.rows, named)

    def _chosen(self, job: RestJob) -> AsyncGenerator[FoundMessage, None]:
        self._missing = []
        return self._meant(job) if self._order.ids is None else self._named(job, self._order.ids)

    async def _leave_out(self, copies: Sequence[OlderCopy]) -> str | None:
        """
        Acknowledge those dead letters that are open, now that a later one of their message was sent.

        @return: why that could not be noted; C{None} if it was.
        """
        if self._order.dry_run:
            return None
        why = "a later copy of the message was resent"
        for copy in copies:
            if not self._view.journal.mark(self._group, copy.queue, copy.queue_offset).is_open:
                continue
            place = LetterPlace(copy.queue.queue_id, copy.queue_offset)
            try:
                await self._outbox.journal().acknowledged(self._group, self._who, copy.queue.broker_name, [place], why)
            except CallFailed as error:
                return f"it was sent, but the older dead letter {copy.offset_id} could not be acknowledged: {error}"
        return None

    async def _meant(self, job: RestJob) -> AsyncGenerator[FoundMessage, None]:
        order = self._order
        wanted = Filter(
            self._inflater, FilterTerms(key=order.key, body=order.body, from_ms=order.from_ms, until_ms=order.until_ms)
        )
        matching = self._dead_letters.matching(self._queues, wanted, order.from_ms, self._brokers.note, job)
        async with aclosing(matching) as messages:
            async for one in messages:
                mark = self._view.journal.mark(self._group, one.queue, one.stored.queue_offset)
                if mark.is_open or order.again:
                    yield one

    async def _named(self, job: RestJob, ids: Sequence[str]) -> AsyncGenerator[FoundMessage, None]:
        names = list(dict.fromkeys(ids))
        for number, name in enumerate(names):
            job.progress(number, len(names), "going through the ids")
            try:
                yield await self._dead_letters.letter(self._group, name)
            except Problem as problem:
                if problem.status != 404:
                    raise
                self._missing.append(name)

    async def _again(self, one: FoundMessage) -> ResentRow:
        topic = ""
        try:
            copy = await _copy(self._inflater, one, self._group, self._order.to, Mending())
            topic = copy.topic
            copy.check()
            await self._outbox.check(topic)
            if self._order.dry_run:
                return _resent(one, topic, None)
            sent = await self._outbox.send(copy)
            return _resent(one, topic, sent, await mark_resent(self._outbox, self._group, self._who, one, sent))
        except (Problem, RequestRefused, CallFailed, NoOrigin) as error:
            problem = problem_of(error)
            return _resent(one, topic, None, str(problem or error))


async def mark_resent(outbox: Outbox, group: str, who: str, one: FoundMessage, sent: SentMessage) -> str | None:
    """Note that a dead letter was sent again; return why that could not be noted, C{None} if it was."""
    letter = LetterPlace(one.stored.queue_id, one.stored.queue_offset)
    copy = CopyPlace(
        sent.topic,
        sent.broker or "",
        sent.queue_id or 0,
        sent.queue_offset or 0,
        sent.offset_id or "",
        sent.message_id or "",
    )
    try:
        await outbox.journal().resent(group, who, one.broker, letter, copy)
    except CallFailed as error:
        return f"it was sent, but could not be marked as sent again: {error}"
    return None


async def _copy(inflater: Inflater, one: FoundMessage, group: str, to: str, mending: Mending) -> Message:
    """
    Return an edited copy of a message.

    @raise Problem: 400, a property is not the application's, or the body is given twice; 409, its own is unreadable.
    @raise NoOrigin: nothing says where it came from.
    """
    body = None
    if mending.text is not None or mending.base64 is not None:
        body = body_of(mending.text, mending.base64)
    message = await inflater.opened(one, body)
    copy = copy_for(message, group) if to == "group" else copy_to(message)
    if mending.tag is not None:
        copy.tag = mending.tag
    if mending.keys is not None:
        copy.keys = mending.keys
    check_own(mending.properties)
    named = {**copy.properties, **mending.properties}
    copy.properties = {name: value for name, value in named.items() if value}
    return copy


def _resent(one: FoundMessage, topic: str, sent: SentMessage | None, error: str | None = None) -> ResentRow:
    stored = one.stored
    return ResentRow(
        one.message_id,
        stored.message_id,
        one.broker,
        stored.queue_id,
        stored.queue_offset,
        topic,
        None if sent is None else sent.message_id,
        None if sent is None else sent.offset_id,
        error,
    )
