"""
The replication services of a broker: a master's port for slaves, and a slave's connection to its master.

Rules: docs/spec/ha, reliability H5, X6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.broker.cluster.damagefetcher import DamageFetcher
from smartgo.broker.cluster.registrystate import Registered
from smartgo.broker.cluster.replicarepair import ReplicaRepair
from smartgo.broker.cluster.replicationstate import Replicated
from smartgo.broker.cluster.tablereplicator import CopiedTables, TableReplicator
from smartgo.broker.processors.logend import RemoteTail, TailProcessor
from smartgo.broker.settings.current import CurrentSettings
from smartgo.config.loading import Configuration
from smartgo.config.settings import HaConfig
from smartgo.env.interfaces import IEnvironment
from smartgo.ha.guard import Guard
from smartgo.ha.interfaces import SlaveState
from smartgo.ha.master import Master, MasterSettings
from smartgo.ha.slave import Slave, SlaveSettings
from smartgo.net.endpoints import endpoint
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.observer import ObserverList
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.address import is_loopback_host, parse_address
from smartgo.schema.signature import AccessKey
from smartgo.store.openstore import OpenStore

THIS_MACHINE: Final = ("127.0.0.0/8", "::1/128")
"""Who may replicate from a master that nobody else can reach."""

SEEK: Final = 3.0
"""Seconds until a slave that knows no master asks the registries again: it may have been started first."""

_FOLLOWED: Final = (SlaveState.CATCHING_UP, SlaveState.FOLLOWING)


def allowed(config: HaConfig) -> tuple[str, ...]:
    """The networks that slaves may come from; none for all that reach the port."""
    return config.ha_allow or (THIS_MACHINE if is_loopback_host(config.ha_bind_address) else ())


def credentials(config: HaConfig) -> AccessKey | None:
    """The key for replication, where there is one."""
    if config.ha_access_key is None or config.ha_secret_key is None:
        return None
    return AccessKey(config.ha_access_key, config.ha_secret_key)


class MasterReplication:
    """The replication of a master: the port for its slaves."""

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        store: OpenStore,
        client: RemotingClient,
        tls: ServerTLS | None,
    ) -> None:
        """
        @param client: asks slaves; its sweeper, the process's, has timers, memory budget and warnings about peers.
        @param tls: certificate and key of our ports, loaded.
        """
        config, ha, sweeper = configuration.broker, configuration.ha, client.sweeper
        self._role = config.broker_role
        sync = self._role == "SYNC_MASTER"
        key = credentials(ha)
        guard = None if key is None else Guard(env.clock, env.random, key)
        self._master = Master(
            env,
            store,
            endpoint(ha.ha_bind_address, configuration.ha_port),
            sweeper,
            MasterSettings(
                sync=sync,
                allow=allowed(ha),
                batch=ha.ha_transfer_batch_size,
                heartbeat=ha.ha_send_heartbeat_interval,
                housekeeping=ha.ha_housekeeping_interval,
                fallbehind_max=ha.ha_slave_fallbehind_max,
                slave_timeout=ha.slave_timeout,
            ),
            tls,
            None if guard is None else guard.admits,
        )
        fetcher = DamageFetcher(env.clock.seconds, store, RemoteTail(client.ask, key))
        self._repair = ReplicaRepair(env.clock.seconds, fetcher, self._connected)
        store.cleaner.readers.append(self._master.positions)
        if sync:
            store.add_ack_policy(self._master)
        self.processors: Sequence[IRequestProcessor] = (
            TailProcessor(store, sweeper.peer_warnings, self._master.allows, guard, self._repair.heard),
        )

    def _connected(self) -> set[str]:
        """Return the IP addresses of the slaves that follow now."""
        return {parse_address(one.address)[0] for one in self._master.slaves()}

    @property
    def is_without_master(self) -> bool:
        """See L{Replication}; a master needs none."""
        return False

    def open(self) -> Deferred[None]:
        """Listen for slaves."""
        opened = self._master.open()
        self._master.startService()
        return opened

    def stop(self) -> Deferred[None]:
        """Send slaves what is left, and close."""
        stopping = [Deferred.fromCoroutine(self._repair.stop()), self._master.stopService()]
        return gatherResults(stopping).addCallback(lambda _: None)

    def registered(self, told: Registered) -> None:
        """Ignore it: a master follows nobody."""

    def now(self) -> Replicated:
        """Return which slaves follow, and how far."""
        return Replicated(self._role, self._master.slaves(), self._master.confirmed)


class SlaveReplication:
    """
    The replication of a slave: its link to the master, and the copies of the master's tables.

    @ivar replicator: copies the master's tables.
    @ivar master_wanted: told when the registries are to be asked who the master is; L{registered} gets the answer.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        current: CurrentSettings,
        store: OpenStore,
        client: RemotingClient,
        tables: CopiedTables,
        address: str,
        tls: ClientTLS | None,
    ) -> None:
        """
        @param current: the settings in force; all but C{haBeginAnew} are read now.
        @param client: asks other brokers; its sweeper is the process's.
        @param tables: those of this broker that are copies of the master's.
        @param address: C{host:port} of our main port: whoever that is said to be is not our master.
        @param tls: how masters are spoken to, where that is by TLS.
        """
        ha = current.ha
        key = credentials(ha)
        self._clock = env.clock
        self.master_wanted: ObserverList[[]] = ObserverList("the search for a master")
        self._timer: IDelayedCall | None = None
        self._opened = False
        self._fixed = ha.ha_master_address
        self._fixed_main = ha.master_address
        self._address = address
        self._slave = Slave(
            env,
            store,
            RemoteTail(client.ask, key, int(address.rpartition(":")[2]) or None),
            client.sweeper,
            SlaveSettings(
                ha.ha_ack_mode == "flush",
                lambda: current.ha.ha_begin_anew,
                ha.ha_send_heartbeat_interval,
                ha.ha_housekeeping_interval,
            ),
            tls,
        )
        self._slave.when_changed(self._changed)
        store.cleaner.masters.append(lambda: self._slave.minimum.value)
        self.replicator = TableReplicator(
            env.clock,
            client.ask,
            store,
            tables,
            lambda: self._slave.state in _FOLLOWED,
            DamageFetcher(env.clock.seconds, store, RemoteTail(client.ask, key), client.ask),
        )
        store.subscribe(self.replicator)
        guard = None if key is None else Guard(env.clock, env.random, key)
        self.processors: Sequence[IRequestProcessor] = (
            TailProcessor(store, client.sweeper.peer_warnings, self._is_master, guard),
        )
        self.registered(Registered(None, None))

    def _is_master(self, ip: str) -> bool:
        """Tell whether an IP address is that of the master that is followed now."""
        return ip == self._slave.master_ip

    @property
    def is_without_master(self) -> bool:
        """See L{Replication}."""
        return self._slave.state not in _FOLLOWED

    def open(self) -> Deferred[None]:
        """Follow the master that is configured, or that a registry will name."""
        self._opened = True
        self._slave.startService()
        self.replicator.startService()
        return succeed(None)

    def stop(self) -> Deferred[None]:
        """Follow the master no more."""
        self._opened = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return gatherResults([self._slave.stopService(), self.replicator.stopService()]).addCallback(lambda _: None)

    def registered(self, told: Registered) -> None:
        """
        Follow whom a registry says, where nothing else was configured. While none says anything the last one stays:
        registries forget a master that is away, and it is likely to come back. So does one that is being followed: of
        two registries one may have missed a change.
        """
        if not self.is_without_master:
            return
        replication = self._fixed or told.ha_address or self._slave.master
        main = self._fixed_main or told.master_address or self.replicator.master or _port_before(self._fixed)
        if main == self._address:
            self._log.warn("{address} is said to be our master, but that is us", address=main)
            return
        self.replicator.master = main
        self._slave.follow(replication, main)
        if replication is None and self._opened and self._timer is None:
            self._timer = self._clock.callLater(SEEK, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._slave.master is None:
            self.master_wanted.tell()

    def now(self) -> Replicated:
        """Return whom this slave follows, and how far behind it is."""
        slave, replicator = self._slave, self.replicator
        return Replicated(
            "SLAVE",
            state=slave.state,
            reason=slave.reason,
            behind=-1 if slave.state is SlaveState.DIVERGED else slave.behind,  # offsets mean nothing then
            master=slave.master,
            tables_ms=replicator.copied_ms,
            tables_reason=replicator.reason,
        )

    def _changed(self) -> None:
        if not self.is_without_master:
            self.replicator.soon()


def _port_before(address: str | None) -> str | None:
    """The usual main port of a broker, by its port for slaves."""
    if address is None:
        return None
    host, port = parse_address(address)
    return f"[{host}]:{port - 1}" if ":" in host else f"{host}:{port - 1}"
