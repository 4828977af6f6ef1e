"""The lite pull consumer for programs that block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Self

from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client import litepull as twisted
from smartgo.client.filters import Sql
from smartgo.client.internal.subscription import EVERYTHING
from smartgo.client.internal.subscriptionlist import SubscriptionList
from smartgo.client.litesettings import LitePullSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.env.reactorthread import WorkerThreads
from smartgo.errors import SettingError
from smartgo.schema.bodies import MessageQueue
from smartgo.sync.client import Client

QueuesListener = Callable[[str, tuple[MessageQueue, ...]], Any]
"""
A function that gets a topic and all its queues, in order, when these have changed. It runs in a thread, one call at a
time, and may block.
"""


class LitePullConsumer:
    """
    A lite pull consumer: fetches messages in the background, and gives them to the program when the program polls.

    Create it, then L{subscribe} to topics, as a member of the group, or L{assign} queues; L{start} it, and L{stop} it
    in the end, or use it inside C{with}. After a start that failed it can be started again, after a stop not. Any
    thread may call it.

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
        self._workers: WorkerThreads | None = None

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
            self._client.wait(lambda: maybeDeferred(self._made.subscribe, topic, expression))

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """
        Read these queues and no others, whatever other members of the group read; before or after L{start}; returns
        when those that can be read now are. The others are tried again every 20 s.

        @raise SettingError: the consumer subscribes to a topic.
        """
        self._client.wait(lambda: self._made.assign(queues))

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are read now, sorted."""
        consumer = self._consumer
        return [] if consumer is None else self._client.wait(lambda: succeed(consumer.queues))

    def fetch_queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """
        Return all queues of a topic, sorted.

        @raise PeerRefused: code 17, no broker has this topic.
        @raise CallFailed: no registry answers.
        """
        return self._client.wait(lambda: self._made.fetch_queues(topic))

    def on_queues_changed(self, topic: str, listener: QueuesListener) -> None:
        """
        Call a function with a topic and all its queues whenever these change; returns when the first ones are known.

        Changes are found by the refresh of routes, every 30 s. Call this after L{start}.
        """
        if iscoroutinefunction(listener):
            raise SettingError("the listener must be a plain function; smartgo.aio calls coroutine functions")
        self._client.wait(lambda: self._on_queues_changed(topic, listener))

    def _on_queues_changed(self, topic: str, listener: QueuesListener) -> Deferred[None]:
        if self._workers is None:
            self._workers = self._client.thread.workers(1, f"smartgo-{self.group}-queues")
            self._client.call_after_stop(self._end_workers)
        workers = self._workers

        def changed(topic: str, queues: tuple[MessageQueue, ...]) -> None:
            workers.run(listener, topic, queues).addErrback(self._broke)

        return self._made.on_queues_changed(topic, changed)

    def _end_workers(self) -> None:
        workers, self._workers = self._workers, None
        self._client.call_no_more(self._end_workers)
        if workers is not None:
            workers.end()

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

    def start(self) -> None:
        """
        Join the group and begin to fetch messages; returns after the first rebalance. If it fails it may be repeated.

        @raise SettingError: the client has a consumer of this group already, or this one runs or was stopped.
        @raise CallFailed: no registry can be reached; the consumer is not started.
        @raise PeerRefused: a broker cannot evaluate an SQL92 expression (23: it is wrong, 1:
            C{enablePropertyFilter} is off), or access control does not admit the group or a topic; the consumer is not
            started.
        """
        self._client.wait(self._start)

    def _start(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._finish_start(self._made.start()))

    async def _finish_start(self, starting: Deferred[None]) -> None:
        """Leave the group where the thread that starts is interrupted."""
        try:
            await starting
        except CancelledError:
            await self._stop()
            raise

    def stop(self) -> None:
        """
        Save what was committed, and leave the group; polls that wait fail; returns when that is done, and never fails.
        Idempotent.

        It commits nothing more: what the last poll returned is polled again unless L{commit} was called.
        """
        if self._consumer is not None and self._client.thread.is_ours:
            self._client.wait(self._stop)

    def _stop(self) -> Deferred[None]:
        return self._made.stop().addCallback(lambda _: self._end_workers())

    def __enter__(self) -> Self:
        """Start. Raises as L{start} does."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()

    # -- polling ---------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> list[ReceivedMessage]:
        """
        Return messages of one queue, in order, as soon as there are any; an empty list if none came in time.

        With C{auto_commit} this tells that the messages of all earlier polls are consumed. It can be cancelled.

        @param timeout: seconds to wait; C{None} for those of the settings, 0 for not at all.
        @raise CallFailed: the consumer is not running.
        """
        polled: list[ReceivedMessage] = []

        def begin() -> Deferred[list[ReceivedMessage]]:
            return self._made.poll(timeout).addCallback(keep)

        def keep(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
            polled.extend(messages)
            return messages

        try:
            return self._client.wait(begin)
        except Exception:
            raise
        except BaseException:  # an interrupt: nobody has seen the messages that may have come meanwhile
            self._client.thread.tell(lambda: self._made.put_back(polled))
            raise

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop fetching from queues, and leave out in polls what was fetched from them."""
        self._client.wait(lambda: maybeDeferred(self._made.pause, queues))

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo L{pause}."""
        self._client.wait(lambda: maybeDeferred(self._made.resume, queues))

    # -- offsets ---------------------------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """
        Go on at an offset of an assigned queue; messages that were fetched and not polled are dropped.

        @raise SettingError: the queue is not assigned to this consumer, or does not have that offset.
        @raise CallFailed: the broker did not answer.
        """
        self._client.wait(lambda: self._made.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Go on at the first message of an assigned queue; fails as L{seek} does."""
        self._client.wait(lambda: self._made.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Go on behind the last message of an assigned queue; fails as L{seek} does."""
        self._client.wait(lambda: self._made.seek_to_end(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """
        Commit offsets; returns when the brokers were told, or when the file is written.

        @param offsets: by queue, that of the message to consume next; C{None} for those behind all polled messages.
        """
        self._client.wait(lambda: self._made.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """
        Return the group's offset in a queue as it is saved; C{None} if there is none.

        @raise CallFailed: the broker did not answer.
        """
        return self._client.wait(lambda: self._made.committed(queue))

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """
        Return the offset of the message of a queue that was stored nearest to a time.

        @param timestamp_ms: wall clock, in ms.
        @raise CallFailed: the broker did not answer.
        """
        return self._client.wait(lambda: self._made.offset_for_time(queue, timestamp_ms))
