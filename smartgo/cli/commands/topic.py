"""C{smartgo topic}: list, show, create, change and delete topics."""

from __future__ import annotations

import click
import msgspec

from smartgo.cli.commands.topicchanges import create, rm, set_
from smartgo.cli.commands.topicempty import empty
from smartgo.cli.support.completions import topic_names
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
from smartgo.cli.support.session import ClusterSession
from smartgo.cli.support.texts import examples
from smartgo.cli.support.topicfields import perm_text, queue_bounds
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.schema.bodies import QueueData


class TopicListRow(msgspec.Struct, frozen=True):
    """One topic at one broker: a row of C{smartgo topic ls}."""

    topic: str
    kind: TopicKind
    broker: str
    read_queues: int
    write_queues: int
    perm: str


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
@reading_options
def ls(cluster: ReadingOptions, everything: bool, part: str, output: str) -> None:
    """List the topics, one line for each broker of a topic."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        system = await topics.system_names()
        rows = [
            TopicListRow(
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
        columns: Columns[TopicListRow] = {
            "topic": lambda row: row.topic,
            **({"kind": lambda row: row.kind.value} if everything else {}),
            "broker": lambda row: row.broker,
            "read queues": lambda row: row.read_queues,
            "write queues": lambda row: row.write_queues,
            "permission": lambda row: row.perm,
        }
        print_rows(
            output, rows, columns, cluster.nothing("There are no topics. Sending a message to a topic creates it.")
        )

    cluster.do(work)


@topic.command("show", epilog=examples("smartgo topic show Orders", "smartgo topic show Orders -o yaml"))
@click.argument("name", shell_complete=topic_names)
@OUTPUT
@reading_options
def show(cluster: ReadingOptions, name: str, output: str) -> None:
    """Show the settings of topic NAME at each broker, its number of messages, and its consumer groups."""

    async def work(session: ClusterSession) -> None:
        topics = session.admin.topics
        configs = await topics.config(name)
        if not configs:
            raise CommandError(f"there is no topic {name}", MISSING)
        bounds = queue_bounds(await topics.stats(name))
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
@click.argument("name", shell_complete=topic_names)
@OUTPUT
@reading_options
def stats(cluster: ReadingOptions, name: str, output: str) -> None:
    """Show the offset range of each queue of topic NAME, and when its last message was stored."""

    async def work(session: ClusterSession) -> None:
        rows = queue_bounds(await session.admin.topics.stats(name))
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


@topic.command("route", epilog=examples("smartgo topic route Orders"))
@click.argument("name", shell_complete=topic_names)
@OUTPUT
@reading_options
def route(cluster: ReadingOptions, name: str, output: str) -> None:
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
@click.argument("name", shell_complete=topic_names)
@OUTPUT
@reading_options
def groups(cluster: ReadingOptions, name: str, output: str) -> None:
    """List the groups of topic NAME: those subscribed now, and those with offsets in it."""

    async def work(session: ClusterSession) -> None:
        await session.admin.topics.route(name)
        found = [{"group": one} for one in await session.admin.topics.groups(name)]
        print_rows(output, found, {"group": lambda row: row["group"]}, cluster.nothing(f"No group consumes {name}."))

    cluster.do(work)


for _command in (create, set_, empty, rm):
    topic.add_command(_command)
