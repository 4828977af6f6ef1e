"""C{smartgo client}: who is connected."""

from __future__ import annotations

import click

from smartgo.cli.output import OUTPUT, Columns, moment, print_rows
from smartgo.cli.running import MISSING, Refusal
from smartgo.cli.session import Cluster, Connected, cluster_options
from smartgo.cli.texts import examples
from smartgo.client.administration.clients import Member

_COLUMNS: Columns[Member] = {
    "client": lambda row: row.client_id,
    "role": lambda row: row.role,
    "group": lambda row: row.group,
    "address": lambda row: row.address,
    "language": lambda row: row.language,
    "version": lambda row: str(row.version),
    "brokers": lambda row: row.brokers,
    "last beat": lambda row: moment(row.last_beat_ms),
}


@click.group(
    epilog=examples("smartgo client ls", "smartgo client ls --group audit", "smartgo client show 10.0.0.1@4711")
)
def client() -> None:
    """See who is connected, as a producer or as a consumer."""


@client.command("ls", epilog=examples("smartgo client ls", "smartgo client ls --role producer -o json"))
@click.option("-g", "--group", metavar="NAME", help="Only members of this group.")
@click.option("--role", type=click.Choice(["producer", "consumer"]), help="Only these.")
@OUTPUT
@cluster_options
def ls(cluster: Cluster, group: str | None, role: str | None, output: str) -> None:
    """List the connected clients, a line for each group that one is in."""

    async def work(there: Connected) -> None:
        clients = there.admin.clients
        rows: list[Member] = []
        if role != "consumer":
            rows += [one for one in await clients.producers() if group in (None, one.group)]
        if role != "producer":
            rows += await clients.consumers(group)
        print_rows(output, rows, _COLUMNS, "Nobody is connected.")

    cluster.do(work)


@client.command("show", epilog=examples("smartgo client show 10.0.0.1@4711 -o yaml"))
@click.argument("client_id", metavar="CLIENT")
@OUTPUT
@cluster_options
def show(cluster: Cluster, client_id: str, output: str) -> None:
    """Show the groups that CLIENT is in. What it holds tells "smartgo group info GROUP CLIENT"."""

    async def work(there: Connected) -> None:
        rows = [one for one in await there.admin.clients.all() if one.client_id == client_id]
        if not rows:
            raise Refusal(f"no client {client_id} is connected", MISSING)
        print_rows(output, rows, _COLUMNS)

    cluster.do(work)
