"""
The assembly of a broker: store, tables, processors, ports, registration, in the order in which they start and stop.

Start: the store is opened and recovered, tables are loaded, what the store has and the tables lost is re-created,
delayed messages begin, the ports open, the registries are told. Stop is the other way round (reliability D14): no new
connections, requests in flight are answered, registries are told, offsets are saved, the store is flushed and closed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, gatherResults, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.cluster.advertisedaddress import AdvertisedAddress
from smartgo.broker.cluster.registrar import Registrar
from smartgo.broker.cluster.registration import Identity
from smartgo.broker.cluster.replication import MasterReplication, SlaveReplication
from smartgo.broker.cluster.replicationstate import Replication
from smartgo.broker.cluster.tablereplicator import CopiedTables
from smartgo.broker.connections import ClientConnections
from smartgo.broker.figures.runtimeinfo import RuntimeInfo
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestprocessors import RequestProcessors
from smartgo.broker.settings.current import READ_EACH_TIME
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.settings.storesettings import RETENTION, as_slave, durability, retention_rules, store_settings
from smartgo.broker.tables.adoption import adopt
from smartgo.broker.tables.brokertables import BrokerTables, StoreWork
from smartgo.broker.tables.builtintopics import create_built_in, set_auto_create
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.counts import Counts
from smartgo.net.endpoints import endpoint
from smartgo.net.limits import SERVER, Limits
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.slowturns import SlowTurns
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.listeners import ListenerMux
from smartgo.remoting.server import RemotingServer
from smartgo.schema.delay import DelayLevels
from smartgo.store.messagestore import MessageStore
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile

_CHANGED: Final = "changedSettings.json"


@dataclass(frozen=True, slots=True)
class BrokerTLS:
    """
    The TLS of a broker's ports and of its own calls.

    @ivar server: certificate and key of its ports, loaded; C{None} where they speak none.
    @ivar client: how it speaks to registries and other brokers, where that is by TLS.
    """

    server: ServerTLS | None = None
    client: ClientTLS | None = None


def _nothing() -> None:
    """Do nothing: there is nothing to stop."""


@implementer(IBroker)
class Broker(Service):
    """
    One broker.

    @ivar ready: fires with this once clients can connect and every registry was told, or fails with why not.
    @ivar tables: the files that are read at the start, each with what reads it.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        sweeper: Sweeper,
        tls: BrokerTLS | None = None,
        limits: Limits = SERVER,
        on_store_failed: Callable[[str], None] = lambda reason: None,
        settings: StoreSettings | None = None,
    ) -> None:
        """
        @param sweeper: timers and memory budget of connections, shared with others of the process.
        @param tls: of the ports and of connections to others; C{None}: no TLS anywhere.
        @param limits: what connections may take.
        @param on_store_failed: called once when the store fails for good and C{onStoreError} is C{exit}.
        @param settings: of the store, in place of those that the configuration stands for.
        @raise SettingError: the configuration is of no use on this machine.
        """
        self.env = env
        self._configuration = configuration
        self._tls = BrokerTLS() if tls is None else tls
        self._limits = limits
        self._on_store_failed = on_store_failed
        self.is_slave = configuration.broker.is_slave
        settings = settings or store_settings(configuration.store)
        self.store_settings = as_slave(settings, configuration.ha.ha_ack_mode) if self.is_slave else settings
        self._sweeper = sweeper
        self._dialled = ListenerMux()
        self._client = RemotingClient(env, sweeper, listener=self._dialled, tls=self._tls.client)
        self._server: RemotingServer | None = None
        self._opened = False
        self._registering = False
        self.ready: Deferred[Broker] = Deferred()
        self._stopping: Deferred[None] = Deferred()
        self._starting: Deferred[None] = succeed(None)
        self._advertised = AdvertisedAddress(env, configuration)
        self.address = self._advertised.address
        config = configuration.broker
        self.identity = Identity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            self.address,
            self._advertised.ha_address,
            config.advertised_addresses,
            configuration.ha.ha_advertised_addresses,
            self._advertised.store_host,
        )
        self._changed = TableFile(env, posixpath.join(configuration.store.store_path_root_dir, "config", _CHANGED))
        self.settings = LiveSettings(env.clock, configuration, self._advertised.settled(), self._changed)
        self._store = MessageStore(env, configuration.store.store_path_root_dir, self.store_settings)
        tables = self._tables = BrokerTables(env, self.settings.current, self.store_settings, self._log_end)
        self.stats = tables.stats
        self.topics, self.groups, self.offsets = tables.topics, tables.groups, tables.offsets
        self.consumers, self.producers, self.long_polls = tables.consumers, tables.producers, tables.long_polls
        # Before any table is loaded: what was set while the broker ran is in force from the start.
        self.settings.allow(*READ_EACH_TIME)
        self.settings.follow("autoCreateTopicEnable", partial(set_auto_create, self.topics))
        self.settings.follow("brokerPermission", self._announce_permission)
        for name in RETENTION:
            self.settings.follow(name, self._change_retention)
        self.tables = [*tables.tables, (self._changed, self.settings.load)]

    # -- its parts ---------------------------------------------------------------------------------

    def _build(self, store: OpenStore) -> None:
        """Make everything that works with the store, which is open."""
        env, configuration = self.env, self._configuration
        work = StoreWork(env, self.settings.current, self.store_settings, self._tables, store)
        self.store = store
        self._group_expiry = work.group_expiry
        self.delay, self.progress, self.group_progress = work.delay, work.progress, work.group_progress
        self.timed = work.timed
        self.store.when_failed(self._store_failed)
        self.replication = self._build_replication()
        self.runtime_info = RuntimeInfo(env.files, configuration.store, self.store, self.delay, self.replication)
        self._registrar = Registrar(
            env.clock, self._client.ask, self.topics, self.identity, self.settings.current, env.random.fraction
        )
        self._registrar.registered.add(self.replication.registered)
        self._registrar.lease_changed.add(self.store.hold_back)
        self._dialled.add(self._registrar.listener)
        self._sweeper.when_stood_still(self._registrar.stood_still)
        if isinstance(self.replication, SlaveReplication):
            self.replication.master_wanted.add(self._registrar.register)  # the answers name the master
        self._requests = RequestProcessors(self, self.replication.processors)

    def _change_retention(self, _: object) -> None:
        if self._opened:
            self.store.cleaner.change_rules(retention_rules(self.settings.current.store))

    def _build_replication(self) -> Replication:
        if not self.is_slave:
            self.store.subscribe(self.delay)
            return MasterReplication(self.env, self._configuration, self.store, self._sweeper, self._tls.server)
        tables = CopiedTables(self.topics, self.groups, self.offsets, self.delay.offsets, self.progress.changed)
        return SlaveReplication(
            self.env,
            self._configuration,
            self.store,
            self._client,
            tables,
            self.address,
            self._tls.client,
        )

    def _log_end(self) -> int:
        return self.store.log_bounds()[1]

    def registries_informed(self) -> Deferred[None] | None:
        """See L{IBroker}."""
        return self._registrar.informed() if self._opened else None

    def is_without_master(self) -> bool:
        """See L{IBroker}."""
        return self._opened and self.replication.is_without_master

    def _announce_permission(self, permission: int) -> None:
        """Tell the registries at once what clients may do, so that these go elsewhere."""
        if self._registering:
            self.topics.renew()
            self._registrar.register()

    @property
    def opened(self) -> bool:
        """Tell whether the store is recovered and can be read; true from then on, after the stop too."""
        return self._opened

    @property
    def store_opened(self) -> Deferred[OpenStore]:
        """A new Deferred that fires with the store when it is open; one asked for before the start fires first."""
        return self._store.opened

    @property
    def connections(self) -> int:
        """The number of open connections to the broker's ports."""
        return 0 if self._server is None else len(self._server.connections)

    @property
    def registries_without_us(self) -> int:
        """The number of registries that did not accept the broker's last registration."""
        return self._registrar.without_us if self._opened else 0

    @property
    def memory_budget(self) -> MemoryBudget:
        """The memory that peers may make this process keep."""
        return self._sweeper.budget

    @property
    def slow_turns(self) -> SlowTurns:
        """Counts of the turns that blocked the reactor of this process."""
        return self._sweeper.slow

    @property
    def connection_counts(self) -> Counts | None:
        """Counts of accepted, refused and ended connections since the ports were opened; C{None} before."""
        return None if self._server is None else self._server.counts

    # -- start -----------------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to start; see C{ready}."""
        super().startService()
        self._starting = Deferred.fromCoroutine(self._start()).addCallbacks(self._started, self._not_started)

    def _is_stopping(self) -> bool:
        return self._stopping.called

    def _started(self, _: object) -> None:
        if not self._is_stopping():
            self.ready.callback(self)

    def _not_started(self, failure: Failure) -> None:
        if not self._is_stopping():
            self.ready.errback(failure)

    async def _start(self) -> None:
        configuration = self._configuration
        config = configuration.broker
        self._store.startService()
        store = await self._store.opened
        if self._is_stopping():
            return
        self._build(store)
        self._opened = True
        self.env.files.make_directories(posixpath.dirname(self._changed.path))
        self.settings.load()
        self.topics.load()
        self.groups.load()
        self.offsets.load()
        if self.is_slave:
            self.delay.offsets.update(self.progress.load())
        else:
            await self._start_as_master()
        if self._is_stopping():
            return
        self.settings.begin()
        await self._listen()
        self._registrar.startService()
        self._registering = True
        if config.namesrv_addr:
            first: list[Deferred[Any]] = [self._registrar.first_round, self._stopping]
            await DeferredList(first, fireOnOneCallback=True)
        promised = durability(configuration.store, config.broker_role, configuration.ha.ha_ack_mode)
        self._log.info("durability: {durability}", durability=promised)
        refusal = None if config.is_slave else store.refusal
        words = "broker {name} is ready at {address}, store {root}"
        if refusal is not None:
            words = "broker {name} runs at {address} and takes no messages: {reason}; store {root}"
        self._log.info(
            words,
            name=config.broker_name,
            address=self.address,
            root=configuration.store.store_path_root_dir,
            reason=None if refusal is None else refusal.words,
        )

    async def _start_as_master(self) -> None:
        """Bring about what a master always has; a slave has what its master has."""
        levels = DelayLevels.parse(self._configuration.store.message_delay_level).highest
        create_built_in(self.topics, self.settings.current.broker, levels)
        self.groups.create_built_in()
        adopt(self.topics, self.store.queues(), self.store.last_at)
        self.offsets.keep_within(lambda topic, queue_id: self.store.bounds(topic, queue_id)[1])
        if self.delay.start(self.progress.load()):
            await self.progress.save()
        if self.timed is not None:
            self.timed.start()
        self._group_expiry.start()

    async def _listen(self) -> None:
        config = self._configuration.broker
        listener = ClientConnections(self._requests.heartbeat, self.long_polls)
        server = RemotingServer(
            self.env,
            endpoint(config.bind_address, config.listen_port),
            self._requests.dispatcher,
            self._sweeper,
            listener,
            self._limits,
            self._tls.server,
        )
        if config.fast_listen_port is not None:
            server.add_dispatcher(
                endpoint(config.bind_address, config.fast_listen_port), self._requests.second_dispatcher
            )
        self._server = server
        await server.open()
        await self.replication.open()

    # -- stop ------------------------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """Stop in order; fires when nothing is left, whatever went wrong on the way."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        if not self._is_stopping():
            self._stopping.callback(None)
        if not self._opened:  # recovery may take long: it is given up, and the next start begins it anew
            await self._step("the store", self._store.stopService)
        await self._starting
        if not self._opened:
            await self._step("the client", self._client.stop)
            return
        self.delay.stop()
        if self.timed is not None:
            self.timed.stop()
        # Side by side: a registry that is slow must not eat up the time of the requests in flight.
        unregistered = self._step("the registries", self._registrar.stopService if self._registering else _nothing)
        ports = self._step("the ports", _nothing if self._server is None else self._server.stopService)
        await gatherResults([Deferred.fromCoroutine(unregistered), Deferred.fromCoroutine(ports)])
        self.long_polls.stop()
        self._requests.heartbeat.stop()
        self._group_expiry.stop()
        # Side by side: a master that is slow to answer must not keep its slave from stopping.
        replication = self._step("replication", self.replication.stop)
        client = self._step("the client", self._client.stop)
        await gatherResults([Deferred.fromCoroutine(replication), Deferred.fromCoroutine(client)])
        await self._step("the delivery positions", self.progress.stop)
        for what, table in (("topics", self.topics), ("groups", self.groups), ("consumer offsets", self.offsets)):
            await self._step(f"the {what}", table.stop)
        await self._step("the store", self._store.stopService)

    async def _step(self, what: str, stop: Callable[[], object]) -> None:
        """Stop one part; its failure is logged and does not keep the others from stopping."""
        try:
            await maybeDeferred(stop)
        except Exception:
            self._log.failure("{what}: could not be stopped cleanly", what=what)

    def _store_failed(self, reason: str) -> None:
        self._log.critical("the store accepts no more messages: {reason}", reason=reason)
        if self._configuration.store.on_store_error == "exit":
            self._on_store_failed(reason)
