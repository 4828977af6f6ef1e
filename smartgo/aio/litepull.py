"""The lite pull consumer for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.aio.client import Client
from smartgo.aio.futures import deferring, future_of, outlast
from smartgo.client import litepull as twisted
from smartgo.client.filters import Sql
from smartgo.client.internal.subscription import EVERYTHING
from smartgo.client.internal.subscriptionlist import SubscriptionList
from smartgo.client.litesettings import LitePullSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.schema.bodies import MessageQueue

QueuesListener = Callable[[str, tuple[MessageQueue, ...]], Awaitable[Any] | None]
"""
A function, plain or C{async}, that gets a topic and all its queues, in order, when these have changed. It runs on the
loop and must not block.
"""


class LitePullConsumer:
    """
    A lite pull consumer: fetches messages in the background, and gives them to the program when the program polls.

    Create it, then L{subscribe} to topics, as a member of the group, or L{assign} queues; L{start} it, and L{stop} it
    in the end, or use it inside C{async with}. After a start that failed it can be started again, after a
    stop not.

    @ivar group: the name of the group.
    """

    _log = Logger()

    def __init__(self, client: Client, group: str, settings: LitePullSettings | None = None) -> None:
        """
        @param settings: the settings; C{None} for the defaults.
        @raise BadName: the group's name breaks the rules.
        """
        self._subscriptions = SubscriptionList(group)
        self.group = group
        self._client = client
        self._settings = settings
        self._consumer: twisted.LitePullConsumer | None = None
        self._stopping: asyncio.Task[None] | None = None

    # -- what to read ----------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = EVERYTHING) -> None:
        """
        Subscribe to a topic, before L{start}: its queues are shared out among the members of the group.

        @param expression: the tags to consume: C{TagA || TagB}, or C{*} for all messages, or an SQL92 expression over
            their properties.
        @raise BadName: the topic's name breaks the rules.
        @raise SubscriptionParseFailed: the expression names no tag.
        @raise SettingError: the consumer was started, or queues are assigned to it.
        """
        if self._consumer is None:
            self._subscriptions.add(topic, expression)
        else:
            self._consumer.subscribe(topic, expression)

    async def assign(self, queues: Iterable[MessageQueue]) -> None:
        """
        Read these queues and no others, whatever other members of the group read; before or after L{start}; returns
        when those that can be read now are. The others are tried again every 20 s.

        @raise SettingError: the consumer subscribes to a topic.
        """
        await future_of(self._made.assign(queues))

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are read now, sorted."""
        return [] if self._consumer is None else self._consumer.queues

    async def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """
        Return all queues of a topic, sorted.

        @raise PeerRefused: code 17, no broker has this topic.
        @raise CallFailed: no registry answers.
        """
        return await future_of(self._made.fetch_queues(topic))

    async def on_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """
        Call a function with a topic and all its queues whenever these change; returns when the first ones are known.

        Changes are found by the refresh of routes, every 30 s. Call this after L{start}.
        """
        call = deferring(listener)

        def changed(topic: str, queues: tuple[MessageQueue, ...]) -> None:
            call(topic, queues).addErrback(self._broke)

        await future_of(self._made.on_queues_changed(topic, changed))

    def _broke(self, failure: Failure) -> None:
        self._log.failure("the listener of queues of group {group} failed", failure, group=self.group)

    @property
    def _made(self) -> twisted.LitePullConsumer:
        """The consumer for Twisted; made when it is needed first. @raise CallFailed: the client does not run."""
        if self._consumer is None:
            consumer = twisted.LitePullConsumer(self._client.inner, self.group, self._settings)
            self._subscriptions.apply(consumer)
            self._consumer = consumer
        return self._consumer

    # -- life ------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """
        Join the group and begin to fetch messages; returns after the first rebalance. If it fails it may be repeated.

        @raise SettingError: the client has a consumer of this group already, or this one runs or was stopped.
        @raise CallFailed: no registry can be reached; the consumer is not started.
        @raise PeerRefused: a broker cannot evaluate an SQL92 expression (23: it is wrong, 1:
            C{enablePropertyFilter} is off), or access control does not admit the group or a topic; the consumer is not
            started.
        """
        starting = self._made.start()
        try:
            await future_of(starting)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """
        Save what was committed, and leave the group; polls that wait fail; returns when that is done, and never fails.
        Idempotent.

        It commits nothing more: what the last poll returned is polled again unless L{commit} was called.
        """
        if self._consumer is None:
            return
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(self._consumer))
        await outlast(self._stopping)

    async def _stop(self, consumer: twisted.LitePullConsumer) -> None:
        await future_of(consumer.stop())

    async def __aenter__(self) -> Self:
        """Start. Raises as L{start} does."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        await self.stop()

    # -- polling ---------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = None) -> list[ReceivedMessage]:
        """
        Return messages of one queue, in order, as soon as there are any; an empty list if none came in time.

        With C{auto_commit} this tells that the messages of all earlier polls are consumed. It can be cancelled.

        @param timeout: seconds to wait; C{None} for those of the settings, 0 for not at all.
        @raise CallFailed: the consumer is not running.
        """
        consumer = self._made
        polled = future_of(consumer.poll(timeout))
        try:
            return await polled
        except asyncio.CancelledError:
            if (
                polled.done() and not polled.cancelled() and polled.exception() is None
            ):  # messages came in the same moment
                consumer.put_back(polled.result())
            raise

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop fetching from queues, and leave out in polls what was fetched from them."""
        self._made.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo L{pause}."""
        self._made.resume(queues)

    # -- offsets ---------------------------------------------------------------------------------------------

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """
        Go on at an offset of an assigned queue; messages that were fetched and not polled are dropped.

        @raise SettingError: the queue is not assigned to this consumer, or does not have that offset.
        @raise CallFailed: the broker did not answer.
        """
        await future_of(self._made.seek(queue, offset))

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message of an assigned queue; fails as L{seek} does."""
        await future_of(self._made.seek_to_begin(queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message of an assigned queue; fails as L{seek} does."""
        await future_of(self._made.seek_to_end(queue))

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """
        Commit offsets; returns when the brokers were told, or when the file is written.

        @param offsets: by queue, that of the message to consume next; C{None} for those behind all polled messages.
        """
        await future_of(self._made.commit(offsets))

    async def committed(self, queue: MessageQueue) -> int | None:
        """
        Return the group's offset in a queue as it is saved; C{None} if there is none.

        @raise CallFailed: the broker did not answer.
        """
        return await future_of(self._made.committed(queue))

    async def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """
        Return the offset of the message of a queue that was stored nearest to a time.

        @param timestamp_ms: wall clock, in ms.
        @raise CallFailed: the broker did not answer.
        """
        return await future_of(self._made.offset_for_time(queue, timestamp_ms))
