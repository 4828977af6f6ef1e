"""C{smartgo topic}: list, show, create, change and delete topics."""

from __future__ import annotations

from collections.abc import Collection

import click
import msgspec

from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    Columns,
    counted,
    moment,
    plain,
    print_members,
    print_rows,
    print_table,
    print_value,
)
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.client.administration.topics import DEFAULT_QUEUES, TopicKind, kind_of
from smartgo.client.internal.route import READ, WRITE
from smartgo.errors import PeerRefused, SettingError
from smartgo.schema.bodies import QueueData, TopicConfig, TopicStatsTable
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import check_topic

QUEUE_LIMIT = 1024
PERMISSIONS = {"rw": READ | WRITE, "r": READ, "w": WRITE}


class TopicRow(msgspec.Struct, frozen=True):
    """One topic at one broker: a row of C{smartgo topic ls}."""

    topic: str
    kind: TopicKind
    broker: str
    read_queues: int
    write_queues: int
    perm: str


class TopicChange(msgspec.Struct, frozen=True):
    """The result of C{smartgo topic create} or C{set}: the topic's settings at some brokers."""

    topic: str
    brokers: list[str]
    read_queues: int
    write_queues: int
    perm: str
    order: bool
    dry_run: bool


class QueueBounds(msgspec.Struct, frozen=True):
    """The offsets of one queue."""

    broker: str
    queue: int
    minimum: int
    maximum: int
    messages: int
    last_ms: int


def perm_text(perm: int) -> str:
    """Return a topic's permission as letters, such as C{rw}."""
    return ("r" if perm & READ else "-") + ("w" if perm & WRITE else "-")


@click.group(
    epilog=examples(
        "smartgo topic ls",
        "smartgo topic create Orders --queues 16",
        "smartgo topic stats Orders",
        "smartgo topic rm Orders --dry-run",
    )
)
def topic() -> None:
    """List, show, create, change and delete topics."""


@topic.command(
    "ls", epilog=examples("smartgo topic ls", "smartgo topic ls --all -o json", "smartgo topic ls --filter Ord")
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include retry, dead-letter and system topics.")
@click.option("-f", "--filter", "part", default="", metavar="TEXT", help="Only topics whose name contains TEXT.")
@OUTPUT
@cluster_options
def ls(cluster: ClusterOptions, everything: bool, part: str, output: str) -> None:
    """List the topics, one line for each broker of a topic."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        system = await topics.system_names()
        rows = [
            TopicRow(
                name,
                kind_of(name, system),
                broker,
                config.read_queue_nums,
                config.write_queue_nums,
                perm_text(config.perm),
            )
            for broker, table in (await topics.configs()).items()
            for name, config in table.items()
            if part in name
        ]
        rows = sorted(
            (row for row in rows if everything or row.kind is TopicKind.NORMAL), key=lambda row: (row.topic, row.broker)
        )
        columns: Columns[TopicRow] = {
            "topic": lambda row: row.topic,
            **({"kind": lambda row: row.kind.value} if everything else {}),
            "broker": lambda row: row.broker,
            "read queues": lambda row: row.read_queues,
            "write queues": lambda row: row.write_queues,
            "permission": lambda row: row.perm,
        }
        print_rows(output, rows, columns, "There are no topics. Sending a message to a topic creates it.")

    cluster.do(work)


@topic.command("show", epilog=examples("smartgo topic show Orders", "smartgo topic show Orders -o yaml"))
@click.argument("name")
@OUTPUT
@cluster_options
def show(cluster: ClusterOptions, name: str, output: str) -> None:
    """Show the settings of topic NAME at each broker, its number of messages, and its consumer groups."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        configs = await topics.config(name)
        if not configs:
            raise CommandError(f"there is no topic {name}", MISSING)
        bounds = _bounds(await topics.stats(name))
        groups = await topics.groups(name)
        found = {
            "topic": name,
            "brokers": {broker: plain(config) for broker, config in configs.items()},
            "messages": sum(one.messages for one in bounds),
            "last_ms": max((one.last_ms for one in bounds), default=0),
            "groups": groups,
        }
        if output != TEXT:
            print_value(output, found)
            return
        print_table(
            list(configs.items()),
            {
                "broker": lambda row: row[0],
                "read queues": lambda row: row[1].read_queue_nums,
                "write queues": lambda row: row[1].write_queue_nums,
                "permission": lambda row: perm_text(row[1].perm),
                "ordered": lambda row: row[1].order,
            },
        )
        click.echo()
        print_members(
            TEXT,
            found,
            {
                "messages": found["messages"],
                "last message": moment(max((one.last_ms for one in bounds), default=0)),
                "groups": groups,
            },
        )

    cluster.do(work)


@topic.command("stats", epilog=examples("smartgo topic stats Orders", "smartgo topic stats Orders -o jsonl"))
@click.argument("name")
@OUTPUT
@cluster_options
def stats(cluster: ClusterOptions, name: str, output: str) -> None:
    """Show the offset range of each queue of topic NAME, and when its last message was stored."""

    async def work(session: ClusterSession) -> None:
        rows = _bounds(await session.admin.topics.stats(name))
        print_rows(
            output,
            rows,
            {
                "broker": lambda row: row.broker,
                "queue": lambda row: row.queue,
                "first": lambda row: row.minimum,
                "end": lambda row: row.maximum,
                "messages": lambda row: row.messages,
                "last stored": lambda row: moment(row.last_ms),
            },
        )

    cluster.do(work)


def _bounds(found: TopicStatsTable) -> list[QueueBounds]:
    return [
        QueueBounds(
            queue.broker_name,
            queue.queue_id,
            one.min_offset,
            one.max_offset,
            one.max_offset - one.min_offset,
            one.last_update_timestamp,
        )
        for queue, one in sorted(found.offset_table.items())
    ]


@topic.command("route", epilog=examples("smartgo topic route Orders"))
@click.argument("name")
@OUTPUT
@cluster_options
def route(cluster: ClusterOptions, name: str, output: str) -> None:
    """Show the route of topic NAME as clients get it from the registry: queues and broker addresses."""

    async def work(session: ClusterSession) -> None:
        found = await session.admin.topics.route(name)
        if output != TEXT:
            print_value(output, plain(found))
            return
        places = {one.broker_name: one for one in found.broker_datas}

        def addresses(row: QueueData) -> list[str]:
            data = places.get(row.broker_name)
            ids = sorted(data.broker_addrs.items()) if data is not None else []
            return [f"{address} ({'master' if number == 0 else f'slave {number}'})" for number, address in ids]

        print_table(
            sorted(found.queue_datas, key=lambda row: row.broker_name),
            {
                "broker": lambda row: row.broker_name,
                "read queues": lambda row: row.read_queue_nums,
                "write queues": lambda row: row.write_queue_nums,
                "permission": lambda row: perm_text(row.perm),
                "addresses": addresses,
            },
        )

    cluster.do(work)


@topic.command("groups", epilog=examples("smartgo topic groups Orders"))
@click.argument("name")
@OUTPUT
@cluster_options
def groups(cluster: ClusterOptions, name: str, output: str) -> None:
    """List the groups of topic NAME: those subscribed now, and those with offsets in it."""

    async def work(session: ClusterSession) -> None:
        await session.admin.topics.route(name)
        found = [{"group": one} for one in await session.admin.topics.groups(name)]
        print_rows(output, found, {"group": lambda row: row["group"]}, f"No group consumes {name}.")

    cluster.do(work)


@topic.command(
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
@DRY_RUN
@OUTPUT
@cluster_options
def create(
    cluster: ClusterOptions,
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

    cluster.do(work)


@topic.command(
    "set",
    epilog=examples(
        "smartgo topic set Orders --queues 32",
        "smartgo topic set Orders --write-queues 8 --broker broker-a",
        "smartgo topic set Orders --perm r --dry-run",
    ),
)
@click.argument("name")
@click.option("-n", "--queues", type=click.IntRange(1, QUEUE_LIMIT), help="Number of read queues and of write queues.")
@click.option("--read-queues", type=click.IntRange(0, QUEUE_LIMIT), help="Number of read queues.")
@click.option("--write-queues", type=click.IntRange(0, QUEUE_LIMIT), help="Number of write queues.")
@click.option("--perm", type=click.Choice(list(PERMISSIONS)), help="Permission: read, write.")
@click.option("--order/--no-order", default=None, help="Mark the topic as ordered, or not.")
@click.option("-b", "--broker", "brokers", multiple=True, metavar="NAME", help="Only at this broker; may be repeated.")
@DRY_RUN
@OUTPUT
@cluster_options
def set_(
    cluster: ClusterOptions,
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

    cluster.do(work)


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
    click.echo(f"topic {config.topic_name} {verb} {queues}, permission {settings.perm}, at {', '.join(done)}")


@topic.command("rm", epilog=examples("smartgo topic rm Old --dry-run", "smartgo topic rm Old --yes"))
@click.argument("name")
@click.option("--cluster", "cluster_name", metavar="NAME", help="Only at the brokers of this cluster.")
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def rm(cluster: ClusterOptions, name: str, cluster_name: str | None, dry_run: bool, yes: bool, output: str) -> None:
    """Delete topic NAME with all its messages. Groups keep their offsets in it."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        try:
            bounds = _bounds(await topics.stats(name))
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

    cluster.do(work)
