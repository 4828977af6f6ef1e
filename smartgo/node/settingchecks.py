"""
The checks of settings that a start makes beyond reading them.

A start makes them one after another and ends with the first error; C{smartgo config check} makes all of them and shows
every error in the same words. What depends on the moment, such as a port or a store in use, is not among them.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence
from functools import partial

from smartgo.broker.cluster.advertisedaddress import AdvertisedAddress
from smartgo.broker.spans.sink import check_spans
from smartgo.config.findings import AllFindings
from smartgo.config.loading import Configuration
from smartgo.config.settings import OPS_PORT
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.net.tls import ClientCertificates, Mode
from smartgo.node.accesscontrol import is_enabled, own_key, rule_files
from smartgo.node.process import check_bind, client_tls, memory_budget, server_tls
from smartgo.tablefile import TableFile

Check = Callable[[], object]
"""Returns if the settings are fine. Raises L{SettingError} if they are not."""


def check_access_control(env: IEnvironment, configuration: Configuration) -> None:
    """
    Check the files of access control where it is on; blocking.

    @raise SettingError: one cannot be used, or a key of this process is not one of an administrator's in them.
    """
    key = own_key(env, configuration)
    if not is_enabled(configuration):
        return
    try:
        rules = rule_files(env, configuration).read()
    except SettingError as error:
        raise SettingError(f"aclEnable=true: {error}") from None
    ha = configuration.ha
    names = {"accessKey": None if key is None else key.access_key}
    if configuration.broker.acl_enable:
        names["haAccessKey"] = ha.ha_access_key
    for setting, name in names.items():
        account = None if name is None else rules.accounts.get(name)
        if name is not None and (account is None or not account.rights.admin):
            raise SettingError(
                f"aclEnable=true: the key of {setting} has to be an administrator's in the access control files"
            )


def access_notes(env: IEnvironment, configuration: Configuration) -> list[str]:
    """Return what has no effect in the files of access control, as the start logs it; blocking."""
    if not is_enabled(configuration):
        return []
    try:
        rules = rule_files(env, configuration).read()
    except SettingError:
        return []  # the start is refused, L{check_access_control} says why
    notes = list(rules.notes)
    if rules.name_certificates and configuration.tls.server_need_client_auth == ClientCertificates.NONE:
        notes.append("accounts name certificates, but no client is asked for one (tls.server.need.client.auth)")
    return [f"access control: {note}" for note in notes]


def broker_checks(env: IEnvironment, configuration: Configuration) -> list[Check]:
    """Return the checks of a broker's own settings."""
    config, ha = configuration.broker, configuration.ha
    guarded = config.allow_insecure or (config.acl_enable and ha.ha_access_key is not None)
    checks: list[Check] = [
        partial(check_access_control, env, configuration),
        partial(check_bind, config.bind_address, config.allow_insecure or config.acl_enable, "the broker"),
        partial(check_spans, configuration),
    ]
    if not config.is_slave:
        checks.append(partial(check_bind, ha.ha_bind_address, guarded, "the broker's port for slaves"))
    return checks


def registry_checks(env: IEnvironment, configuration: Configuration) -> list[Check]:
    """Return the checks of a registry's own settings."""
    config = configuration.registry
    return [
        partial(check_access_control, env, configuration),
        partial(check_bind, config.bind_address, config.allow_insecure or config.acl_enable, "the registry"),
    ]


def program_checks(
    env: IEnvironment, configuration: Configuration, tables: Sequence[str], serves_ops: bool
) -> list[Check]:
    """
    Return all checks that a program makes at its start, in its order.

    @param tables: the tables of its settings.
    @param serves_ops: whether it serves the REST API by default.
    """
    checks: list[Check] = []
    if "registry" in tables:
        checks += registry_checks(env, configuration)
    if "store" in tables:
        checks += broker_checks(env, configuration)
        checks.append(partial(AdvertisedAddress, env, configuration))
    checks.append(partial(server_tls, env, configuration.tls))
    checks.append(partial(client_tls, env, configuration.tls))
    checks.append(partial(memory_budget, env, configuration.limits))
    place = configuration.ops.place(_ops_port(configuration, tables))
    if "registry" not in tables and "store" not in tables:
        checks.append(partial(check_access_control, env, configuration))
    if place is not None or (serves_ops and configuration.ops.ops_listen is None):
        checks += _ops_checks(env, configuration, "registry" in tables, place or ("127.0.0.1", OPS_PORT))
    return checks


def _ops_port(configuration: Configuration, tables: Sequence[str]) -> int:
    if "store" in tables:
        return configuration.broker.listen_port + 2
    return configuration.registry.listen_port + 2 if "registry" in tables else OPS_PORT


def _ops_checks(
    env: IEnvironment, configuration: Configuration, with_registry: bool, place: tuple[str, int]
) -> list[Check]:
    from smartgo.node.ops import registries_named  # half a second of imports, for those alone who need it
    from smartgo.ops.alerts.senders import check_secrets
    from smartgo.ops.security.tokens import TokenTable, parse_configured
    from smartgo.ops.service import check_place

    config = configuration.ops
    entries = [one for one in config.ops_tokens.split(";") if one]

    def check_address() -> None:
        try:
            configured = parse_configured(entries)
        except SettingError:
            return  # the check before this one says so
        tokens = TokenTable(env, TableFile(env, posixpath.join(config.ops_path, "tokens.json")), configured)
        tokens.load()
        login_needed = tokens.any or is_enabled(configuration)
        check_place(place[0], login_needed, configuration.tls.mode != Mode.DISABLED, config)

    return [
        partial(registries_named, configuration, with_registry),
        partial(parse_configured, entries),
        partial(check_secrets, env, config.alert_receivers),
        check_address,
    ]


def make_all(checks: Sequence[Check], findings: AllFindings) -> None:
    """Make all checks, and collect their errors; an error in the same words counts once."""
    for check in checks:
        try:
            check()
        except SettingError as error:
            if str(error) not in map(str, findings.errors):
                findings.refuse(error)
