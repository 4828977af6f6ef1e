"""C{smartgo msg}: show, tail, export and resend messages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import aclosing
from typing import Final

import click
import msgspec

from smartgo.cli.commands.msgtrace import trace
from smartgo.cli.commands.search import TOPIC, push, search, track
from smartgo.cli.commands.sendconsume import as_members, as_text, sent_to
from smartgo.cli.commands.tail import TAG, tail
from smartgo.cli.support.annotate import annotated, shortened
from smartgo.cli.support.completions import topic_names
from smartgo.cli.support.load import producer_of
from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    counted,
    moment,
    plain,
    print_members,
    print_table,
    print_value,
    printable,
)
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.reading import QueuePosition, TopicReader, read_position
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples, read_queues
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.internal.copies import copy_to
from smartgo.client.internal.redeliveries import Fate, fate_text
from smartgo.client.messages import ReceivedMessage
from smartgo.client.timedrefusals import late_recall_ms
from smartgo.errors import PeerRefused
from smartgo.schema.annotate import hex_lines

GROUP: Final = "smartgo-cli"
_PORTION: Final = 1 << 20  # bytes that are written to a file at once

FROM = click.option(
    "-f",
    "--from",
    "begin",
    callback=read_position,
    default="first",
    show_default=True,
    metavar="first|last|TIME|OFFSET|-N",
    help="Start position in each queue; -N: N messages before its end.",
)
UNTIL = click.option(
    "--until",
    "end",
    callback=read_position,
    metavar="TIME|OFFSET",
    help="End position in each queue.  [default: its present end]",
)


@click.group(
    epilog=examples(
        "smartgo msg search Orders --key order-7",
        "smartgo msg show 7F0000010000277E0000000000000190",
        "smartgo msg track 7F0000010000277E0000000000000190",
        "smartgo msg trace 7F00000175E76D60D25B73268E900001",
        "smartgo msg tail Orders",
        "smartgo msg export Orders --from 2030-12-31T08:00 > orders.jsonl",
    )
)
def msg() -> None:
    """Search, show, track and trace messages; tail, export and resend them."""


@msg.command(
    "show",
    epilog=examples(
        "smartgo msg show 7F0000010000277E0000000000000190",
        "smartgo msg show 7F00000175E76D60D25B73268E900001 --topic Orders",
        "smartgo msg show 7F0000010000277E0000000000000190 --as record",
        "smartgo msg show 7F0000010000277E0000000000000190 -o json",
    ),
)
@click.argument("message_id", metavar="ID")
@TOPIC
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "json", "hex", "record"]),
    default="text",
    show_default=True,
    help="How to show the body; record: the stored bytes, field by field.",
)
@OUTPUT
@reading_options
def show(cluster: ReadingOptions, message_id: str, topic: str | None, form: str, output: str) -> None:
    """
    Show the message with this ID: the message id that its producer gave it, or the offset id of one stored copy.
    """

    async def work(session: ClusterSession) -> None:
        message = await session.admin.messages.find(message_id, topic)
        if form == "record":
            raw = await session.admin.messages.record(message.offset_id)
            _print_record(raw, output)
            return
        fates = await session.admin.deliveries.refusals(message.queue.topic, message.properties)
        if output != TEXT:
            dead = [group for group, fate in fates.items() if fate.state == "failed"]
            print_value(output, {**as_members(message), "dead_letter_of": dead})
        else:
            _print_one(message, form, fates)

    cluster.do(work, one=True)


def _print_record(raw: bytes, output: str) -> None:
    fields = annotated(raw)
    if output != TEXT:
        print_value(output, {"size": len(raw), "hex": raw.hex(), "fields": plain(fields)})
        return
    print_table(
        fields,
        {
            "at": lambda row: row.at,
            "bytes": lambda row: row.size,
            "field": lambda row: row.name,
            "value": lambda row: shortened(row.value),
            "hex": lambda row: shortened(row.hex),
        },
    )


def _print_one(message: ReceivedMessage, form: str, fates: Mapping[str, Fate]) -> None:
    body = body_text(message.body, form)
    members = {
        "message id": message.message_id,
        "offset id": message.offset_id,
        "topic": sent_to(message),
        "stored in": message.queue.topic,
        "queue": f"{message.queue.broker_name}:{message.queue.queue_id}",
        "offset": message.queue_offset,
        "tag": message.tag,
        "keys": message.keys,
        "sent": moment(message.born_ms),
        "sent from": message.born_host,
        "stored": moment(message.stored_ms),
        "redelivered": message.reconsume_times,
        "flag": message.flag,
        "body size": f"{len(message.body):,} B",
    }
    for group, fate in fates.items():
        dead = fate.state == "failed"
        members[f"group {group}"] = f"dead letter (smartgo dlq show {group})" if dead else fate_text(fate)
    print_members(TEXT, message, members)
    click.echo("\nproperties")
    print_members(TEXT, message, {f"  {name}": value for name, value in sorted(message.properties.items())})
    click.echo()
    click.echo(body)


def body_text(body: bytes, form: str) -> str:
    """
    Return a body for people: as text, indented JSON, or hexadecimal.

    @raise CommandError: the body is not valid JSON, but C{form} is json.
    """
    if form == "hex":
        return "\n".join(hex_lines(body))
    if form == "json":
        try:
            return printable(json.dumps(json.loads(body), indent=2, ensure_ascii=False), keep="\n")
        except ValueError as error:
            raise CommandError(f"the body is not valid JSON: {error}") from None
    return printable(body.decode("utf-8", "backslashreplace"), keep="\n\t")


@msg.command(
    "export",
    epilog=examples(
        "smartgo msg export Orders > orders.jsonl",
        "smartgo msg export Orders --from 2030-12-31T08:00 --until 2030-12-31T09:00 --file orders.jsonl",
    ),
)
@click.argument("topic", shell_complete=topic_names)
@FROM
@UNTIL
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    callback=read_queues,
    metavar="BROKER:ID",
    help="Only this queue; may be repeated.",
)
@TAG
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("--file", "path", metavar="FILE", help="Output file; it must not exist.  [default: standard output]")
@reading_options
def export(
    cluster: ReadingOptions,
    topic: str,
    begin: QueuePosition,
    end: QueuePosition | None,
    queues: list[tuple[str, int]],
    tag: str,
    count: int | None,
    path: str | None,
) -> None:
    """Write the messages of TOPIC as JSON lines, queue by queue."""

    async def work(session: ClusterSession) -> None:
        written = await export_messages(session, topic, begin, end, queues, tag, count, path)
        click.echo(f"exported {counted(written, 'message')}{f' to {path}' if path else ''}", err=True)

    cluster.do(work)


async def export_messages(
    session: ClusterSession,
    topic: str,
    begin: QueuePosition,
    end: QueuePosition | None,
    queues: list[tuple[str, int]],
    tag: str,
    count: int | None,
    path: str | None,
) -> int:
    """
    Write messages as JSON lines; return their number.

    @param path: a file that does not exist yet; C{None} for standard output.
    """
    reader = TopicReader(session, topic)
    spans = await reader.spans(begin, end, queues)
    files = session.env.files
    if path is not None:
        try:
            files.create(path, b"")
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from None
    lines: list[bytes] = []
    size = written = 0

    def flush() -> None:
        nonlocal size
        if path is not None:
            files.append(path, b"".join(lines))
        else:
            click.echo(b"".join(lines), nl=False)
        lines.clear()
        size = 0

    total = sum(span.end - span.begin for span in spans)
    with ProgressLine(session.env.clock, "messages", total) as progress:
        async with aclosing(reader.messages(spans, tag, progress)) as messages:
            async for message in messages:
                lines.append(msgspec.json.encode(as_members(message)) + b"\n")
                size += len(lines[-1])
                written += 1
                if size >= _PORTION:
                    flush()
                if written == count:
                    break
    flush()
    return written


@msg.command("recall", epilog=examples("smartgo msg recall djEgT3JkZXJzIGJyb2tlci1hIDE3MDAwMDAwMDAwMDAgMEE="))
@click.argument("handle")
@OUTPUT
@cluster_options
def recall_message(cluster: ClusterOptions, handle: str, output: str) -> None:
    """Recall a message with a delivery time that was not delivered yet; its send printed HANDLE."""

    async def work(session: ClusterSession) -> None:
        producer = await producer_of(session, GROUP)
        try:
            message_id = await producer.recall(handle)
        except PeerRefused as error:
            due_ms = late_recall_ms(error, handle, session.env.clock.wall_ms())
            if due_ms is None:
                raise
            raise CommandError(f"it is too late to recall it: it was due at {moment(due_ms)}") from None
        if output != TEXT:
            print_value(output, {"message_id": message_id, "recalled": True})
        else:
            click.echo(f"recalled {message_id}: it is not delivered, unless that had happened before")

    cluster.do(work)


@msg.command(
    "resend",
    epilog=examples(
        "smartgo msg resend 7F0000010000277E0000000000000190 --dry-run",
        "smartgo msg resend 7F0000010000277E0000000000000190 --to Orders-test --yes",
    ),
)
@click.argument("message_id", metavar="ID")
@TOPIC
@click.option("--to", "target", metavar="TOPIC", help="Send to this topic.  [default: the message's own topic]")
@DRY_RUN
@YES
@OUTPUT
@reading_options
def resend(
    cluster: ReadingOptions,
    message_id: str,
    topic: str | None,
    target: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Send a copy of a message: same body, tag, keys and properties, new id. All groups of the topic get it."""

    async def work(session: ClusterSession) -> None:
        message = await session.admin.messages.find(message_id, topic)
        copy = copy_to(message, target or "")
        if dry_run:
            if output != TEXT:
                print_value(output, {"topic": copy.topic, "message_id": message.message_id, "dry_run": True})
            else:
                click.echo(f"would send to {copy.topic}: {as_text(message)}")
            return
        confirm(f"A copy of {message.message_id} will be sent to {copy.topic}.", yes)
        producer = await producer_of(session, GROUP)
        result = await producer.send(copy)
        found = {
            "topic": copy.topic,
            "message_id": result.message_id,
            "offset_id": result.offset_id,
            "copy_of": message.message_id,
            "dry_run": False,
        }
        if output != TEXT:
            print_value(output, found)
        else:
            click.echo(f"sent as {result.message_id} to queue {result.queue.queue_id} of {result.queue.broker_name}")

    cluster.do(work, one=True)


for _command in (search, track, trace, tail, push):
    msg.add_command(_command)
