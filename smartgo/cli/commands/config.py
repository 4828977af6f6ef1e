"""C{smartgo config}: show, change, check and describe settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click
import msgspec

from smartgo.cli.support.completions import broker_names
from smartgo.cli.support.configcheck import PROGRAMS, check_file
from smartgo.cli.support.output import OUTPUT, TEXT, Columns, counted, moment, print_rows, printable
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm, do
from smartgo.cli.support.texts import examples, read_pairs
from smartgo.client.admin import Admin
from smartgo.config.catalog import settings_of
from smartgo.config.reference import default_of
from smartgo.config.settings import TABLES
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import PeerRefused, SettingError
from smartgo.schema.codes import ResponseCode


class SettingRow(msgspec.Struct, frozen=True):
    """One setting of a process; C{value} as in a configuration file."""

    name: str
    value: str


class SettingDescriptionRow(msgspec.Struct, frozen=True):
    """The description of one setting."""

    table: str
    name: str
    other_names: list[str]
    default: str
    allowed: str
    meaning: str


_CHANGED: Final[Columns[dict[str, Any]]] = {
    "setting": lambda row: row["name"],
    "before": lambda row: row["before"],
    "after": lambda row: row["value"],
    "source": lambda row: f"{row['origin']} {row['place']}".rstrip(),
}
_HISTORY: Final[Columns[dict[str, Any]]] = {
    "id": lambda row: row["id"],
    "time": lambda row: moment(row["atMs"]),
    "by": lambda row: row["who"],
    "setting": lambda row: row["name"],
    "before": lambda row: row["before"],
    "after": lambda row: row["after"],
    "permanent": lambda row: row["kept"],
    "undone by": lambda row: row["undoneBy"],
}
_COLUMNS: Columns[SettingRow] = {"setting": lambda row: row.name, "value": lambda row: row.value}


@click.group(
    epilog=examples(
        "smartgo config show broker-a",
        "smartgo config set --api http://127.0.0.1:10913 brokerPermission=4 --dry-run",
        "smartgo config history",
        "smartgo config check /etc/smartgo/broker.conf",
        "smartgo config describe flushDiskType",
    )
)
def config() -> None:
    """Show and change settings of running brokers and registries, undo changes; check a file before it is used."""


@config.command(
    "show", epilog=examples("smartgo config show broker-a", "smartgo config show --server 10.0.0.1:9876 -o json")
)
@click.argument("broker", required=False, shell_complete=broker_names)
@click.option("--server", metavar="HOST:PORT", help="Address of a registry, instead of a broker.")
@click.option("-f", "--filter", "part", default="", metavar="TEXT", help="Only settings whose name contains TEXT.")
@OUTPUT
@cluster_options
def show(cluster: ClusterOptions, broker: str | None, server: str | None, part: str, output: str) -> None:
    """Show the settings of BROKER, a name or an address, or of a registry."""
    if (broker is None) == (server is None):
        raise click.UsageError("give a BROKER, or --server HOST:PORT of a registry")

    async def work(session: ClusterSession) -> None:
        if broker is not None:
            found = await session.admin.brokers.settings(broker)
        else:
            found = await session.admin.registries.settings(server or "")
        rows = [SettingRow(name, value) for name, value in sorted(found.items()) if part.lower() in name.lower()]
        print_rows(output, rows, _COLUMNS, f"No setting has {part!r} in its name.")

    cluster.do(work)


@config.command(
    "set",
    epilog=examples(
        "smartgo config set --api http://127.0.0.1:10913 brokerPermission=4 --dry-run",
        "smartgo config set --api http://127.0.0.1:10913 brokerPermission=4 --keep",
        "smartgo config set broker-a fileReservedTime=48 --dry-run",
        "smartgo config set --registries orderMessageEnable=true",
    ),
)
@click.argument("words", nargs=-1, required=True, metavar="[BROKER] NAME=VALUE...")
@click.option("--registries", is_flag=True, help="Change all registries instead of a broker.")
@click.option("--keep", is_flag=True, help="Keep the changes over restarts; needs --api.")
@DRY_RUN
@YES
@OUTPUT
@api_options
@cluster_options
def set_(
    cluster: ClusterOptions,
    rest: RestOptions,
    words: tuple[str, ...],
    registries: bool,
    keep: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Change settings of a running BROKER. Prints the previous values. Settings that need a restart are refused.

    smartgo's brokers and registries refuse changes over the remoting protocol, as they have no access control yet; over
    the REST API (--api) they accept them with an admin token. RocketMQ's accept them over the remoting protocol.
    """
    if rest.url is not None:
        changes = read_pairs(click.get_current_context(), click.Argument(["words"]), words)
        _set_over_api(rest, changes, keep, dry_run, yes, output)
        return
    if keep:
        raise click.UsageError("--keep needs --api")
    broker = "" if registries else words[0]
    changes = read_pairs(click.get_current_context(), click.Argument(["words"]), words if registries else words[1:])
    if not changes or "=" in broker:
        raise click.UsageError("give a BROKER, or --registries, and NAME=VALUE")

    async def work(session: ClusterSession) -> None:
        admin = session.admin
        before: dict[str, str] = {}
        if registries:
            for address in admin.registries.addresses:
                before = await admin.registries.settings(address)
        else:
            before = await admin.brokers.settings(broker)
        rows = [{"name": name, "before": before.get(name), "after": value} for name, value in changes.items()]
        for row in rows:
            if row["before"] is None:
                raise SettingError(f"unknown setting {row['name']}")
        if dry_run:
            # Nothing to change: refused where any change is refused, and done without effect elsewhere.
            await _change(admin, broker, {})
        else:
            where = "all registries" if registries else broker
            confirm(f"{', '.join(f'{name}={value}' for name, value in changes.items())} will be set at {where}.", yes)
            await _change(admin, broker, changes)
        print_rows(
            output,
            rows,
            {
                "setting": lambda row: row["name"],
                "before": lambda row: row["before"],
                "after": lambda row: row["after"],
            },
        )
        if output == TEXT and dry_run:
            click.echo("Dry run: nothing was changed.")

    cluster.do(work)


async def _change(admin: Admin, broker: str, changes: Mapping[str, str]) -> None:
    """Change settings of a broker; of all registries if C{broker} is empty."""
    try:
        if broker:
            await admin.brokers.change_settings(broker, changes)
        else:
            await admin.registries.change_settings(changes)
    except PeerRefused as refusal:
        if broker and refusal.code == ResponseCode.NO_PERMISSION:
            raise PeerRefused(
                refusal.code,
                f"{refusal.remark}; smartgo's REST API can change them: --api URL of that broker's own process; one of"
                " several nodes of smartgo dev has none until it is restarted with --ops=HOST:PORT for --ops=off",
            ) from None
        raise


async def _look_and_do(
    api: RestClient, method: str, path: str, body: Mapping[str, Any], when: str, dry_run: bool, yes: bool, output: str
) -> None:
    """Preview a change, ask for confirmation, make it. @param when: the end of the prompt's first sentence."""
    rows = await api.order(method, path, {**body, "dryRun": True})
    if not dry_run:
        named = ", ".join(f"{one['name']}={one['value']}" for one in rows)
        confirm(f"{named} will be set {when}.", yes)
        rows = await api.order(method, path, body)
    print_rows(output, rows, _CHANGED)
    if output == TEXT and dry_run:
        click.echo("Dry run: nothing was changed.")


def _set_over_api(
    rest: RestOptions, changes: Mapping[str, str], keep: bool, dry_run: bool, yes: bool, output: str
) -> None:
    async def work(api: RestClient) -> None:
        when = "permanently" if keep else "until the next start"
        await _look_and_do(api, "PATCH", "/config", {"changes": changes, "keep": keep}, when, dry_run, yes, output)

    rest.do(work)


@config.command(
    "history",
    epilog=examples("smartgo config history", "smartgo config history --setting brokerPermission -o json"),
)
@click.option("--setting", default="", metavar="NAME", help="Only changes of this setting.")
@click.option(
    "-n", "--count", type=click.IntRange(1, 200), default=50, show_default=True, help="Maximum number of rows."
)
@OUTPUT
@api_options
def history(rest: RestOptions, setting: str, count: int, output: str) -> None:
    """List the setting changes of a running process, newest first."""

    async def work(api: RestClient) -> None:
        rows = (await api.get("/config/history", limit=count, setting=setting))["items"]
        print_rows(output, rows, _HISTORY, "No setting has been changed.")

    rest.do(work)


@config.command("undo", epilog=examples("smartgo config undo 7 --dry-run", "smartgo config undo 7 --yes"))
@click.argument("id", type=click.IntRange(0))
@DRY_RUN
@YES
@OUTPUT
@api_options
def undo(rest: RestOptions, id: int, dry_run: bool, yes: bool, output: str) -> None:
    """Undo change ID of "smartgo config history". Prints the values before and after."""

    async def work(api: RestClient) -> None:
        await _look_and_do(api, "POST", f"/config/history/{id}/undo", {}, "again, as before", dry_run, yes, output)

    rest.do(work)


@config.command(
    "check",
    epilog=examples(
        "smartgo config check broker.conf",
        "smartgo config check smartgo.toml --for all --all -o json",
        "smartgo config check slave.toml --for slave",
    ),
)
@click.argument("path", metavar="FILE")
@click.option(
    "--for",
    "program",
    type=click.Choice(list(PROGRAMS)),
    default="broker",
    show_default=True,
    help='Check FILE as this program reads it; slave means "twistd smartgo-slave" (brokerRole=SLAVE, brokerId=1 by'
    " default).",
)
@click.option(
    "--given/--all", default=True, help="Show the settings that are given (the default), or all with their defaults."
)
@click.option(
    "--set",
    "flags",
    multiple=True,
    callback=read_pairs,
    metavar="NAME=VALUE",
    help="Set one setting, as on the command line; may be repeated.",
)
@OUTPUT
def check(path: str, program: str, given: bool, flags: Mapping[str, str], output: str) -> None:
    """Check FILE (smartgo TOML, or RocketMQ's broker.conf) without starting anything. Shows what the daemon would
    refuse, what it would warn of, settings without effect, and each value with its source.

    The exit status is 78 if the daemon would not start with FILE. Ports and the store may be in use.
    """

    async def work(env: IEnvironment) -> None:
        try:
            data = env.files.read(path)
        except OSError as error:
            raise SettingError(f"{path}: {error.strerror or error}") from None
        checked = check_file(env, PROGRAMS[program], path, data, flags)
        for sentence in checked.warnings:
            click.echo(f"warning: {printable(sentence)}", err=True)
        for sentence in checked.ignored:
            click.echo(f"no effect: {printable(sentence)}", err=True)
        if len(checked.errors) > 1:
            for wrong in checked.errors:
                click.echo(f"error: {printable(wrong)}", err=True)
            raise SettingError(f"{path}: {checked.program} would not start: {counted(len(checked.errors), 'error')}")
        if checked.errors:
            raise SettingError(checked.errors[0])
        print_rows(
            output,
            [row for row in checked.rows if not given or row.given],
            {
                "table": lambda row: row.table,
                "setting": lambda row: row.name,
                "value": lambda row: row.value,
                "source": lambda row: row.origin,
            },
            f"{path} sets nothing.",
        )
        if output == TEXT:
            click.echo(f"\n{checked.verdict(path)}")

    do(work)


@config.command("describe", epilog=examples("smartgo config describe", "smartgo config describe flush -o yaml"))
@click.argument("part", default="", metavar="[TEXT]")
@OUTPUT
def describe(part: str, output: str) -> None:
    """Describe all settings, or those whose name contains TEXT."""
    rows = [
        SettingDescriptionRow(
            table, one.name, list(one.kind.aliases), default_of(one).replace("``", ""), one.kind.allowed, one.about
        )
        for table in TABLES
        for one in settings_of(table)
        if part.lower() in one.name.lower()
    ]
    if not rows:
        raise CommandError(f"no setting has {part!r} in its name", MISSING)
    print_rows(
        output,
        rows,
        {
            "setting": lambda row: f"[{row.table}] {row.name}",
            "default": lambda row: row.default,
            "allowed": lambda row: row.allowed,
            "meaning": lambda row: row.meaning,
        },
    )
