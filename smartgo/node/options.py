"""The command line that the assemblies share, and how it becomes a checked configuration."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec
from twisted.python import usage

from smartgo.config.known import NOT_BUILT
from smartgo.config.loading import ALL, BROKER, FRONT, REGISTRY, Configuration, Surroundings, load
from smartgo.core import CORE
from smartgo.env.interfaces import IEnvironment
from smartgo.env.product import product_version
from smartgo.errors import SettingError
from smartgo.node.logs import FORMATS, json_log, text_log

_ENDPOINT = re.compile(r"(?:tcp:)?(?P<port>\d{1,5})(?::interface=(?P<interface>[^:]*(?:\\:[^:]*)*))?")
_HOST_PORT = re.compile(r"(?P<interface>\[[0-9a-fA-F:]+\]|\d{1,3}(?:\.\d{1,3}){3}|localhost):(?P<port>\d{1,5})")


def listen_flags(text: str, table: str, flag: str = "--listen") -> dict[str, str]:
    """
    Return the settings that an address to listen on stands for.

    @param text: C{tcp:10911:interface=127.0.0.1}, C{10911} or C{127.0.0.1:10911}.
    @param table: whose settings: C{broker} or C{registry}.
    @param flag: where it was written, for the message.
    @raise SettingError: it is none of these.
    """
    found = _ENDPOINT.fullmatch(text) or _HOST_PORT.fullmatch(text)
    if found is None:
        raise SettingError(
            f"{flag} {text}: not an address to listen on; write tcp:PORT:interface=ADDRESS, ADDRESS:PORT or PORT"
        )
    flags = {f"{table}.listenPort": found["port"]}
    if found["interface"]:
        flags[f"{table}.bindAddress"] = found["interface"].replace("\\", "").strip("[]")
    return flags


def ops_setting(text: str) -> str:
    """
    Return the setting C{opsListen} that C{--ops} stands for.

    @raise SettingError: it is no address to listen on.
    """
    if text in ("on", "off"):
        return text
    flags = listen_flags(text, "ops", "--ops")
    address = flags.get("ops.bindAddress", "127.0.0.1")
    return f"[{address}]:{flags['ops.listenPort']}" if ":" in address else f"{address}:{flags['ops.listenPort']}"


class NodeOptions(usage.Options):
    """
    The command-line options that all twistd commands share.

    @cvar program: the command's name, and that of its pid and log files.
    @cvar tables: which settings its configuration file may hold.
    @cvar listens: the table that C{--listen} sets.
    @cvar serves_ops: whether the REST API is served where nothing is said of it.
    @cvar usual: settings that stand where nothing else is said.
    """

    program: ClassVar[str] = "smartgo"
    tables: ClassVar[Sequence[str]] = ALL
    listens: ClassVar[str] = "broker"
    serves_ops: ClassVar[bool] = False
    usual: ClassVar[Mapping[str, str]] = {}

    optParameters: ClassVar[Sequence[Sequence[Any]]] = [
        [
            "config",
            "c",
            None,
            "Configuration file: smartgo TOML, or an unchanged RocketMQ broker.conf or namesrv.properties.",
        ],
        ["listen", "l", None, "Address to listen on for clients: tcp:PORT:interface=ADDRESS, ADDRESS:PORT or PORT."],
        ["ops", None, None, "Address of the REST API and the console: as for --listen, or on, or off."],
        ["log-format", None, None, "Log format: text, or json for one JSON object per line."],
    ]
    optFlags: ClassVar[Sequence[Sequence[Any]]] = [
        ["allow-insecure", None, "Listen on other than loopback addresses although clients need no authentication."],
    ]

    def __init__(self) -> None:
        super().__init__()
        self["settings"] = {}
        self["reset-broken"] = []

    def opt_set(self, text: str) -> None:
        """
        Set one setting: NAME=VALUE, as in the configuration file; may be repeated.
        """
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise usage.UsageError(f"--set {text}: write NAME=VALUE")
        self["settings"][name] = value

    def opt_version(self) -> None:
        """
        Show the version of smartgo and exit.
        """
        sys.stdout.write(f"smartgo {product_version()}\ncore: {CORE}\n")
        raise SystemExit(0)

    def opt_reset_broken(self, path: str) -> None:
        """
        Start with an empty table if this file and its backup are unreadable; keeps FILE.broken.
        """
        self["reset-broken"].append(path)

    opt_s = opt_set

    def parseOptions(self, options: Sequence[str] | None = None) -> None:
        """
        Parse the command line.

        twistd would print its whole help above a usage error, and exit with status 0 or 1.

        @raise usage.UsageError: the command line is wrong.
        @raise SystemExit: the same below twistd: status 2, after one sentence on standard error.
        """
        try:
            super().parseOptions(options)
        except usage.UsageError as error:
            if self.parent is None:
                raise
            end(self.program, f"{error}; see: twistd {self.program} --help", 2)

    def postOptions(self) -> None:
        """Name pid and log file after the command, so that several run in one directory; keep them private."""
        if self["log-format"] not in (None, *FORMATS):
            raise usage.UsageError(f"--log-format {self['log-format']}: write {' or '.join(FORMATS)}")
        parent = self.parent
        if parent is None:
            return
        if parent.get("pidfile") == "twistd.pid":
            parent["pidfile"] = f"{self.program}.pid"
        if parent.get("logfile") is None and not parent.get("nodaemon"):
            parent["logfile"] = f"{self.program}.log"
        if parent.get("umask") is None:
            parent["umask"] = 0o077
        log = json_log if self["log-format"] == "json" else text_log
        if log is json_log and parent.get("logfile") == "-" and not parent.get("nodaemon"):
            raise usage.UsageError("--log-format json: a daemon cannot log to standard output")
        if log is json_log or not (parent.get("logger") or parent.get("syslog")):
            log.path = parent.get("logfile")
            parent["logger"] = log.name  # twistd's
        if log is json_log:
            parent["fileLogObserverFactory"] = log.to  # twist's

    def flags(self) -> dict[str, str]:
        """Return the settings given on the command line. @raise SettingError: an address is not valid."""
        flags: dict[str, str] = dict(self["settings"])
        if self["listen"]:
            flags.update(listen_flags(self["listen"], self.listens))
        if self["ops"]:
            flags["ops.opsListen"] = ops_setting(self["ops"])
        if self["allow-insecure"]:
            for table in ("broker", "registry"):
                if table in self.tables:
                    flags[f"{table}.allowInsecure"] = "true"
        return flags


class RegistryOptions(NodeOptions):
    """The command line of a registry."""

    program = "smartgo-registry"
    tables: ClassVar[Sequence[str]] = REGISTRY
    listens = "registry"
    longdesc = (
        "A registry (RocketMQ's name server): brokers register their topics here, and clients get routes from it. "
        "Only key-value settings are kept on disk. Listens on 127.0.0.1:9876 by default."
    )


class BrokerOptions(NodeOptions):
    """The command line of a broker."""

    program = "smartgo-broker"
    tables: ClassVar[Sequence[str]] = BROKER
    longdesc = (
        "A broker: receives messages, keeps them in RocketMQ's store format, and delivers them. Listens by default on "
        "127.0.0.1:10911, and on the port two below for clients' fast channel. Registers with every registry given "
        "with --registry, as namesrvAddr in its configuration, or as NAMESRV_ADDR in the environment."
    )
    optParameters: ClassVar[Sequence[Sequence[Any]]] = [
        ["store", "d", None, "Store directory; a store written by RocketMQ 4.9 is opened as it is."],
        ["registry", "r", None, "Registries to register with: HOST:PORT;HOST:PORT..."],
    ]

    def flags(self) -> dict[str, str]:
        """Return the settings given on the command line."""
        flags = super().flags()
        if self["store"] == "":
            raise SettingError("--store is empty; name a directory")
        if self["store"]:
            flags["storePathRootDir"] = self["store"]
        if self["registry"]:
            flags["namesrvAddr"] = self["registry"]
        return flags


class SlaveOptions(BrokerOptions):
    """The command line of a broker that is a slave."""

    program = "smartgo-slave"
    usual: ClassVar[Mapping[str, str]] = {"brokerId": "1"}
    longdesc = (
        "A slave: a broker that replicates a master, and serves consumers when the master is down or their lag is "
        "large. It accepts no messages. Its master, a smartgo or RocketMQ 4.9 broker with the same --name, is found "
        "through the registries or given with --master-ha."
    )
    optParameters: ClassVar[Sequence[Sequence[Any]]] = [
        ["master-ha", "m", None, "The master's port for slaves: HOST:PORT; its main port is one below."],
        ["id", "i", None, "Broker id of this slave, by default 1; unique among the slaves of a master."],
        ["name", "n", None, "Broker name; a master and its slaves share it."],
    ]

    def flags(self) -> dict[str, str]:
        """Return the settings given on the command line."""
        flags = super().flags()
        flags["brokerRole"] = "SLAVE"
        for option, name in ("master-ha", "haMasterAddress"), ("id", "brokerId"), ("name", "brokerName"):
            if self[option]:
                flags[name] = self[option]
        return flags


class FrontOptions(NodeOptions):
    """The command line of a REST API before a cluster."""

    program = "smartgo-ops"
    tables: ClassVar[Sequence[str]] = FRONT
    serves_ops = True
    longdesc = (
        "The REST API and the console of a cluster, as a process of its own. Listens on 127.0.0.1:10913 by default "
        "(--ops, or --listen, which is the same here)."
    )
    optParameters: ClassVar[Sequence[Sequence[Any]]] = [
        ["registry", "r", None, "The cluster's registries: HOST:PORT;HOST:PORT..."],
    ]

    def flags(self) -> dict[str, str]:
        """Return the settings given on the command line."""
        listen, self["listen"] = self["listen"], None
        flags = super().flags()
        if listen:
            flags["ops.opsListen"] = ops_setting(listen)
        if self["allow-insecure"]:
            flags["ops.opsAllowInsecure"] = "true"
        if self["registry"]:
            flags["namesrvAddr"] = self["registry"]
        return flags


class AllOptions(BrokerOptions):
    """The command line of registry and broker in one process."""

    program = "smartgo"
    tables: ClassVar[Sequence[str]] = ALL
    serves_ops = True
    longdesc = (
        "A registry and a broker in one process, for small installations. By default the registry listens on "
        "127.0.0.1:9876 and the broker on 127.0.0.1:10911. The broker registers with this registry and with those of "
        "--registry."
    )
    optParameters: ClassVar[Sequence[Sequence[Any]]] = [
        ["registry-listen", None, None, "Address of the registry: tcp:PORT:interface=ADDRESS, ADDRESS:PORT or PORT."],
    ]

    def flags(self) -> dict[str, str]:
        """Return the settings given on the command line."""
        flags = super().flags()
        if self["registry-listen"]:
            flags.update(listen_flags(self["registry-listen"], "registry"))
        return flags


def configure(env: IEnvironment, options: NodeOptions) -> Configuration:
    """
    Read the configuration file, put the command line over it, check it all.

    @raise SettingError: one sentence for the person who started us.
    """
    path = options["config"] or ""
    data = None
    if path:
        try:
            data = env.files.read(path)
        except OSError as error:
            raise SettingError(f"--config {path}: {error.strerror or error}") from None
    surroundings = Surroundings(env.host.name, env.host.home(), env.host.variable)
    return settled(env, load(surroundings, options.tables, path, data, options.flags(), options.usual))


def settled(env: IEnvironment, configuration: Configuration) -> Configuration:
    """Return the configuration with a free port for port 0, and a warning for each setting that has no effect yet."""
    replace = msgspec.structs.replace
    broker, ha, registry = configuration.broker, configuration.ha, configuration.registry
    if configuration.ha_port == 0:
        ha = replace(ha, ha_listen_port=env.network.free_port())
    if broker.listen_port == 0:
        fast = False if broker.fast_port is True else broker.fast_port
        broker = replace(broker, listen_port=env.network.free_port(), fast_port=fast)
    if registry.listen_port == 0:
        registry = replace(registry, listen_port=env.network.free_port())
    warnings = (*configuration.warnings, *without_effect(configuration))
    return replace(configuration, broker=broker, ha=ha, registry=registry, warnings=warnings)


def without_effect(configuration: Configuration) -> list[str]:
    """Return a sentence for each setting that was given and has no effect yet."""
    return [
        f"{origin.place}: {name} has no effect yet"
        for (_, name), origin in configuration.origins.items()
        if name in NOT_BUILT and origin.source != "default"
    ]


def end(program: str, sentence: str, status: int) -> None:
    """Write one sentence to standard error and exit. @raise SystemExit: always."""
    sys.stderr.write(f"{program}: {sentence}\n")
    sys.stderr.flush()
    raise SystemExit(status)
