"""
Messages: found by id, key and place.

Source: C{client/impl/MQAdminImpl.java}, C{tools/admin/DefaultMQAdminExtImpl.java}.
"""

from __future__ import annotations

from twisted.internet.defer import succeed

from smartgo.client.administration.asking import Asking, deferred
from smartgo.client.administration.topics import Topics
from smartgo.client.internal.reading import QueueQueries
from smartgo.client.internal.records import FoundMessage, readable
from smartgo.client.internal.search import BrokerSearch, address_in, at_limit
from smartgo.client.internal.topicsweep import in_order, sweep
from smartgo.client.internal.tracetimeline import MessageTrace, TraceMessage, timeline
from smartgo.client.internal.waitingmessages import find_waiting
from smartgo.client.messages import ReceivedMessage, received
from smartgo.errors import BadCompression, BadHeader, BodyTooLong, CallFailed, NoSuchMessage, PeerRefused
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.codes import ResponseCode
from smartgo.schema.headerfields import INT64_MAX
from smartgo.schema.message import UniqueId
from smartgo.schema.topics import TRACE_TOPIC


class Messages:
    """Queries of single messages. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, topics: Topics) -> None:
        self._asking = asking
        self._topics = topics
        self._search = BrokerSearch(asking)

    # -- one -------------------------------------------------------------------------------------------------

    @deferred
    async def by_id(self, offset_id: str) -> ReceivedMessage:
        """
        Return a message by its offset id (L{smartgo.client.messages.SendResult.offset_id}).

        The id holds the broker's address. If no registry knows that address, all brokers are asked, as the broker may
        have moved.

        @raise BadHeader: through the Deferred: that is no message id.
        @raise NoSuchMessage: through the Deferred: there is none.
        """
        return _opened(await self._stored(offset_id))

    @deferred
    async def record(self, offset_id: str) -> bytes:
        """Return the stored bytes of a message; L{smartgo.schema.record} describes them. Fails as L{by_id} does."""
        return (await self._stored(offset_id)).raw

    async def _stored(self, offset_id: str) -> FoundMessage:
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
        Return a message by its offset id or by its unique id: both look alike.

        Without a topic, a unique id is looked up in one topic after another, up to
        L{smartgo.client.internal.topicsweep.SWEPT} of them.

        @raise NoSuchMessage: through the Deferred: there is none.
        @raise MessageWaits: through the Deferred: it waits for its time of delivery.
        @raise BadHeader: through the Deferred: that is no id of either kind, and no topic is named.
        """
        try:
            return await self._found(id, topic)
        except NoSuchMessage:
            now_ms = self._asking.client.env.clock.wall_ms()
            waiting = await find_waiting(self._search, id, await self._asking.readable(), now_ms)
            if waiting is None or topic not in (None, waiting.topic):
                raise
            raise waiting from None

    async def _found(self, id: str, topic: str | None) -> ReceivedMessage:
        if topic is None:
            try:
                return await self.by_id(id)
            except (NoSuchMessage, BadHeader):
                UniqueId.parse(id)
                return await self._in_any_topic(id)
        found = await self.by_unique_key(topic, id)
        if found:
            return found[0]
        try:
            return await self.by_id(id)
        except BadHeader:
            raise NoSuchMessage(f"there is no message {id} in topic {topic}") from None

    async def _in_any_topic(self, id: str) -> ReceivedMessage:
        """Return the message that a producer gave an id, of whatever topic. @raise NoSuchMessage: none was found."""
        brokers = await self._asking.readable()
        places: dict[str, dict[str, str]] = {}
        for broker, configs in (await self._topics.configs()).items():
            for name in configs if broker in brokers else ():
                places.setdefault(name, {})[broker] = brokers[broker]
        names = in_order(places, await self._topics.system_names())
        swept = await sweep(names, lambda name: self._search.by_unique_key(name, id, places[name]))
        found = readable([] if swept.likeliest is None else [swept.likeliest])
        if found:
            return found[0]
        if swept.searched < swept.topics:
            raise NoSuchMessage(
                f"there is no message {id} in the {swept.searched} of {swept.topics} topics that were searched; "
                "give its topic too"
            )
        raise NoSuchMessage(f"there is no message {id} in any topic")

    @deferred
    async def at(self, queue: MessageQueue, offset: int) -> ReceivedMessage:
        """
        Return the message at an offset of a queue.

        @raise NoSuchMessage: through the Deferred: there is none.
        """
        places = await self._topics.places(queue.topic)
        if queue.broker_name not in places:
            raise NoSuchMessage(f"broker {queue.broker_name} has no topic {queue.topic}")
        reader = QueueQueries(self._asking.client, lambda broker: succeed(places[broker]))
        return _opened(await reader.at(queue, offset))

    @deferred
    async def trace(self, id: str, topic: str = TRACE_TOPIC) -> MessageTrace:
        """
        Return what clients wrote about a message into the topic of traces; no events if they wrote nothing, or if there
        is no such topic.

        @param id: its unique id, or the offset id of a stored copy.
        @param topic: the topic of traces.
        """
        try:
            brokers = await self._topics.places(topic)
        except PeerRefused as refusal:
            if refusal.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            return MessageTrace(events=[])
        wanted, found = id, await self._search.by_key(topic, id, brokers)
        if not found:
            try:
                unique = (await self._stored(id)).message_id
            except (NoSuchMessage, BadHeader):
                unique = id
            if unique != id:
                wanted, found = unique, await self._search.by_key(topic, unique, brokers)
        messages = [TraceMessage(one.body, one.born_host.rpartition(":")[0], one.stored_ms) for one in readable(found)]
        result = timeline(wanted, messages)
        result.more = at_limit(found)
        return result

    # -- several ---------------------------------------------------------------------------------------------

    @deferred
    async def by_key(self, topic: str, key: str, begin_ms: int = 0, end_ms: int = INT64_MAX) -> list[ReceivedMessage]:
        """
        Return the messages of a topic that have a key, oldest first, up to the limit of L{BrokerSearch} at each broker.

        @param begin_ms: the earliest time of storage, wall clock in ms; C{end_ms} is the latest.
        @raise PeerRefused: through the Deferred: code 17, there is no such topic.
        """
        brokers = await self._topics.places(topic)
        return readable(await self._search.by_key(topic, key, brokers, begin_ms, end_ms))

    @deferred
    async def by_unique_key(self, topic: str, id: str) -> list[ReceivedMessage]:
        """Return the messages of a topic with a producer's unique id, oldest first; several if the producer retried."""
        return readable(await self._search.by_unique_key(topic, id, await self._topics.places(topic)))


def _opened(one: FoundMessage) -> ReceivedMessage:
    """Return a message as consumers get it. @raise CallFailed: its body cannot be unpacked."""
    try:
        return received(one.stored, one.broker)
    except (BadCompression, BodyTooLong) as error:
        raise CallFailed(f"message {one.stored.message_id} cannot be read: {error}") from None
