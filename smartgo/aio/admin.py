"""
Administration for asyncio: the parts of L{smartgo.client.admin.Admin}, whose methods are coroutine functions here.

Their arguments, results and errors are those of the methods that they are made from.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from twisted.internet.defer import Deferred

from smartgo.aio.client import Client
from smartgo.aio.futures import future_of
from smartgo.client import admin as twisted
from smartgo.client.administration.asking import OnMissing
from smartgo.client.administration.brokers import Brokers as TwistedBrokers
from smartgo.client.administration.clients import Clients as TwistedClients
from smartgo.client.administration.definitions import Definitions as TwistedDefinitions
from smartgo.client.administration.deliveries import DeliveryTracking as TwistedDeliveryTracking
from smartgo.client.administration.groups import Groups as TwistedGroups
from smartgo.client.administration.messages import Messages as TwistedMessages
from smartgo.client.administration.positions import Positions as TwistedPositions
from smartgo.client.administration.registries import Registries as TwistedRegistries
from smartgo.client.administration.topics import Topics as TwistedTopics
from smartgo.client.administration.transactions import TransactionQueries as TwistedTransactionQueries

P = ParamSpec("P")
T = TypeVar("T")


class AdminPart:
    """A part of an L{Admin}."""

    def __init__(self, client: Client, part: Callable[[], Any]) -> None:
        """
        @param part: returns the part for Twisted; raises C{CallFailed} if the client does not run.
        """
        self._client = client
        self._part = part

    async def run(self, work: Callable[[Any], Deferred[T]]) -> T:
        """Call the part for Twisted, and await its result."""
        return await future_of(work(self._part()))


def awaiting(
    method: Callable[Concatenate[Any, P], Deferred[T]],
) -> Callable[Concatenate[AdminPart, P], Coroutine[Any, Any, T]]:
    """Return a method that awaits one of a part for Twisted."""

    @wraps(method)
    async def call(self: AdminPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(lambda part: method(part, *args, **kwargs))

    return call


class Topics(AdminPart):
    """Queries and changes of topics. The methods fail as L{smartgo.client.admin.Admin} says."""

    names = awaiting(TwistedTopics.names)
    of_cluster = awaiting(TwistedTopics.of_cluster)
    system_names = awaiting(TwistedTopics.system_names)
    route = awaiting(TwistedTopics.route)
    serves = awaiting(TwistedTopics.serves)
    configs = awaiting(TwistedTopics.configs)
    config = awaiting(TwistedTopics.config)
    places = awaiting(TwistedTopics.places)
    stats = awaiting(TwistedTopics.stats)
    groups = awaiting(TwistedTopics.groups)
    create = awaiting(TwistedTopics.create)
    update = awaiting(TwistedTopics.update)
    delete = awaiting(TwistedTopics.delete)


class Groups(AdminPart):
    """Queries and changes of consumer groups. The methods fail as L{smartgo.client.admin.Admin} says."""

    names = awaiting(TwistedGroups.names)
    configs = awaiting(TwistedGroups.configs)
    config = awaiting(TwistedGroups.config)
    connections = awaiting(TwistedGroups.connections)
    connections_by_broker = awaiting(TwistedGroups.connections_by_broker)
    running_info = awaiting(TwistedGroups.running_info)
    member_retries = awaiting(TwistedGroups.member_retries)
    retry_limit = awaiting(TwistedGroups.retry_limit)
    owners = awaiting(TwistedGroups.owners)
    progress = awaiting(TwistedGroups.progress)
    time_spans = awaiting(TwistedGroups.time_spans)
    positions = awaiting(TwistedGroups.positions)
    update = awaiting(TwistedGroups.update)
    delete = awaiting(TwistedGroups.delete)


class Clients(AdminPart):
    """Queries of connected clients. The methods fail as L{smartgo.client.admin.Admin} says."""

    producers = awaiting(TwistedClients.producers)
    producers_of = awaiting(TwistedClients.producers_of)
    consumers = awaiting(TwistedClients.consumers)
    all = awaiting(TwistedClients.all)


class Brokers(AdminPart):
    """
    Queries and changes of brokers. The methods fail as L{smartgo.client.admin.Admin} says.

    A broker is given by its name, which means the master of that name, by that of a slave (C{broker-a#1}), or by its
    address C{host:port}.
    """

    cluster = awaiting(TwistedBrokers.cluster)
    places = awaiting(TwistedBrokers.places)
    address = awaiting(TwistedBrokers.address)
    runtime = awaiting(TwistedBrokers.runtime)
    counter = awaiting(TwistedBrokers.counter)
    counters = awaiting(TwistedBrokers.counters)
    progress = awaiting(TwistedBrokers.progress)
    settings = awaiting(TwistedBrokers.settings)
    change_settings = awaiting(TwistedBrokers.change_settings)
    clean_queues = awaiting(TwistedBrokers.clean_queues)
    clean_topics = awaiting(TwistedBrokers.clean_topics)
    clean_log = awaiting(TwistedBrokers.clean_log)
    retention = awaiting(TwistedBrokers.retention)
    backup = awaiting(TwistedBrokers.backup)
    cancel_backup = awaiting(TwistedBrokers.cancel_backup)
    store_state = awaiting(TwistedBrokers.store_state)
    scrub = awaiting(TwistedBrokers.scrub)
    wipe_write = awaiting(TwistedBrokers.wipe_write)
    hold_writes = awaiting(TwistedBrokers.hold_writes)
    restore_write = awaiting(TwistedBrokers.restore_write)


class Positions(AdminPart):
    """Queries and resets of group offsets. The methods fail as L{smartgo.client.admin.Admin} says."""

    plan = awaiting(TwistedPositions.plan)
    plan_copy = awaiting(TwistedPositions.plan_copy)
    plan_to = awaiting(TwistedPositions.plan_to)
    from_here = awaiting(TwistedPositions.from_here)
    apply = awaiting(TwistedPositions.apply)
    clone = awaiting(TwistedPositions.clone)


class Registries(AdminPart):
    """Queries and changes of registries. The methods fail as L{smartgo.client.admin.Admin} says."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """C{host:port} of each registry."""
        return self._client.registries

    values = awaiting(TwistedRegistries.values)
    value = awaiting(TwistedRegistries.value)
    put = awaiting(TwistedRegistries.put)
    delete = awaiting(TwistedRegistries.delete)
    settings = awaiting(TwistedRegistries.settings)
    change_settings = awaiting(TwistedRegistries.change_settings)


class Messages(AdminPart):
    """Queries of single messages. The methods fail as L{smartgo.client.admin.Admin} says."""

    by_id = awaiting(TwistedMessages.by_id)
    record = awaiting(TwistedMessages.record)
    find = awaiting(TwistedMessages.find)
    trace = awaiting(TwistedMessages.trace)
    at = awaiting(TwistedMessages.at)
    by_key = awaiting(TwistedMessages.by_key)
    by_unique_key = awaiting(TwistedMessages.by_unique_key)


class DeliveryTracking(AdminPart):
    """The delivery of a message to groups. The methods fail as L{smartgo.client.admin.Admin} says."""

    tracks = awaiting(TwistedDeliveryTracking.tracks)
    track = awaiting(TwistedDeliveryTracking.track)
    refusals = awaiting(TwistedDeliveryTracking.refusals)
    consume_directly = awaiting(TwistedDeliveryTracking.consume_directly)


class TransactionQueries(AdminPart):
    """Queries of transactions. The methods fail as L{smartgo.client.admin.Admin} says."""

    list = awaiting(TwistedTransactionQueries.list)
    find = awaiting(TwistedTransactionQueries.find)
    resume = awaiting(TwistedTransactionQueries.resume)


class Definitions(AdminPart):
    """Exports definitions of a cluster and imports them. Fails as L{smartgo.client.admin.Admin} says."""

    export = awaiting(TwistedDefinitions.export)
    plan = awaiting(TwistedDefinitions.plan)
    read = awaiting(TwistedDefinitions.read)
    write = awaiting(TwistedDefinitions.write)


class Admin:
    """
    Administration of a cluster.

    All methods of the parts are coroutine functions. They fail with L{PeerRefused<smartgo.errors.PeerRefused>} if a
    broker or registry declines, and with L{CallFailed<smartgo.errors.CallFailed>} if it does not answer. A change
    goes to the masters of all brokers concerned and to all registries; if one of them fails, the others keep the
    change, and the error names them.

    @ivar topics: topics and their queues.
    @ivar groups: consumer groups and their lag.
    @ivar clients: connected clients.
    @ivar brokers: brokers, their settings and figures.
    @ivar positions: resets of group offsets.
    @ivar registries: settings by namespace and key.
    @ivar messages: messages by id, key and offset.
    @ivar deliveries: the delivery of a message to each group.
    @ivar transactions: undecided transactions, and those that were given up.
    @ivar definitions: export and import of settings of topics and groups.
    """

    def __init__(self, client: Client, on_missing: OnMissing | None = None) -> None:
        """
        @param on_missing: is called with the name of a broker that does not answer and the reason, and a query of
            several brokers continues without it; by default such a query fails.
        """
        self._client = client
        self._on_missing = on_missing
        self._admin: tuple[object, twisted.Admin] | None = None
        self.topics = Topics(client, lambda: self._running.topics)
        self.groups = Groups(client, lambda: self._running.groups)
        self.clients = Clients(client, lambda: self._running.clients)
        self.brokers = Brokers(client, lambda: self._running.brokers)
        self.positions = Positions(client, lambda: self._running.positions)
        self.registries = Registries(client, lambda: self._running.registries)
        self.messages = Messages(client, lambda: self._running.messages)
        self.deliveries = DeliveryTracking(client, lambda: self._running.deliveries)
        self.transactions = TransactionQueries(client, lambda: self._running.transactions)
        self.definitions = Definitions(client, lambda: self._running.definitions)

    @property
    def _running(self) -> twisted.Admin:
        """The administration for Twisted, made once for each start of the client."""
        client = self._client.inner
        if self._admin is None or self._admin[0] is not client:
            self._admin = (client, twisted.Admin(client, self._on_missing))
        return self._admin[1]
