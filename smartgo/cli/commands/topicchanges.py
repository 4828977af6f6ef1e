"""C{smartgo topic create}, C{set} and C{rm}."""

from __future__ import annotations

from collections.abc import Collection

import click
import msgspec

from smartgo.cli.support.completions import topic_names
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
from smartgo.cli.support.topicfields import perm_text, queue_bounds
from smartgo.cli.support.wholechanges import ChangingOptions, changing_options
from smartgo.client.administration.topics import DEFAULT_QUEUES
from smartgo.client.internal.route import READ, WRITE
from smartgo.errors import PeerRefused, SettingError
from smartgo.schema.bodies import TopicConfig
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import NO_TOPIC_RETENTION, check_topic

QUEUE_LIMIT = 1024
PERMISSIONS = {"rw": READ | WRITE, "r": READ, "w": WRITE}


class TopicChange(msgspec.Struct, frozen=True):
    """The result of C{smartgo topic create} or C{set}: the topic's settings at some brokers."""

    topic: str
    brokers: list[str]
    read_queues: int
    write_queues: int
    perm: str
    order: bool
    dry_run: bool


def _refuse_retention(context: click.Context, option: click.Parameter, value: str | None) -> None:
    if value is not None:
        raise CommandError(NO_TOPIC_RETENTION, 2)


_RETENTION = click.option(
    "--retention",
    hidden=True,
    expose_value=False,
    callback=_refuse_retention,
    help="Refused: there is no retention by topic.",
)
"""Nobody can set it: whoever tries learns why."""


@click.command(
    "create",
    epilog=examples(
        "smartgo topic create Orders",
        "smartgo topic create Orders --queues 16 --broker broker-a",
        "smartgo topic create Audit --perm r --dry-run",
    ),
)
@click.argument("name")
@click.option(
    "-n",
    "--queues",
    type=click.IntRange(1, QUEUE_LIMIT),
    default=DEFAULT_QUEUES,
    show_default=True,
    help="Number of queues at each broker.",
)
@click.option(
    "--perm", type=click.Choice(list(PERMISSIONS)), default="rw", show_default=True, help="Permission: read, write."
)
@click.option("--order", is_flag=True, help="Mark the topic as ordered.")
@click.option("-b", "--broker", "brokers", multiple=True, metavar="NAME", help="Only at this broker; may be repeated.")
@click.option("--cluster", "cluster_name", metavar="NAME", help="Only at the brokers of this cluster.")
@click.option("--change", is_flag=True, help='Change the topic if it exists, as "topic set" does.')
@_RETENTION
@DRY_RUN
@OUTPUT
@changing_options
def create(
    cluster: ChangingOptions,
    name: str,
    queues: int,
    perm: str,
    order: bool,
    brokers: tuple[str, ...],
    cluster_name: str | None,
    change: bool,
    dry_run: bool,
    output: str,
) -> None:
    """Create topic NAME at every registered broker, or at those of --broker or --cluster."""

    async def work(session: ClusterSession) -> None:
        check_topic(name)
        topics = session.admin.topics
        if not change and name in await topics.names():
            raise SettingError(f"topic {name} exists already; to change its settings add --change")
        config = TopicConfig(
            topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=PERMISSIONS[perm], order=order
        )
        await _settle(session, config, brokers, cluster_name, dry_run, output)

    cluster.do(work, brokers, cluster_name)


@click.command(
    "set",
    epilog=examples(
        "smartgo topic set Orders --queues 32",
        "smartgo topic set Orders --write-queues 8 --broker broker-a",
        "smartgo topic set Orders --perm r --dry-run",
    ),
)
@click.argument("name", shell_complete=topic_names)
@click.option("-n", "--queues", type=click.IntRange(1, QUEUE_LIMIT), help="Number of read queues and of write queues.")
@click.option("--read-queues", type=click.IntRange(0, QUEUE_LIMIT), help="Number of read queues.")
@click.option("--write-queues", type=click.IntRange(0, QUEUE_LIMIT), help="Number of write queues.")
@click.option("--perm", type=click.Choice(list(PERMISSIONS)), help="Permission: read, write.")
@click.option("--order/--no-order", default=None, help="Mark the topic as ordered, or not.")
@click.option("-b", "--broker", "brokers", multiple=True, metavar="NAME", help="Only at this broker; may be repeated.")
@_RETENTION
@DRY_RUN
@OUTPUT
@changing_options
def set_(
    cluster: ChangingOptions,
    name: str,
    queues: int | None,
    read_queues: int | None,
    write_queues: int | None,
    perm: str | None,
    order: bool | None,
    brokers: tuple[str, ...],
    dry_run: bool,
    output: str,
) -> None:
    """Change settings of topic NAME; settings that are not given stay. Removed queues keep their messages."""

    async def work(session: ClusterSession) -> None:
        found = await session.admin.topics.config(name)
        if not found:
            raise CommandError(f"there is no topic {name}", MISSING)
        changes = {
            "read_queue_nums": read_queues if read_queues is not None else queues,
            "write_queue_nums": write_queues if write_queues is not None else queues,
            "perm": PERMISSIONS[perm] if perm else None,
            "order": order,
        }
        given = {member: value for member, value in changes.items() if value is not None}
        if not given:
            raise click.UsageError("give at least one setting to change")
        for broker, config in found.items():
            if brokers and broker not in brokers:
                continue
            await _settle(session, msgspec.structs.replace(config, **given), [broker], None, dry_run, output)

    cluster.do(work, brokers)


async def _settle(
    session: ClusterSession,
    config: TopicConfig,
    brokers: Collection[str],
    cluster: str | None,
    dry_run: bool,
    output: str,
) -> None:
    """Create or change a topic, or in a dry run only show the result; print it."""
    if dry_run:
        info = await session.admin.brokers.places()
        names = sorted({one.name for one in info if one.id == 0 and cluster in (None, one.cluster)})
        done = [one for one in names if not brokers or one in brokers]
    else:
        done = await session.admin.topics.update(config, brokers or None, cluster)
    settings = TopicChange(
        config.topic_name,
        done,
        config.read_queue_nums,
        config.write_queue_nums,
        perm_text(config.perm),
        config.order,
        dry_run,
    )
    if output != TEXT:
        print_value(output, plain(settings))
        return
    queues = counted(config.read_queue_nums, "queue")
    if config.read_queue_nums != config.write_queue_nums:
        queues = f"{config.read_queue_nums} read and {counted(config.write_queue_nums, 'write queue')}"
    verb = "would have" if dry_run else "has"
    places = f"at {'each of ' if len(done) > 1 else ''}{', '.join(done)}"
    click.echo(f"topic {config.topic_name} {verb} {queues}, permission {settings.perm}, {places}")


@click.command("rm", epilog=examples("smartgo topic rm Old --dry-run", "smartgo topic rm Old --yes"))
@click.argument("name", shell_complete=topic_names)
@click.option("--cluster", "cluster_name", metavar="NAME", help="Only at the brokers of this cluster.")
@DRY_RUN
@YES
@OUTPUT
@changing_options
def rm(cluster: ChangingOptions, name: str, cluster_name: str | None, dry_run: bool, yes: bool, output: str) -> None:
    """Delete topic NAME with all its messages. Groups keep their offsets in it."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        try:
            bounds = queue_bounds(await topics.stats(name))
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                raise CommandError(f"there is no topic {name}", MISSING) from None
            raise
        readers = await topics.groups(name)
        messages = sum(one.messages for one in bounds)
        brokers = sorted({one.broker for one in bounds})
        if not dry_run:
            read_by = f", consumed by {', '.join(readers)}," if readers else ""
            confirm(f"Topic {name} with {counted(messages, 'message')}{read_by} will be deleted.", yes)
            brokers = await topics.delete(name, cluster_name)
        found = {"topic": name, "brokers": brokers, "messages": messages, "groups": readers, "dry_run": dry_run}
        if output != TEXT:
            print_value(output, found)
        else:
            verb = "would be" if dry_run else "was"
            click.echo(f"topic {name} with {counted(messages, 'message')} {verb} deleted at {', '.join(brokers)}")

    cluster.do(work, cluster=cluster_name)
