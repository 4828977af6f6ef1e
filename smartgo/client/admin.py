"""
Administration of registries and brokers, for tools and programs.

    >>> async def lag(client: Client) -> int:
    ...     return lag_of(await Admin(client).groups.progress("audit"))

The operations are in the parts, one module each in L{smartgo.client.administration}.

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
from smartgo.client.administration.transactions import TransactionQueries
from smartgo.client.client import Client


class Admin:
    """
    Administration of a cluster.

    All methods of the parts return Deferreds and can be awaited. They fail with
    L{PeerRefused<smartgo.errors.PeerRefused>} if a broker or registry declines, and with
    L{CallFailed<smartgo.errors.CallFailed>} if it does not answer. A change goes to the masters of all brokers
    concerned and to all registries; if one of them fails, the others keep the change, and the error names them.

    @ivar asking: sends the requests of all parts.
    @ivar topics: L{Topics}: topics and their queues.
    @ivar groups: L{Groups}: consumer groups and their lag.
    @ivar clients: L{Clients}: connected clients.
    @ivar brokers: L{Brokers}: brokers, their settings and figures.
    @ivar positions: L{Positions}: resets of group offsets.
    @ivar registries: L{Registries}: settings by namespace and key.
    @ivar messages: L{Messages}: messages by id, key and offset.
    @ivar deliveries: L{DeliveryTracking}: the delivery of a message to each group.
    @ivar transactions: L{TransactionQueries}: undecided transactions, and those that were given up.
    @ivar definitions: L{Definitions}: export and import of settings of topics and groups.
    """

    def __init__(self, client: Client, on_missing: OnMissing | None = None, asking: Asking | None = None) -> None:
        """
        @param on_missing: is called with the name of a broker that does not answer and the reason, and a query of
            several brokers continues without it; by default such a query fails.
        @param asking: sends the requests, with other time-outs for example; by default one is made with C{on_missing}.
        """
        if asking is None:
            asking = Asking(client, on_missing)
        self.asking = asking
        self.topics = Topics(asking)
        self.groups = Groups(asking, self.topics)
        self.clients = Clients(asking, self.groups)
        self.brokers = Brokers(asking)
        strict = Asking(client)  # no offset is reset and no definition written on incomplete answers
        topics = Topics(strict)
        groups = Groups(strict, topics)
        self.positions = Positions(strict, groups)
        self.definitions = Definitions(strict, topics, groups, Registries(strict))
        self.registries = Registries(asking)
        self.messages = Messages(asking, self.topics)
        self.deliveries = DeliveryTracking(asking, self.topics, self.groups)
        self.transactions = TransactionQueries(asking)
