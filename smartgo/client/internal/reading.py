"""
Reading of queues between offsets without a group: brokers store nothing about it.

Messages come as their records (L{smartgo.client.internal.records}); L{smartgo.client.pullconsumer} reads them as
applications do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import NamedTuple

from twisted.internet.task import deferLater

from smartgo.client.administration.asking import Asking
from smartgo.client.administration.queues import Queues
from smartgo.client.client import Client
from smartgo.client.internal.records import FoundMessage, all_of
from smartgo.client.internal.subscription import EVERYTHING, subscription
from smartgo.client.pullconsumer import (
    ANSWER,
    BATCH,
    MAY_WAIT,
    SUBSCRIBES,
    TOOLS_GROUP,
    PullStatus,
    pull_answer,
    pull_command,
)
from smartgo.errors import NoSuchMessage
from smartgo.schema.bodies import MessageQueue, SubscriptionData
from smartgo.schema.message import COMPRESSED


class Pulled(NamedTuple):
    """The result of a pull."""

    messages: list[FoundMessage]
    next_offset: int
    minimum: int
    maximum: int


class Span(NamedTuple):
    """A range of one queue: from C{begin} to before C{end}."""

    queue: MessageQueue
    begin: int
    end: int


class QueueQueries:
    """
    Queries of queues and their messages at brokers.

    All methods raise L{PeerRefused<smartgo.errors.PeerRefused>} where a broker declines, and
    L{CallFailed<smartgo.errors.CallFailed>} where it does not answer.
    """

    def __init__(
        self, client: Client, address_of: Callable[[str], Awaitable[str]], asking: Asking | None = None
    ) -> None:
        """
        @param address_of: returns the address to ask of a broker that is named, or raises.
        @param asking: how brokers are asked.
        """
        self._client = client
        self._asking = Asking(client) if asking is None else asking
        self._queues = Queues(self._asking)
        self._address = address_of

    async def bounds(self, queue: MessageQueue) -> tuple[int, int]:
        """Return the offset of the first message of a queue, and that of the next one to come."""
        return await self._queues.bounds(await self._address(queue.broker_name), queue.topic, queue.queue_id)

    async def offset_from(self, queue: MessageQueue, from_ms: int) -> int:
        """Return an offset such that all messages stored at a time or later follow it; a few older ones may, too."""
        address = await self._address(queue.broker_name)
        # Brokers look for the nearest message, which may be any of several of one time: a moment earlier it is not.
        return await self._queues.nearest(address, queue.topic, queue.queue_id, max(0, from_ms - 1))

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset of a group in a queue; C{None} if it has none."""
        address = await self._address(queue.broker_name)
        return await self._queues.committed(address, group, queue.topic, queue.queue_id)

    async def spans(self, queues: Sequence[MessageQueue], from_ms: int = 0) -> list[Span]:
        """Return the ranges of queues stored at a time or later, to their ends; a few older messages may be in them."""
        found = []
        for queue in queues:
            low, high = await self.bounds(queue)
            begin = low if from_ms == 0 else await self.offset_from(queue, from_ms)
            found.append(Span(queue, min(max(begin, low), high), high))
        return found

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        limit: int = BATCH,
        wants: SubscriptionData | None = None,
        hold: float = 0,
    ) -> Pulled:
        """
        Read messages of a queue; some with other tags than those asked for may be included.

        @param limit: so many at most; brokers have limits of their own.
        @param hold: seconds that the broker may wait for one to come.
        """
        if wants is None:
            wants = subscription(queue.topic, EVERYTHING, 0)
        flags = SUBSCRIBES | (MAY_WAIT if hold else 0)
        command = pull_command(TOOLS_GROUP, queue, offset, wants, limit, hold, flags)
        answer = await self._asking.exchange(await self._address(queue.broker_name), command, hold + ANSWER)
        status, place = pull_answer(answer)
        messages = all_of(answer.body, queue.broker_name) if status is PullStatus.FOUND else []
        return Pulled(messages, place.next_begin_offset, place.min_offset, place.max_offset)

    async def at(self, queue: MessageQueue, offset: int) -> FoundMessage:
        """Return the message at a place of a queue. @raise NoSuchMessage: there is none."""
        pulled = await self.pull(queue, offset, 1)
        for one in pulled.messages:
            if one.stored.queue_offset == offset:
                return one
        raise NoSuchMessage(
            f"there is no message {offset} in queue {queue.queue_id} of {queue.topic} at broker {queue.broker_name}; "
            f"it has {pulled.minimum} to {pulled.maximum - 1}"
        )

    async def scan(self, span: Span, wants: SubscriptionData | None = None) -> AsyncGenerator[Pulled, None]:
        """Read a piece of a queue from its beginning; to be closed by C{aclosing}."""
        at = span.begin
        while at < span.end:
            pulled = await self.pull(span.queue, at, BATCH, wants)
            pulled = pulled._replace(messages=[one for one in pulled.messages if one.stored.queue_offset < span.end])
            if pulled.next_offset <= at:
                return  # the rest has been removed meanwhile, or cannot be read
            at = pulled.next_offset
            # Whoever unpacks bodies takes a while for each: others get their turn in between.
            *early, last = _portions(pulled.messages)
            for portion in early:
                yield pulled._replace(messages=portion, next_offset=portion[-1].stored.queue_offset + 1)
                await deferLater(self._client.env.clock, 0)
            yield pulled._replace(messages=last)

    async def piece(self, queue: MessageQueue, begin: int, end: int) -> list[FoundMessage]:
        """Return the messages between two offsets of a queue."""
        found: list[FoundMessage] = []
        async with aclosing(self.scan(Span(queue, begin, end))) as pulls:
            async for pulled in pulls:
                found += pulled.messages
        return found


def _portions(messages: list[FoundMessage]) -> list[list[FoundMessage]]:
    """Cut messages into portions of which only the last one of each is compressed; there is always one portion."""
    found: list[list[FoundMessage]] = [[]]
    for number, one in enumerate(messages, 1):
        found[-1].append(one)
        if one.stored.sys_flag & COMPRESSED and number < len(messages):
            found.append([])
    return found
