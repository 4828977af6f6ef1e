"""
Questions and orders to registries and brokers, for tools and for people.

    >>> async def lag(client: Client) -> int:
    ...     return lag_of(await Admin(client).groups.progress("audit"))

What there is to ask and to order stands in the parts, a module each in L{smartgo.client.administration}.

Source: C{client/impl/MQAdminImpl.java}, C{tools/admin/DefaultMQAdminExtImpl.java}.
"""

from __future__ import annotations

from smartgo.client.administration.asking import Asking, OnMissing
from smartgo.client.administration.brokers import Brokers
from smartgo.client.administration.clients import Clients
from smartgo.client.administration.definitions import Definitions
from smartgo.client.administration.deliveries import DeliveryTracking
from smartgo.client.administration.groups import Groups
from smartgo.client.administration.groups import lag_of as lag_of
from smartgo.client.administration.messages import Messages
from smartgo.client.administration.positions import Positions
from smartgo.client.administration.registries import Registries
from smartgo.client.administration.topics import Topics
from smartgo.client.client import Client


class Admin:
    """
    Asks on behalf of a person or a tool.

    All methods of the parts return Deferreds and may be awaited. They fail with
    L{PeerRefused<smartgo.errors.PeerRefused>} where they are declined, and with
    L{CallFailed<smartgo.errors.CallFailed>} where nobody answers. Changes go to the masters of all brokers that are
    meant and to all registries; they are not undone where one of them fails, and the message tells which did.

    @ivar asking: how they ask.
    @ivar topics: L{Topics}.
    @ivar groups: L{Groups}.
    @ivar clients: L{Clients}: who is connected.
    @ivar brokers: L{Brokers}: the cluster.
    @ivar positions: L{Positions}: to move groups.
    @ivar registries: L{Registries}: settings by namespace and key.
    @ivar messages: L{Messages}: single ones.
    @ivar deliveries: L{DeliveryTracking}: what groups make of them.
    @ivar definitions: L{Definitions}: settings, out of a cluster and into it.
    """

    def __init__(self, client: Client, on_missing: OnMissing | None = None, asking: Asking | None = None) -> None:
        """
        @param on_missing: called with a broker's name and why, lets questions to several brokers go on without those
            that do not answer; by default such a question fails.
        @param asking: what asks in place of one with C{on_missing}, such as one with other limits of time.
        """
        if asking is None:
            asking = Asking(client, on_missing)
        self.asking = asking
        self.topics = Topics(asking)
        self.groups = Groups(asking, self.topics)
        self.clients = Clients(asking, self.groups)
        self.brokers = Brokers(asking)
        strict = Asking(client)  # nobody is moved, and nothing made, on half of what there is to know
        topics = Topics(strict)
        groups = Groups(strict, topics)
        self.positions = Positions(strict, groups)
        self.definitions = Definitions(strict, topics, groups, Registries(strict))
        self.registries = Registries(asking)
        self.messages = Messages(asking, self.topics)
        self.deliveries = DeliveryTracking(asking, self.topics, self.groups)
