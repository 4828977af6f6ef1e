"""
The deliveries of a message to groups, and its consumption by a chosen member of a group.

Source: C{tools/admin/DefaultMQAdminExtImpl.java} (C{messageTrackDetail}, C{consumeMessageDirectly}).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

import msgspec

from smartgo.client.administration.asking import TIMEOUT, Asking, body_of, deferred
from smartgo.client.administration.groups import Groups
from smartgo.client.administration.queues import Queues
from smartgo.client.administration.topics import Topics
from smartgo.client.internal.redeliveries import FAILED, Fate, FateState, Redeliveries, fate_text
from smartgo.client.internal.subscription import lets_in
from smartgo.errors import CallFailed
from smartgo.schema import properties
from smartgo.schema.bodies import ConsumeDirectlyResult, ConsumeType, MessageModel, MessageQueue
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import ConsumeDirectlyRequest
from smartgo.schema.topics import DLQ_PREFIX

_LISTENER_TIMEOUT: Final = 3 * TIMEOUT  # seconds for a listener


class TrackState(StrEnum):
    """
    The delivery state of a message in a group.

    C{PULL}: the group has pull consumers, whose state is unknown. C{CONSUME_BROADCASTING}: each member keeps its
    offsets for itself. C{NOT_ONLINE}: the group has no member; only its offset is known. A group without an offset in
    the queue has not consumed the message yet, as with RocketMQ. Where mqadmin says C{CONSUMED} of all that the group's
    offset is past, C{REFUSED} is a message that the group refused and will get again, and C{DEAD} one that it gave up.
    """

    CONSUMED = "CONSUMED"
    CONSUMED_BUT_FILTERED = "CONSUMED_BUT_FILTERED"
    NOT_CONSUME_YET = "NOT_CONSUME_YET"
    REFUSED = "REFUSED"
    DEAD = "DEAD"
    PULL = "PULL"
    CONSUME_BROADCASTING = "CONSUME_BROADCASTING"
    NOT_ONLINE = "NOT_ONLINE"
    UNKNOWN = "UNKNOWN"


class Track(msgspec.Struct, frozen=True):
    """
    The delivery of one message to one group.

    @ivar position: the group's offset in the message's queue; C{None} if it has none.
    @ivar wants: the group's subscription to the topic; C{None} if it has none, or no member.
    @ivar detail: more about the state, such as the reason if it is unknown; C{None} where there is none.
    """

    group: str
    state: TrackState
    position: int | None
    wants: str | None
    detail: str | None = None


_DEAD: Final = "given up: it is a dead letter of the group"
_FATES: Final[Mapping[FateState, TrackState]] = {
    "waiting": TrackState.NOT_CONSUME_YET,
    "refused": TrackState.REFUSED,
    "consumed": TrackState.CONSUMED,
    "failed": TrackState.DEAD,
    "unknown": TrackState.UNKNOWN,
}


class DeliveryTracking:
    """The delivery of a message to groups. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, topics: Topics, groups: Groups) -> None:
        self._asking = asking
        self._topics = topics
        self._groups = groups
        self._queues = Queues(asking)

    @deferred
    async def tracks(self, queue: MessageQueue, offset: int, tag: str, unique: str = "") -> list[Track]:
        """Return the delivery state of a message in each group that reads its topic or has offsets in it."""
        address = await self._address(queue.broker_name)
        names = await self._topics.groups(queue.topic)
        return [await self.track(name, address, queue, offset, tag, unique) for name in names]

    @deferred
    async def track(
        self, group: str, address: str, queue: MessageQueue, offset: int, tag: str, unique: str = ""
    ) -> Track:
        """
        Return the delivery state of a message in one group; it is unknown if the brokers cannot be asked.

        @param queue: the queue of the message, at C{offset}; C{address} is its broker's.
        @param unique: its unique id: without, what the group refused counts as consumed.
        """
        try:
            track = await self._track(group, address, queue, offset, tag)
            fate = None
            if track.state is TrackState.CONSUMED and unique:
                fate = await Redeliveries(self._asking).fate(group, unique)
            if fate is None:
                return track
            detail = fate_text(fate) if fate.state == "refused" else _DEAD if fate.state == "failed" else None
            return Track(group, _FATES[fate.state], track.position, track.wants, detail)
        except CallFailed as error:
            return Track(group, TrackState.UNKNOWN, None, None, str(error))

    async def _track(self, group: str, address: str, queue: MessageQueue, offset: int, tag: str) -> Track:
        position = await self._queues.committed(address, group, queue.topic, queue.queue_id)
        connection = await self._groups.connections(group)
        if connection is None:
            return Track(group, TrackState.NOT_ONLINE, position, None)
        subscription = connection.subscription_table.get(queue.topic)
        wants = subscription.sub_string if subscription is not None else None
        if connection.consume_type is ConsumeType.CONSUME_ACTIVELY:
            state = TrackState.PULL
        elif connection.message_model is MessageModel.BROADCASTING:
            state = TrackState.CONSUME_BROADCASTING
        elif position is None or position <= offset:
            state = TrackState.NOT_CONSUME_YET
        elif subscription is not None and lets_in(subscription, tag) is False:
            state = TrackState.CONSUMED_BUT_FILTERED
        else:
            state = TrackState.CONSUMED
        return Track(group, state, position, wants)

    @deferred
    async def refusals(self, topic: str, found: Mapping[str, str]) -> dict[str, Fate]:
        """
        Return what became of a message in the groups that refused it, or gave it up: those alone, by name. Groups of
        which the brokers do not tell are left out.

        @param topic: the topic of the record; C{found}: its properties.
        """
        unique = found.get(properties.UNIQ_KEY, "")
        if topic.startswith(DLQ_PREFIX):
            return {topic.removeprefix(DLQ_PREFIX): FAILED}
        if not unique:
            return {}
        redeliveries = Redeliveries(self._asking)
        found_in: dict[str, Fate] = {}
        try:
            names = await self._topics.groups(topic)
        except CallFailed:
            return {}  # the message itself is what was asked for
        for name in names:
            try:
                fate = await redeliveries.fate(name, unique)
            except CallFailed:
                continue
            if fate is not None and fate.state in ("refused", "failed"):
                found_in[name] = fate
        return found_in

    @deferred
    async def consume_directly(
        self, group: str, client_id: str, queue: MessageQueue, offset_id: str, seconds: float = _LISTENER_TIMEOUT
    ) -> ConsumeDirectlyResult:
        """
        Make one member of a group consume a message now, outside of its queues; no offset changes.

        @param queue: where the message is stored.
        @param seconds: to wait for the member.
        @raise PeerRefused: through the Deferred: it is not connected to the message's broker, or cannot.
        """
        header = ConsumeDirectlyRequest(
            consumer_group=group,
            client_id=client_id,
            msg_id=offset_id,
            broker_name=queue.broker_name,
            topic=queue.topic,
        )
        command = Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
        address = await self._address(queue.broker_name)
        return body_of(ConsumeDirectlyResult, await self._asking.client.ask(address, command, seconds))

    async def _address(self, broker: str) -> str:
        """Return the address of a broker's master, or where there is none of a slave."""
        addresses = await self._asking.readable()
        if broker not in addresses:
            raise CallFailed(f"there is no broker {broker}; there is: {', '.join(addresses) or 'none'}")
        return addresses[broker]
