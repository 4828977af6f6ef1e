"""A registry and a broker in this process, for commands that bring their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred

from smartgo.broker.broker import Broker
from smartgo.broker.terms import durability, store_settings
from smartgo.config.loading import ALL, Configuration, Surroundings, load
from smartgo.env.interfaces import IEnvironment
from smartgo.node.all import prepare, with_own_registry
from smartgo.node.process import client_tls, server_limits
from smartgo.node.registry import Registry


def surroundings(env: IEnvironment) -> Surroundings:
    """Return what defaults of settings depend on."""
    return Surroundings(env.host.name, env.host.home(), env.host.variable)


def configuration_of(
    env: IEnvironment, flags: Mapping[str, str], path: str = "", data: bytes | None = None
) -> Configuration:
    """
    Return the checked configuration of a registry and a broker.

    @param flags: settings by file name, over those of the file.
    @param path: the configuration file's name, C{data} its content; C{None} for none.
    @raise SettingError: one of them is wrong.
    """
    return load(surroundings(env), ALL, path, data, flags)


class Embedded:
    """
    A registry and a broker.

    @ivar registry: C{host:port} of the registry; C{broker} of the broker.
    @ivar durability: one line on what an acknowledged message survives.
    """

    def __init__(
        self,
        env: IEnvironment,
        configuration: Configuration,
        on_store_failed: Callable[[str], None],
        fill_disk: bool = False,
    ) -> None:
        """
        @param on_store_failed: called once with why, when the store fails for good.
        @param fill_disk: take messages until there is really no room, where a broker that is to stay leaves some free.
        @raise SettingError: a setting that cannot be followed, or a port in use.
        @raise StoreHeld: the store is another process's.
        """
        tls = prepare(env, configuration)
        configuration = with_own_registry(configuration)
        limits = server_limits(configuration.limits, configuration.limits.server_channel_max_idle_time_seconds)
        self._registry = Registry(env, configuration, tls)
        settings = store_settings(configuration.store)
        if fill_disk:
            settings = msgspec.structs.replace(settings, disk_full_ratio=1.0, disk_free_minimum=0)
        self._broker = Broker(
            env,
            configuration,
            tls,
            client_tls(env, configuration.tls),
            limits,
            on_store_failed=on_store_failed,
            settings=settings,
        )
        self._started: list[Service] = []
        self.registry = configuration.broker.namesrv_addr[0]
        self.broker = self._broker.address
        self.durability = durability(configuration.store, configuration.broker.broker_role)

    async def start(self) -> None:
        """
        Start both; returns when clients can connect and topics can be found.

        @raise SmartgoError: one cannot start; L{stop} what did.
        """
        for service, ready in (self._registry, self._registry.ready), (self._broker, self._broker.ready):
            self._started.append(service)
            service.startService()
            await ready

    async def stop(self) -> None:
        """Stop what was started, the broker first."""
        while self._started:
            stopping: Deferred[object] = maybeDeferred(self._started.pop().stopService)
            await stopping
