"""A lite pull consumer towards its client: heartbeats, notices of brokers, what tools ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from twisted.internet.defer import Deferred, fail

from smartgo.client.internal.assignment import Assignment
from smartgo.client.internal.membership import Membership
from smartgo.client.internal.meters import TopicMeters
from smartgo.client.messages import ReceivedMessage
from smartgo.errors import RequestRefused
from smartgo.schema.bodies import (
    ConsumeDirectlyResult,
    ConsumerData,
    ConsumerRunningInfo,
    ConsumeType,
    MessageQueue,
    SubscriptionData,
)
from smartgo.schema.codes import VERSION


class LiteCalls(NamedTuple):
    """
    Functions of a lite pull consumer for the calls of its client.

    @ivar subscriptions: returns what it subscribes to, by topic; nothing where queues are assigned to it.
    @ivar follow_route: called with a topic whose route changed.
    @ivar reset: called with the offsets to go on at.
    @ivar stop: leaves the group.
    """

    subscriptions: Callable[[], Mapping[str, SubscriptionData]]
    follow_route: Callable[[str], None]
    reset: Callable[[dict[MessageQueue, int]], Deferred[None]]
    stop: Callable[[], Deferred[None]]


class LiteMember:
    """
    A lite pull consumer as its client sees it, a L{GroupConsumer<smartgo.client.internal.groupmember.GroupConsumer>}.

    @ivar group: the name of the group.
    """

    def __init__(
        self, member: Membership, assignment: Assignment, meters: Callable[[str], TopicMeters], calls: LiteCalls
    ) -> None:
        """
        @param meters: returns the rates of a topic.
        """
        self.group = member.group
        self._member = member
        self._assignment = assignment
        self._meters = meters
        self._calls = calls
        self._clock = member.client.env.clock
        self._started_ms = self._clock.wall_ms()

    def heartbeat_data(self) -> ConsumerData:
        """Return the consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=self._member.settings.model,
            consume_from_where=self._member.settings.begin,
            subscription_data_set=list(self._calls.subscriptions().values()),
        )

    def members_changed(self) -> None:
        """Rebalance: another member joined or left."""
        if self._calls.subscriptions():
            self._assignment.rebalance()

    def route_changed(self, topic: str) -> None:
        """Tell the consumer of a topic whose route changed."""
        self._calls.follow_route(topic)

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> Deferred[None]:
        """Continue at other offsets."""
        return self._calls.reset(offsets)

    def running_info(self) -> ConsumerRunningInfo:
        """Return what tools show of this consumer: settings, subscriptions, queues and rates."""
        now, wall_ms = self._clock.seconds(), self._clock.wall_ms()
        wants = self._calls.subscriptions()
        return ConsumerRunningInfo(
            properties={
                "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
                "PROP_CONSUME_TYPE": ConsumeType.CONSUME_ACTIVELY.value,
                "PROP_CONSUMEORDERLY": "false",
                "PROP_NAMESERVER_ADDR": ";".join(self._member.client.registries),
                "PROP_CLIENT_VERSION": str(VERSION),
                "PROP_THREADPOOL_CORE_SIZE": "0",
            },
            subscription_set=list(wants.values()),
            mq_table={
                queue: pulling.held.info(self._member.offsets.known(queue) or 0, now, wall_ms)
                for queue, pulling in self._assignment.queues.items()
            },
            status_table={topic: self._meters(topic).status() for topic in wants},
        )

    def consume_directly(self, message: ReceivedMessage) -> Deferred[ConsumeDirectlyResult]:
        """Refuse a message: there is no listener to give it to."""
        return fail(RequestRefused(f"the consumer of group {self.group} polls: it has no listener"))

    def stop(self) -> Deferred[None]:
        """Leave the group."""
        return self._calls.stop()
