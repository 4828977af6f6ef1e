"""C{smartgo msg search}, C{track} and C{push}: find messages, show and trigger their consumption."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import click

from smartgo.cli.commands.sendconsume import as_members
from smartgo.cli.support.completions import group_names, topic_names
from smartgo.cli.support.output import OUTPUT, TEXT, moment, plain, print_rows, print_table, print_value, printable
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.reading import QueuePosition, TopicReader, read_position
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import YES, ClusterSession, confirm
from smartgo.cli.support.texts import examples, read_queues
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.messages import ReceivedMessage
from smartgo.schema import properties
from smartgo.schema.bodies import MessageQueue
from smartgo.schema.headerfields import INT64_MAX

TOPIC: Final = click.option(
    "-T",
    "--topic",
    metavar="NAME",
    shell_complete=topic_names,
    help="The message's topic. Without it a message id is looked up in one topic after another.",
)
_SHOWN: Final = 60  # bytes of a body in a table


@click.command(
    "search",
    epilog=examples(
        "smartgo msg search Orders --key order-7",
        "smartgo msg search Orders --id 7F0000017E7737B77A726A20F2B70001",
        "smartgo msg search Orders --queue broker-a:3 --offset 1200",
        "smartgo msg search Orders --from 2030-12-31T08:00 --until 2030-12-31T08:05 --grep refund -o jsonl",
    ),
)
@click.argument("topic", shell_complete=topic_names)
@click.option("-k", "--key", metavar="WORD", help="Find by key; at most 64 results per broker.")
@click.option(
    "--id", "message_id", metavar="ID", help="Find by id: the broker's offset id, or the producer's message id."
)
@click.option(
    "-q", "--queue", "queues", multiple=True, callback=read_queues, metavar="BROKER:ID", help="Only in this queue."
)
@click.option("--offset", type=click.IntRange(0), help="Find by offset in --queue.")
@click.option(
    "-f", "--from", "begin", callback=read_position, metavar="TIME|OFFSET|-N|first", help="Start of the search."
)
@click.option("--until", "end", callback=read_position, metavar="TIME|OFFSET", help="End of the search.")
@click.option(
    "--grep",
    default="",
    metavar="TEXT",
    help="Only messages whose body contains TEXT; reads all messages of the range.",
)
@click.option("-n", "--count", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of rows.")
@OUTPUT
@reading_options
def search(
    cluster: ReadingOptions,
    topic: str,
    key: str | None,
    message_id: str | None,
    queues: list[tuple[str, int]],
    offset: int | None,
    begin: QueuePosition | None,
    end: QueuePosition | None,
    grep: str,
    count: int,
    output: str,
) -> None:
    """Find messages of TOPIC by key, id, offset, time or body text."""
    ways = sum((key is not None, message_id is not None, offset is not None, bool(grep)))
    if ways == 0 and begin is None:
        raise click.UsageError("give --key, --id, --queue with --offset, --from, or --grep")
    direct = message_id is not None or offset is not None
    if ways > 1 or (direct and begin is not None):
        raise click.UsageError(
            "give only one of --key, --id, --offset and --grep; --from can be added to --key or --grep, or stand alone"
        )
    if direct and end is not None:
        raise click.UsageError("--until cannot be combined with --id or --offset")
    if queues and (key is not None or message_id is not None):
        raise click.UsageError("--queue cannot be combined with --key or --id")
    if offset is not None and len(queues) != 1:
        raise click.UsageError("--offset needs one --queue")

    async def work(session: ClusterSession) -> None:
        messages = session.admin.messages
        if message_id is not None:
            found = await messages.by_unique_key(topic, message_id) or [await messages.find(message_id, topic)]
        elif key is not None:
            found = await messages.by_key(topic, key, *_times(begin, end))
        elif offset is not None:
            found = [await messages.at(MessageQueue(topic, *queues[0]), offset)]
        else:
            found = await _scan(session, topic, begin or QueuePosition("first"), end, queues, grep.encode(), count)
        if not found:
            raise CommandError(f"there are no matching messages in topic {topic}", MISSING)
        if output != TEXT:
            print_value(output, [as_members(one) for one in found[:count]])
            return
        print_table(
            found[:count],
            {
                "id": lambda row: row.message_id,
                "queue": lambda row: f"{row.queue.broker_name}:{row.queue.queue_id}",
                "offset": lambda row: row.queue_offset,
                "tag": lambda row: row.tag,
                "keys": lambda row: row.keys,
                "stored": lambda row: moment(row.stored_ms),
                "body": lambda row: row.body[:_SHOWN].decode("utf-8", "backslashreplace"),
            },
        )

    cluster.do(work)


def _times(begin: QueuePosition | None, end: QueuePosition | None) -> tuple[int, int]:
    """Return two positions as times. @raise click.UsageError: one is no time."""
    for one in (begin, end):
        if one is not None and one.kind != "time":
            raise click.UsageError("with --key, --from and --until must be times")
    return begin.value if begin is not None else 0, end.value if end is not None else INT64_MAX


async def _scan(
    session: ClusterSession,
    topic: str,
    begin: QueuePosition,
    end: QueuePosition | None,
    queues: list[tuple[str, int]],
    wanted: bytes,
    count: int,
) -> list[ReceivedMessage]:
    """Read messages; return those whose body contains C{wanted}."""
    reader = TopicReader(session, topic)
    spans = await reader.spans(begin, end, queues)
    found = []
    with ProgressLine(session.env.clock, "messages", sum(span.end - span.begin for span in spans)) as progress:
        async with aclosing(reader.messages(spans, progress=progress)) as messages:
            async for message in messages:
                if wanted in message.body:
                    found.append(message)
                if len(found) == count:
                    break
    return sorted(found, key=lambda one: one.stored_ms)


@click.command(
    "track",
    epilog=examples(
        "smartgo msg track 7F0000010000277E0000000000000190",
        "smartgo msg track 7F0000017E7737B77A726A20F2B70001 --topic Orders -o json",
    ),
)
@click.argument("message_id", metavar="ID")
@TOPIC
@OUTPUT
@reading_options
def track(cluster: ReadingOptions, message_id: str, topic: str | None, output: str) -> None:
    """Show for each group of the topic whether it has consumed the message."""

    async def work(session: ClusterSession) -> None:
        message = await session.admin.messages.find(message_id, topic)
        print_rows(
            output,
            await session.admin.deliveries.tracks(
                message.queue, message.queue_offset, message.tag, message.properties.get(properties.UNIQ_KEY, "")
            ),
            {
                "group": lambda row: row.group,
                "state": lambda row: row.state.value,
                "offset": lambda row: message.queue_offset,
                "group offset": lambda row: row.position,
                "subscription": lambda row: row.wants,
                "detail": lambda row: row.detail,
            },
            cluster.nothing(f"No group consumes topic {message.queue.topic}."),
        )

    cluster.do(work)


@click.command(
    "push",
    epilog=examples("smartgo msg push 7F0000010000277E0000000000000190 --group audit --client 10.0.0.1@4711 --yes"),
)
@click.argument("message_id", metavar="ID")
@TOPIC
@click.option("-g", "--group", required=True, metavar="NAME", shell_complete=group_names, help="The group.")
@click.option(
    "--client", "client_id", required=True, metavar="CLIENT", help='The member; "smartgo group members" lists them.'
)
@YES
@OUTPUT
@reading_options
def push(
    cluster: ReadingOptions, message_id: str, topic: str | None, group: str, client_id: str, yes: bool, output: str
) -> None:
    """Have one member of a group consume a message now. No offset changes."""

    async def work(session: ClusterSession) -> None:
        message = await session.admin.messages.find(message_id, topic)
        confirm(f"Client {client_id} of group {group} will consume message {message.message_id}.", yes)
        result = await session.admin.deliveries.consume_directly(group, client_id, message.queue, message.offset_id)
        if output != TEXT:
            print_value(output, plain(result))
        else:
            words = f" ({result.remark})" if result.remark else ""
            click.echo(f"{result.consume_result} in {result.spent_time_mills} ms{printable(words)}")
        if result.consume_result not in ("CR_SUCCESS", "CR_COMMIT"):
            raise CommandError(f"{client_id} did not consume the message: {result.consume_result}")

    cluster.do(work, one=True)
