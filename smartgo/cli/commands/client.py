"""C{smartgo client}: list connected clients and close their connections."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote, urlencode

import click

from smartgo.cli.support.completions import group_names
from smartgo.cli.support.output import OUTPUT, TEXT, Columns, moment, print_rows, print_value
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import YES, ClusterSession, confirm
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.administration.clients import GroupMember

_COLUMNS: Columns[GroupMember] = {
    "client": lambda row: row.client_id,
    "role": lambda row: row.role,
    "group": lambda row: row.group,
    "address": lambda row: row.address,
    "language": lambda row: row.language,
    "version": lambda row: str(row.version),
    "brokers": lambda row: row.brokers,
    "last heartbeat": lambda row: moment(row.last_beat_ms),
}


_CLOSED: Final[Columns[dict[str, Any]]] = {
    "broker": lambda row: row["broker"],
    "address": lambda row: row["address"],
    "producer groups": lambda row: row["producerGroups"],
    "consumer groups": lambda row: row["consumerGroups"],
}


@click.group(
    epilog=examples(
        "smartgo client ls",
        "smartgo client ls --group audit",
        "smartgo client show 10.0.0.1@4711",
        "smartgo client close 10.0.0.1@4711 --reason 'hangs since noon'",
    )
)
def client() -> None:
    """List connected producers and consumers; close a client's connections."""


@client.command("ls", epilog=examples("smartgo client ls", "smartgo client ls --role producer -o json"))
@click.option("-g", "--group", metavar="NAME", shell_complete=group_names, help="Only members of this group.")
@click.option("--role", type=click.Choice(["producer", "consumer"]), help="Only producers, or only consumers.")
@OUTPUT
@reading_options
def ls(cluster: ReadingOptions, group: str | None, role: str | None, output: str) -> None:
    """List the connected clients, one line for each group of a client."""

    async def work(session: ClusterSession) -> None:
        clients = session.admin.clients
        rows: list[GroupMember] = []
        if role != "consumer":
            rows += [one for one in await clients.producers() if group in (None, one.group)]
        if role != "producer":
            rows += await clients.consumers(group)
        print_rows(output, rows, _COLUMNS, cluster.nothing("No client is connected."))

    cluster.do(work)


@client.command("show", epilog=examples("smartgo client show 10.0.0.1@4711 -o yaml"))
@click.argument("client_id", metavar="CLIENT")
@OUTPUT
@reading_options
def show(cluster: ReadingOptions, client_id: str, output: str) -> None:
    """Show the groups that CLIENT is in. To see its queues, run "smartgo group info GROUP CLIENT"."""

    async def work(session: ClusterSession) -> None:
        rows = [one for one in await session.admin.clients.all() if one.client_id == client_id]
        if not rows:
            raise CommandError(f"no client {client_id} is connected", MISSING)
        print_rows(output, rows, _COLUMNS)

    cluster.do(work)


@client.command(
    "close",
    epilog=examples(
        "smartgo client close 10.0.0.1@4711 --reason 'hangs since noon'",
        "smartgo client close 10.0.0.1@4711 --api https://broker-b:10913 --yes",
    ),
)
@click.argument("client_id", metavar="CLIENT")
@click.option("--reason", default="", metavar="TEXT", help="Reason, for the audit log and the broker's log.")
@YES
@OUTPUT
@api_options
def close(rest: RestOptions, client_id: str, reason: str, yes: bool, output: str) -> None:
    """Close the connections of CLIENT to the broker that --api belongs to.

    CLIENT is not notified and reconnects by itself, as after any lost connection. Connections to other brokers stay
    open; the command names those brokers: use the REST API of each.
    """

    async def work(api: RestClient) -> None:
        confirm(f"The connections of {client_id} will be closed.", yes)
        query = f"?{urlencode({'reason': reason})}" if reason else ""
        done = await api.order("DELETE", f"/clients/{quote(client_id, safe='')}{query}")
        if output != TEXT:
            print_value(output, done)
            return
        print_rows(output, done["connections"], _CLOSED)
        if done["elsewhere"]:
            click.echo(f"Still connected to {', '.join(done['elsewhere'])}: use --api with the REST API of each.")

    rest.do(work)
