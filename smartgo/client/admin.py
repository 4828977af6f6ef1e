"""
Questions and orders to registries and brokers, for tools and for people.

    >>> async def lag(client: Client) -> int:
    ...     return lag_of(await Admin(client).groups.progress("audit"))

What there is to ask and to order stands in the parts, a module each in L{smartgo.client.administration}.

Source: C{client/impl/MQAdminImpl.java}, C{tools/admin/DefaultMQAdminExtImpl.java}.
"""

from __future__ import annotations

from smartgo.client.administration.asking import Asking, OnMissing, deferred
from smartgo.client.administration.brokers import Brokers
from smartgo.client.administration.clients import Clients
from smartgo.client.administration.groups import Groups
from smartgo.client.administration.groups import lag_of as lag_of
from smartgo.client.administration.positions import Positions
from smartgo.client.administration.registries import Registries
from smartgo.client.administration.topics import Topics
from smartgo.client.instance import Client
from smartgo.client.messages import ReceivedMessage, received
from smartgo.errors import BadCompression, BadRecord, BodyTooLong, CallFailed
from smartgo.schema.codes import RequestCode
from smartgo.schema.headers.messages import ViewMessageRequest
from smartgo.schema.message import parse_message_id, unpack_host
from smartgo.schema.record import decode


class Admin:
    """
    Asks on behalf of a person or a tool.

    All methods of the parts return Deferreds and may be awaited. They fail with
    L{PeerRefused<smartgo.errors.PeerRefused>} where they are declined, and with
    L{CallFailed<smartgo.errors.CallFailed>} where nobody answers. Changes go to the masters of all brokers that are
    meant and to all registries; they are not undone where one of them fails, and the message tells which did.

    @ivar topics: L{Topics}.
    @ivar groups: L{Groups}.
    @ivar clients: L{Clients}: who is connected.
    @ivar brokers: L{Brokers}: the cluster.
    @ivar positions: L{Positions}: to move groups.
    @ivar registries: L{Registries}: settings by namespace and key.
    """

    def __init__(self, client: Client, on_missing: OnMissing | None = None) -> None:
        """
        @param on_missing: called with a broker's name and why, lets questions to several brokers go on without those
            that do not answer; by default such a question fails.
        """
        self._asking = asking = Asking(client, on_missing)
        self.topics = Topics(asking)
        self.groups = Groups(asking, self.topics)
        self.clients = Clients(asking, self.groups)
        self.brokers = Brokers(asking)
        self.positions = Positions(asking, self.groups)
        self.registries = Registries(asking)

    @deferred
    async def message(self, offset_id: str) -> ReceivedMessage:
        """
        Return a message by its offset id (L{smartgo.client.messages.SendResult.offset_id}); the id names the broker.

        @raise BadHeader: through the Deferred: that is no message id.
        """
        raw = await self.record(offset_id)
        try:
            return received(decode(raw), await self._name_of(offset_id))
        except (BadRecord, BadCompression, BodyTooLong) as error:
            raise CallFailed(f"message {offset_id} cannot be read: {error}") from None

    @deferred
    async def record(self, offset_id: str) -> bytes:
        """Return the bytes of a stored message, as L{smartgo.schema.record} tells them. Fails as L{message} does."""
        place, offset = _place(offset_id)
        answer = await self._asking.broker(place, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageRequest(offset=offset))
        return answer.body

    async def _name_of(self, offset_id: str) -> str:
        """Return the name of the broker that an offset id tells the address of; C{""} where no registry knows it."""
        address, _ = _place(offset_id)
        try:
            names = [one.name for one in await self.brokers.places() if one.address == address]
        except CallFailed:
            return ""  # the message was there all the same
        return names[0] if names else ""


def _place(offset_id: str) -> tuple[str, int]:
    """Return address and physical offset that an offset id holds. @raise BadHeader: it is none."""
    host, offset = parse_message_id(offset_id)
    address, port = unpack_host(host)
    return (f"[{address}]:{port}" if ":" in address else f"{address}:{port}"), offset
