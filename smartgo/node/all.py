"""Registry and broker in one process: C{twistd smartgo}, and what a newcomer runs."""

from __future__ import annotations

import msgspec

from smartgo.broker.broker import Broker
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.node import broker, registry
from smartgo.node.accesscontrol import AccessService
from smartgo.node.assembly import NodeService, make_service
from smartgo.node.options import AllOptions as Options
from smartgo.node.options import NodeOptions
from smartgo.node.process import Process
from smartgo.node.registryserver import Registry, own_address

__all__ = ["Options", "makeService"]


def prepare(env: IEnvironment, configuration: Configuration) -> ServerTLS | None:
    """
    Find out what can be wrong with either.

    @raise SettingError: a setting that cannot be followed, or a port in use.
    @raise StoreHeld: the store is another process's.
    """
    registry.prepare(env, configuration)
    return broker.prepare(env, configuration)


def assemble(
    env: IEnvironment,
    options: NodeOptions,
    configuration: Configuration,
    tls: ServerTLS | None,
    process: Process,
    sweeper: Sweeper,
    access: AccessService | None = None,
) -> list[Registry | Broker]:
    """Return the registry, then the broker, which registers with it besides those it is told of."""
    return [
        *registry.assemble(env, options, configuration, tls, process, sweeper, access),
        *broker.assemble(env, options, with_own_registry(configuration), tls, process, sweeper, access),
    ]


def with_own_registry(configuration: Configuration) -> Configuration:
    """Return the configuration with the registry of this process among those that the broker registers with."""
    own = own_address(configuration.registry)
    others = tuple(one for one in configuration.broker.namesrv_addr if one != own)
    return msgspec.structs.replace(
        configuration, broker=msgspec.structs.replace(configuration.broker, namesrv_addr=(own, *others))
    )


def makeService(options: Options) -> NodeService:
    """Assemble a registry and a broker in one process."""
    return make_service(options, prepare, assemble)
