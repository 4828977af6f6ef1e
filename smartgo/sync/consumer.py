"""The push consumer for programs that block: with a listener in threads, or as an iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, Self

import msgspec
from twisted.internet.defer import Deferred, maybeDeferred, succeed

from smartgo.client import consumer as twisted
from smartgo.client.feed import MessageFeed
from smartgo.client.filters import Sql
from smartgo.client.internal.callcontext import with_added
from smartgo.client.internal.starting import started_before
from smartgo.client.internal.subscription import EVERYTHING
from smartgo.client.internal.subscriptionlist import SubscriptionList
from smartgo.client.listening import ConsumeLater, ConsumerSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import CallFailed, SettingError
from smartgo.schema.bodies import MessageQueue
from smartgo.sync.client import Client

Listener = Callable[[list[ReceivedMessage]], Any]
"""
A function that consumes messages of one queue, in order: one per call, or up to C{ConsumerSettings.batch}.

When it returns, the messages are consumed. If it raises, all of them are redelivered. It runs in a thread, of which
there are C{ConsumerSettings.concurrency}, and may block.
"""


class PushConsumer:
    """
    A push consumer: a member of a consumer group that gets messages as they arrive.

    With a listener, L{subscribe}, then L{start} it or enter C{with}: the listener is called in threads, with up to
    C{ConsumerSettings.concurrency} batches at a time.

    Without a listener, iterate: C{for message in consumer}. One message is in work at a time. It is acknowledged when
    the next one is asked for. If the body of the loop raises, it is redelivered after a delay, as from a listener that
    raises; it stays in its queue, for the next member or the next start, where C{with} is left in another way. Iterate
    in one thread.

    A message that is in work for longer than C{ConsumerSettings.consume_timeout} (15 minutes) is redelivered as well,
    and the log says so.

    After a start that failed the consumer can be started again, after a stop not.

    Every message arrives at least once; it arrives twice if a consumer ended before its offset was saved, or if a
    rebalance moved the queue to another member.

    @ivar group: the name of the group.
    """

    def __init__(
        self,
        client: Client,
        group: str,
        listener: Listener | None = None,
        settings: ConsumerSettings | None = None,
    ) -> None:
        """
        @param listener: is called with messages; C{None} to iterate.
        @param settings: the settings; C{None} for the defaults. C{concurrency} has no effect without a listener.
        @raise BadName: the group's name breaks the rules.
        @raise SettingError: the listener cannot be called, or is a coroutine function.
        """
        if listener is not None and (not callable(listener) or iscoroutinefunction(listener)):
            raise SettingError("the listener must be a plain function; smartgo.aio calls coroutine functions")
        self._subscriptions = SubscriptionList(group)
        self.group = group
        self._client = client
        self._listener = listener
        settings = ConsumerSettings() if settings is None else settings
        self._settings = settings if listener is not None else msgspec.structs.replace(settings, concurrency=1)
        self._feed: MessageFeed | None = None
        self._end_workers: Callable[[], None] | None = None
        self._consumer: twisted.PushConsumer | None = None

    def subscribe(self, topic: str, expression: str | Sql = EVERYTHING) -> None:
        """
        Subscribe to a topic, before L{start} or the first message. All members of a group must have the same
        subscriptions.

        @param expression: the tags to consume: C{TagA || TagB}, or C{*} for all messages, or an SQL92 expression over
            their properties.
        @raise BadName: the topic's name breaks the rules.
        @raise SubscriptionParseFailed: the expression names no tag.
        @raise SettingError: the consumer was started.
        """
        if self._consumer is not None:
            raise SettingError(f"the consumer of group {self.group} has started already: it is too late to subscribe")
        self._subscriptions.add(topic, expression)

    def start(self) -> None:
        """
        Join the group and begin to consume; returns after the first rebalance. Where that fails it may be called again.

        A topic that does not exist yet is looked up every 1 to 2 s until it does.

        @raise smartgo.errors.SettingError: there is no subscription, the client has a consumer of this group already,
            or this one runs or was stopped.
        @raise smartgo.errors.CallFailed: no registry can be reached, or L{stop} was called meanwhile; the consumer is
            not started.
        @raise smartgo.errors.PeerRefused: a broker cannot evaluate an SQL92 expression (23: it is wrong, 1:
            C{enablePropertyFilter} is off), or access control of all brokers of a topic does not admit the group or
            the topic (1 or 16); the consumer is not started.
        """
        if self._consumer is not None:
            raise started_before(self.group)
        context = copy_context()
        try:
            self._client.wait(lambda: self._start(context))
        except BaseException:
            self.stop()
            self._feed = self._consumer = None
            raise

    def _start(self, context: Context) -> Deferred[None]:
        client = self._client
        listener = self._listener
        feed: MessageFeed | None = None
        if listener is None:
            feed = MessageFeed(client.inner.env.clock)
            call: Callable[[list[ReceivedMessage]], Deferred[Any]] = feed.listen
        else:
            workers = client.thread.workers(self._settings.concurrency, f"smartgo-{self.group}")
            self._end_workers = workers.end
            client.call_after_stop(workers.end)

            def call(messages: list[ReceivedMessage]) -> Deferred[Any]:
                return workers.run(with_added(context).run, listener, messages)

        consumer = twisted.PushConsumer(client.inner, self.group, call, self._settings)
        self._subscriptions.apply(consumer)
        started = consumer.start()
        self._feed, self._consumer = feed, consumer
        if feed is not None:
            client.call_before_stop(feed.close)
        return started

    def stop(self) -> None:
        """
        Stop pulling, wait for the listener calls in flight up to C{ConsumerSettings.stop_timeout}, commit the offsets
        and leave the group. Idempotent.
        """
        if (self._consumer is not None or self._end_workers is not None) and self._client.thread.is_ours:
            self._client.wait(self._stop)

    def _stop(self) -> Deferred[None]:
        if self._feed is not None:
            self._client.call_no_more(self._feed.close)
            self._feed.close()
        stopped = succeed(None) if self._consumer is None else self._consumer.stop()
        end, self._end_workers = self._end_workers, None
        if end is not None:
            self._client.call_no_more(end)
            stopped.addCallback(lambda _: end())
        return stopped

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are assigned to this consumer now, including the retry topic's, sorted."""
        consumer = self._consumer
        return [] if consumer is None else self._client.wait(lambda: succeed(consumer.queues))

    def __enter__(self) -> Self:
        """Start, unless the consumer is to be iterated and subscribes to nothing yet. Raises as L{start} does."""
        if self._listener is not None or self._subscriptions:
            self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Give back the message in work, then stop."""
        feed = self._feed
        if error is not None and feed is not None:
            self._client.thread.tell(lambda: feed.give_back(error))
        self.stop()

    # -- iteration -----------------------------------------------------------------------------------------------

    def receive(self, timeout: float | None = None) -> ReceivedMessage | None:
        """
        Acknowledge the message in work, and return the next one; start the consumer if that has not been done.

        @param timeout: seconds to wait; C{None} for no limit.
        @return: C{None} when the time is over or the consumer has stopped.
        @raise SettingError: another thread waits already, the consumer has a listener, or its settings ask for batches.
        """
        if self._settings.batch != 1:
            raise SettingError(f"ConsumerSettings.batch is {self._settings.batch}: receive lists, with receive_batch")
        messages = self.receive_batch(timeout)
        return None if messages is None else messages[0]

    def receive_batch(self, timeout: float | None = None) -> list[ReceivedMessage] | None:
        """
        Acknowledge the messages in work, and return the next ones: of one queue, up to C{ConsumerSettings.batch}.
        Start the consumer if that has not been done.

        @param timeout: seconds to wait; C{None} for no limit.
        @return: C{None} when the time is over or the consumer has stopped.
        @raise SettingError: another thread waits already, or the consumer has a listener.
        """
        if self._listener is not None:
            raise SettingError(f"the consumer of group {self.group} has a listener, which gets the messages")
        if self._consumer is None:
            self.start()
        feed = self._running
        try:
            return self._client.wait(lambda: feed.receive(timeout))
        except Exception:
            raise
        except BaseException:  # an interrupt: nobody has seen the message that may have come meanwhile
            self._client.thread.tell(feed.put_back)
            raise

    def acknowledge(self) -> None:
        """Acknowledge the message in work now, without asking for the next one: it is not redelivered then."""
        feed = self._running
        self._client.wait(lambda: maybeDeferred(feed.acknowledge))

    def give_back(self, delay_level: int = 0) -> None:
        """
        Have the message in work redelivered, without raising.

        @param delay_level: see L{ConsumeLater<smartgo.ConsumeLater>}.
        """
        feed = self._running
        self._client.wait(lambda: maybeDeferred(feed.give_back, ConsumeLater(delay_level)))

    @property
    def _running(self) -> MessageFeed:
        if self._feed is None:
            raise CallFailed(f"the consumer of group {self.group} is not running, or has a listener")
        return self._feed

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Yield messages until the consumer stops."""
        if self._settings.batch != 1:
            raise SettingError(f'ConsumerSettings.batch is {self._settings.batch}: iterate over "consumer.batches()"')
        for messages in self.batches():
            yield messages[0]

    def batches(self) -> Iterator[list[ReceivedMessage]]:
        """Yield lists of messages of one queue, up to C{ConsumerSettings.batch}, until the consumer stops."""
        if self._feed is not None and self._feed.in_work:
            self.give_back()  # of a loop that was left before
        while (messages := self.receive_batch()) is not None:
            yield messages
