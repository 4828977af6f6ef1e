"""What became of a message in consumer groups, and having one of their members consume it."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from smartgo.client.administration.asking import body_of
from smartgo.client.records import Found
from smartgo.client.subscription import EVERYTHING
from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.queues import QueueReader
from smartgo.ops.view import ClusterView, each
from smartgo.schema import properties
from smartgo.schema.bodies import (
    ConsumeDirectlyResult,
    ConsumerConnection,
    ConsumeType,
    MessageModel,
    MessageQueue,
    SubscriptionData,
)
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumeDirectlyRequest

State = Literal["consumed", "filtered", "waiting", "pull", "broadcast", "offline", "unknown"]

_GROUPS: Final = 1000
"""Groups of a topic that are asked about, at most."""
_TAG: Final = "TAG"


class GroupDelivery(NamedTuple):
    """What became of a message in one group."""

    group: str
    state: State
    detail: str | None


class Deliveries:
    """Asks about deliveries. Fails as L{QueueReader} does."""

    def __init__(self, reader: QueueReader, view: ClusterView) -> None:
        self._reader = reader
        self._view = view

    async def states(self, message: Found) -> list[GroupDelivery]:
        """Say for each group that reads the message's topic what became of it, as RocketMQ's tools do."""
        groups = (await self._view.admin.topics.groups(message.stored.topic))[:_GROUPS]

        async def ask(group: str) -> GroupDelivery:
            try:
                return await self._state(message, group)
            except CallFailed as error:
                return GroupDelivery(group, "unknown", str(error))

        return await each(groups, ask)

    async def _state(self, message: Found, group: str) -> GroupDelivery:
        connection = await self.connection(group)
        if connection is None:
            return GroupDelivery(group, "offline", "no member of it is connected")
        if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
            return GroupDelivery(group, "pull", "its members pull by hand, and need not tell how far they are")
        if connection.message_model is MessageModel.BROADCASTING:
            return GroupDelivery(group, "broadcast", "each member keeps for itself how far it is")
        position = await self._reader.committed(group, queue_of(message))
        if position is None or position <= message.stored.queue_offset:
            return GroupDelivery(group, "waiting", None)
        wants = connection.subscription_table.get(message.stored.topic)
        if wants is not None and passes(wants, message) is False:
            return GroupDelivery(group, "filtered", f"it wants {wants.sub_string}")
        return GroupDelivery(group, "consumed", None)

    async def connection(self, group: str) -> ConsumerConnection | None:
        """Return who is connected for a group and what it wants; C{None} where nobody is."""
        return await self._view.admin.groups.connections(group)

    async def consume(self, message: Found, group: str, client_id: str, seconds: float) -> ConsumeDirectlyResult:
        """
        Have a connected member of a group consume a message now.

        @raise Problem: 404, it is not connected; 504, it does not answer.
        """
        connection = await self.connection(group)
        if connection is None or client_id not in [one.client_id for one in connection.connection_set]:
            raise Problem(404, f"{client_id} is no connected member of {group}", "client-not-found")
        header = ConsumeDirectlyRequest(
            consumer_group=group,
            client_id=client_id,
            msg_id=message.stored.message_id,
            broker_name=message.broker,
            topic=message.stored.topic,
        )
        command = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        address = (await self._view.broker(message.broker)).address
        try:
            return body_of(ConsumeDirectlyResult, await self._reader.ask(address, command, seconds))
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.CONSUME_MSG_TIMEOUT:
                raise Problem(504, refusal.remark) from None
            raise


def queue_of(message: Found) -> MessageQueue:
    """Return the queue that a message is in."""
    return MessageQueue(message.stored.topic, message.broker, message.stored.queue_id)


def passes(wants: SubscriptionData, message: Found) -> bool | None:
    """Tell whether a subscription lets a message in; C{None}: it is none by tags, and the broker alone knows."""
    if wants.expression_type not in ("", _TAG):
        return None
    if wants.sub_string in ("", EVERYTHING) or not wants.tags_set:
        return True
    return message.properties.get(properties.TAGS, "") in wants.tags_set
