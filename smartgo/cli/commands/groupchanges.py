"""C{smartgo group create}, C{set} and C{rm}."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import msgspec

from smartgo.cli.support.completions import group_names
from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    counted,
    plain,
    print_value,
)
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterSession, confirm
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholechanges import ChangingOptions, changing_options
from smartgo.errors import SettingError
from smartgo.schema.bodies import SubscriptionGroupConfig
from smartgo.schema.topics import check_group


class GroupChange(msgspec.Struct, frozen=True):
    """The result of C{smartgo group create} or C{set}: the group's settings at some brokers."""

    group: str
    brokers: list[str]
    config: SubscriptionGroupConfig
    dry_run: bool


_SETTINGS = (
    click.option("--consume/--no-consume", default=None, help="Allow the group to consume, or not."),
    click.option("--broadcast/--no-broadcast", default=None, help="Allow broadcasting, or not."),
    click.option(
        "--retries",
        type=click.IntRange(-1),
        help="Redeliveries before a message becomes a dead letter; -1 for no limit. Only for clients that do not send"
        " a number of their own: those of version 3.4.9 and later send 16 unless they are set otherwise.",
    ),
    click.option(
        "--retry-queues",
        type=click.IntRange(0, 1024),
        help="Queues of its retry topic; 0: failed messages are dropped.",
    ),
    click.option(
        "--read-from", type=click.IntRange(0), metavar="ID", help="Id of the broker to read from; 0 is the master."
    ),
    click.option(
        "--slow-read-from", type=click.IntRange(0), metavar="ID", help="Id of the broker to read old messages from."
    ),
    click.option("--notify/--no-notify", default=None, help="Notify members when others join or leave."),
    click.option(
        "-b", "--broker", "brokers", multiple=True, metavar="NAME", help="Only at this broker; may be repeated."
    ),
)


def _settings(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_SETTINGS):
        function = option(function)
    return function


def _changes(
    consume: bool | None,
    broadcast: bool | None,
    retries: int | None,
    retry_queues: int | None,
    read_from: int | None,
    slow_read_from: int | None,
    notify: bool | None,
) -> dict[str, object]:
    changes = {
        "consume_enable": consume,
        "consume_broadcast_enable": broadcast,
        "retry_max_times": retries,
        "retry_queue_nums": retry_queues,
        "broker_id": read_from,
        "which_broker_when_consume_slowly": slow_read_from,
        "notify_consumer_ids_changed_enable": notify,
    }
    return {name: value for name, value in changes.items() if value is not None}


@click.command(
    "create", epilog=examples("smartgo group create audit", "smartgo group create audit --retries 3 --broker broker-a")
)
@click.argument("name")
@_settings
@DRY_RUN
@OUTPUT
@changing_options
def create(
    cluster: ChangingOptions, name: str, brokers: tuple[str, ...], dry_run: bool, output: str, **given: Any
) -> None:
    """Create group NAME at every broker, or at those of --broker. Not needed if brokers create groups automatically."""

    async def work(session: ClusterSession) -> None:
        check_group(name)
        if await session.admin.groups.config(name):
            raise SettingError(f"group {name} exists already; to change it: smartgo group set {name}")
        config = msgspec.structs.replace(SubscriptionGroupConfig(group_name=name), **_changes(**given))
        masters = {one.name for one in await session.admin.brokers.places() if one.id == 0}
        names = sorted(brokers or masters)
        await _settle(session, config, names, dry_run, output)
        _tell_of_retries(name, given, output)

    cluster.do(work, brokers)


@click.command("set", epilog=examples("smartgo group set audit --retries 3", "smartgo group set audit --no-consume"))
@click.argument("name", shell_complete=group_names)
@_settings
@DRY_RUN
@OUTPUT
@changing_options
def set_(
    cluster: ChangingOptions, name: str, brokers: tuple[str, ...], dry_run: bool, output: str, **given: Any
) -> None:
    """Change settings of group NAME at the brokers that have it; other settings stay."""

    async def work(session: ClusterSession) -> None:
        found = await session.admin.groups.config(name)
        if not found:
            raise CommandError(f"there is no group {name}", MISSING)
        changes = _changes(**given)
        if not changes:
            raise click.UsageError("give at least one setting to change")
        for broker, config in found.items():
            if not brokers or broker in brokers:
                await _settle(session, msgspec.structs.replace(config, **changes), [broker], dry_run, output)
        _tell_of_retries(name, given, output)

    cluster.do(work, brokers)


def _tell_of_retries(name: str, given: dict[str, Any], output: str) -> None:
    """Say that clients decide about retries, where the group's number was given."""
    if given.get("retries") is not None and output == TEXT:
        click.echo(
            "Clients that send their own maxReconsumeTimes (version 3.4.9 and later; 16 unless set) override the"
            f' retries of a group; "smartgo group members {name}" shows what each sends.',
            err=True,
        )


async def _settle(
    session: ClusterSession, config: SubscriptionGroupConfig, brokers: list[str], dry_run: bool, output: str
) -> None:
    if not dry_run:
        await session.admin.groups.update(config, brokers)
    if output != TEXT:
        print_value(output, plain(GroupChange(config.group_name, brokers, config, dry_run)))
        return
    verb = "would be" if dry_run else "was"
    click.echo(f"group {config.group_name} {verb} set at {', '.join(brokers)}")


@click.command("rm", epilog=examples("smartgo group rm old --dry-run", "smartgo group rm old --yes"))
@click.argument("name", shell_complete=group_names)
@click.option("--keep-positions", is_flag=True, help="Keep its offsets: a new group of that name continues at them.")
@click.option("--keep-topics", is_flag=True, help="Keep its retry and dead-letter topics.")
@DRY_RUN
@YES
@OUTPUT
@changing_options
def rm(
    cluster: ChangingOptions, name: str, keep_positions: bool, keep_topics: bool, dry_run: bool, yes: bool, output: str
) -> None:
    """Delete group NAME: its settings, its offsets, and its retry and dead-letter topics."""

    async def work(session: ClusterSession) -> None:
        groups = session.admin.groups
        brokers = list(await groups.config(name))
        if not brokers:
            raise CommandError(f"there is no group {name}", MISSING)
        connection = await groups.connections(name)
        online = len(connection.connection_set) if connection is not None else 0
        if online:
            raise CommandError(
                f"group {name} has {counted(online, 'connected member')}; stop them first, or they create it again"
            )
        if not dry_run:
            confirm(f"Group {name} will be deleted.", yes)
            brokers = await groups.delete(name, positions=not keep_positions, topics=not keep_topics)
        found = {"group": name, "brokers": brokers, "positions": not keep_positions, "topics": not keep_topics}
        if output != TEXT:
            print_value(output, {**found, "dry_run": dry_run})
        else:
            click.echo(f"group {name} {'would be' if dry_run else 'was'} deleted at {', '.join(brokers)}")

    cluster.do(work)
