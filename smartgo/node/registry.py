"""The registry as a process: C{twistd smartgo-registry}."""

from __future__ import annotations

from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.node.accesscontrol import AccessService
from smartgo.node.assembly import NodeService, make_service
from smartgo.node.options import NodeOptions
from smartgo.node.options import RegistryOptions as Options
from smartgo.node.process import Process, probe_ports, server_tls
from smartgo.node.registryserver import Registry
from smartgo.node.settingchecks import registry_checks

__all__ = ["Options", "Registry", "makeService"]


def prepare(env: IEnvironment, configuration: Configuration) -> ServerTLS | None:
    """
    Check a registry's configuration; return the certificate of its port.

    @raise SettingError: a setting is not valid, or a port is in use.
    """
    config = configuration.registry
    for check in registry_checks(env, configuration):
        check()
    tls = server_tls(env, configuration.tls)
    probe_ports(env, ((config.bind_address, config.listen_port, "the registry"),))
    return tls


def assemble(
    env: IEnvironment,
    options: NodeOptions,
    configuration: Configuration,
    tls: ServerTLS | None,
    process: Process,
    sweeper: Sweeper,
    access: AccessService | None = None,
) -> list[Registry]:
    """Return the registry; the process ends if it cannot start."""
    registry = Registry(env, configuration, sweeper, tls, access)
    if tls is not None:
        process.on_reload(tls.reload)
    process.watch(registry.ready)
    return [registry]


def makeService(options: Options) -> NodeService:
    """Assemble a registry."""
    return make_service(options, prepare, assemble)
