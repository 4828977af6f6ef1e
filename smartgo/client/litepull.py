"""
The lite pull consumer: polls messages of queues that a group shares out, or that the program assigns.

See C{docs/lite-pull.rst} for an example. Rules: docs/spec/client#pull. Source:
C{client/impl/consumer/DefaultLitePullConsumerImpl.java} of 4.9.8.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.client import Client
from smartgo.client.filters import Sql
from smartgo.client.internal.assignment import Assignment
from smartgo.client.internal.litemember import LiteCalls, LiteMember
from smartgo.client.internal.locks import QueueLocks
from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.offsets import offset_store
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.polling import LitePulling, PolledOffsets, timed_out
from smartgo.client.internal.processqueue import ProcessQueue
from smartgo.client.internal.starting import check_admitted, check_not_stopped, check_subscriptions, started_before
from smartgo.client.internal.subscription import EVERYTHING, subscription
from smartgo.client.internal.tracing import events_of
from smartgo.client.litesettings import LitePullSettings
from smartgo.client.messages import ReceivedMessage
from smartgo.client.pullconsumer import QueueCalls
from smartgo.env.timedloop import TimedLoop
from smartgo.errors import CallFailed, PeerRefused, SettingError
from smartgo.observer import OneShotObserver, Waiters
from smartgo.schema.bodies import MessageQueue, SubscriptionData
from smartgo.schema.topics import check_group, check_topic

REBALANCE: Final = 20.0  # seconds

T = TypeVar("T")

QueuesListener: TypeAlias = "Callable[[str, tuple[MessageQueue, ...]], None]"
"""A function that gets a topic and all its queues, in order, when these have changed."""


class LitePullConsumer:
    """
    A lite pull consumer: fetches messages in the background, and gives them to the program when the program polls.

    Create it, then L{subscribe} to topics, as a member of the group, or L{assign} queues; L{start} it, and L{stop} it
    in the end. After a start that failed it can be started again, after a stop not.

    @ivar group: the name of the group.
    """

    _log = Logger()

    def __init__(self, client: Client, group: str, settings: LitePullSettings | None = None) -> None:
        """
        @param settings: the settings; C{None} for the defaults.
        @raise BadName: the group's name breaks the rules.
        @raise SettingError: the client asks for OpenTelemetry, which is not installed.
        """
        check_group(group)
        self.group = group
        self._client = client
        self._settings = LitePullSettings() if settings is None else settings
        self._clock = client.env.clock
        self._events = events_of(client)
        self._wants: dict[str, SubscriptionData] = {}
        self._meters: dict[str, TopicMeters] = {}
        self._listeners: dict[str, tuple[QueuesListener, tuple[MessageQueue, ...]]] = {}
        self._calls = QueueCalls(client, group)
        self._arrivals: Waiters[None] = Waiters()
        self._room: Waiters[None] = Waiters()
        self._paused: set[MessageQueue] = set()
        self._turn = 0
        self._make_parts(None)

    def _make_parts(self, chosen: Mapping[str, Iterable[MessageQueue]] | None) -> None:
        """Make the parts that a consumer uses up: from its creation, or a failed start, to its end."""
        client, group, consuming = self._client, self.group, self._settings.consuming()
        self.pauses = Pauses(self._clock)
        self._offsets = PolledOffsets(offset_store(client, group, consuming.shares, self._settings.offsets_directory))
        self._member = Membership(client, group, consuming, self._calls, self._offsets)
        self._assignment = Assignment(self._member, self._wants, QueueLocks(client, group), self._pulling)
        self._assignment.chosen = chosen
        self._loops: list[TimedLoop] = []
        self._state = "new"
        self._ended: OneShotObserver[None] = OneShotObserver()

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
        check_topic(topic)
        if self._state != "new" or self._assignment.chosen is not None:
            raise SettingError(f"the consumer of group {self.group} has started or has assigned queues already")
        self._wants[topic] = subscription(topic, expression, self._clock.wall_ms())

    def assign(self, queues: Iterable[MessageQueue]) -> Deferred[None]:
        """
        Read these queues and no others, whatever other members of the group read; before or after L{start}; fires
        when those that can be read now are. The others are tried again every 20 s.

        @raise SettingError: at once: the consumer subscribes to a topic.
        """
        if self._assignment.chosen is None and self._wants:
            raise SettingError(f"the consumer of group {self.group} subscribes to topics: it cannot assign queues")
        assigned: dict[str, list[MessageQueue]] = {topic: [] for topic in self._wants}
        for queue in queues:
            assigned.setdefault(queue.topic, []).append(queue)
            self._wants.setdefault(queue.topic, subscription(queue.topic, EVERYTHING, self._clock.wall_ms()))
        self._assignment.chosen = assigned
        return self._assignment.rebalance() if self._state == "running" else succeed(None)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are read now, sorted."""
        return sorted(self._assignment.queues)

    def fetch_queues(self, topic: str) -> Deferred[tuple[MessageQueue, ...]]:
        """
        Return all queues of a topic, sorted.

        @raise PeerRefused: through the Deferred: code 17, no broker has this topic.
        @raise CallFailed: through the Deferred: no registry answers.
        """
        return self._client.routes.find(topic).addCallback(lambda route: route.subscribe)

    def on_queues_changed(self, topic: str, listener: QueuesListener) -> Deferred[None]:
        """
        Call a function with a topic and all its queues whenever these change; fires when the first ones are known.

        Changes are found by the refresh of routes, every 30 s. Call this after L{start}.
        """

        def known(queues: tuple[MessageQueue, ...]) -> None:
            self._listeners[topic] = (listener, queues)
            self._client.routes.want(topic, self)

        return self.fetch_queues(topic).addCallback(known)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> Deferred[None]:
        """
        Join the group and begin to fetch messages; fires after the first rebalance. If it fails it may be repeated.

        @raise SettingError: at once: the client has a consumer of this group already, or this one runs or was stopped.
        @raise CallFailed: through the Deferred: no registry can be reached; the consumer is not started.
        @raise PeerRefused: through the Deferred: a broker cannot evaluate an SQL92 expression (23: it is wrong, 1:
            C{enablePropertyFilter} is off), or access control does not admit the group or a topic; the consumer is not
            started.
        """
        if self._state != "new":
            raise started_before(self.group)
        return Deferred.fromCoroutine(self._start())

    async def _start(self) -> None:
        await check_subscriptions(self._client, self._calls, self._wants)
        check_not_stopped(self.group, self._state)
        self._offsets.load()
        calls = LiteCalls(
            lambda: self._wants if self._assignment.chosen is None else {}, self._follow_route, self._reset, self.stop
        )
        self._client.join(consumer=LiteMember(self._member, self._assignment, self._meters_of, calls))
        self._state = "running"
        for topic in self._wants:
            self._client.routes.want(topic, self)
        await self._client.heartbeat()
        try:
            check_admitted(self._client, self._wants)
        except PeerRefused:
            if self._state == "running":
                await self.stop()
                self._make_parts(self._assignment.chosen)
            raise
        await self._assignment.rebalance()
        if self._state == "running":
            self._every(REBALANCE, self._assignment.rebalance)
            self._every(self._settings.commit_interval, lambda: self._offsets.persist(self.queues))

    def _every(self, seconds: float, work: Callable[[], Deferred[Any]]) -> None:
        loop = TimedLoop(self._clock, lambda: work().addErrback(self._broke))
        loop.start(seconds, now=False)
        self._loops.append(loop)

    def _broke(self, failure: Failure) -> None:
        self._log.failure("a periodic task of group {group} failed", failure, group=self.group)

    def stop(self) -> Deferred[None]:
        """
        Save what was committed, and leave the group; polls that wait fail; fires when that is done, and never fails.
        Idempotent.

        It commits nothing more: what the last poll returned is polled again unless L{commit} was called.
        """
        if self._state == "running":
            self._state = "stopping"
            Deferred.fromCoroutine(self._stop()).addErrback(self._broke).addCallback(self._stopped)
        if self._state == "stopping":
            return self._ended.when()
        self._state = "stopped"
        return succeed(None)

    def _stopped(self, _: None) -> None:
        self._state = "stopped"
        self._ended.fire(None)

    async def _stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self.pauses.end()
        for topic in {*self._wants, *self._listeners}:
            self._client.routes.unwant(topic, self)
        await self._assignment.stop(0.0)
        self._arrivals.fire(None)
        await self._client.leave(consumer=self.group)

    # -- polling ---------------------------------------------------------------------------------------------

    def poll(self, timeout: float | None = None) -> Deferred[list[ReceivedMessage]]:
        """
        Return messages of one queue, in order, as soon as there are any; an empty list if none came in time.

        With C{auto_commit} this tells that the messages of all earlier polls are consumed. It can be cancelled.

        @param timeout: seconds to wait; C{None} for those of the settings, 0 for not at all.
        @raise CallFailed: through the Deferred: the consumer is not running.
        """
        if self._settings.auto_commit:
            self._offsets.commit(self._offsets.polled)
        seconds = self._settings.poll_timeout if timeout is None else timeout
        return Deferred.fromCoroutine(self._poll(self._clock.seconds() + seconds))

    async def _poll(self, deadline: float) -> list[ReceivedMessage]:
        begin = self._clock.seconds()
        while True:
            if self._state != "running":
                raise CallFailed(f"the consumer of group {self.group} is not running")
            found = self._take()
            if self._room and not self._too_many:  # by this poll, or as queues went to other members
                self._room.fire(None)
            left = deadline - self._clock.seconds()
            if found and self._events:
                self._events.received(self.group, found[0].queue, found, self._clock.seconds() - begin)
            if found or left <= 0:
                return found
            await self._arrivals.wait().addTimeout(left, self._clock, onTimeoutCancel=timed_out)

    def _take(self) -> list[ReceivedMessage]:
        """Take messages out of the next queue that has some, round robin."""
        queues = list(self._assignment.queues.items())
        for step in range(len(queues)):
            queue, pulling = queues[(self._turn + step) % len(queues)]
            messages = [] if queue in self._paused else pulling.held.first(self._settings.batch)
            if messages:
                self._turn = (self._turn + step + 1) % len(queues)
                held = pulling.held
                held.begin()
                held.remove(messages)
                held.ended(self._clock.seconds())
                self._offsets.polled[queue] = held.commit_offset
                return messages
        return []

    def put_back(self, messages: list[ReceivedMessage]) -> None:
        """Have the messages of a poll polled again: its caller was interrupted. C{smartgo.aio} calls this, and sync."""
        if messages and messages[0].queue in self._assignment.queues:
            self._move(messages[0].queue, messages[0].queue_offset)

    @property
    def _too_many(self) -> bool:
        return sum(len(one.held) for one in self._assignment.queues.values()) > self._settings.count_of_all

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Stop fetching from queues, and leave out in polls what was fetched from them."""
        self._paused.update(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Undo L{pause}."""
        self._paused.difference_update(queues)
        self._room.fire(None)
        self._arrivals.fire(None)

    # -- offsets ---------------------------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, offset: int) -> Deferred[None]:
        """
        Go on at an offset of an assigned queue; messages that were fetched and not polled are dropped.

        @raise SettingError: through the Deferred: the queue is not assigned to this consumer, or does not have that
            offset.
        @raise CallFailed: through the Deferred: the broker did not answer.
        """
        return Deferred.fromCoroutine(self._seek(queue, offset))

    async def _seek(self, queue: MessageQueue, offset: int) -> None:
        begin, end = await self._calls.min_offset(queue), await self._calls.max_offset(queue)
        if not begin <= offset <= end:
            raise SettingError(f"{queue} has the offsets {begin} to {end}, not {offset}")
        self._move(queue, offset)

    def _move(self, queue: MessageQueue, offset: int) -> None:
        if queue not in self._assignment.queues:
            raise SettingError(f"{queue} is not assigned to this consumer of group {self.group}")
        self._offsets.polled[queue] = offset
        self._assignment.move(queue, offset)

    def seek_to_begin(self, queue: MessageQueue) -> Deferred[None]:
        """Go on at the first message of an assigned queue; fails as L{seek} does."""
        return Deferred.fromCoroutine(self._seek_to(queue, self._calls.min_offset))

    def seek_to_end(self, queue: MessageQueue) -> Deferred[None]:
        """Go on behind the last message of an assigned queue; fails as L{seek} does."""
        return Deferred.fromCoroutine(self._seek_to(queue, self._calls.max_offset))

    async def _seek_to(self, queue: MessageQueue, place: Callable[[MessageQueue], Awaitable[int]]) -> None:
        self._move(queue, await place(queue))

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> Deferred[None]:
        """
        Commit offsets; fires when the brokers were told, or when the file is written.

        @param offsets: by queue, that of the message to consume next; C{None} for those behind all polled messages.
        """
        self._offsets.commit(self._offsets.polled if offsets is None else dict(offsets))
        return self._offsets.persist(self.queues if offsets is None else list(offsets))

    def committed(self, queue: MessageQueue) -> Deferred[int | None]:
        """
        Return the group's offset in a queue as it is saved; C{None} if there is none.

        @raise CallFailed: through the Deferred: the broker did not answer.
        """
        return self._with_route(queue, lambda: self._offsets.read(queue))

    def offset_for_time(self, queue: MessageQueue, timestamp_ms: int) -> Deferred[int]:
        """
        Return the offset of the message of a queue that was stored nearest to a time.

        @param timestamp_ms: wall clock, in ms.
        @raise CallFailed: through the Deferred: the broker did not answer.
        """
        return self._with_route(queue, lambda: Deferred.fromCoroutine(self._calls.offset_at(queue, timestamp_ms)))

    def _with_route(self, queue: MessageQueue, call: Callable[[], Deferred[T]]) -> Deferred[T]:
        return self._client.routes.find(queue.topic).addCallback(lambda _: call())

    # -- calls of the pulls ----------------------------------------------------------------------------------

    def hindrance(self, held: ProcessQueue) -> Deferred[None] | None:
        """Return what to wait for before a queue is pulled again. The consumer's pulls call this."""
        return self._room.wait() if held.queue in self._paused or self._too_many else None

    def arrived(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Wake polls. The consumer's pulls call this."""
        self._arrivals.fire(None)

    def moved(self, held: ProcessQueue, offset: int) -> None:
        """Go on at an offset that the queue has. The consumer's pulls call this."""
        if self._assignment.queues.get(held.queue) is not None:
            self._move(held.queue, offset)

    def _pulling(self, held: ProcessQueue, wants: SubscriptionData) -> LitePulling:
        return LitePulling(self._member, held, wants, self._meters_of(held.queue.topic), self)

    def _meters_of(self, topic: str) -> TopicMeters:
        return self._meters.setdefault(topic, TopicMeters(self._clock))

    def _follow_route(self, topic: str) -> None:
        """Rebalance if the queues of a subscribed topic changed, and tell the topic's listener."""
        if self._state != "running":
            return
        if topic in self._wants:
            self._assignment.rebalance()
        if topic in self._listeners:
            (listener, before), route = self._listeners[topic], self._client.routes.known(topic)
            queues = () if route is None else route.subscribe
            if queues != before:
                self._listeners[topic] = (listener, queues)
                listener(topic, queues)

    def _reset(self, offsets: dict[MessageQueue, int]) -> Deferred[None]:
        """Go on at other offsets, and commit them; those of queues of other members do not matter."""
        ours = {queue: offset for queue, offset in offsets.items() if queue in self._assignment.queues}
        for queue, offset in ours.items():
            self._move(queue, offset)
        return self.commit(ours)
