"""C{smartgo topic}: topics."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

from smartgo.cli.running import examples, run
from smartgo.client.admin import Admin
from smartgo.client.administration.topics import DEFAULT_QUEUES
from smartgo.client.instance import Client
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import PeerRefused, SettingError
from smartgo.schema.bodies import TopicRouteData
from smartgo.schema.codes import ResponseCode
from smartgo.schema.topics import is_system

REGISTRY = click.option(
    "-r",
    "--registry",
    default="127.0.0.1:9876",
    show_default=True,
    envvar="NAMESRV_ADDR",
    show_envvar=True,
    metavar="HOST:PORT",
    help="The registry to ask; several with semicolons between them.",
)
OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)


class Row(NamedTuple):
    """One topic at one broker."""

    topic: str
    broker: str
    read_queues: int
    write_queues: int
    perm: str


@click.group(
    short_help="List and create topics.", epilog=examples("smartgo topic ls", "smartgo topic create Orders --queues 16")
)
def topic() -> None:
    """List and create topics."""


@topic.command("ls", short_help="List topics.", epilog=examples("smartgo topic ls", "smartgo topic ls --all -o json"))
@click.option("-a", "--all", "everything", is_flag=True, help="Also those that belong to the system.")
@REGISTRY
@OUTPUT
@click.pass_obj
def ls(verbose: bool, everything: bool, registry: str, output: str) -> None:
    """List the topics that brokers have registered, a line for each broker of a topic."""

    async def work(env: IEnvironment) -> None:
        client = Client(env, registry)
        try:
            admin = Admin(client)
            rows: list[Row] = []
            own = await _system_names(admin)
            for name in await admin.topics.names():
                if everything or not (is_system(name) or name in own or name.startswith("%")):
                    try:
                        rows += _rows(name, await admin.topics.route(name))
                    except PeerRefused as refusal:
                        if refusal.code != ResponseCode.TOPIC_NOT_EXIST:  # deleted since
                            raise
        finally:
            await client.stop()
        _print(rows, output)

    run(work, verbose)


async def _system_names(admin: Admin) -> set[str]:
    """Topics that brokers create for themselves, named after them and their clusters."""
    cluster = await admin.brokers.cluster()
    names = set(cluster.broker_addr_table)
    for name in cluster.cluster_addr_table:
        names |= {name, f"{name}_REPLY_TOPIC"}
    return names


def _rows(name: str, route: TopicRouteData) -> Iterable[Row]:
    for one in sorted(route.queue_datas, key=lambda one: one.broker_name):
        perm = ("r" if one.perm & 4 else "-") + ("w" if one.perm & 2 else "-")
        yield Row(name, one.broker_name, one.read_queue_nums, one.write_queue_nums, perm)


def _print(rows: list[Row], output: str) -> None:
    if output == "json":
        click.echo(json.dumps([row._asdict() for row in rows]))
        return
    if not rows:
        click.echo("There are no topics. The first message that is sent to a topic creates it.")
        return
    table = Table("topic", "broker", box=None)
    for heading in ("read queues", "write queues"):
        table.add_column(heading, justify="right")
    table.add_column("permission")
    for row in rows:
        table.add_row(row.topic, row.broker, str(row.read_queues), str(row.write_queues), row.perm)
    Console().print(table)


@topic.command(
    "create",
    short_help="Create a topic.",
    epilog=examples("smartgo topic create Orders", "smartgo topic create Orders --queues 16 --broker broker-a"),
)
@click.argument("name")
@click.option(
    "-n",
    "--queues",
    type=click.IntRange(1, 1024),
    default=DEFAULT_QUEUES,
    show_default=True,
    help="Queues at a broker.",
)
@click.option("-b", "--broker", metavar="NAME", help="At this broker alone.")
@click.option("--change", is_flag=True, help="Change a topic that exists; queues taken away keep their messages.")
@REGISTRY
@click.pass_obj
def create(verbose: bool, name: str, queues: int, broker: str | None, change: bool, registry: str) -> None:
    """Create a topic at every broker that the registry knows, or at one."""

    async def work(env: IEnvironment) -> None:
        client = Client(env, registry)
        try:
            admin = Admin(client)
            if not change and name in await admin.topics.names():
                raise SettingError(f"there is a topic {name}; --change gives it another number of queues")
            brokers = await admin.topics.create(name, queues, brokers=[broker] if broker else None)
        finally:
            await client.stop()
        click.echo(f"topic {name} has {queues} queues at {', '.join(brokers)}")

    run(work, verbose)
