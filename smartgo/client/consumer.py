"""
The push consumer: a member of a group that pulls messages and gives them to a listener.

See C{docs/client.rst} for an example. Source: C{client/impl/consumer/DefaultMQPushConsumerImpl.java}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.client.client import Client
from smartgo.client.filters import Sql
from smartgo.client.internal.assignment import Assignment
from smartgo.client.internal.delivery import ConcurrentDelivery, Delivery, OrderlyDelivery
from smartgo.client.internal.events import observed
from smartgo.client.internal.locks import RENEWAL, QueueLocks
from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.internal.offsets import offset_store
from smartgo.client.internal.pauses import Pauses
from smartgo.client.internal.processqueue import ProcessQueue
from smartgo.client.internal.pulling import Pulling
from smartgo.client.internal.sendback import SendBack
from smartgo.client.internal.starting import check_admitted, check_not_stopped, check_subscriptions, started_before
from smartgo.client.internal.subscription import EVERYTHING, subscription
from smartgo.client.internal.tracing import events_of
from smartgo.client.listening import ConsumeLater, ConsumerSettings, Listener, outcome
from smartgo.client.messages import ReceivedMessage
from smartgo.client.pullconsumer import QueueCalls
from smartgo.env.timedloop import TimedLoop
from smartgo.errors import PeerRefused, SettingError
from smartgo.observer import OneShotObserver
from smartgo.schema.bodies import (
    ConsumeDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    ConsumeType,
    MessageQueue,
    SubscriptionData,
)
from smartgo.schema.codes import VERSION
from smartgo.schema.topics import check_group, check_topic, retry_topic

REBALANCE: Final = 20.0  # seconds
PERSIST: Final = 5.0  # seconds


class PushConsumer:
    """
    A push consumer: a member of a consumer group whose listener gets the messages.

    Create it, L{subscribe}, then L{start} it; L{stop} it in the end. After a start that failed it can be started again,
    after a stop not. The listener gets every message at least once; it gets one twice if a consumer ended before its
    offset was saved, or if a rebalance moved the queue to another member.

    @ivar group: the name of the group.
    """

    _log = Logger()

    def __init__(
        self, client: Client, group: str, listener: Listener, settings: ConsumerSettings | None = None
    ) -> None:
        """
        @param listener: is called with messages; see L{smartgo.client.listening.Listener}.
        @param settings: the settings; C{None} for the defaults.
        @raise BadName: the group's name breaks the rules.
        """
        check_group(group)
        self.group = group
        self._client = client
        self._listener = listener
        self._settings = settings = ConsumerSettings() if settings is None else settings
        self._clock = client.env.clock
        self._wants: dict[str, SubscriptionData] = {}
        self._meters: dict[str, TopicMeters] = {}
        self._started_ms = 0
        self._make_parts()
        if settings.shares:
            self._subscribe(retry_topic(group), EVERYTHING)

    def _make_parts(self) -> None:
        """Make the parts that a consumer uses up: from its creation, or a failed start, to its end."""
        client, group, settings, clock = self._client, self.group, self._settings, self._clock
        self._pauses = Pauses(clock)
        self._calls = QueueCalls(client, group)
        self._offsets = offset_store(client, group, settings.shares, settings.offsets_directory)
        locks = QueueLocks(client, group)
        back = SendBack(client, group, settings.max_reconsume)
        told = observed(self._listener, events_of(client), group, clock, settings.consume_timeout)
        parts = (clock, told, settings, back, self._pauses, self._meters_of)
        self._delivery: Delivery = OrderlyDelivery(*parts, locks) if settings.orderly else ConcurrentDelivery(*parts)
        self._member = Membership(client, group, settings, self._calls, self._offsets)
        self._assignment = Assignment(self._member, self._wants, locks, self._pulling)
        self._loops: list[TimedLoop] = []
        self._state = "new"
        self._ended: OneShotObserver[None] = OneShotObserver()

    # -- subscriptions ---------------------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: str | Sql = EVERYTHING) -> None:
        """
        Subscribe to a topic, before L{start}. All members of a group must have the same subscriptions.

        @param expression: the tags to consume: C{TagA || TagB}, or C{*} for all messages, or an SQL92 expression over
            their properties.
        @raise BadName: the topic's name breaks the rules.
        @raise SubscriptionParseFailed: the expression names no tag.
        @raise SettingError: the consumer was started.
        """
        check_topic(topic)
        if self._state != "new":
            raise SettingError(f"the consumer of group {self.group} has started already: it is too late to subscribe")
        self._subscribe(topic, expression)

    def _subscribe(self, topic: str, expression: str | Sql) -> None:
        self._wants[topic] = subscription(topic, expression, self._clock.wall_ms())

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> Deferred[None]:
        """
        Join the group and begin to consume; fires after the first rebalance. Where that fails it may be called again.

        A topic that does not exist yet is looked up every 1 to 2 s until it does.

        @raise smartgo.errors.SettingError: at once: there is no subscription, the client has a consumer of this group
            already, or this one runs or was stopped.
        @raise smartgo.errors.CallFailed: through the Deferred: no registry can be reached, or L{stop} was called
            meanwhile; the consumer is not started.
        @raise smartgo.errors.PeerRefused: through the Deferred: a broker cannot evaluate an SQL92 expression (23: it
            is wrong, 1: C{enablePropertyFilter} is off), or access control of all brokers of a topic does not admit the
            group or the topic (1 or 16); the consumer is not started.
        """
        if self._state != "new":
            raise started_before(self.group)
        if not any(topic != retry_topic(self.group) for topic in self._wants):
            raise SettingError(f"the consumer of group {self.group} subscribes to nothing")
        return Deferred.fromCoroutine(self._start())

    async def _start(self) -> None:
        await check_subscriptions(self._client, self._calls, self._wants)
        check_not_stopped(self.group, self._state)
        self._offsets.load()
        self._client.join(consumer=self)
        self._state = "running"
        self._started_ms = self._clock.wall_ms()
        for topic in self._wants:
            self._client.routes.want(topic, self)
        await self._client.heartbeat()
        try:
            check_admitted(self._client, self._wants)
        except PeerRefused:
            if self._state == "running":
                await self.stop()
                self._make_parts()
            raise
        await self._assignment.rebalance()
        if self._state != "running":
            return
        self._every(REBALANCE, self._assignment.rebalance)
        self._every(PERSIST, self._assignment.persist)
        if self._settings.locks:
            self._every(RENEWAL, lambda: Deferred.fromCoroutine(self._assignment.renew_locks()))
        if not self._settings.orderly:
            self._every(self._settings.consume_timeout, self._delivery.give_back_late)

    def _every(self, seconds: float, work: Callable[[], Deferred[Any]]) -> None:
        def guarded() -> Deferred[Any]:
            return work().addErrback(self._broke)

        loop = TimedLoop(self._clock, guarded)
        loop.start(seconds, now=False)
        self._loops.append(loop)

    def _broke(self, failure: Failure) -> None:
        self._log.failure("a periodic task of group {group} failed", failure, group=self.group)

    def stop(self) -> Deferred[None]:
        """
        Stop pulling, wait for the listener calls in flight, commit the offsets and leave the group. Fires when all that
        is done, and never fails. Idempotent.
        """
        if self._state == "running":
            self._state = "stopping"
            Deferred.fromCoroutine(self._stop()).addErrback(self._broke).addCallback(self._stopped)
        if self._state == "stopping":
            return self._ended.when()
        self._state = "stopped"
        return succeed(None)

    async def _stop(self) -> None:
        for loop in self._loops:
            loop.stop()
        self._delivery.stop()
        self._pauses.end()
        for topic in self._wants:
            self._client.routes.unwant(topic, self)
        await self._assignment.stop(self._settings.stop_timeout)
        await self._client.leave(consumer=self.group)

    def _stopped(self, _: None) -> None:
        self._state = "stopped"
        self._ended.fire(None)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that are assigned to this consumer now, including the retry topic's, sorted."""
        return sorted(self._assignment.queues)

    # -- calls of the client ---------------------------------------------------------------------------------

    def heartbeat_data(self) -> ConsumerData:
        """Return the consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.CONSUME_PASSIVELY,
            message_model=self._settings.model,
            consume_from_where=self._settings.begin,
            subscription_data_set=list(self._wants.values()),
        )

    def members_changed(self) -> None:
        """Rebalance: another member joined or left."""
        self._assignment.rebalance()

    def route_changed(self, topic: str) -> None:
        """Rebalance if the consumer subscribes to a topic whose queues changed."""
        if topic in self._wants and self._state == "running":
            self._assignment.rebalance()

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> Deferred[None]:
        """Continue at other offsets; fires when that is done."""
        return Deferred.fromCoroutine(self._assignment.restart(offsets))

    def running_info(self) -> ConsumerRunningInfo:
        """Return what tools show of this consumer: settings, subscriptions, queues and rates."""
        now, wall_ms = self._clock.seconds(), self._clock.wall_ms()
        settings = self._settings
        begun = self._delivery.begun()
        return ConsumerRunningInfo(
            properties={
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_PASSIVELY.value,
                "PROP_CONSUMEORDERLY": "true" if settings.orderly else "false",
                "PROP_NAMESERVER_ADDR": ";".join(self._client.registries),
                "PROP_CLIENT_VERSION": str(VERSION),
                "PROP_THREADPOOL_CORE_SIZE": str(settings.concurrency),
                ConsumerRunningInfo.MAX_RECONSUME: str(settings.max_reconsume),
                ConsumerRunningInfo.CONSUME_TIMEOUT: f"{settings.consume_timeout / 60:g}",
                ConsumerRunningInfo.LISTENER_CALLS: str(len(begun)),
                ConsumerRunningInfo.LONGEST_CALL: str(round((now - min(begun, default=now)) * 1000)),
            },
            subscription_set=list(self._wants.values()),
            mq_table={
                queue: pulling.held.info(self._offsets.known(queue) or 0, now, wall_ms)
                for queue, pulling in self._assignment.queues.items()
            },
            status_table={topic: self._meters_of(topic).status() for topic in self._wants},
        )

    def consume_directly(self, message: ReceivedMessage) -> Deferred[ConsumeDirectlyResult]:
        """Give one message to the listener, outside of the queues; fires with the outcome, and never fails."""
        return Deferred.fromCoroutine(self._consume_directly(message))

    async def _consume_directly(self, message: ReceivedMessage) -> ConsumeDirectlyResult:
        begin = self._clock.seconds()
        result, remark = "CR_SUCCESS", None
        try:
            waits = outcome(self._listener, [message])
            if waits is not None:
                await waits
        except ConsumeLater:
            result = "CR_LATER"
        except Exception as error:
            self._log.failure("the listener failed for message {id}, which a person sent it", id=message.message_id)
            result, remark = "CR_THROW_EXCEPTION", f"{type(error).__name__}: {error}"
        return ConsumeDirectlyResult(
            order=self._settings.orderly,
            consume_result=result,
            remark=remark,
            spent_time_mills=round((self._clock.seconds() - begin) * 1000),
        )

    # -- parts -----------------------------------------------------------------------------------------------

    def _meters_of(self, topic: str) -> TopicMeters:
        meters = self._meters.get(topic)
        if meters is None:
            meters = self._meters[topic] = TopicMeters(self._clock)
        return meters

    def _pulling(self, held: ProcessQueue, wants: SubscriptionData) -> Pulling:
        return Pulling(
            self._member,
            held,
            wants,
            self._pauses,
            self._meters_of(held.queue.topic),
            self._delivery.arrived,
            self._moved,
        )

    def _moved(self, held: ProcessQueue, offset: int) -> None:
        """Continue at an offset that the queue has: it does not have the one that was pulled."""
        self.reset_offsets({held.queue: offset}).addErrback(self._broke)
