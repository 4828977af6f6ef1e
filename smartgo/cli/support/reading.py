"""Reads the messages of a topic between two positions, without a consumer group."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Collection, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

import click
import msgspec

from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.session import ClusterSession
from smartgo.cli.support.texts import moment_ms
from smartgo.client.administration.asking import named
from smartgo.client.internal.reading import QueueQueries, Span
from smartgo.client.internal.records import readable
from smartgo.client.internal.subscription import subscription, wanted
from smartgo.client.messages import ReceivedMessage
from smartgo.client.pullconsumer import TOOLS_GROUP, PullConsumer
from smartgo.errors import CallFailed, NotConnected, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode

HOLD: Final = 10.0  # seconds that a broker may hold a pull (long polling)
PAUSE: Final = 1.0  # seconds before a retry

T = TypeVar("T")


class QueuePosition(msgspec.Struct, frozen=True):
    """
    A position in each queue of a topic: its C{first} message, its end (C{last}), a number of messages C{before} its
    end, an C{offset}, or the first message stored at a C{time} (ms) or later.
    """

    kind: str
    value: int = 0


def read_position(context: click.Context, option: click.Parameter, text: str | None) -> QueuePosition | None:
    """
    Parse a position: C{first}, C{last}, C{-N}, an offset, or a time.

    @raise click.BadParameter: the text is none of these.
    """
    if text is None:
        return None
    if text in ("first", "last"):
        return QueuePosition(text)
    if text[:1] == "-" and text[1:].isdecimal():
        return QueuePosition("before", int(text[1:]))
    if text.isdecimal():
        return QueuePosition("offset", int(text))
    return QueuePosition("time", moment_ms(text, context, option, "first, last, an offset, -N"))


class TopicReader:
    """Reads the messages of one topic."""

    def __init__(self, session: ClusterSession, topic: str) -> None:
        self._session = session
        self._topic = topic
        self._puller = PullConsumer(session.client, TOOLS_GROUP)
        self._reader = QueueQueries(session.client, self._address)

    async def spans(
        self, begin: QueuePosition, end: QueuePosition | None = None, only: Collection[tuple[str, int]] = ()
    ) -> list[Span]:
        """
        Return the offsets between two positions, by queue; without the queues of brokers that do not answer, which the
        session is told.

        @param end: C{None} for the present end.
        @param only: broker names and ids of the queues to read; empty for all.
        @raise PeerRefused: with code 17, there is no such topic.
        @raise CallFailed: no broker answers.
        """
        found = []
        silent: dict[str, CallFailed] = {}
        for queue in await self._puller.queues(self._topic):
            if queue.broker_name in silent or (only and (queue.broker_name, queue.queue_id) not in only):
                continue
            try:
                found.append(await self.span(queue, begin, end))
            except PeerRefused:
                raise
            except CallFailed as error:
                silent[queue.broker_name] = named(f"broker {queue.broker_name}", error)
        if silent and not found:
            raise next(iter(silent.values()))
        self._session.admin.asking.go_on_without(list(silent.items()))
        return found

    async def span(self, queue: MessageQueue, begin: QueuePosition, end: QueuePosition | None = None) -> Span:
        """Return the offsets of a queue between two positions. @raise CallFailed: its broker does not answer."""
        low, high = await self._reader.bounds(queue)
        first = await self._offset(queue, begin, low, high)
        last = high if end is None else await self._offset(queue, end, low, high)
        return Span(queue, min(max(first, low), high), min(max(last, low), high))

    async def _offset(self, queue: MessageQueue, place: QueuePosition, low: int, high: int) -> int:
        if place.kind != "time":
            return {"first": low, "last": high, "before": high - place.value, "offset": place.value}[place.kind]
        if high == low:
            return high
        nearest = await self._puller.offset_at(queue, place.value)
        # The nearest message may be older than the time; then the next one is the first.
        result = await self._puller.pull(queue, nearest, limit=1)
        return nearest + 1 if result.messages and result.messages[0].stored_ms < place.value else nearest

    async def messages(
        self, spans: Sequence[Span], expression: str = "*", progress: ProgressLine | None = None
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """
        Yield messages, queue by queue.

        @param expression: the tags to filter by.
        @raise CallFailed: a broker does not answer.
        """
        wants = subscription(self._topic, expression, self._session.env.clock.wall_ms())
        for span in spans:
            at = span.begin
            async with aclosing(self._reader.scan(span, wants)) as pulls:
                while True:
                    pulled = await self.readable(anext(pulls, None))
                    if pulled is None:
                        break
                    for message in wanted(readable(pulled.messages), wants):
                        yield message
                    following = min(pulled.next_offset, span.end)
                    if progress is not None:
                        progress.advance(following - at)
                    at = following

    async def readable(self, pulled: Awaitable[T]) -> T:
        """Wait for a pull. @raise PeerRefused: the broker refused; for a missing permission with how to grant it."""
        try:
            return await pulled
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.NO_PERMISSION:
                raise PeerRefused(
                    refusal.code, f"{refusal.remark}; to allow reading: smartgo topic set '{self._topic}' --perm rw"
                ) from None
            raise

    async def _address(self, broker: str) -> str:
        routes = self._session.client.routes
        await routes.find(self._topic)
        found = routes.nearest_address(broker)
        if found is None:
            raise NotConnected(f"broker {broker} has no known address at present")
        return found[0]
