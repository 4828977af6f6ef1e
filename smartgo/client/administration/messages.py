"""
Messages: found by id, key and place; what groups made of one; to have one consumed once more.

Source: C{client/impl/MQAdminImpl.java}, C{tools/admin/DefaultMQAdminExtImpl.java}.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final

import msgspec

from smartgo.client.administration.asking import TIMEOUT, Asking, body_of, deferred
from smartgo.client.administration.groups import Groups
from smartgo.client.administration.topics import Topics
from smartgo.client.messages import ReceivedMessage, received, received_if_readable
from smartgo.client.pull import PullConsumer
from smartgo.client.records import Found
from smartgo.client.search import Search, address_in
from smartgo.errors import BadCompression, BadHeader, BodyTooLong, CallFailed, NoSuchMessage
from smartgo.schema.bodies import ConsumeDirectlyResult, ConsumerConnection, ConsumeType, MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import INT64_MAX
from smartgo.schema.headers.consumers import ConsumeDirectlyRequest

_TOOLS: Final = "TOOLS_CONSUMER"
_PATIENCE: Final = 3 * TIMEOUT  # seconds for a listener


class TrackState(StrEnum):
    """
    What a group made of a message.

    C{PULL}: the group pulls by hand, nobody can tell. C{NOT_ONLINE}: it has no member; its position tells all there is.
    """

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    PULL = "PULL"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"


class Track(msgspec.Struct, frozen=True):
    """
    One group and one message.

    @ivar position: where the group stands in the message's queue; C{None} where it has no position there.
    @ivar wants: what the group subscribes to of the topic; C{None} where it does not, or has no member.
    @ivar detail: why the state is not known.
    """

    group: str
    state: TrackState
    position: int | None
    wants: str | None
    detail: str | None = None


class Messages:
    """Questions and orders about single messages. Fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, topics: Topics, groups: Groups) -> None:
        self._asking = asking
        self._topics = topics
        self._groups = groups
        self._search = Search(asking)

    # -- one -------------------------------------------------------------------------------------------------

    @deferred
    async def by_id(self, offset_id: str) -> ReceivedMessage:
        """
        Return a message by its offset id (L{smartgo.client.messages.SendResult.offset_id}).

        The id tells its broker's address. Where no registry knows that, all brokers are asked: a broker may have moved.

        @raise BadHeader: through the Deferred: that is no message id.
        @raise NoSuchMessage: through the Deferred: there is none.
        """
        one = await self._stored(offset_id)
        try:
            return received(one.stored, one.broker)
        except (BadCompression, BodyTooLong) as error:
            raise CallFailed(f"message {offset_id} cannot be read: {error}") from None

    @deferred
    async def record(self, offset_id: str) -> bytes:
        """Return the bytes of a stored message, as L{smartgo.schema.record} tells them. Fails as L{by_id} does."""
        return (await self._stored(offset_id)).raw

    async def _stored(self, offset_id: str) -> Found:
        place = address_in(offset_id)
        table = (await self._asking.cluster()).broker_addr_table
        brokers = {name: place for name, data in sorted(table.items()) if place in data.broker_addrs.values()}
        one = await self._search.by_offset_id(offset_id, brokers or await self._asking.readable())
        if one is None:
            raise NoSuchMessage(f"there is no message {offset_id}")
        return one

    @deferred
    async def find(self, id: str, topic: str | None = None) -> ReceivedMessage:
        """
        Return a message by its offset id, or by its unique id where its topic is named: both look alike.

        @raise NoSuchMessage: through the Deferred: there is none.
        @raise BadHeader: through the Deferred: that is no id, and no topic is named.
        """
        if topic is None:
            try:
                return await self.by_id(id)
            except NoSuchMessage as error:
                raise NoSuchMessage(f"{error}; where that is the id its producer gave it, name its topic") from None
        found = await self.by_unique_key(topic, id)
        if found:
            return found[0]
        try:
            return await self.by_id(id)
        except BadHeader:
            raise NoSuchMessage(f"there is no message {id} in topic {topic}") from None

    @deferred
    async def at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """
        Return the message at a place of a queue.

        @raise NoSuchMessage: through the Deferred: there is none.
        """
        result = await PullConsumer(self._asking.client, _TOOLS).pull(queue, offset, limit=1)
        for message in result.messages:
            if message.queue_offset == offset:
                return message
        raise NoSuchMessage(
            f"there is no message {offset} in queue {queue.queue_id} of {queue.topic} at broker {queue.broker_name}; "
            f"it has {result.min_offset} to {result.max_offset - 1}"
        )

    # -- several ---------------------------------------------------------------------------------------------

    @deferred
    async def by_key(self, topic: str, key: str, begin_ms: int = 0, end_ms: int = INT64_MAX) -> list[ReceivedMessage]:
        """
        Return messages of a topic that have a key, oldest first; not more of a broker than L{Search} says.

        @param begin_ms: stored at this time or later; C{end_ms} or earlier; wall clock.
        @raise PeerRefused: through the Deferred: code 17, there is no such topic.
        """
        brokers = await self._topics.places(topic)
        return _readable(await self._search.by_key(topic, key, brokers, begin_ms, end_ms))

    @deferred
    async def by_unique_key(self, topic: str, id: str) -> list[ReceivedMessage]:
        """Return the messages of a topic that their producer gave an id, oldest first; several where it sent again."""
        return _readable(await self._search.by_unique_key(topic, id, await self._topics.places(topic)))

    # -- what became of it -----------------------------------------------------------------------------------

    @deferred
    async def track(self, message: ReceivedMessage) -> list[Track]:
        """Return what each group made of a message that reads its topic now, or has positions in it."""
        names = await self._topics.groups(message.queue.topic)
        return [await self._track(message, name) for name in names]

    async def _track(self, message: ReceivedMessage, group: str) -> Track:
        stats = await self._groups.progress(group, message.queue.topic)
        stands = stats.offset_table.get(message.queue)
        position = stands.consumer_offset if stands is not None else None
        connection = await self._groups.connections(group)
        if connection is None:
            return Track(group, TrackState.NOT_ONLINE, position, None)
        subscription = connection.subscription_table.get(message.queue.topic)
        wants = subscription.sub_string if subscription is not None else None
        if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
            return Track(group, TrackState.PULL, position, wants)
        if position is None:
            return Track(group, TrackState.UNKNOWN, None, wants, "the group does not read this queue")
        if position <= message.queue_offset:
            return Track(group, TrackState.NOT_CONSUME_YET, position, wants)
        state = TrackState.CONSUMED if _wants(connection, message) else TrackState.CONSUMED_BUT_FILTERED
        return Track(group, state, position, wants)

    @deferred
    async def consume_directly(self, group: str, client_id: str, message: ReceivedMessage) -> ConsumeDirectlyResult:
        """
        Have one member of a group consume a message now, outside its queues; no position changes.

        @raise PeerRefused: through the Deferred: it is not connected to the message's broker, or cannot.
        """
        address = (await self._asking.masters([message.queue.broker_name]))[message.queue.broker_name]
        header = ConsumeDirectlyRequest(
            consumer_group=group,
            client_id=client_id,
            msg_id=message.offset_id,
            broker_name=message.queue.broker_name,
        )
        command = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        return body_of(ConsumeDirectlyResult, await self._asking.client.ask(address, command, _PATIENCE))


def _readable(found: Iterable[Found]) -> list[ReceivedMessage]:
    messages = [received_if_readable(one.stored, one.broker) for one in found]
    return [one for one in messages if one is not None]


def _wants(connection: ConsumerConnection, message: ReceivedMessage) -> bool:
    """Tell whether the tags that a group subscribes to let a message through; other expressions count as if they do."""
    subscription = connection.subscription_table.get(message.queue.topic)
    if subscription is None:
        return True
    tags: Collection[str] = subscription.tags_set
    return not tags or "*" in tags or message.tag in tags
