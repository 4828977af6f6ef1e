"""The interfaces of producers and consumers, the members of groups, towards their client."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.defer import Deferred

from smartgo.client.messages import ReceivedMessage
from smartgo.schema.bodies import ConsumeDirectlyResult, ConsumerData, ConsumerRunningInfo, MessageQueue
from smartgo.schema.headers.transaction import CheckTransactionRequest


class GroupConsumer(Protocol):
    """A consumer as its client sees it."""

    group: str

    def heartbeat_data(self) -> ConsumerData:
        """Return the consumer's part of a heartbeat."""

    def members_changed(self) -> None:
        """Rebalance: another member of the group joined or left."""

    def route_changed(self, topic: str) -> None:
        """Rebalance: the queues of a topic changed."""

    def reset_offsets(self, offsets: dict[MessageQueue, int]) -> Deferred[None]:
        """Continue at other offsets."""

    def running_info(self) -> ConsumerRunningInfo:
        """Return what tools show of this consumer."""

    def consume_directly(self, message: ReceivedMessage) -> Deferred[ConsumeDirectlyResult]:
        """Give one message to the listener now."""

    def stop(self) -> Deferred[None]:
        """Leave the group."""


class GroupProducer(Protocol):
    """A producer as its client sees it."""

    group: str

    def check_back(self, address: str, request: CheckTransactionRequest, half: ReceivedMessage) -> None:
        """Tell the broker at C{address} what became of the transaction of a half message."""

    def stop(self) -> Deferred[None]:
        """Leave the group."""
