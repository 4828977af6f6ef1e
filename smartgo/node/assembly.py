"""Shared by the twistd commands: from parsed options to the Service that twistd runs."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from typing import Any, Final

from twisted.application.service import MultiService
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.logger import Logger

from smartgo.config.loading import Configuration
from smartgo.config.settings import OPS_PORT
from smartgo.core import CORE
from smartgo.env.interfaces import IEnvironment
from smartgo.env.product import product_version
from smartgo.env.real import RealEnvironment
from smartgo.env.refusedwrites import RefusedWrites
from smartgo.net.sweeper import Sweeper
from smartgo.node.accesscontrol import AccessService, access_service
from smartgo.node.notify import Notifier
from smartgo.node.options import NodeOptions, configure
from smartgo.node.process import (
    PortTaken,
    Process,
    check_tables,
    checked,
    probe_log,
    probe_pid_file,
    probe_ports,
    process_sweeper,
)
from smartgo.node.stalls import StallWatch

_SETTLED_SECONDS: Final = 1.0  # after the start

Assemble = Callable[[IEnvironment, NodeOptions, Configuration, Any, Process, Sweeper, AccessService | None], list[Any]]
"""Makes the services of a process; see L{make_service}."""

_log = Logger()


def settle_memory() -> None:
    """
    Exclude the objects that the start created from garbage collection.

    Some hundred thousand objects of the interpreter and its modules live forever; scanning them again and again blocked
    the reactor for a tenth of a second and more.
    """
    gc.collect()
    gc.freeze()


class NodeService(MultiService):
    """
    Services over one environment, whose threads end after them.

    @ivar env: the environment.
    @ivar configuration: the settings they run with.
    """

    def __init__(self, env: IEnvironment, configuration: Configuration, user: Callable[[], int] = os.geteuid) -> None:
        """
        @param user: returns the id of the user that the process runs as.
        """
        super().__init__()
        self.env = env
        self._user = user
        self._refused_writes = RefusedWrites(env.files.refused_writes)
        self.configuration = configuration

    def startService(self) -> None:
        """Log the version and the warnings of the configuration, now that there is a log; then start the services."""
        _log.info("smartgo {version} starts; core: {core}", version=product_version(), core=CORE)
        for warning in self.configuration.warnings:
            _log.warn("{text}", text=warning)  # "warning" is Twisted's own key
        if not self._user():
            _log.warn("this process runs as root, which it does not need: run it as a user of its own")
        self._refused_writes.install()
        super().startService()

    def stopService(self) -> Deferred[None]:
        """Stop the services one after another, the last first, so that a broker can unregister; then the threads."""
        self.running = 0
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        for service in reversed(list(self)):
            try:
                await maybeDeferred(service.stopService)
            except Exception:
                _log.failure("{service} could not be stopped cleanly", service=type(service).__name__)
        await self.env.threads.stop()
        self._refused_writes.uninstall()


def ops_place(
    env: IEnvironment, configuration: Configuration, usual: int, by_default: bool, warn: Callable[[str], object]
) -> tuple[str, int] | None:
    """
    Return the address of the REST API; C{None} to serve none.

    @param usual: the default port.
    @param by_default: whether to serve it if no address is set; then a port in use only means that it is not served.
    @param warn: called with a sentence in that case.
    @raise PortTaken: the port that was set is in use.
    @raise SettingError: this process may not listen on it.
    """
    place = configuration.ops.place(usual)
    asked = configuration.ops.ops_listen is not None
    if not asked and by_default:
        place = ("127.0.0.1", usual)
    try:
        if place is not None:
            probe_ports(env, ((*place, "the REST API"),))
    except PortTaken as error:
        if asked:
            raise
        warn(f"the REST API and the console are not served: {error}")
        return None
    return place


def assemble_ops(
    env: IEnvironment,
    options: NodeOptions,
    configuration: Configuration,
    services: list[Any],
    sweeper: Sweeper,
    stalls: StallWatch,
    process: Process,
    access: AccessService | None = None,
) -> Any:
    """
    Return the REST API of a process; C{None} if it serves none.

    If no address is set and the default port is in use, the process runs without the REST API.

    @raise SettingError: the address that was set cannot be used.
    """
    usual = OPS_PORT
    if services:
        broker = "broker" in options.tables
        usual = (configuration.broker.listen_port if broker else configuration.registry.listen_port) + 2
    place = ops_place(
        env,
        configuration,
        usual,
        options.serves_ops,
        lambda words: sys.stderr.write(f"{options.program}: warning: {words}\n"),
    )
    if place is None:
        return None
    from smartgo.node.ops import assemble  # half a second of imports, for those alone who need it

    control = None if access is None else access.control
    ops = assemble(env, configuration, place, services, sweeper, stalls, control)
    process.watch(ops.ready)
    if ops.tls is not None:
        process.on_reload(ops.tls.reload)
    return ops


def make_service(
    options: NodeOptions,
    prepare: Callable[[IEnvironment, Configuration], Any],
    assemble: Assemble,
) -> NodeService:
    """
    Assemble a process. Errors end it here with one sentence, before twistd makes it a daemon.

    @param prepare: checks what can be wrong; its result (certificates) is passed to C{assemble}.
    @param assemble: returns the services, in the order in which they start.
    @raise SystemExit: status 75 or 78, see L{smartgo.node.process}.
    """
    from twisted.internet import reactor

    env = RealEnvironment(reactor)
    notifier = Notifier(env)
    process = Process(reactor, options.program, notifier)
    if options.parent is not None and not options.parent.get("nodaemon"):
        checked(options.program, probe_log, env, options.parent.get("logfile"))
    if options.parent is not None:
        checked(options.program, probe_pid_file, env, options.parent.get("pidfile"), options.parent.get("rundir"))
    configuration: Configuration = checked(options.program, configure, env, options)
    prepared = checked(options.program, prepare, env, configuration)
    node = NodeService(env, configuration)
    env.clock.callLater(_SETTLED_SECONDS, settle_memory)
    sweeper = checked(options.program, process_sweeper, env, configuration.limits)  # the only one of the process
    access: AccessService | None = checked(options.program, access_service, env, configuration)
    services = checked(options.program, assemble, env, options, configuration, prepared, process, sweeper, access)
    env.clock.call_around(sweeper.slow.timed)
    env.threads.call_around(sweeper.slow.delivered)
    stalls = StallWatch(env.clock)
    ops = checked(
        options.program, assemble_ops, env, options, configuration, services, sweeper, stalls, process, access
    )
    if ops is not None:
        services.append(ops)
    tables = [table for service in services for table in service.tables]
    checked(options.program, check_tables, env, tables, options["reset-broken"])
    if ops is not None:
        checked(options.program, ops.check_address)
    for warning in configuration.warnings:
        sys.stderr.write(f"{options.program}: warning: {warning}\n")
    stalls.setServiceParent(node)
    if access is not None:
        process.on_reload(access.reload)
        access.setServiceParent(node)
    for service in services:
        service.setServiceParent(node)
    notifier.setServiceParent(node)  # the last, so that it stops first
    process.install()
    return node
