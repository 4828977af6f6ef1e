"""C{smartgo msg trace}: the life of a message, as clients traced it."""

from __future__ import annotations

import click

from smartgo.cli.support.completions import topic_names
from smartgo.cli.support.output import OUTPUT, TEXT, moment, plain, print_table, print_value
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import ClusterSession
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.internal.tracetimeline import TraceEvent
from smartgo.schema.topics import TRACE_TOPIC, check_topic

_WORDS = {
    "stored": "stored",
    "weak": "stored, less durably than asked",
    "success": "success",
    "failed": "to be consumed again",
    "exception": "the listener failed",
    "timeout": "took longer than the time-out",
    "null": "the listener returned null",
    "open": "no end is known",
    "committed": "committed",
    "rolledback": "rolled back",
    "unknown": "not known yet",
}


@click.command(
    "trace",
    epilog=examples(
        "smartgo msg trace 7F00000175E76D60D25B73268E900001",
        "smartgo msg trace 7F00000175E76D60D25B73268E900001 --trace-topic MyTraces -o json",
    ),
)
@click.argument("message_id", metavar="ID")
@click.option(
    "--trace-topic",
    metavar="TOPIC",
    default=TRACE_TOPIC,
    show_default=True,
    shell_complete=topic_names,
    help="The topic that clients write traces to.",
)
@OUTPUT
@reading_options
def trace(cluster: ReadingOptions, message_id: str, trace_topic: str, output: str) -> None:
    """
    Show what clients traced of the message with this ID: when it was sent, and which groups consumed it.

    ID is the message id that its producer gave it, or the offset id of one stored copy.
    """
    check_topic(trace_topic)

    async def work(session: ClusterSession) -> None:
        found = await session.admin.messages.trace(message_id, trace_topic)
        if output != TEXT:
            print_value(output, plain(found))
            return
        if not found.events:
            raise CommandError(
                f"topic {trace_topic} has no trace of message {message_id}: its clients write traces only where they "
                'were told to ("smartgo msg track" shows which groups have consumed it)'
            )
        print_table(
            found.events,
            {
                "time": lambda row: moment(row.at_ms),
                "event": lambda row: row.kind,
                "group": lambda row: row.group,
                "client": lambda row: row.client,
                "took": lambda row: "" if row.took_ms is None else f"{row.took_ms:,} ms",
                "result": _result,
            },
        )
        if found.more:
            click.echo("A broker has more trace messages of it than it returns: older ones are missing.", err=True)
        if found.unreadable:
            click.echo(f"{found.unreadable} records of traces could not be read.", err=True)

    cluster.do(work)


def _result(event: TraceEvent) -> str:
    words = _WORDS[event.result]
    if event.kind == "recalled":
        words = "recalled" if event.result == "success" else "could not be recalled"
    if event.retries:
        words += f", redelivery {event.retries}"
    return f"{words}, as the broker asked" if event.checked else words
