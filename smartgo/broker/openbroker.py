"""
A broker whose store is open: tables, delivery of delayed messages, replication, registration, processors and ports.

It is whole once it is made, which L{smartgo.broker.broker} does as soon as the store is open.
"""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.cluster.registrar import Registrar
from smartgo.broker.cluster.registration import Identity
from smartgo.broker.cluster.replication import MasterReplication, SlaveReplication
from smartgo.broker.cluster.replicationstate import Replication
from smartgo.broker.cluster.tablereplicator import CopiedTables
from smartgo.broker.connections import ClientConnections
from smartgo.broker.figures.runtimeinfo import RuntimeInfo
from smartgo.broker.interfaces import IBroker
from smartgo.broker.network import BrokerNetwork
from smartgo.broker.processors.requestprocessors import RequestProcessors
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.spans.sink import span_sink
from smartgo.broker.spans.storedspans import StoredSpans
from smartgo.broker.stages.transactionroll import TransactionRoll
from smartgo.broker.stages.transactions import Transactions
from smartgo.broker.tables.adoption import adopt
from smartgo.broker.tables.brokertables import BrokerTables, StoreWork
from smartgo.broker.tables.builtintopics import create_built_in
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.counts import Counts
from smartgo.net.endpoints import endpoint
from smartgo.remoting.server import RemotingServer
from smartgo.schema.delay import DelayLevels
from smartgo.store.openstore import OpenStore

_log = Logger()


def _nothing() -> None:
    """Do nothing: there is nothing to stop."""


async def stop_part(what: str, stop: Callable[[], object]) -> None:
    """Stop one part of a broker; its failure is logged and does not keep the others from stopping."""
    try:
        await maybeDeferred(stop)
    except Exception:
        _log.failure("{what}: could not be stopped cleanly", what=what)


async def _stop_together(*parts: tuple[str, Callable[[], object]]) -> None:
    await gatherResults([Deferred.fromCoroutine(stop_part(*part)) for part in parts])


@implementer(IBroker)
class OpenBroker:
    """
    See L{IBroker}.

    @ivar progress: how far delayed messages were delivered, as it is saved.
    @ivar registrar: tells the registries of this broker.
    @ivar requests: the processors of both ports.
    @ivar server: the ports.
    @ivar stored_spans: has spans made of stored messages; C{None} on a slave, or where none are made.
    """

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        identity: Identity,
        network: BrokerNetwork,
        settings: LiveSettings,
        tables: BrokerTables,
        store: OpenStore,
    ) -> None:
        self.env = env
        self._configuration = configuration
        self.identity = identity
        self._network = network
        self.settings = settings
        self.access = network.security.control
        self.store = store
        self.store_settings = store.settings
        self.is_slave = configuration.broker.is_slave
        self.memory_budget, self.slow_turns = network.sweeper.budget, network.sweeper.slow
        self.stats = tables.stats
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        self.consumers, self.producers, self.long_polls = tables.consumers, tables.producers, tables.long_polls
        work = StoreWork(env, settings.current, store.settings, tables, store)
        self._group_expiry = work.group_expiry
        self.delay, self.progress, self.group_progress = work.delay, work.progress, work.group_progress
        self.timed, self._roll = work.timed, work.roll
        self.transactions: Transactions | None = None
        if not self.is_slave:
            self.transactions = Transactions(env.clock, store, tables, settings.current, identity.store_host)
            store.subscribe(self.transactions)
            store.cleaner.needs.append(TransactionRoll(env.clock, store, self.transactions))
        self.spans = span_sink(env, configuration, identity)
        self.stored_spans: StoredSpans | None = None
        if self.spans is not None and not self.is_slave:
            self.stored_spans = StoredSpans(env.clock, store, self.spans)
        self.replication = self._make_replication()
        self.runtime_info = RuntimeInfo(
            env.files, configuration.store, store, self.delay, self.replication, self.access
        )
        registrar = self.registrar = Registrar(
            env.clock, network.client.ask, self.topics, identity, settings.current, env.random.fraction, env.buggify
        )
        registrar.registered.add(self.replication.registered)
        registrar.lease_changed.add(store.hold_back)
        network.dialled.add(registrar.listener)
        network.sweeper.when_stood_still(registrar.stood_still)
        if isinstance(self.replication, SlaveReplication):
            self.replication.master_wanted.add(registrar.register)  # the answers name the master
        self.requests = RequestProcessors(self, self.replication.processors, network.security)
        self.server = self._make_server()

    def _make_replication(self) -> Replication:
        tls = self._network.security
        if not self.is_slave:
            self.store.subscribe(self.delay)
            return MasterReplication(self.env, self._configuration, self.store, self._network.client, tls.server)
        return SlaveReplication(
            self.env,
            self.settings.current,
            self.store,
            self._network.client,
            CopiedTables(self.topics, self.groups, self.offsets, self.delay.offsets, self.progress.changed),
            self.identity.address,
            tls.client,
        )

    def _make_server(self) -> RemotingServer:
        config, network = self._configuration.broker, self._network
        server = RemotingServer(
            self.env,
            endpoint(config.bind_address, config.listen_port),
            self.requests.dispatcher,
            network.sweeper,
            ClientConnections(self.requests.heartbeat, self.long_polls),
            network.limits,
            network.security.server,
        )
        if config.fast_listen_port is not None:
            server.add_dispatcher(
                endpoint(config.bind_address, config.fast_listen_port), self.requests.second_dispatcher
            )
        return server

    # -- for processors, the REST API and gateways -----------------------------------------------------------

    def registries_informed(self) -> Deferred[None] | None:
        """See L{IBroker}."""
        return self.registrar.informed()

    def is_without_master(self) -> bool:
        """See L{IBroker}."""
        return self.replication.is_without_master

    @property
    def connections(self) -> int:
        """The number of open connections to the broker's ports."""
        return len(self.server.connections)

    @property
    def connection_counts(self) -> Counts:
        """Counts of accepted, refused and ended connections since the ports were opened."""
        return self.server.counts

    @property
    def registries_without_us(self) -> int:
        """The number of registries that did not accept the broker's last registration."""
        return self.registrar.without_us

    # -- start -----------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """
        Load the tables; a master also makes what a master always has. A slave has what its master has.

        @raise smartgo.errors.BrokenTable: a table cannot be read.
        """
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        if self.is_slave:
            self.delay.offsets.update(self.progress.load())
            return
        levels = DelayLevels.parse(self._configuration.store.message_delay_level).highest
        create_built_in(self.topics, self.settings.current.broker, levels)
        self.groups.create_built_in()
        adopt(self.topics, self.store.queues(), self.store.last_at)
        if self.transactions is not None:
            await self.transactions.start()  # before anything is appended: it looks at the last record of the log
        self.offsets.keep_within(lambda topic, queue_id: self.store.bounds(topic, queue_id)[1])
        if self.delay.start(self.progress.load()):
            await self.progress.save()
        if self.timed is not None:
            self.timed.start()
        self._group_expiry.start()

    async def listen(self) -> None:
        """
        Open the ports, and begin to replicate.

        @raise twisted.internet.error.CannotListenError: an address is taken or not ours.
        """
        await self.server.open()
        await self.replication.open()

    def register(self) -> Deferred[int]:
        """Begin to register with the registries; fires after the first round with how many took it, never fails."""
        self.registrar.startService()
        return self.registrar.first_round

    def announce_permission(self, permission: int) -> None:
        """Tell the registries at once what clients may do, so that these go elsewhere; none is told while stopped."""
        if self.registrar.running:
            self.topics.renew()
            self.registrar.register()

    # -- stop ------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """End everything but the store, in order, whatever goes wrong on the way (reliability D14)."""
        self.delay.stop()
        if self.transactions is not None:
            self.transactions.stop()
        if self.timed is not None:
            self.timed.stop()
        if self._roll is not None:
            self._roll.stop()
        # Side by side: a registry that is slow must not eat up the time of the requests in flight.
        leave = self.registrar.stopService if self.registrar.running else _nothing
        await _stop_together(("the registries", leave), ("the ports", self.server.stopService))
        self.long_polls.stop()
        self.requests.heartbeat.stop()
        self._group_expiry.stop()
        # Side by side: a master that is slow to answer must not keep its slave from stopping.
        await _stop_together(("replication", self.replication.stop), ("the client", self._network.client.stop))
        if self.stored_spans is not None:
            self.stored_spans.stop()
        if self.spans is not None:
            await stop_part("the export of spans", self.spans.stop)
        for what, table in (
            ("delivery positions", self.progress),
            ("topics", self.topics),
            ("groups", self.groups),
            ("consumer offsets", self.offsets),
        ):
            await stop_part(f"the {what}", table.stop)
