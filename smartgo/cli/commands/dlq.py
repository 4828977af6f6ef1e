"""C{smartgo dlq}: list, show, resend and export dead letters."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import click

from smartgo.cli.commands.dlqchanges import ack, resend
from smartgo.cli.commands.msg import FROM, UNTIL, export_messages
from smartgo.cli.commands.sendconsume import as_members, sent_to
from smartgo.cli.support.completions import group_names
from smartgo.cli.support.deadletters import count_all, mark_members, mark_text
from smartgo.cli.support.deadletterselection import DeadLetterSelection
from smartgo.cli.support.output import OUTPUT, TEXT, counted, moment, print_rows, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.reading import QueuePosition
from smartgo.cli.support.session import ClusterSession
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.schema.topics import dlq_topic

_SHOWN: Final = 60  # characters of a body in a table


@click.group(
    epilog=examples(
        "smartgo dlq ls",
        "smartgo dlq show audit",
        "smartgo dlq resend audit --all --dry-run",
        "smartgo dlq resend audit --id 7F0000010000277E0000000000000190",
        "smartgo dlq ack audit --all --comment 'test data'",
    )
)
def dlq() -> None:
    """List the messages that groups failed to consume, resend or acknowledge them."""


@dlq.command("ls", epilog=examples("smartgo dlq ls", "smartgo dlq ls -o json"))
@OUTPUT
@reading_options
def ls(cluster: ReadingOptions, output: str) -> None:
    """
    List the groups that have dead letters. Open ones were neither resent nor acknowledged; those in retry were resent,
    and the group has still to consume them.
    """

    async def work(session: ClusterSession) -> None:
        rows = await count_all(session)
        print_rows(
            output,
            rows,
            {
                "group": lambda row: row.group,
                "dead letters": lambda row: row.messages,
                "open": lambda row: row.open,
                "in retry": lambda row: row.in_retry,
                "last": lambda row: moment(row.last_ms),
            },
            cluster.nothing("There are no dead letters."),
        )

    cluster.do(work)


@dlq.command("show", epilog=examples("smartgo dlq show audit --open", "smartgo dlq show audit --from -20 -o jsonl"))
@click.argument("group", shell_complete=group_names)
@FROM
@UNTIL
@click.option("-n", "--count", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of rows.")
@click.option("--open", "only_open", is_flag=True, help="Only those that were neither resent nor acknowledged.")
@OUTPUT
@reading_options
def show(
    cluster: ReadingOptions,
    group: str,
    begin: QueuePosition,
    end: QueuePosition | None,
    count: int,
    only_open: bool,
    output: str,
) -> None:
    """
    Show the dead letters of GROUP, and what was done about each. For a whole message, run "smartgo msg show ID".
    """

    async def work(session: ClusterSession) -> None:
        selection = await DeadLetterSelection.of(session, group, begin, end, only_open=only_open)
        rows = []
        with ProgressLine(session.env.clock, "dead letters", min(count, selection.total)) as progress:
            async with aclosing(selection.messages(progress)) as messages:
                async for message in messages:
                    rows.append(message)
                    if len(rows) == count:
                        break
        states = await selection.marks.states(group, rows)
        refused = any(one.state == "refused" for one in states.values())
        limit = await session.admin.groups.retry_limit(group) if refused else None
        marked = {row.offset_id: (selection.marks.mark(group, row), states.get(row.offset_id), limit) for row in rows}
        if output != TEXT:
            print_value(output, [{**as_members(row), **mark_members(*marked[row.offset_id])} for row in rows])
            return
        print_rows(
            output,
            rows,
            {
                "id": lambda row: row.offset_id,
                "message id": lambda row: row.message_id,
                "topic": sent_to,
                "keys": lambda row: row.keys,
                "sent": lambda row: moment(row.born_ms),
                "dead since": lambda row: moment(row.stored_ms),
                "state": lambda row: mark_text(*marked[row.offset_id]),
                "body": lambda row: row.body.decode("utf-8", "backslashreplace")[:_SHOWN],
            },
            cluster.nothing(f"Group {group} has no dead letters in this range."),
        )

    cluster.do(work)


@dlq.command("export", epilog=examples("smartgo dlq export audit > dead.jsonl"))
@click.argument("group", shell_complete=group_names)
@FROM
@UNTIL
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--file", "path", metavar="FILE", help="Output file; it must not exist.  [default: standard output]")
@reading_options
def export(
    cluster: ReadingOptions,
    group: str,
    begin: QueuePosition,
    end: QueuePosition | None,
    count: int | None,
    path: str | None,
) -> None:
    """Write the dead letters of GROUP as JSON lines."""

    async def work(session: ClusterSession) -> None:
        written = await export_messages(session, dlq_topic(group), begin, end, [], "*", count, path)
        click.echo(f"exported {counted(written, 'message')}{f' to {path}' if path else ''}", err=True)

    cluster.do(work)


for _command in (resend, ack):
    dlq.add_command(_command)
