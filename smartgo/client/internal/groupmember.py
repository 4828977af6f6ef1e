"""What a client asks of its producers and consumers, the members of groups."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from smartgo.client.messages import ReceivedMessage
from smartgo.schema.bodies import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo, MessageQueue


class GroupConsumer(Protocol):
    """A consumer as its client sees it."""

    group: str

    def heartbeat_data(self) -> ConsumerData:
        """Say what it wants."""

    def members_changed(self) -> None:
        """Another member of the group joined or left."""

    def route_changed(self, topic: str) -> None:
        """The queues of a topic are others than before."""

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> Deferred[None]:
        """Go on at these places."""

    def running_info(self) -> ConsumerRunningInfo:
        """Tell about itself."""

    def consume_directly(self, message: ReceivedMessage) -> Deferred[ConsumeDirectlyResult]:
        """Have one message consumed now."""

    def stop(self) -> Deferred[None]:
        """Leave the group."""


class GroupProducer(Protocol):
    """A producer as its client sees it."""

    group: str

    def stop(self) -> Deferred[None]:
        """Leave the group."""
