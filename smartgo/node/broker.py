"""The broker as a process: C{twistd smartgo-broker}."""

from __future__ import annotations

from smartgo.broker.broker import Broker
from smartgo.broker.network import BrokerSecurity
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS, ServerTLS
from smartgo.node.accesscontrol import AccessService, own_key
from smartgo.node.assembly import NodeService, make_service
from smartgo.node.options import BrokerOptions as Options
from smartgo.node.options import NodeOptions
from smartgo.node.process import (
    Process,
    client_tls,
    probe_ports,
    probe_store,
    server_limits,
    server_tls,
)
from smartgo.node.settingchecks import broker_checks

__all__ = ["Options", "makeService"]


def prepare(env: IEnvironment, configuration: Configuration) -> ServerTLS | None:
    """
    Check a broker's configuration; return the certificate of its ports.

    @raise SettingError: a setting is not valid, or a port is in use.
    @raise StoreHeld: another process uses the store.
    """
    config, ha = configuration.broker, configuration.ha
    for check in broker_checks(env, configuration):
        check()
    ports = [
        (config.bind_address, config.listen_port, "the broker"),
        (config.bind_address, config.fast_listen_port or 0, "the broker's fast port"),
    ]
    if not config.is_slave:
        ports.append((ha.ha_bind_address, configuration.ha_port, "slaves (haListenPort)"))
    tls = server_tls(env, configuration.tls)
    probe_ports(env, ports)
    probe_store(env, configuration.store.store_path_root_dir)
    return tls


def broker_security(
    env: IEnvironment,
    configuration: Configuration,
    tls: ServerTLS | None,
    client: ClientTLS | None,
    access: AccessService | None,
) -> BrokerSecurity:
    """Return TLS and access control of a broker. @raise SettingError: the file with its key cannot be used."""
    if access is None:
        return BrokerSecurity(tls, client, key=own_key(env, configuration))
    return BrokerSecurity(tls, client, (access.hook,), access.control, access.change, access.key)


def assemble(
    env: IEnvironment,
    options: NodeOptions,
    configuration: Configuration,
    tls: ServerTLS | None,
    process: Process,
    sweeper: Sweeper,
    access: AccessService | None = None,
) -> list[Broker]:
    """Return the broker; the process ends if it cannot start, or if its store fails and it is to end then."""
    client = client_tls(env, configuration.tls)
    limits = server_limits(configuration.limits, configuration.limits.server_channel_max_idle_time_seconds)
    broker = Broker(
        env,
        configuration,
        sweeper,
        broker_security(env, configuration, tls, client, access),
        limits,
        process.failed_store,
    )
    for one in (tls, client):
        if one is not None:
            process.on_reload(one.reload)
    process.watch(broker.ready)
    return [broker]


def makeService(options: Options) -> NodeService:
    """Assemble a broker."""
    return make_service(options, prepare, assemble)
