"""The delivery state of a message in consumer groups, and consuming it at one of their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from smartgo.client.administration.deliveries import TrackState
from smartgo.client.internal.records import FoundMessage
from smartgo.errors import PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import PartialView, each
from smartgo.schema import properties
from smartgo.schema.bodies import ConsumeDirectlyResult, ConsumerConnection
from smartgo.schema.codes import ResponseCode

State = Literal["consumed", "filtered", "waiting", "retrying", "dead", "pull", "broadcast", "offline", "unknown"]

_ON_THE_WAY: Final = 1.0  # seconds for the broker to say that it has waited in vain
_WORDS: Final[Mapping[TrackState, tuple[State, str | None]]] = {
    TrackState.CONSUMED: ("consumed", None),
    TrackState.CONSUMED_BUT_FILTERED: ("filtered", "it wants {0.wants}"),
    TrackState.NOT_CONSUME_YET: ("waiting", None),
    TrackState.REFUSED: ("retrying", "{0.detail}"),
    TrackState.DEAD: ("dead", "{0.detail}"),
    TrackState.PULL: ("pull", "its members pull by hand, and need not tell how far they are"),
    TrackState.CONSUME_BROADCASTING: ("broadcast", "each member keeps for itself how far it is"),
    TrackState.NOT_ONLINE: ("offline", "no member of it is connected"),
    TrackState.UNKNOWN: ("unknown", "{0.detail}"),
}


class GroupDelivery(NamedTuple):
    """The delivery state of a message in one group."""

    group: str
    state: State
    detail: str | None


class MessageDeliveries:
    """Asks about deliveries. Fails as L{smartgo.client.administration.deliveries.DeliveryTracking} does."""

    def __init__(self, view: PartialView) -> None:
        self._view = view

    async def groups(self, message: FoundMessage) -> list[str]:
        """Return the groups that read a message's topic."""
        return await self._view.admin.topics.groups(message.stored.topic)

    async def states(self, message: FoundMessage, groups: Sequence[str]) -> list[GroupDelivery]:
        """Return the delivery state of a message in each of some groups that read its topic."""
        address = (await self._view.broker(message.broker)).address
        offset = message.stored.queue_offset
        unique = message.properties.get(properties.UNIQ_KEY, "")

        async def ask(group: str) -> GroupDelivery:
            deliveries = self._view.admin.deliveries
            track = await deliveries.track(group, address, message.queue, offset, message.tag, unique)
            state, detail = _WORDS[track.state]
            return GroupDelivery(group, state, detail and detail.format(track))

        return await each(groups, ask)

    async def connection(self, group: str) -> ConsumerConnection | None:
        """Return who is connected for a group and what it wants; C{None} where nobody is."""
        return await self._view.admin.groups.connections(group)

    async def consume(self, message: FoundMessage, group: str, client_id: str, seconds: float) -> ConsumeDirectlyResult:
        """
        Have a connected member of a group consume a message now.

        @raise Problem: 404, it is not connected; 504, it does not answer.
        """
        connection = await self.connection(group)
        if connection is None or client_id not in [one.client_id for one in connection.connection_set]:
            raise Problem(404, f"{client_id} is not a connected member of {group}", "client-not-found")
        offset_id = message.stored.message_id
        try:
            return await self._view.admin.deliveries.consume_directly(
                group, client_id, message.queue, offset_id, seconds + _ON_THE_WAY
            )
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.CONSUME_MSG_TIMEOUT:
                raise Problem(504, refusal.remark) from None
            raise
