"""
The life of a broker: store, tables, processors, ports, registration, in the order in which they start and stop.

Start: the store is opened and recovered, tables are loaded, what the store has and the tables lost is re-created,
delayed messages begin, the ports open, the registries are told. Stop is the other way round (reliability D14): no new
connections, requests in flight are answered, registries are told, offsets are saved, the store is flushed and closed.

What works on the open store is an L{OpenBroker<smartgo.broker.openbroker.OpenBroker>}.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.cluster.advertisedaddress import AdvertisedAddress
from smartgo.broker.cluster.registration import Identity
from smartgo.broker.interfaces import IBrokerService
from smartgo.broker.network import BrokerNetwork, BrokerSecurity
from smartgo.broker.openbroker import OpenBroker, stop_part
from smartgo.broker.settings.current import READ_EACH_TIME
from smartgo.broker.settings.live import LiveSettings
from smartgo.broker.settings.storesettings import RETENTION, as_slave, durability, retention_rules, store_settings
from smartgo.broker.states import TRANSITIONS, BrokerEvent, BrokerState
from smartgo.broker.tables.brokertables import BrokerTables
from smartgo.broker.tables.builtintopics import set_auto_create
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.limits import SERVER, Limits
from smartgo.net.sweeper import Sweeper
from smartgo.observer import OneShotObserver
from smartgo.remoting.client import CallSecurity, RemotingClient
from smartgo.remoting.listeners import ListenerMux
from smartgo.store.messagestore import MessageStore
from smartgo.store.openstore import OpenStore
from smartgo.store.recovery.progress import RecoveredSoFar
from smartgo.store.settings import StoreSettings
from smartgo.tablefile import TableFile

_CHANGED: Final = "changedSettings.json"


@implementer(IBrokerService)
class Broker(Service):
    """
    One broker.

    @ivar state: where it is in its life.
    @ivar opened: the broker with its store, from the moment that this is recovered; it can be asked after the stop too.
    @ivar ready: fires with this once clients can connect and every registry was told, or fails with why not.
    @ivar access_key: signs requests of this process; C{None} where they are not signed.
    @ivar access: the rules of access control; C{None} where it is off.
    @ivar address: C{host:port} that clients are told.
    @ivar tables: the files that are read at the start, each with what reads it.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        sweeper: Sweeper,
        security: BrokerSecurity | None = None,
        limits: Limits = SERVER,
        on_store_failed: Callable[[str], None] = lambda reason: None,
        settings: StoreSettings | None = None,
    ) -> None:
        """
        @param sweeper: timers and memory budget of connections, shared with others of the process.
        @param security: of the ports and of connections to others; C{None}: no TLS and no access control anywhere.
        @param limits: what connections may take.
        @param on_store_failed: called once when the store fails for good and C{onStoreError} is C{exit}.
        @param settings: of the store, in place of those that the configuration stands for.
        @raise SettingError: the configuration is of no use on this machine.
        """
        self._env = env
        self._configuration = configuration
        self._on_store_failed = on_store_failed
        config, root = configuration.broker, configuration.store.store_path_root_dir
        security = BrokerSecurity() if security is None else security
        sign = None if security.key is None else security.key.sign_unsigned
        self.access_key, self.access = security.key, security.control
        dialled = ListenerMux()
        client = RemotingClient(env, sweeper, listener=dialled, security=CallSecurity(security.client, sign=sign))
        self._network = BrokerNetwork(sweeper, security, limits, client, dialled)
        self.state = BrokerState.NEW
        self.opened: OpenBroker | None = None
        self.ready: Deferred[Broker] = Deferred()
        self._stop_asked: OneShotObserver[None] = OneShotObserver()
        self._starting: Deferred[None] = succeed(None)
        self._stopped: OneShotObserver[None] | None = None
        advertised = AdvertisedAddress(env, configuration)
        self.address = advertised.address
        self._identity = Identity(
            config.broker_cluster_name,
            config.broker_name,
            config.broker_id,
            advertised.address,
            advertised.ha_address,
            config.advertised_addresses,
            configuration.ha.ha_advertised_addresses,
            advertised.store_host,
        )
        self._changed = TableFile(env, posixpath.join(root, "config", _CHANGED))
        self.settings = LiveSettings(env.clock, configuration, advertised.settled(), self._changed)
        of_store = settings or store_settings(configuration.store)
        if config.is_slave:
            of_store = as_slave(of_store, configuration.ha.ha_ack_mode)
        self._store = MessageStore(env, root, of_store)
        tables = self._tables = BrokerTables(env, self.settings.current, of_store, self._log_end)
        # Before any table is loaded: what was set while the broker ran is in force from the start.
        self.settings.allow(*READ_EACH_TIME)
        self.settings.follow("autoCreateTopicEnable", partial(set_auto_create, tables.topics))
        self.settings.follow("brokerPermission", self._announce_permission)
        for name in RETENTION:
            self.settings.follow(name, self._change_retention)
        self.settings.follow("scrubRate", self._change_scrub_rate)
        self.tables = [*tables.tables, (self._changed, self.settings.load)]

    @property
    def store_opened(self) -> Deferred[OpenStore]:
        """A new Deferred that fires with the store when it is open; one asked for before the start fires first."""
        return self._store.opened

    @property
    def recovered_so_far(self) -> RecoveredSoFar | None:
        """See L{IBrokerService}."""
        return self._store.recovered_so_far

    def _log_end(self) -> int:
        if self.opened is None:
            raise RuntimeError("the end of a log that is not open")
        return self.opened.store.log_bounds()[1]

    def _announce_permission(self, permission: int) -> None:
        if self.opened is not None:
            self.opened.announce_permission(permission)

    def _change_retention(self, _: object) -> None:
        if self.opened is not None:
            self.opened.store.cleaner.change_rules(retention_rules(self.settings.current.store))

    def _change_scrub_rate(self, rate: int) -> None:
        if self.opened is not None:
            self.opened.store.scrub.change_rate(rate)

    def _move(self, event: BrokerEvent) -> bool:
        """Go on to the next state; return C{False} where the event means nothing in this state."""
        found = TRANSITIONS.get((self.state, event))
        if found is None:
            return False
        self.state = found
        return True

    def _is_stopping(self) -> bool:
        return self.state is BrokerState.STOPPING

    # -- start -----------------------------------------------------------------------------------------------

    def startService(self) -> None:
        """Begin to start; see C{ready}."""
        super().startService()
        if self._move(BrokerEvent.START):
            self._starting = Deferred.fromCoroutine(self._try_start())

    async def _try_start(self) -> None:
        """Start, and tell who waits for C{ready} how that ended; never fails."""
        try:
            await self._start()
        except Exception:
            if self._move(BrokerEvent.FAIL):
                self.ready.errback(Failure())
        else:
            if self._move(BrokerEvent.REGISTERED):
                self.ready.callback(self)

    async def _start(self) -> None:
        configuration = self._configuration
        config = configuration.broker
        self._store.startService()
        store = await self._store.opened
        if not self._move(BrokerEvent.OPENED):
            return
        store.when_failed(self._store_failed)
        broker = self.opened = OpenBroker(
            self._env, configuration, self._identity, self._network, self.settings, self._tables, store
        )
        self._env.files.make_directories(posixpath.dirname(self._changed.path))
        self.settings.load()
        await broker.load()
        if self._is_stopping():
            return
        self.settings.begin()
        await broker.listen()
        if not self._move(BrokerEvent.LISTENING):
            return
        first: list[Deferred[Any]] = [broker.register(), self._stop_asked.when()]
        if config.namesrv_addr:
            await DeferredList(first, fireOnOneCallback=True)
        if self._is_stopping():
            return
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

    # -- stop ------------------------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """Stop in order; fires when nothing is left, whatever went wrong on the way."""
        super().stopService()
        if self._stopped is None:
            self._move(BrokerEvent.STOP)
            self._stop_asked.fire(None)
            self._stopped = OneShotObserver.of(Deferred.fromCoroutine(self._stop()))
        return self._stopped.when()

    async def _stop(self) -> None:
        if self.opened is None:  # recovery may take long: it is given up, and the next start begins it anew
            await stop_part("the store", self._store.stopService)
        await self._starting
        if self.opened is None:
            await stop_part("the client", self._network.client.stop)
        else:
            await self.opened.stop()
            await stop_part("the store", self._store.stopService)
        self._move(BrokerEvent.GONE)

    def _store_failed(self, reason: str) -> None:
        self._log.critical("the store accepts no more messages: {reason}", reason=reason)
        if self._configuration.store.on_store_error == "exit":
            if self.opened is not None:
                self.opened.registrar.end()
            self._on_store_failed(reason)
