"""A registry and a broker in this process, for commands that bring their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec
from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from smartgo.broker.broker import Broker
from smartgo.broker.openbroker import OpenBroker
from smartgo.broker.settings.storesettings import durability, retention_rules, store_settings
from smartgo.config.loading import ALL, Configuration, Surroundings, load
from smartgo.env.interfaces import IEnvironment
from smartgo.env.refusedwrites import RefusedWrites
from smartgo.node.accesscontrol import access_service
from smartgo.node.all import prepare, with_own_registry
from smartgo.node.assembly import ops_place
from smartgo.node.broker import broker_security
from smartgo.node.process import client_tls, process_sweeper, server_limits
from smartgo.node.registryserver import Registry
from smartgo.node.stalls import StallWatch
from smartgo.remoting.interfaces import IRequestHook

if TYPE_CHECKING:
    from smartgo.ops.service import Ops


def surroundings(env: IEnvironment) -> Surroundings:
    """Return the properties of this machine that defaults of settings depend on."""
    return Surroundings(env.host.name, env.host.home(), env.host.variable)


def read_settings(texts: tuple[str, ...]) -> dict[str, str]:
    """Return C{NAME=VALUE} texts as a dict. @raise click.UsageError: a text has another form."""
    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.UsageError(f"--set {text}: write NAME=VALUE")
        found[name] = value
    return found


def configuration_of(
    env: IEnvironment, flags: Mapping[str, str], path: str = "", data: bytes | None = None
) -> Configuration:
    """
    Return the checked configuration of a registry and a broker.

    C{NAMESRV_ADDR} is ignored: it is for commands that use a cluster, and a development broker must not join one.

    @param flags: settings by file name; they override the configuration file.
    @param path: the configuration file's name; C{data} its content, C{None} for none.
    @raise SettingError: a setting is wrong.
    """
    around = surroundings(env)
    alone = around._replace(variable=lambda name: None if name == "NAMESRV_ADDR" else around.variable(name))
    return load(alone, ALL, path, data, flags)


class BrokerSurroundings(NamedTuple):
    """The environment of a broker, where that of the registry and of connections is another, and its request hooks."""

    env: IEnvironment
    hooks: tuple[IRequestHook, ...] = ()


class EmbeddedNode:
    """
    A registry and a broker in this process.

    @ivar registry: C{host:port} of the registry; C{broker}: of the broker.
    @ivar second_port: the broker's port for clients with C{vipChannelEnabled}, if it has one.
    @ivar slaves_port: the broker's port for slaves, if it may have some.
    @ivar ops: the REST API, if it is served.
    @ivar durability: one line that says which failures an acknowledged message survives.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        on_store_failed: Callable[[str], None],
        fill_disk: bool = False,
        serve_ops: bool = False,
        stalls: StallWatch | None = None,
        surroundings: BrokerSurroundings | None = None,
    ) -> None:
        """
        @param on_store_failed: called once with the reason when the store fails permanently.
        @param fill_disk: accept messages until the disk is full; other brokers leave some space free.
        @param serve_ops: serve the REST API and the console too, unless the settings say otherwise.
        @param stalls: watches this thread while the services run; uses the process's alarm signal.
        @param surroundings: of the broker, where tests give it some of its own; access control comes before hooks.
        @raise SettingError: a setting is not valid, or a port is in use.
        @raise StoreHeld: another process uses the store.
        """
        tls = prepare(env, configuration)
        configuration = with_own_registry(configuration)
        limits = server_limits(configuration.limits, configuration.limits.server_channel_max_idle_time_seconds)
        sweeper = process_sweeper(env, configuration.limits)
        self._access = access_service(env, configuration)
        self._registry = Registry(env, configuration, sweeper, tls, self._access)
        settings = store_settings(configuration.store)
        if fill_disk:
            rules = msgspec.structs.replace(retention_rules(configuration.store), forcible=False)
            settings = msgspec.structs.replace(settings, disk_full_ratio=1.0, disk_free_minimum=0, retention=rules)
        security = broker_security(env, configuration, tls, client_tls(env, configuration.tls), self._access)
        broker_env, hooks = (env, ()) if surroundings is None else surroundings
        self._broker = Broker(
            broker_env,
            configuration,
            sweeper,
            replace(security, hooks=(*security.hooks, *hooks)),
            limits,
            on_store_failed=on_store_failed,
            settings=settings,
        )
        self.ops: Ops | None = None
        if serve_ops:
            place = ops_place(env, configuration, configuration.broker.listen_port + 2, True, self._warn)
            if place is not None:
                from smartgo.node.ops import assemble  # half a second of imports, for those alone who need it

                self.ops = assemble(env, configuration, place, (self._registry, self._broker), sweeper, stalls)
        self._stalls = stalls
        self._refused_writes = RefusedWrites(env.files.refused_writes)
        self._started: list[Service] = []
        self.registry = configuration.broker.namesrv_addr[0]
        self.broker = self._broker.address
        self.second_port = configuration.broker.fast_listen_port
        self.slaves_port = None if configuration.broker.is_slave else configuration.ha_port
        self.durability = durability(configuration.store, configuration.broker.broker_role, one_disk=True)

    @property
    def opened(self) -> OpenBroker | None:
        """The broker with its store, once that is open."""
        return self._broker.opened

    def _warn(self, words: str) -> None:
        self._log.warn("{words}", words=words)

    async def start(self) -> None:
        """
        Start the services; return when clients can connect and find topics.

        @raise SmartgoError: a service cannot start; call L{stop} to stop the others.
        """
        self._refused_writes.install()
        if self._stalls is not None:
            self._started.append(self._stalls)
            self._stalls.startService()
        if self._access is not None:
            self._started.append(self._access)
            self._access.startService()
        for service in (self._registry, self._broker, self.ops):
            if service is not None:
                self._started.append(service)
                service.startService()
                ready: Deferred[Any] = service.ready
                await ready

    async def stop(self) -> None:
        """Stop the started services, the last one first."""
        while self._started:
            stopping: Deferred[object] = maybeDeferred(self._started.pop().stopService)
            await stopping
        self._refused_writes.uninstall()
