"""C{smartgo tx}: transactions: list and show them, resume the check-backs of those that were given up."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from smartgo.cli.support.completions import topic_names
from smartgo.cli.support.output import OUTPUT, counted, moment, print_members, print_rows, span
from smartgo.cli.support.session import ClusterOptions, ClusterSession, cluster_options
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.administration.transactions import TransactionSelection
from smartgo.schema.bodies import TransactionEntry, TransactionTable

_WORDS: Final = {"givenUp": "given up", "rolledBack": "rolled back"}


class TransactionLine(msgspec.Struct, frozen=True, rename="camel"):
    """
    One transaction, as it is printed for programs.

    @ivar born_ms: when its producer made it; C{given_up_ms}: when it was given up, C{None}: it was not.
    @ivar check_limit: check-backs after which it is given up; C{producers}: connected ones of the group.
    """

    id: str
    state: str
    broker: str
    group: str
    topic: str
    offset_id: str
    queue_offset: int
    born_ms: int
    given_up_ms: int | None
    checks: int
    check_limit: int
    producers: int


def _line(broker: str, one: TransactionEntry, table: TransactionTable) -> TransactionLine:
    return TransactionLine(
        one.id,
        one.state,
        broker,
        one.group,
        one.topic,
        one.offset_id,
        one.queue_offset,
        one.born,
        one.given_up or None,
        one.checks,
        table.limit,
        one.producers,
    )


@click.group(
    epilog=examples("smartgo tx ls", "smartgo tx ls --given-up", "smartgo tx resume 7F0000010000277E0000000000000190")
)
def tx() -> None:
    """List undecided transactions, and resume the checks of those that were given up."""


@tx.command("ls", epilog=examples("smartgo tx ls", "smartgo tx ls --group orders-producer", "smartgo tx ls --given-up"))
@click.option("--group", metavar="GROUP", default="", help="Only those of this producer group.")
@click.option(
    "--topic", metavar="TOPIC", default="", shell_complete=topic_names, help="Only those whose message is for TOPIC."
)
@click.option("--given-up", is_flag=True, help="Those that were given up, newest first, and what became of them.")
@click.option(
    "-n", "--count", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Maximum number for a broker."
)
@OUTPUT
@reading_options
def ls(cluster: ReadingOptions, group: str, topic: str, given_up: bool, count: int, output: str) -> None:
    """
    List the undecided transactions of each broker, those with the oldest copy first.

    A transaction without a connected producer of its group cannot be checked: nobody can be asked.
    """

    async def work(session: ClusterSession) -> None:
        told = await session.admin.transactions.list(TransactionSelection(given_up, group, topic, count))
        rows = [_line(name, row, one.table) for name, one in told.items() for row in one.rows]
        now_ms = session.env.clock.wall_ms()
        print_rows(
            output,
            rows,
            {
                "id": lambda row: row.id or row.offset_id,
                "state": lambda row: _WORDS.get(row.state, row.state),
                "group": lambda row: row.group,
                "topic": lambda row: row.topic,
                "broker": lambda row: row.broker,
                "born": lambda row: moment(row.born_ms),
                "age": lambda row: span(max(0.0, (now_ms - row.born_ms) / 1000)),
                "checks": lambda row: f"{row.checks} of {row.check_limit}",
                "producers": lambda row: row.producers,
            },
            cluster.nothing("No transaction was given up." if given_up else "No transaction is undecided."),
        )
        for name, one in told.items():
            if one.more:
                click.echo(f"broker {name} has more than these {counted(len(one.rows), 'row')}; use -n", err=True)

    cluster.do(work)


@tx.command("show", epilog=examples("smartgo tx show 7F0000010000277E0000000000000190"))
@click.argument("id")
@OUTPUT
@reading_options
def show(cluster: ReadingOptions, id: str, output: str) -> None:
    """Show the transaction with an ID: the unique id of its message, or the offset id of a half message."""

    async def work(session: ClusterSession) -> None:
        found = await session.admin.transactions.find(id)
        now_ms = session.env.clock.wall_ms()
        for name, table in found.items():
            for one in table.rows:
                row = _line(name, one, table)
                print_members(output, row, _members(row, table, one.immunity, now_ms))

    cluster.do(work, one=True)


def _members(row: TransactionLine, table: TransactionTable, immunity_ms: int, now_ms: int) -> dict[str, object]:
    """Return what people see of one transaction."""
    return {
        "id": row.id,
        "state": _WORDS.get(row.state, row.state),
        "producer group": row.group,
        "connected producers": row.producers,
        "topic": row.topic,
        "broker": row.broker,
        "half message": row.offset_id,
        "offset in its queue": row.queue_offset,
        "born": moment(row.born_ms),
        "age": span(max(0.0, (now_ms - row.born_ms) / 1000)),
        "given up": moment(row.given_up_ms),
        "checks": f"{row.checks} of {row.check_limit}",
        "first check at the age of": span(table.first if immunity_ms < 0 else immunity_ms / 1000),
        "then every": span(table.interval),
    }


@tx.command("resume", epilog=examples("smartgo tx resume 7F0000010000277E0000000000000190"))
@click.argument("id")
@OUTPUT
@cluster_options
def resume(cluster: ClusterOptions, id: str, output: str) -> None:
    """
    Have the transaction with an ID, which was given up, checked back again from the beginning.

    A producer of its group has to be connected, or it is given up again.
    """

    async def work(session: ClusterSession) -> None:
        name, one = await session.admin.transactions.resume(id)
        members = {
            "resumed": one.id or one.offset_id,
            "broker": name,
            "producer group": one.group,
            "connected producers": one.producers,
        }
        value = {"id": one.id, "broker": name, "offsetId": one.offset_id, "producers": one.producers}
        print_members(output, value, members)

    cluster.do(work)
