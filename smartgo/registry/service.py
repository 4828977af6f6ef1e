"""The registry as a Service: its tables, the search for silent brokers, and what a server needs to serve them."""

from __future__ import annotations

import posixpath
from typing import cast

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from smartgo.config.settings import RegistryConfig
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BrokenTable
from smartgo.registry.access import Access
from smartgo.registry.brokerregistrations import BrokerRegistrations
from smartgo.registry.kvconfig import KvConfig
from smartgo.registry.leases import KEY_SIZE, LeaseKey, Leases, read_key
from smartgo.registry.requests import RegistryListener, RegistryProcessor
from smartgo.registry.routes import EXPIRY, RouteTable
from smartgo.remoting.interfaces import IPeer
from smartgo.tablefile import TableFile

KEY_FILE = "leaseKey.json"
"""The file with the key of leases, beside that of the namespaced settings."""
FIRST_SCAN = 5.0
"""Seconds from the start to the first search for silent brokers."""


class RegistryService(Service):
    """
    A registry without its port: give C{processor} and C{listener} to a remoting server that runs as long as this.

    @ivar routes: who serves which topic; provides L{smartgo.registry.interfaces.IRoutes}.
    @ivar kv: the namespaced settings.
    @ivar tables: the files that can be set aside when they are broken.
    @ivar processor: L{smartgo.remoting.interfaces.IRequestProcessor}.
    @ivar listener: L{smartgo.remoting.interfaces.IConnectionListener}.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, config: RegistryConfig, access_control: bool = False) -> None:
        """
        @param config: settled by L{smartgo.config.loading.load}.
        @param access_control: a hook checks keys and permissions before the processor; settings may then be changed
            over the network (reliability X7).
        """
        self._env = env
        self._config = config
        self._loaded = False
        self._first: IDelayedCall | None = None
        self._loop = LoopingCall(self._scan)
        self._loop.clock = env.clock
        file = TableFile(env, config.kv_config_path)
        self.tables = [file]
        self.kv = KvConfig(file, env.clock, config.max_kv_size)
        self._stood_still = 0.0  # seconds in all
        wall_ms = env.clock.wall_ms
        self._key_file = TableFile(env, posixpath.join(posixpath.dirname(config.kv_config_path), KEY_FILE))
        self._leases = Leases(env.random.token(KEY_SIZE), wall_ms)
        self.routes = RouteTable(self._awake, EXPIRY, config.max_route_topics, config.max_route_brokers, wall_ms)
        access = Access(config.admin_allow, config.broker_allow, access_control)
        registrar = BrokerRegistrations(env, self.routes, self.kv, access, self._leases)
        self.processor = RegistryProcessor(env.clock, self.routes, self.kv, config, registrar, access, access_control)
        self.listener = RegistryListener(self.routes)

    def _awake(self) -> float:
        """The monotonic clock, less the time for which we heard nobody, so that nobody was silent then."""
        now: float = self._env.clock.seconds()
        return now - self._stood_still

    def stood_still(self, seconds: float) -> None:
        """Note that this process stood still for so long, so that brokers are not taken for silent meanwhile."""
        self._stood_still += seconds

    def load(self) -> None:
        """
        Read what was saved; blocking. Done by the start if nobody did it before.

        @raise smartgo.errors.BrokenTable: the settings' file and its backup cannot be read.
        """
        self.kv.load()
        if not self._loaded:
            self._load_key()
        self._loaded = True

    def _load_key(self) -> None:
        """Take the key of leases from its file, or write one; without it leases end with this process."""
        try:
            key = self._key_file.load(read_key)
            if key is None:
                self._key_file.save_now(LeaseKey(self._leases.key.hex()))
            else:
                self._leases.key = key
        except (BrokenTable, OSError) as error:
            self._log.warn("leases of masters end with this process: {error}", error=str(error))

    def startService(self) -> None:
        """Begin to look for silent brokers."""
        if not self._loaded:
            self.load()
        super().startService()
        self._first = self._env.clock.callLater(FIRST_SCAN, self._begin)

    def stopService(self) -> Deferred[None]:
        """Stop looking; fires when all settings are saved."""
        super().stopService()
        if self._first is not None:
            self._first.cancel()
            self._first = None
        if self._loop.running:
            self._loop.stop()
        return self.kv.settled()

    def _begin(self) -> None:
        self._first = None
        self._loop.start(self._config.scan_not_active_broker_interval)

    def _scan(self) -> None:
        for seen, channel in self.routes.expire():
            self._log.warn(
                "broker {name} at {address} was silent for {age:.0f} s and is removed from the routes",
                name=seen.name,
                address=seen.address,
                age=seen.age,
            )
            cast(IPeer, channel).close(f"broker {seen.name} was silent for {seen.age:.0f} s")
