"""
The plan of a local cluster: its nodes, their ports, directories and settings.

Node C{broker-b} keeps all its files below the directory C{broker-b}, its slave C{broker-b#1} below C{broker-b-slave-1}.
A broker uses its listen port, the port two below and the port one above (as RocketMQ does), so the listen ports of
brokers are ten apart.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from smartgo.client.administration.brokers import subject_of
from smartgo.config.loading import ALL, BROKER, REGISTRY
from smartgo.config.sources import from_flags
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.node.options import listen_flags
from smartgo.node.process import PortTaken, probe_ports

MOST: Final = 16
"""Masters, and registries; slaves of a master."""
LOG_FILE: Final = "64MiB"
"""Size of the log files of a new store, which is one for development."""

REGISTRY_ROLE: Final = "registry"
MASTER_ROLE: Final = "master"
SLAVE_ROLE: Final = "slave"

_PROGRAMS: Final = {
    REGISTRY_ROLE: "smartgo-registry",
    MASTER_ROLE: "smartgo-broker",
    SLAVE_ROLE: "smartgo-slave",
}
_OWN: Final = frozenset({
    "listenPort", "bindAddress", "haListenPort", "fastPort", "namesrvAddr", "brokerName", "brokerId",
    "storePathRootDir", "storePathCommitLog", "kvConfigPath", "haMasterAddress", "masterAddress",
})  # fmt: skip
"""Settings that differ from node to node, and so cannot be set for all of them."""

_BROKER: Final = tuple(table for table in BROKER if table != "ops")
_REGISTRY: Final = tuple(table for table in REGISTRY if table != "ops")
"""No node serves a REST API; the one before them all has these settings."""

_LOOPBACK: Final = "127.0.0.1"
_BROKER_STEP: Final = 10


class ClusterShape(NamedTuple):
    """The number of masters, of slaves of each master, and of registries."""

    masters: int
    slaves: int
    registries: int


class NodePlan(NamedTuple):
    """One node of the plan."""

    name: str
    """As the command line, alerts and the console have it: C{registry-1}, C{broker-a}, C{broker-a#1} for its slave."""
    role: str
    """C{registry}, C{master} or C{slave}."""
    address: str
    """C{host:port} that it serves at."""
    folder: str
    flags: Mapping[str, str]
    """Its settings."""

    @property
    def log(self) -> str:
        """The path of the node's log file."""
        return posixpath.join(self.folder, f"{posixpath.basename(self.folder)}.log")

    def arguments(self, config: str) -> list[str]:
        """
        Return the arguments of twistd for this node.

        @param config: the configuration file; empty for none.
        """
        words = ["--nodaemon", "--pidfile=", f"--logfile={self.log}", _PROGRAMS[self.role], "--ops=off"]
        words += [f"--config={config}"] if config else []
        return words + [f"--set={name}={value}" for name, value in self.flags.items()]


def check_settings(flags: Mapping[str, str]) -> None:
    """
    Check settings that are meant for all nodes.

    @raise SettingError: one is unknown, or differs from node to node.
    """
    for given in from_flags(flags, ALL):
        if given.setting.name in _OWN:
            raise SettingError(
                f"--set {given.origin.detail}: differs from node to node and is set by smartgo dev itself"
            )
        if given.setting.name == "brokerRole" and str(given.value).upper() == "SLAVE":
            raise SettingError(f"--set {given.origin.detail}: use --slaves to start slaves")


def plan(
    env: IEnvironment,
    root: str,
    shape: ClusterShape,
    listen: str | None = None,
    registry_listen: str | None = None,
    flags: Mapping[str, str] | None = None,
) -> list[NodePlan]:
    """
    Return the nodes in the order in which they start: registries, masters, slaves.

    @param root: the directory of all data, absolute.
    @param listen: the address of the first broker; the others use higher ports. C{registry_listen}: the same for
        registries. By default the usual ports are used, or the next free ones.
    @param flags: settings of all nodes that know them.
    @raise PortTaken: a port that was asked for is in use.
    @raise SettingError: a setting or an address is not valid.
    """
    flags = flags or {}
    check_settings(flags)
    ports = _PortAllocator(env)
    registries = list(_registries(ports, root, shape.registries, registry_listen, settings_in(flags, _REGISTRY)))
    known = {**settings_in(flags, _BROKER), "namesrvAddr": ";".join(node.address for node in registries)}
    return [*registries, *_brokers(env, ports, root, shape, listen, known)]


def _registries(
    ports: _PortAllocator, root: str, count: int, listen: str | None, flags: Mapping[str, str]
) -> Iterator[NodePlan]:
    host, places = ports.take(listen, REGISTRY_ROLE, 9876, count, 1, (0,))
    for number, port in enumerate(places, 1):
        name = f"registry-{number}"
        folder = posixpath.join(root, name)
        own = {
            "registry.bindAddress": host,
            "registry.listenPort": str(port),
            "kvConfigPath": posixpath.join(folder, "kvConfig.json"),
        }
        yield NodePlan(name, REGISTRY_ROLE, _address(host, port), folder, {**flags, **own})


def _brokers(
    env: IEnvironment,
    ports: _PortAllocator,
    root: str,
    shape: ClusterShape,
    listen: str | None,
    flags: Mapping[str, str],
) -> Iterator[NodePlan]:
    count = shape.masters * (1 + shape.slaves)
    host, places = ports.take(listen, "broker", 10911, count, _BROKER_STEP, (-2, 0, 1))
    for port, (name, rank) in zip(places, _names(shape), strict=True):
        own = {
            "broker.bindAddress": host,
            "broker.listenPort": str(port),
            "fastPort": str(port - 2),
            "haListenPort": str(port + 1),
            "brokerName": name,
        }
        folder = posixpath.join(root, name)
        if rank:
            own |= {"brokerRole": "SLAVE", "brokerId": str(rank)}
            folder = f"{folder}-slave-{rank}"
        store = posixpath.join(folder, "store")
        log = posixpath.join(store, "commitlog")
        settings = {**flags, **own, "storePathRootDir": store, "storePathCommitLog": log}
        if not names_in(env, log):  # an existing store has its own file size
            settings.setdefault("store.mappedFileSizeCommitLog", LOG_FILE)
        role = SLAVE_ROLE if rank else MASTER_ROLE
        yield NodePlan(subject_of(name, rank), role, _address(host, port), folder, settings)


def names_in(env: IEnvironment, directory: str) -> list[str]:
    """
    Return the names in a directory of a store; none if it does not exist yet.

    @raise SettingError: it cannot be read, or a parent is not a directory.
    """
    try:
        found: list[str] = env.files.list(directory)
    except OSError as error:
        raise SettingError(f"the store directory {directory} cannot be used: {error.strerror or error}") from None
    return found


def _names(shape: ClusterShape) -> Iterator[tuple[str, int]]:
    """Broker name and id of each broker, masters first."""
    for rank in range(1 + shape.slaves):
        for number in range(shape.masters):
            yield f"broker-{chr(ord('a') + number)}", rank


def settings_in(flags: Mapping[str, str], tables: Sequence[str]) -> dict[str, str]:
    """Return the settings that are in some tables, by table and name."""
    return {
        f"{given.setting.table}.{given.setting.name}": str(given.value)
        for given in from_flags(flags, ALL)
        if given.setting.table in tables
    }


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _PortAllocator:
    """Allocates free ports that no other node of the plan has."""

    def __init__(self, env: IEnvironment) -> None:
        self._env = env
        self._taken: set[int] = set()

    def take(
        self, asked: str | None, what: str, usual: int, count: int, step: int, around: Sequence[int]
    ) -> tuple[str, list[int]]:
        """
        Return the interface and C{count} ports, C{step} or more apart.

        @param asked: the first address; C{None} for C{usual} or above.
        @param around: the ports that each node needs, as distances from its listen port.
        """
        host, port = _LOOPBACK, usual
        found: list[int] = []
        if asked is not None:
            flag = "--listen" if what == "broker" else "--registry-listen"
            said = listen_flags(asked, what, flag)
            host, port = said.get(f"{what}.bindAddress", _LOOPBACK), int(said[f"{what}.listenPort"])
            if port + min(around) < 1:
                raise SettingError(f"{flag} {asked}: with several nodes, give the first port; it must be above 2")
            probe_ports(self._env, [(host, port + each, f"the first {what}") for each in around])
        while len(found) < count:
            if port + max(around) > 65535:
                raise SettingError(f"there are not enough free ports for {count} {what} nodes")
            needed = [port + each for each in around]
            if self._taken.isdisjoint(needed) and self._free(host, needed):
                self._taken.update(needed)
                found.append(port)
            port += step
        return host, found

    def _free(self, host: str, ports: Iterable[int]) -> bool:
        try:
            probe_ports(self._env, [(host, port, "a node") for port in ports])
        except PortTaken:
            return False
        return True
