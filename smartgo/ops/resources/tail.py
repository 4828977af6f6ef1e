"""Resources that read queues: a live tail by server-sent events, and a range of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.records import FoundMessage
from smartgo.client.pullconsumer import BATCH
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import MessageRow, OptionalBroker, QueueId, QueueOffset, row_of
from smartgo.ops.reading.inflating import Inflater
from smartgo.ops.reading.matching import Filter, FilterTerms
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerName, TopicName
from smartgo.ops.web.routes import READ, RouteCall, StreamAnswer, route
from smartgo.ops.web.streams import EventStream, IStreamSource
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode

PEEK_LIMIT: Final = 64
"""Messages of one look."""
TAILS: Final = 8
"""At once."""
SHARE: Final = 4
"""At once of one asker."""
QUEUES: Final = 256
"""Followed by one tail."""
LOOKED_AT: Final = 2000
"""Messages a second that one tail looks at, whatever its filter lets in."""
SECONDS: Final = 3600.0
"""Until a tail ends."""

_BUSY: Final = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
_HOLD: Final = 10.0  # seconds that a broker may wait for a message to come
_WINDOW: Final = 1.0  # seconds


PeekCount = Annotated[int, Meta(ge=1, le=PEEK_LIMIT, description="The most messages to return.")]


class PeekQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Part of a queue to read; without C{offset} its end."""

    topic: TopicName
    broker: BrokerName
    queue_id: QueueId
    offset: QueueOffset | None = None
    count: PeekCount = 32


class PeekPage(msgspec.Struct, rename="camel"):
    """
    A range of messages of a queue.

    @ivar offset: where it begins: as asked for, moved into the queue's bounds.
    @ivar next_offset: where the next range begins; null at the end of the queue.
    @ivar previous_offset: where the previous range begins; null at the beginning of the queue.
    @ivar minimum: the offset of the oldest message, C{maximum} that of the next message.
    """

    items: list[MessageRow]
    offset: QueueOffset
    next_offset: int | None
    previous_offset: int | None
    minimum: int
    maximum: int


TailTag = Annotated[str, Meta(max_length=255, description="Only with this tag; `A || B`: with either.")]
TailKey = Annotated[str, Meta(max_length=255, description="Only with this key.")]
TailBody = Annotated[str, Meta(max_length=255, description="Text that the body contains.")]
TailLast = Annotated[
    int, Meta(ge=0, le=PEEK_LIMIT, description="Begin this many messages before the end of each queue.")
]
TailCount = Annotated[int, Meta(ge=1, le=10_000, description="Stop after this many messages.")]
TailRate = Annotated[int, Meta(ge=1, le=100, description="The most messages per second; the rest is only counted.")]


class TailQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Messages to follow; with C{queueId} only this queue of each broker."""

    topic: TopicName
    broker: OptionalBroker = ""
    queue_id: QueueId | None = None
    tag: TailTag = ""
    key: TailKey = ""
    body: TailBody = ""
    last: TailLast = 0
    count: TailCount = 1000
    rate: TailRate = 50


class TailBegun(msgspec.Struct, rename="camel"):
    """Event C{begun}: what is followed."""

    topic: str
    queues: int


class TailSkipped(msgspec.Struct, rename="camel"):
    """Event C{skipped}: messages that came too fast to be shown, since the last such event."""

    count: int


class TailTrouble(msgspec.Struct, rename="camel"):
    """Event C{trouble}: a broker did not answer; it is asked again."""

    broker: str
    error: str


class TailEnded(msgspec.Struct, rename="camel"):
    """Event C{ended}, the last: C{count} (so many were shown), C{time} (an hour has passed), C{declined}."""

    why: str
    detail: str | None


class TailApi:
    """Reading queues."""

    def __init__(self, clock: IClock, view: ClusterView, inflater: Inflater) -> None:
        self._inflater = inflater
        self._clock = clock
        self._view = view
        self._tails: set[LiveTail] = set()

    @route(
        "GET",
        "/messages/peek",
        scope=READ,
        query=PeekQuery,
        answer=PeekPage,
        refuses={404: "There is no such topic, broker or queue."},
    )
    async def peek(self, call: RouteCall[None, PeekQuery, None]) -> PeekPage:
        """Show a range of messages of a queue, by default the newest."""
        query = call.query
        reader = ClusterQueueReader(self._view.partial(call.missing))
        (queue,) = await reader.queues(query.topic, query.broker, query.queue_id)
        low, high = await reader.bounds(queue)
        begin = high - query.count if query.offset is None else query.offset
        begin = min(max(begin, low), high)
        end = min(begin + query.count, high)
        messages = await reader.piece(queue, begin, end)
        return PeekPage(
            [row_of(one) for one in messages],
            begin,
            end if end < high else None,
            max(low, begin - query.count) if begin > low else None,
            low,
            high,
        )

    @route(
        "GET",
        "/tail",
        scope=READ,
        query=TailQuery,
        answer=StreamAnswer,
        refuses={404: "There is no such topic, broker or queue.", 409: "The topic has too many queues to follow."},
    )
    async def tail(self, call: RouteCall[None, TailQuery, None]) -> LiveTail:
        """
        Stream new messages of a topic (server-sent events).

        Events are `begun`, `message`, `skipped`, `trouble`, `ended` and `dropped`. No consumer group is involved.
        """
        query = call.query
        self._check_room(call.owner)
        reader = ClusterQueueReader(self._view)  # not a view's: a tail waits long for messages to come
        queues = await reader.queues(query.topic, query.broker, query.queue_id)
        self._check_room(call.owner)  # others may have begun meanwhile
        if len(queues) > QUEUES:
            raise Problem(
                409, f"{len(queues)} queues are too many to follow; name a broker or a queue", "too-many-queues"
            )
        wanted = Filter(self._inflater, FilterTerms(tag=query.tag, key=query.key, body=query.body))
        return LiveTail(self._clock, reader, queues, query, wanted, self._tails, call.owner)

    def _check_room(self, owner: str) -> None:
        wait = {"Retry-After": "5"}
        if len(self._tails) >= TAILS:
            raise Problem(503, f"more than {TAILS} tails are open", "too-many-tails", wait)
        if sum(one.owner == owner for one in self._tails) >= SHARE:
            raise Problem(503, f"you have more than {SHARE} tails open", "too-many-tails", wait)


@implementer(IStreamSource)
class LiveTail:
    """
    Follows queues for one client.

    @ivar owner: who asks, and from where.

    What comes faster than is wanted is left out: a queue that runs ahead is followed from near its end on.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        reader: ClusterQueueReader,
        queues: Sequence[MessageQueue],
        query: TailQuery,
        wanted: Filter,
        tails: set[LiveTail],
        owner: str = "",
    ) -> None:
        """
        @param tails: those that run; this one is among them from C{started} to C{stopped}.
        @param owner: who asks, and from where.
        """
        self.owner = owner
        self._clock = clock
        self._reader = reader
        self._queues = queues
        self._query = query
        self._tails = tails
        self._filter = wanted
        self._pauses = Pauses(clock)
        self._stream: EventStream | None = None
        self._loops: list[Deferred[None]] = []
        self._ending: IDelayedCall | None = None
        self._room = query.rate  # messages that may be shown within this second
        self._sight = LOOKED_AT  # and that may be looked at
        self._shown = 0
        self._skipped = 0

    # -- IStreamSource -----------------------------------------------------------------------------------------

    def started(self, stream: EventStream) -> None:
        """Start reading."""
        self._tails.add(self)
        self._stream = stream
        stream.send("begun", TailBegun(self._query.topic, len(self._queues)))
        works = [self._windows(), self._time_out(), *(self._follow(queue) for queue in self._queues)]
        self._loops = [Deferred.fromCoroutine(work).addErrback(self._failed) for work in works]

    def stopped(self) -> None:
        """Stop reading."""
        self._tails.discard(self)
        self._stream = None
        if self._ending is not None and self._ending.active():
            self._ending.cancel()
        for loop in self._loops:
            loop.cancel()

    def _failed(self, failure: Failure) -> None:
        if failure.check(CancelledError) is None and self._stream is not None:
            self._log.failure("a live tail of {topic} failed", failure, topic=self._query.topic)
            self._stream.abort()

    # -- following ---------------------------------------------------------------------------------------------

    async def _windows(self) -> None:
        """Open the next second of the rate limit."""
        while True:
            await self._pauses.of(_WINDOW)
            self._room = self._query.rate
            self._sight = LOOKED_AT
            if self._skipped:
                self._send("skipped", TailSkipped(self._skipped))
                self._skipped = 0

    async def _time_out(self) -> None:
        await self._pauses.of(SECONDS)
        self._end("time")

    async def _follow(self, queue: MessageQueue) -> None:
        at: int | None = None
        while self._ending is None:
            began = self._clock.seconds()
            try:
                if at is None:
                    low, high = await self._reader.bounds(queue)
                    at = max(low, high - self._query.last)
                pulled = await self._reader.pull(queue, at, BATCH, self._filter.wants, _HOLD)
            except CallFailed as error:
                if isinstance(error, PeerRefused) and error.code not in _BUSY:
                    self._end("declined", str(error))
                    return
                self._send("trouble", TailTrouble(queue.broker_name, str(error)))
                await self._pauses.of(_WINDOW)
                continue
            await self._show(pulled.messages)
            before, at = at, pulled.next_offset
            if not self._room or not self._sight:
                await self._pauses.of(_WINDOW)
                near = pulled.maximum - BATCH
                self._skipped += max(0, near - at)
                at = max(at, near)
            elif at <= before and self._clock.seconds() - began < _WINDOW:
                await self._pauses.of(_WINDOW)  # a broker that does not hold pulls is not to be asked in a circle

    async def _show(self, messages: Sequence[FoundMessage]) -> None:
        for one in messages:
            if self._is_over():
                return
            if not self._room or not self._sight:
                self._skipped += 1
                continue
            self._sight -= 1
            if not await self._filter.lets_in(one):
                continue
            if self._is_over():
                return
            if not self._room:  # another queue's messages took it, while a body was looked at
                self._skipped += 1
                continue
            self._room -= 1
            self._shown += 1
            self._send("message", row_of(one))
            if self._shown >= self._query.count:
                self._end("count")

    def _is_over(self) -> bool:
        return self._ending is not None

    def _send(self, event: str, data: msgspec.Struct) -> None:
        if self._stream is not None:
            self._stream.send(event, data)

    def _end(self, why: str, detail: str | None = None) -> None:
        """End the stream in order, at the next turn: whoever notices is in the midst of something."""
        if self._ending is None:
            self._ending = self._clock.callLater(0, self._say_end, why, detail)

    def _say_end(self, why: str, detail: str | None) -> None:
        if self._stream is not None:
            self._send("ended", TailEnded(why, detail))
            self._stream.end()
