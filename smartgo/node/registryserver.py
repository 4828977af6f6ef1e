"""The registry service with its port."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.config.loading import Configuration
from smartgo.config.settings import RegistryConfig
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.net.endpoints import endpoint
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.node.accesscontrol import AccessService
from smartgo.node.process import server_limits
from smartgo.registry.service import RegistryService
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.server import RemotingServer
from smartgo.tablefile import TableFile


class Registry(MultiService):
    """
    A registry and its port.

    @ivar ready: fires with this once clients can connect, or fails with why not.
    @ivar routes: who serves what; provides L{smartgo.registry.interfaces.IRoutes}.
    @ivar memory_budget: the memory that peers may make this process keep.
    @ivar slow_turns: what held the reactor of this process up.
    @ivar access_key: signs requests of this process; C{None} where they are not signed.
    @ivar access: the rules of access control; C{None} where it is off.
    @ivar tables: the files that are read at the start, each with what reads it.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        sweeper: Sweeper,
        tls: ServerTLS | None = None,
        access: AccessService | None = None,
    ) -> None:
        """
        @param sweeper: timers and memory budget of connections, shared with others of the process.
        @param tls: certificate and key of the port, loaded.
        @param access: access control, where it is on.
        """
        super().__init__()
        config = configuration.registry
        self._registry = RegistryService(env, config, access is not None)
        self._address = f"{config.bind_address}:{config.listen_port}"
        self._server = RemotingServer(
            env,
            endpoint(config.bind_address, config.listen_port),
            Dispatcher([self._registry.processor], () if access is None else (access.hook,)),
            sweeper,
            self._registry.listener,
            server_limits(configuration.limits, config.server_channel_max_idle_time_seconds),
            tls,
        )
        self.access_key = None if access is None else access.key
        self.access = None if access is None else access.control
        self.memory_budget = sweeper.budget
        self.slow_turns = sweeper.slow
        self._server.sweeper.when_stood_still(self._registry.stood_still)
        self.routes = self._registry.routes
        self.tables: list[tuple[TableFile, Callable[[], object]]] = [
            (file, self._registry.load) for file in self._registry.tables
        ]
        self.ready: Deferred[Registry] = Deferred()

    def startService(self) -> None:
        """Load the settings, then listen; see C{ready}."""
        try:
            self._registry.load()
        except SettingError:
            self.ready.errback()
            return
        self._registry.setServiceParent(self)
        self._server.setServiceParent(self)
        super().startService()
        self._server.open().addCallbacks(self._listens, self.ready.errback)

    def _listens(self, _: object) -> None:
        self._log.info("registry is ready at {address}", address=self._address)
        self.ready.callback(self)

    def stopService(self) -> Deferred[Any]:
        """Stop listening, then save."""
        stopping: Deferred[Any] = super().stopService()
        return stopping


def own_address(config: RegistryConfig) -> str:
    """Return C{host:port} by which a registry is reached in its own process."""
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(config.bind_address, config.bind_address)  # noqa: S104
    return f"{host}:{config.listen_port}"
