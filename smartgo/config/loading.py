"""
From files, environment and flags to one checked configuration that knows where each value came from.

Pure: the caller reads the file and names the surroundings.

Precedence, weakest first: defaults, environment (C{NAMESRV_ADDR} and the homes only fill gaps, as in RocketMQ), the
file, flags.
"""

from __future__ import annotations

import ipaddress
import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from smartgo.config.catalog import as_text, settings_of
from smartgo.config.findings import LoadFindings
from smartgo.config.kinds import Path
from smartgo.config.settings import (
    TABLES,
    AccessConfig,
    BrokerConfig,
    HaConfig,
    LimitsConfig,
    OpsConfig,
    RegistryConfig,
    StoreConfig,
    TlsConfig,
)
from smartgo.config.sources import GivenSetting, Origin, from_environment, from_flags, from_properties, from_toml
from smartgo.errors import SettingError
from smartgo.schema.address import is_loopback_host

BROKER: Final = ("broker", "store", "ha", "access", "tls", "limits", "ops")
"""The tables of a broker, in the order in which a flat file's keys are looked up."""
REGISTRY: Final = ("registry", "access", "tls", "limits", "ops")
"""The tables of a registry."""
ALL: Final = ("broker", "store", "ha", "access", "tls", "limits", "ops", "registry")
"""The tables of both in one process; a flat file's C{listenPort} is the broker's."""
FRONT: Final = ("ops", "access", "tls", "broker")
"""The tables of an API before a cluster: its own, and of the broker's C{namesrvAddr}."""


class Surroundings(NamedTuple):
    """The facts that defaults depend on; the assemblies take them from the environment of the process."""

    host_name: str
    home: str
    """The user's home directory."""
    variable: Callable[[str], str | None]
    """A variable of the process environment."""


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """
    Every setting, checked; derived defaults are filled in, save C{brokerIP1} and C{brokerIP2} behind a wildcard.

    @ivar origins: (table, file name) to where the value came from; every setting of the tables read is there.
    @ivar warnings: sentences for the operator, to be logged once logging has begun.
    """

    broker: BrokerConfig = BrokerConfig()
    store: StoreConfig = StoreConfig()
    ha: HaConfig = HaConfig()
    registry: RegistryConfig = RegistryConfig()
    access: AccessConfig = AccessConfig()
    tls: TlsConfig = TlsConfig()
    limits: LimitsConfig = LimitsConfig()
    ops: OpsConfig = OpsConfig()
    origins: Mapping[tuple[str, str], Origin] = {}
    warnings: Sequence[str] = ()

    @property
    def ha_port(self) -> int:
        """The port for slaves: C{haListenPort}, else the one after C{listenPort}."""
        if self.ha.ha_listen_port is not None:
            return self.ha.ha_listen_port
        return self.broker.listen_port + 1 if self.broker.listen_port else 0


def load(
    surroundings: Surroundings,
    tables: Sequence[str] = ALL,
    path: str = "",
    data: bytes | None = None,
    flags: Mapping[str, str] | None = None,
    defaults: Mapping[str, str] | None = None,
    findings: LoadFindings | None = None,
) -> Configuration:
    """
    Return the configuration of one program.

    @param tables: L{BROKER}, L{REGISTRY} or L{ALL}.
    @param path: the file's name, which tells its kind; for the messages too.
    @param data: its content; C{None} where there is no file.
    @param flags: settings from the command line, by file name, or C{table.name} where two tables share it.
    @param defaults: the program's own, likewise; weaker than all else.
    @param findings: takes warnings and errors; by default the first error is raised.
    @raise SettingError: one sentence that names file, key, value, and what is allowed.
    """
    findings = findings or LoadFindings()
    given = [one._replace(origin=Origin("default")) for one in from_flags(defaults or {}, tables)]
    given += from_environment(surroundings.variable)
    if data is not None and path.endswith(".toml"):
        given += from_toml(path, data, findings)
    elif data is not None:
        given += from_properties(path, data, tables, findings)
    given += from_flags(flags or {}, tables, findings)
    return _settle(surroundings, tables, given, findings)


def _settle(
    surroundings: Surroundings, tables: Sequence[str], given: Iterable[GivenSetting], findings: LoadFindings
) -> Configuration:
    home = surroundings.variable("SMARTGO_HOME") or surroundings.home
    values: dict[str, dict[str, object]] = {table: {} for table in TABLES}
    origins = {(table, setting.name): Origin("default") for table in tables for setting in settings_of(table)}
    for one in given:
        setting = one.setting
        if setting.table not in tables:
            continue
        try:
            value = setting.read(one.value, one.origin.place)
        except SettingError as error:
            findings.refuse(error, setting.table, setting.name)
            continue
        if isinstance(setting.kind, Path) and value:
            value = _expanded(value, home)
        values[setting.table][setting.attribute] = value
        origins[setting.table, setting.name] = one.origin
        _note_clamped(one, value, findings.warnings)
    structs: dict[str, Any] = {table: TABLES[table](**values[table]) for table in TABLES}
    configuration = Configuration(**structs, origins=origins, warnings=findings.warnings)
    _note_oddities(configuration, findings.warnings, tables)
    configuration = _derived(configuration, surroundings, home, tables)
    _check(configuration, tables, findings)
    return configuration


def _expanded(path: str, home: str) -> str:
    for prefix in ("~", "{{HOME}}"):
        if path == prefix or path.startswith(prefix + "/"):
            path = home + path[len(prefix) :]
    return posixpath.normpath(path)


def _note_clamped(given: GivenSetting, value: object, warnings: list[str]) -> None:
    kind = given.setting.kind
    asked = as_text(given.value)
    if getattr(kind, "clamp", False) and asked.lstrip("-").isdigit() and asked.lstrip("0") != kind.show(value):
        warnings.append(f"{given.origin.place}: {given.setting.name}={asked} is out of range; using {kind.show(value)}")


def _note_oddities(configuration: Configuration, warnings: list[str], tables: Sequence[str]) -> None:
    def warn(table: str, name: str, sentence: str) -> None:
        place = configuration.origins.get((table, name), Origin("default")).place
        warnings.append(f"{place}: {name} {sentence}")

    broker = configuration.broker
    if broker.broker_id and not broker.is_slave:
        warn("broker", "brokerId", f"is 0 for brokerRole={broker.broker_role}")
    if is_loopback_host(broker.bind_address) and broker.broker_ip1 and not is_loopback_host(broker.broker_ip1):
        warn(
            "broker",
            "brokerIP1",
            f"is {broker.broker_ip1}, but the broker listens on {broker.bind_address}: set bindAddress too",
        )
    ha = configuration.ha
    if "broker" in tables and not broker.is_slave and not ha.ha_allow and ha.ha_access_key is None:
        place = ha.ha_bind_address or broker.bind_address
        if not is_loopback_host(place):
            warn(
                "ha",
                "haAllow",
                f"is empty: anybody who can reach the port for slaves on {place} can copy every message",
            )
    if configuration.store.max_message_size >= configuration.limits.frame_max_length:
        warn("store", "maxMessageSize", "has no effect, because frameMaxLength is not larger")


def _derived(
    configuration: Configuration, surroundings: Surroundings, home: str, tables: Sequence[str]
) -> Configuration:
    broker, store, registry, ops = configuration.broker, configuration.store, configuration.registry, configuration.ops
    ha, access = configuration.ha, configuration.access
    both = "broker" in tables and "registry" in tables
    acl = broker.acl_enable or registry.acl_enable
    rocketmq_home = broker.rocketmq_home or surroundings.variable("ROCKETMQ_HOME") or home
    role_id = broker.broker_id if broker.is_slave else 0
    root = store.store_path_root_dir or posixpath.join(home, "store")
    kv_path = registry.kv_config_path or posixpath.join(home, "namesrv", "kvConfig.json")
    ops_root = root if "store" in tables else posixpath.dirname(kv_path) if "registry" in tables else home
    address = broker.broker_ip1 or ("" if broker.bind_address in ("0.0.0.0", "::") else broker.bind_address)  # noqa: S104
    replace = msgspec.structs.replace
    return replace(
        configuration,
        broker=replace(
            broker,
            broker_id=role_id,
            broker_name=broker.broker_name or _name_of_host(surroundings.host_name),
            broker_ip1=address,
            broker_ip2=broker.broker_ip2 or address,
            rocketmq_home=rocketmq_home,
            acl_enable=acl if both else broker.acl_enable,
        ),
        store=replace(
            store,
            store_path_root_dir=root,
            store_path_commit_log=store.store_path_commit_log or posixpath.join(root, "commitlog"),
        ),
        ha=replace(
            ha,
            ha_bind_address=ha.ha_bind_address or broker.bind_address,
            ha_access_key=ha.ha_access_key or (access.access_key if broker.acl_enable else None),
            ha_secret_key=ha.ha_secret_key or (access.secret_key if broker.acl_enable else None),
        ),
        registry=replace(registry, kv_config_path=kv_path, acl_enable=acl if both else registry.acl_enable),
        access=replace(access, acl_path=access.acl_path or posixpath.join(rocketmq_home, "conf")),
        ops=replace(
            ops,
            ops_path=ops.ops_path or posixpath.join(ops_root, "smartgo-ops" if ops_root == home else "ops"),
            alert_source=ops.alert_source or surroundings.host_name,
        ),
    )


def _name_of_host(name: str) -> str:
    cleaned = "".join(one if one.isascii() and (one.isalnum() or one in "_-") else "-" for one in name)
    return cleaned[:127] or "localhost"


def _check(configuration: Configuration, tables: Sequence[str], findings: LoadFindings) -> None:
    def fail(table: str, name: str, sentence: str) -> None:
        origin = configuration.origins.get((table, name), Origin("default"))
        findings.refuse(SettingError(f"{origin.place}: {name} {sentence}"), table, name)

    if "broker" in tables:
        _check_ports(configuration, tables, fail)
        if configuration.broker.is_slave and configuration.broker.broker_id == 0:
            fail("broker", "brokerId", "must be above 0 for brokerRole=SLAVE; 0 is the master")
        root = configuration.store.store_path_root_dir
        if not configuration.store.store_path_commit_log.startswith(root.rstrip("/") + "/"):
            fail("store", "storePathCommitLog", f"must be below storePathRootDir, which is {root}")
        ha = configuration.ha
        if (ha.ha_access_key is None) != (ha.ha_secret_key is None):
            name, other = ("haAccessKey", "haSecretKey") if ha.ha_access_key else ("haSecretKey", "haAccessKey")
            fail("ha", name, f"needs {other} beside it")
    access = configuration.access
    if (access.access_key is None) != (access.secret_key is None):
        name, other = ("accessKey", "secretKey") if access.access_key else ("secretKey", "accessKey")
        fail("access", name, f"needs {other} beside it")
    if access.access_key is not None and access.access_key_file is not None:
        fail("access", "accessKeyFile", "names a key, and so does accessKey: give one of them")
    if configuration.limits.unsent_resume_size > configuration.limits.unsent_pause_size:
        fail("limits", "unsentResumeSize", "must not be above unsentPauseSize")
    _check_tls(configuration.tls, fail)
    _check_ops(configuration, fail)


def _check_ports(configuration: Configuration, tables: Sequence[str], fail: Callable[[str, str, str], None]) -> None:
    ports = {
        ("broker", "listenPort"): configuration.broker.listen_port,
        ("broker", "fastPort"): configuration.broker.fast_listen_port,
        ("ha", "haListenPort"): configuration.ha_port,
    }
    registry = configuration.registry
    if "registry" in tables and registry.bind_address == configuration.broker.bind_address:
        ports["registry", "listenPort"] = registry.listen_port
    if configuration.ha_port > 65535:
        fail("broker", "listenPort", "must be below 65535, as slaves connect to the port after it")
    seen: set[int] = set()
    for (table, name), port in ports.items():
        if port and port in seen:
            fail(table, name, f"is {port}, which another port of this process uses already")
        seen.add(port or 0)


def _check_tls(tls: TlsConfig, fail: Callable[[str, str, str], None]) -> None:
    for end in ("server", "client"):
        certificate, key = getattr(tls, f"{end}_cert_path"), getattr(tls, f"{end}_key_path")
        if (certificate is None) != (key is None):
            name, other = ("certPath", "keyPath") if certificate else ("keyPath", "certPath")
            fail("tls", f"tls.{end}.{name}", f"needs tls.{end}.{other} beside it")
    if tls.server_mode in ("permissive", "enforcing") and tls.server_cert_path is None:
        fail("tls", "tls.server.mode", f"is {tls.server_mode}, which needs tls.server.certPath and tls.server.keyPath")
    if tls.server_need_client_auth != "none" and tls.server_trust_cert_path is None:
        fail("tls", "tls.server.need.client.auth", "needs tls.server.trustCertPath to check certificates against")
    if tls.server_need_client_auth == "require" and tls.mode != "enforcing":
        missing = "tls.server.certPath is missing" if tls.server_mode is None else f"tls.server.mode is {tls.mode}"
        fail(
            "tls",
            "tls.server.need.client.auth",
            f"is require, but {missing}: clients without TLS could connect without a certificate; set"
            " tls.server.mode=enforcing with tls.server.certPath and tls.server.keyPath, or use optional",
        )


def _check_ops(configuration: Configuration, fail: Callable[[str, str, str], None]) -> None:
    try:
        place = configuration.ops.place(0)
        if place is not None and (place[1] > 65535 or not ipaddress.ip_address(place[0].replace("localhost", "::1"))):
            raise ValueError
    except ValueError:
        fail("ops", "opsListen", f"is {configuration.ops.ops_listen}, which is not an address to listen on")
    if configuration.ops.ops_certificate_scope != "none" and configuration.tls.server_need_client_auth == "none":
        fail("ops", "opsCertificateScope", "needs tls.server.need.client.auth, or no client presents a certificate")
