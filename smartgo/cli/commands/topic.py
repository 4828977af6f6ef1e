"""C{smartgo topic}: topics."""

from __future__ import annotations

from collections.abc import Collection

import click
import msgspec

from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    Columns,
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
    """One topic at one broker."""

    topic: str
    kind: TopicKind
    broker: str
    read_queues: int
    write_queues: int
    perm: str


class TopicChange(msgspec.Struct, frozen=True):
    """What a topic is to be at some brokers."""

    topic: str
    brokers: list[str]
    read_queues: int
    write_queues: int
    perm: str
    order: bool
    dry_run: bool


class QueueBounds(msgspec.Struct, frozen=True):
    """What one queue holds."""

    broker: str
    queue: int
    minimum: int
    maximum: int
    messages: int
    last_ms: int


def perm_text(perm: int) -> str:
    """Return a topic's permission in letters."""
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
@click.option("-a", "--all", "everything", is_flag=True, help="Also those of groups and of the system.")
@click.option("-f", "--filter", "part", default="", metavar="TEXT", help="Only topics whose name holds TEXT.")
@OUTPUT
@cluster_options
def ls(cluster: ClusterOptions, everything: bool, part: str, output: str) -> None:
    """List the topics that brokers have, a line for each broker of a topic."""

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
        print_rows(output, rows, columns, "There are no topics. The first message that is sent to a topic creates it.")

    cluster.do(work)


@topic.command("show", epilog=examples("smartgo topic show Orders", "smartgo topic show Orders -o yaml"))
@click.argument("name")
@OUTPUT
@cluster_options
def show(cluster: ClusterOptions, name: str, output: str) -> None:
    """Show the settings of topic NAME at each broker, what it holds, and who reads it."""

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
                "in order": lambda row: row[1].order,
            },
        )
        click.echo()
        print_members(
            TEXT,
            found,
            {
                "messages kept": found["messages"],
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
    """Show the bounds of each queue of topic NAME, and when its last message was stored."""

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
    """Show what the registry tells clients about topic NAME: its queues, and where their brokers are."""

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
    """List the groups that read topic NAME: subscribed now, or with positions in it."""

    async def work(session: ClusterSession) -> None:
        await session.admin.topics.route(name)
        found = [{"group": one} for one in await session.admin.topics.groups(name)]
        print_rows(output, found, {"group": lambda row: row["group"]}, f"Nobody reads {name}.")

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
    help="Queues at a broker.",
)
@click.option("--perm", type=click.Choice(list(PERMISSIONS)), default="rw", show_default=True, help="Read, write.")
@click.option("--order", is_flag=True, help="Its messages are to be consumed in order.")
@click.option("-b", "--broker", "brokers", multiple=True, metavar="NAME", help="At this broker alone; may be repeated.")
@click.option("--cluster", "cluster_name", metavar="NAME", help="At the brokers of this cluster alone.")
@click.option("--change", is_flag=True, help='Change a topic that exists, as "topic set" does.')
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
    """Create topic NAME at every broker that the registry knows, or at some."""

    async def work(session: ClusterSession) -> None:
        check_topic(name)
        topics = session.admin.topics
        if not change and name in await topics.names():
            raise SettingError(f"there is a topic {name}; --change gives it other settings")
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
@click.option("-n", "--queues", type=click.IntRange(1, QUEUE_LIMIT), help="Queues to read and write.")
@click.option("--read-queues", type=click.IntRange(0, QUEUE_LIMIT), help="Queues to read.")
@click.option("--write-queues", type=click.IntRange(0, QUEUE_LIMIT), help="Queues to write.")
@click.option("--perm", type=click.Choice(list(PERMISSIONS)), help="Read, write.")
@click.option("--order/--no-order", default=None, help="Whether its messages are to be consumed in order.")
@click.option("-b", "--broker", "brokers", multiple=True, metavar="NAME", help="At this broker alone; may be repeated.")
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
    """Change settings of topic NAME where it is; what is not given stays. Queues taken away keep their messages."""

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
            raise click.UsageError("nothing to change is given")
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
    """Give a topic settings, or say which it would get, and say so."""
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
    queues = str(config.read_queue_nums)
    if config.read_queue_nums != config.write_queue_nums:
        queues = f"{config.read_queue_nums} (read) and {config.write_queue_nums} (write)"
    verb = "would have" if dry_run else "has"
    click.echo(f"topic {config.topic_name} {verb} {queues} queues, {settings.perm}, at {', '.join(done)}")


@topic.command("rm", epilog=examples("smartgo topic rm Old --dry-run", "smartgo topic rm Old --yes"))
@click.argument("name")
@click.option("--cluster", "cluster_name", metavar="NAME", help="At the brokers of this cluster alone.")
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def rm(cluster: ClusterOptions, name: str, cluster_name: str | None, dry_run: bool, yes: bool, output: str) -> None:
    """Delete topic NAME with all its messages. Groups keep their positions in it."""

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
            read_by = f", read by {', '.join(readers)}" if readers else ""
            confirm(f"Topic {name} with {messages:,} messages{read_by} will be deleted.", yes)
            brokers = await topics.delete(name, cluster_name)
        found = {"topic": name, "brokers": brokers, "messages": messages, "groups": readers, "dry_run": dry_run}
        if output != TEXT:
            print_value(output, found)
        else:
            verb = "would be" if dry_run else "is"
            click.echo(f"topic {name} with {messages:,} messages {verb} deleted at {', '.join(brokers)}")

    cluster.do(work)
