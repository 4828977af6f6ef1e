"""C{smartgo dev}: run a registry and a broker, or a local cluster, in the foreground."""

from __future__ import annotations

import os.path
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click
from twisted.internet.defer import Deferred

from smartgo.broker.settings.storesettings import durability
from smartgo.cli.support.contextfile import DEFAULT_REGISTRY
from smartgo.cli.support.embedded import EmbeddedNode, configuration_of, read_settings, surroundings
from smartgo.cli.support.localcluster import LOG_FILE, MOST, REGISTRY_ROLE, ClusterShape, names_in, plan, settings_in
from smartgo.cli.support.localtoken import DATA, LocalToken
from smartgo.cli.support.nodes import NodeProcess, NodeProcesses
from smartgo.cli.support.output import Columns, print_table
from smartgo.cli.support.running import STORE_FAILED, CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.texts import examples
from smartgo.config.loading import BROKER, FRONT, Configuration, load
from smartgo.core import CORE
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.node.assembly import ops_place
from smartgo.node.options import listen_flags, ops_setting
from smartgo.node.process import PortTaken, process_sweeper, status_of
from smartgo.node.stalls import StallWatch

if TYPE_CHECKING:
    from smartgo.ops.service import Ops

OTHER_PORTS: Final = (
    "for other ports: smartgo dev --registry-listen 29876 --listen 20911, and then NAMESRV_ADDR=127.0.0.1:29876 for"
    " clients and commands (or -r 127.0.0.1:29876)"
)
"""Advice where a port is in use."""
_NUMBER: Final = click.IntRange(1, MOST)
_COLUMNS: Final[Columns[NodeProcess]] = {
    "node": lambda process: process.node.name,
    "role": lambda process: process.node.role,
    "address": lambda process: process.node.address,
    "process": lambda process: str(process.pid),
    "log": lambda process: process.node.log,
}


@click.command(
    epilog=examples(
        "smartgo dev",
        "smartgo dev --data /tmp/try --listen 21911 --registry-listen 29876",
        "smartgo dev --set flushDiskType=SYNC_FLUSH",
        "smartgo dev --masters 2 --slaves 1 --registries 2",
    ),
)
@click.option(
    "-d",
    "--data",
    default=DATA,
    show_default=True,
    metavar="DIR",
    help="Data directory; created if it does not exist.",
)
@click.option("-l", "--listen", metavar="[ADDRESS:]PORT", help="Address of the broker.  [default: 127.0.0.1:10911]")
@click.option("--registry-listen", metavar="[ADDRESS:]PORT", help="Address of the registry.  [default: 127.0.0.1:9876]")
@click.option(
    "--ops",
    metavar="[ADDRESS:]PORT|off",
    help="Address of the REST API and the console.  [default: 127.0.0.1, the broker's port + 2]",
)
@click.option("-c", "--config", metavar="FILE", help="Configuration file: smartgo TOML, or RocketMQ's broker.conf.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Set one setting; may be repeated.")
@click.option("--masters", type=_NUMBER, default=1, show_default=True, help="Number of master brokers.")
@click.option(
    "--slaves", type=click.IntRange(0, MOST), default=0, show_default=True, help="Number of slaves of each master."
)
@click.option("--registries", type=_NUMBER, default=1, show_default=True, help="Number of registries.")
def dev(
    data: str,
    listen: str | None,
    registry_listen: str | None,
    ops: str | None,
    config: str | None,
    settings: tuple[str, ...],
    masters: int,
    slaves: int,
    registries: int,
) -> None:
    """Run a registry and a broker in this terminal until ctrl-C.

    Messages are kept in DIR and are available again after a restart.

    With several masters, slaves or registries each node is a process of its own, as in production; --listen and
    --registry-listen then set the ports of the first node, and the others use higher ports.
    """
    shape = ClusterShape(masters, slaves, registries)

    async def cluster(env: IEnvironment) -> None:
        await LocalCluster(env, os.path.abspath(data), config).run(shape, listen, registry_listen, ops, settings)

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(data)
        configuration = configured(env, root, listen, registry_listen, config, settings, ops)
        failed: Deferred[str] = Deferred()
        node = EmbeddedNode(env, configuration, failed.callback, serve_ops=True, stalls=StallWatch(env.clock))
        token: LocalToken | None = None
        try:
            await node.start()
            token = None if node.ops is None else LocalToken(env, root, node.ops)
            click.echo(f"registry    {node.registry}")
            click.echo(f"broker      {node.broker}{other_ports(node)}")
            click.echo(f"store       {configuration.store.store_path_root_dir}")
            click.echo(f"durability  {node.durability}")
            click.echo(f"core        {CORE}")
            say_ready(node.ops, token, node.registry)
            raise CommandError(f"the store failed: {await failed}", STORE_FAILED)
        finally:
            if token is not None:
                token.remove()
            await node.stop()
            click.echo("Stopped.")

    async def started(env: IEnvironment) -> None:
        try:
            await (work if shape == ClusterShape(1, 0, 1) else cluster)(env)
        except PortTaken as error:
            raise CommandError(f"{error}; {OTHER_PORTS}", status_of(error)) from None

    do(started, endless=True)


class LocalCluster:
    """Several nodes, each a process; the REST API and the console run in this process."""

    def __init__(self, env: IEnvironment, root: str, config: str | None) -> None:
        """
        @param root: the directory of all data, absolute.
        @param config: the file of settings, if any.
        @raise SettingError: it cannot be read.
        """
        self._env = env
        self._root = root
        self._config = os.path.abspath(config) if config else ""
        self._content = read_config(env, config)

    async def run(
        self,
        shape: ClusterShape,
        listen: str | None,
        registry_listen: str | None,
        ops: str | None,
        settings: tuple[str, ...],
    ) -> None:
        """
        Run until cancelled.

        @raise CommandError: a node does not start, or the last has ended.
        @raise SmartgoError: the settings cannot be followed.
        """
        given = read_settings(settings)
        nodes = plan(self._env, self._root, shape, listen, registry_listen, given)
        broker = next(self._load(BROKER, node.flags) for node in nodes if node.role != REGISTRY_ROLE)
        registries = ";".join(node.address for node in nodes if node.role == REGISTRY_ROLE)
        flags = settings_in(given, ("ops", "tls")) | {"namesrvAddr": registries}
        console = self._console(flags, ops, broker.broker.listen_port + 2)
        from twisted.internet import reactor

        processes = NodeProcesses(self._env, reactor.spawnProcess, _warn)
        token: LocalToken | None = None
        try:
            click.echo(f"Starting {len(nodes)} nodes ...")
            print_table(await processes.start(nodes, self._config), _COLUMNS)
            if console is not None:
                console.startService()
                await console.ready
                token = LocalToken(self._env, self._root, console)
            click.echo(f"registries  {registries}")
            click.echo(f"data        {self._root}")
            click.echo(f"durability  {durability(broker.store, broker.broker.broker_role, one_disk=True)}")
            click.echo(f"core        {CORE}")
            say_ready(console, token, registries)
            await processes.over
            raise CommandError("all nodes have stopped")
        finally:
            if token is not None:
                token.remove()
            if console is not None:
                await console.stopService()
            await processes.stop()
            click.echo("Stopped.")

    def _load(self, tables: Sequence[str], flags: Mapping[str, str]) -> Configuration:
        return load(surroundings(self._env), tables, self._config, self._content, flags)

    def _console(self, flags: dict[str, str], ops: str | None, usual: int) -> Ops | None:
        flags.setdefault("ops.opsPath", os.path.join(self._root, "ops"))
        if ops:
            flags["ops.opsListen"] = ops_setting(ops)
        configuration = self._load(FRONT, flags)
        place = ops_place(self._env, configuration, usual, True, _warn)
        if place is None:
            return None
        from smartgo.node.ops import assemble  # half a second of imports, for those alone who need it

        return assemble(self._env, configuration, place, (), process_sweeper(self._env, configuration.limits))


def _warn(words: str) -> None:
    click.echo(f"smartgo: {words}", err=True)


def other_ports(node: EmbeddedNode) -> str:
    """Return what to print behind a broker's address: its other ports, and who uses them; empty if it has none."""
    ports = {"slaves": node.slaves_port, "clients with vipChannelEnabled": node.second_port}
    known = [f"{port} for {who}" for who, port in ports.items() if port]
    return f" (also {', '.join(known)})" if known else ""


def say_ready(console: Ops | None, token: LocalToken | None, registries: str) -> None:
    """
    Print the console's login link, the variables by which commands find the cluster, and that all nodes are ready.

    @param registries: C{host:port} of each, separated by semicolons.
    """
    if console is not None:
        click.echo(f"console     {console.login_url()}")
        click.echo("            (this link logs you in as admin; it works once and expires in one hour)")
    if token is not None:
        click.echo(f"            (for another link: {token.command()})")
    variables = [] if registries == DEFAULT_REGISTRY else [f"NAMESRV_ADDR={shlex.quote(registries)}"]
    variables += [] if token is None else token.variables()
    if variables:
        click.echo(f"commands    export {' '.join(variables)}")
        click.echo("            (in the terminal where you use this cluster)")
    click.echo("Ready. Stop with ctrl-C.")


def read_config(env: IEnvironment, path: str | None) -> bytes | None:
    """
    Return the content of a configuration file; C{None} if no file is given.

    @raise SettingError: it cannot be read.
    """
    if not path:
        return None
    try:
        content: bytes = env.files.read(path)
    except OSError as error:
        raise SettingError(f"--config {path}: {error.strerror or error}") from None
    return content


def configured(
    env: IEnvironment,
    root: str,
    listen: str | None = None,
    registry_listen: str | None = None,
    config: str | None = None,
    settings: tuple[str, ...] = (),
    ops: str | None = None,
) -> Configuration:
    """
    Return the configuration for the command's options.

    @param root: the directory of all data, absolute.
    @raise SettingError: an option, the file or a setting is wrong.
    """
    content = read_config(env, config)
    flags = read_settings(settings)
    if listen:
        flags.update(listen_flags(listen, "broker"))
    if registry_listen:
        flags.update(listen_flags(registry_listen, "registry"))
    if ops:
        flags["ops.opsListen"] = ops_setting(ops)
    store = os.path.join(root, "store")
    flags.setdefault("storePathRootDir", store)
    flags.setdefault("kvConfigPath", os.path.join(root, "registry", "kvConfig.json"))
    # An existing store has its own file size, and a configuration file may set it.
    if content is None and not names_in(env, os.path.join(store, "commitlog")):
        flags.setdefault("mappedFileSizeCommitLog", LOG_FILE)
    return configuration_of(env, flags, config or "", content)
