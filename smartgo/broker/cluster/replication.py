"""
What replication adds to a broker: to a master the port for slaves, to a slave whom it follows.

Rules: docs/spec/ha, reliability H5, X6.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import Final, NamedTuple, Protocol

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.broker.cluster.registrar import Ask
from smartgo.broker.cluster.registrystate import Registered
from smartgo.broker.cluster.tablereplicator import TableReplicator
from smartgo.broker.processors.logend import RemoteTail, TailProcessor
from smartgo.broker.tables.groups import GroupTable
from smartgo.broker.tables.offsets import OffsetTable
from smartgo.broker.tables.topics import TopicTable
from smartgo.config.loading import Configuration
from smartgo.config.settings import HaConfig
from smartgo.env.interfaces import IEnvironment
from smartgo.ha.guard import Guard
from smartgo.ha.interfaces import SlaveSeen, SlaveState
from smartgo.ha.master import Master
from smartgo.ha.slave import Slave
from smartgo.net.endpoints import endpoint
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.address import is_loopback_host, parse_address
from smartgo.schema.signature import AccessKey
from smartgo.store.messagestore import MessageStore

THIS_MACHINE: Final = ("127.0.0.0/8", "::1/128")
"""Who may replicate from a master that nobody else can reach."""

SEEK: Final = 3.0
"""Seconds until a slave that knows no master asks the registries again: it may have been started first."""

_FOLLOWED: Final = (SlaveState.CATCHING_UP, SlaveState.FOLLOWING)


class Replicated(NamedTuple):
    """How a broker stands to others of its name, for those who look on."""

    role: str
    """C{ASYNC_MASTER}, C{SYNC_MASTER} or C{SLAVE}."""
    slaves: Sequence[SlaveSeen] = ()
    """A master's."""
    confirmed: int = 0
    """A master's: the highest physical offset that a slave has confirmed."""
    state: SlaveState | None = None
    """A slave's."""
    reason: str = ""
    """A slave's: why it does not follow; empty while it does."""
    behind: int = 0
    """A slave's: bytes of the master's log that it lacks; -1 for unknown."""
    master: str | None = None
    """A slave's: C{host:port} of the master's port for slaves."""
    tables_ms: int = -1
    """A slave's: when its tables were the master's for the last time; -1 for never."""
    tables_reason: str = ""
    """A slave's: why they are not copied; empty while they are."""


def facts(now: Replicated, end: int) -> dict[str, str]:
    """
    What runtime information (28) says of it; RocketMQ has nothing of this.

    @param end: of the broker's own log.
    """
    if now.state is not None:
        return {
            "brokerRole": now.role,
            "haState": now.state.name,
            "haReason": now.reason,
            "haBehindBytes": str(now.behind),
            "haMasterAddress": now.master or "",
            "haTablesCopiedMs": str(now.tables_ms),
            "haTablesReason": now.tables_reason,
        }
    slaves = {
        f"haSlave_{number}": f"{one.address},{one.confirmed},{end - max(0, one.confirmed)},{one.connected_for:.0f}"
        for number, one in enumerate(now.slaves, 1)
    }
    return {
        "brokerRole": now.role,
        "haSlaveCount": str(len(now.slaves)),
        "haConfirmedOffset": str(now.confirmed),
        **slaves,
    }


class Replication(Protocol):
    """What a broker does with either."""

    processors: Sequence[IRequestProcessor]

    def open(self) -> Deferred[None]:
        """Begin, once the store is open."""

    def stop(self) -> Deferred[None]:
        """End; fires when no connection is left."""

    def registered(self, told: Registered) -> None:
        """A registry has said who the master is."""

    def now(self) -> Replicated:
        """How things are."""


def allowed(config: HaConfig) -> tuple[str, ...]:
    """The networks that slaves may come from; none for all that reach the port."""
    return config.ha_allow or (THIS_MACHINE if is_loopback_host(config.ha_bind_address) else ())


def credentials(config: HaConfig) -> AccessKey | None:
    """The key for replication, where there is one."""
    if config.ha_access_key is None or config.ha_secret_key is None:
        return None
    return AccessKey(config.ha_access_key, config.ha_secret_key)


class MasterReplication:
    """A master's part."""

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        store: MessageStore,
        complaints: RateLimitedLog,
        tls: ServerTLS | None,
    ) -> None:
        """
        @param complaints: rationed warnings about peers.
        @param tls: certificate and key of our ports, loaded.
        """
        config, ha = configuration.broker, configuration.ha
        self._role = config.broker_role
        sync = self._role == "SYNC_MASTER"
        key = credentials(ha)
        guard = None if key is None else Guard(env.clock, env.random, key)
        self._master = Master(
            env,
            store,
            endpoint(ha.ha_bind_address, configuration.ha_port),
            complaints,
            sync=sync,
            allow=allowed(ha),
            admits=None if guard is None else guard.admits,
            tls=tls,
            batch=ha.ha_transfer_batch_size,
            heartbeat=ha.ha_send_heartbeat_interval,
            housekeeping=ha.ha_housekeeping_interval,
            fallbehind_max=ha.ha_slave_fallbehind_max,
            slave_timeout=ha.slave_timeout,
        )
        if sync:
            store.demand(self._master)
        self.processors: Sequence[IRequestProcessor] = (TailProcessor(store, complaints, self._master.allows, guard),)

    def open(self) -> Deferred[None]:
        """Listen for slaves."""
        opened = self._master.open()
        self._master.startService()
        return opened

    def stop(self) -> Deferred[None]:
        """Hand slaves what is left, and close."""
        return self._master.stopService()

    def registered(self, told: Registered) -> None:
        """A master follows nobody."""

    def now(self) -> Replicated:
        """Who follows, and how far."""
        return Replicated(self._role, self._master.slaves(), self._master.confirmed)


class SlaveReplication:
    """
    A slave's part.

    @ivar mirror: copies the master's tables.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        store: MessageStore,
        ask: Ask,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        delays: MutableMapping[int, int],
        delays_changed: Callable[[], None],
        address: str,
        seek: Callable[[], object],
        tls: ClientTLS | None,
    ) -> None:
        """
        @param ask: asks other brokers.
        @param seek: has registries asked who the master is; L{registered} is told.
        @param address: C{host:port} of our main port: whoever that is said to be is not our master.
        @param tls: how masters are spoken to, where that is by TLS.
        """
        ha = configuration.ha
        self._clock = env.clock
        self._seek = seek
        self._timer: IDelayedCall | None = None
        self._opened = False
        self._fixed = ha.ha_master_address
        self._fixed_main = ha.master_address
        self._address = address
        self._slave = Slave(
            env,
            store,
            RemoteTail(ask, credentials(ha)),
            ack_flushed=ha.ha_ack_mode == "flush",
            heartbeat=ha.ha_send_heartbeat_interval,
            housekeeping=ha.ha_housekeeping_interval,
            tls=tls,
        )
        self._slave.when_changed(self._changed)
        self.mirror = TableReplicator(
            env.clock,
            ask,
            store,
            topics,
            groups,
            offsets,
            delays,
            followed=lambda: self._slave.state in _FOLLOWED,
            delays_changed=delays_changed,
        )
        store.subscribe(self.mirror)
        self.processors: Sequence[IRequestProcessor] = ()
        self.registered(Registered(None, None))

    @property
    def deserted(self) -> bool:
        """Whether we do without a master just now."""
        return self._slave.state not in _FOLLOWED

    def open(self) -> Deferred[None]:
        """Follow whom we know, or whom a registry will tell us."""
        self._opened = True
        self._slave.startService()
        self.mirror.startService()
        return succeed(None)

    def stop(self) -> Deferred[None]:
        """Follow no more."""
        self._opened = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return gatherResults([self._slave.stopService(), self.mirror.stopService()]).addCallback(lambda _: None)

    def registered(self, told: Registered) -> None:
        """
        Follow whom a registry says, where nothing else was configured. While none says anything the last one stays:
        registries forget a master that is away, and it is likely to come back. So does one that is being followed: of
        two registries one may have missed a change.
        """
        if not self.deserted:
            return
        replication = self._fixed or told.ha_address or self._slave.master
        main = self._fixed_main or told.master_address or self.mirror.master or _port_before(self._fixed)
        if main == self._address:
            self._log.warn("{address} is said to be our master, but that is us", address=main)
            return
        self.mirror.master = main
        self._slave.follow(replication, main)
        if replication is None and self._opened and self._timer is None:
            self._timer = self._clock.callLater(SEEK, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._slave.master is None:
            self._seek()

    def now(self) -> Replicated:
        """Whom we follow, and how far behind we are."""
        slave, mirror = self._slave, self.mirror
        return Replicated(
            "SLAVE",
            state=slave.state,
            reason=slave.reason,
            behind=-1 if slave.state is SlaveState.DIVERGED else slave.behind,  # offsets mean nothing then
            master=slave.master,
            tables_ms=mirror.copied_ms,
            tables_reason=mirror.reason,
        )

    def _changed(self) -> None:
        if not self.deserted:
            self.mirror.soon()


def _port_before(address: str | None) -> str | None:
    """The usual main port of a broker, by its port for slaves."""
    if address is None:
        return None
    host, port = parse_address(address)
    return f"[{host}]:{port - 1}" if ":" in host else f"{host}:{port - 1}"
