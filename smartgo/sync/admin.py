"""
Blocking administration: the parts of L{smartgo.client.admin.Admin}, whose methods block here.

Their arguments, results and errors are those of the methods that they are made from.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from twisted.internet.defer import Deferred

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
from smartgo.sync.client import Client

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

    def run(self, work: Callable[[Any], Deferred[T]]) -> T:
        """Call the part for Twisted on the reactor's thread, and wait for its result."""
        return self._client.wait(lambda: work(self._part()))


def blocking(
    method: Callable[Concatenate[Any, P], Deferred[T]],
) -> Callable[Concatenate[AdminPart, P], T]:
    """Return a method that waits for the result of one of a part for Twisted."""

    @wraps(method)
    def call(self: AdminPart, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(lambda part: method(part, *args, **kwargs))

    return call


class Topics(AdminPart):
    """Queries and changes of topics. The methods fail as L{smartgo.client.admin.Admin} says."""

    names = blocking(TwistedTopics.names)
    of_cluster = blocking(TwistedTopics.of_cluster)
    system_names = blocking(TwistedTopics.system_names)
    route = blocking(TwistedTopics.route)
    serves = blocking(TwistedTopics.serves)
    configs = blocking(TwistedTopics.configs)
    config = blocking(TwistedTopics.config)
    places = blocking(TwistedTopics.places)
    stats = blocking(TwistedTopics.stats)
    groups = blocking(TwistedTopics.groups)
    create = blocking(TwistedTopics.create)
    update = blocking(TwistedTopics.update)
    delete = blocking(TwistedTopics.delete)


class Groups(AdminPart):
    """Queries and changes of consumer groups. The methods fail as L{smartgo.client.admin.Admin} says."""

    names = blocking(TwistedGroups.names)
    configs = blocking(TwistedGroups.configs)
    config = blocking(TwistedGroups.config)
    connections = blocking(TwistedGroups.connections)
    connections_by_broker = blocking(TwistedGroups.connections_by_broker)
    running_info = blocking(TwistedGroups.running_info)
    member_retries = blocking(TwistedGroups.member_retries)
    retry_limit = blocking(TwistedGroups.retry_limit)
    owners = blocking(TwistedGroups.owners)
    progress = blocking(TwistedGroups.progress)
    time_spans = blocking(TwistedGroups.time_spans)
    positions = blocking(TwistedGroups.positions)
    update = blocking(TwistedGroups.update)
    delete = blocking(TwistedGroups.delete)


class Clients(AdminPart):
    """Queries of connected clients. The methods fail as L{smartgo.client.admin.Admin} says."""

    producers = blocking(TwistedClients.producers)
    producers_of = blocking(TwistedClients.producers_of)
    consumers = blocking(TwistedClients.consumers)
    all = blocking(TwistedClients.all)


class Brokers(AdminPart):
    """
    Queries and changes of brokers. The methods fail as L{smartgo.client.admin.Admin} says.

    A broker is given by its name, which means the master of that name, by that of a slave (C{broker-a#1}), or by its
    address C{host:port}.
    """

    cluster = blocking(TwistedBrokers.cluster)
    places = blocking(TwistedBrokers.places)
    address = blocking(TwistedBrokers.address)
    runtime = blocking(TwistedBrokers.runtime)
    counter = blocking(TwistedBrokers.counter)
    counters = blocking(TwistedBrokers.counters)
    progress = blocking(TwistedBrokers.progress)
    settings = blocking(TwistedBrokers.settings)
    change_settings = blocking(TwistedBrokers.change_settings)
    clean_queues = blocking(TwistedBrokers.clean_queues)
    clean_topics = blocking(TwistedBrokers.clean_topics)
    clean_log = blocking(TwistedBrokers.clean_log)
    retention = blocking(TwistedBrokers.retention)
    backup = blocking(TwistedBrokers.backup)
    cancel_backup = blocking(TwistedBrokers.cancel_backup)
    store_state = blocking(TwistedBrokers.store_state)
    scrub = blocking(TwistedBrokers.scrub)
    wipe_write = blocking(TwistedBrokers.wipe_write)
    hold_writes = blocking(TwistedBrokers.hold_writes)
    restore_write = blocking(TwistedBrokers.restore_write)


class Positions(AdminPart):
    """Queries and resets of group offsets. The methods fail as L{smartgo.client.admin.Admin} says."""

    plan = blocking(TwistedPositions.plan)
    plan_copy = blocking(TwistedPositions.plan_copy)
    plan_to = blocking(TwistedPositions.plan_to)
    from_here = blocking(TwistedPositions.from_here)
    apply = blocking(TwistedPositions.apply)
    clone = blocking(TwistedPositions.clone)


class Registries(AdminPart):
    """Queries and changes of registries. The methods fail as L{smartgo.client.admin.Admin} says."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """C{host:port} of each registry."""
        return self._client.registries

    values = blocking(TwistedRegistries.values)
    value = blocking(TwistedRegistries.value)
    put = blocking(TwistedRegistries.put)
    delete = blocking(TwistedRegistries.delete)
    settings = blocking(TwistedRegistries.settings)
    change_settings = blocking(TwistedRegistries.change_settings)


class Messages(AdminPart):
    """Queries of single messages. The methods fail as L{smartgo.client.admin.Admin} says."""

    by_id = blocking(TwistedMessages.by_id)
    record = blocking(TwistedMessages.record)
    find = blocking(TwistedMessages.find)
    trace = blocking(TwistedMessages.trace)
    at = blocking(TwistedMessages.at)
    by_key = blocking(TwistedMessages.by_key)
    by_unique_key = blocking(TwistedMessages.by_unique_key)


class DeliveryTracking(AdminPart):
    """The delivery of a message to groups. The methods fail as L{smartgo.client.admin.Admin} says."""

    tracks = blocking(TwistedDeliveryTracking.tracks)
    track = blocking(TwistedDeliveryTracking.track)
    refusals = blocking(TwistedDeliveryTracking.refusals)
    consume_directly = blocking(TwistedDeliveryTracking.consume_directly)


class TransactionQueries(AdminPart):
    """Queries of transactions. The methods fail as L{smartgo.client.admin.Admin} says."""

    list = blocking(TwistedTransactionQueries.list)
    find = blocking(TwistedTransactionQueries.find)
    resume = blocking(TwistedTransactionQueries.resume)


class Definitions(AdminPart):
    """Exports definitions of a cluster and imports them. Fails as L{smartgo.client.admin.Admin} says."""

    export = blocking(TwistedDefinitions.export)
    plan = blocking(TwistedDefinitions.plan)
    read = blocking(TwistedDefinitions.read)
    write = blocking(TwistedDefinitions.write)


class Admin:
    """
    Administration of a cluster.

    All methods of the parts block. They fail with L{PeerRefused<smartgo.errors.PeerRefused>} if a broker or registry
    declines, and with L{CallFailed<smartgo.errors.CallFailed>} if it does not answer. A change goes to the masters of
    all brokers concerned and to all registries; if one of them fails, the others keep the change, and the error names
    them.

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
            several brokers continues without it; by default such a query fails. It runs on the
            reactor's thread and must not block.
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
