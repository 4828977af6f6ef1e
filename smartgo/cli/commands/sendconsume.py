"""C{smartgo send} and C{smartgo consume}."""

from __future__ import annotations

import base64
import re
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import click
from twisted.internet.defer import Deferred

from smartgo.cli.support.completions import group_names, topic_names
from smartgo.cli.support.load import producer_of
from smartgo.cli.support.output import OUTPUT, TEXT, print_streamed, print_value, printable
from smartgo.cli.support.parallel import call_each
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import USAGE, CommandError, command_error
from smartgo.cli.support.session import ClusterOptions, ClusterSession, cluster_options
from smartgo.cli.support.texts import examples, moment_ms, read_pairs
from smartgo.cli.support.wholeanswers import MissingBrokersWatch, ReadingOptions, reading_options, say
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import BODY_LIMIT, Message, ReceivedMessage, SendResult, SendStatus
from smartgo.client.producer import Producer
from smartgo.errors import RequestRefused
from smartgo.schema.bodies import ConsumeFromWhere
from smartgo.schema.delay import DEFAULT_LEVELS
from smartgo.schema.properties import RETRY_TOPIC
from smartgo.schema.recallhandle import RecallHandle

GROUP: Final = "smartgo-cli"

_DELAY: Final = re.compile("(?P<number>[0-9]{1,9}([.][0-9]{1,3})?)(?P<unit>ms|s|m|h|d)?")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_HIGHEST_LEVEL: Final = len(DEFAULT_LEVELS.split())
_AT_A_TIME: Final = 256  # sends that wait for their answers


def read_properties(context: click.Context, option: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    """Return C{NAME=VALUE} texts as a dict. @raise click.BadParameter: a text has another form, or no value."""
    found = read_pairs(context, option, texts)
    for name, value in found.items():
        if not value:
            raise click.BadParameter(f"{name!r} has no value: write NAME=VALUE", context, option)
    return found


def read_delay(context: click.Context, option: click.Parameter, text: str) -> tuple[int, float]:
    """
    Parse a delay level, or a time with a unit; return the level, or 0, and the time in seconds, or 0.

    @raise click.BadParameter: the text is neither.
    """
    found = _DELAY.fullmatch(text)
    if found is not None and found["unit"]:
        return 0, float(found["number"]) * _UNITS[found["unit"]]
    level = float(found["number"]) if found is not None else -1.0
    if not 0 <= level <= _HIGHEST_LEVEL or not level.is_integer():
        raise click.BadParameter(
            f"{text!r} is no level from 1 to {_HIGHEST_LEVEL} (0: no delay), which stand for {DEFAULT_LEVELS}; for"
            " another delay write a time with its unit, such as 90s or 3h, or give the time of delivery with --at",
            context,
            option,
        )
    return int(level), 0.0


def read_moment(context: click.Context, option: click.Parameter, text: str | None) -> datetime | None:
    """Parse a time, C{None} for none. @raise click.BadParameter: the text is no time."""
    if text is None:
        return None
    return datetime.fromtimestamp(moment_ms(text, context, option, "a date and time") / 1000, UTC)


def read_beginning(context: click.Context, option: click.Parameter, text: str) -> tuple[ConsumeFromWhere, int | None]:
    """
    Parse a start position: the first message, the end, or a time in ms; a time without a zone is local.

    @raise click.BadParameter: the text is none of these.
    """
    if text == "first":
        return ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, None
    if text == "last":
        return ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET, None
    if text.isdecimal():
        return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, int(text)
    return ConsumeFromWhere.CONSUME_FROM_TIMESTAMP, moment_ms(text, context, option, "first, last, milliseconds")


@click.command(
    epilog=examples(
        "smartgo send Greetings hello",
        "smartgo send Orders '{\"id\": 7}' --tag new --key order-7 --property region=north",
        "date | smartgo send Ticks -",
        "smartgo send Reminders 'call back' --delay 90m",
        "smartgo send Reminders 'call back' --at \"$(date -d 'tomorrow 9:00' +%FT%R)\"",
        "smartgo send Load x --count 100000",
    ),
)
@click.argument("topic", shell_complete=topic_names)
@click.argument("body", default="-")
@click.option("-t", "--tag", default="", metavar="TAG", help="Tag that consumers can filter by.")
@click.option("-k", "--key", "keys", multiple=True, metavar="WORD", help="Key to search by; may be repeated.")
@click.option(
    "-p",
    "--property",
    "properties",
    multiple=True,
    callback=read_properties,
    metavar="NAME=VALUE",
    help="Message property; may be repeated.",
)
@click.option(
    "--delay",
    callback=read_delay,
    default="0",
    metavar="LEVEL|TIME",
    help="Delay before delivery: a time such as 90s, 10m, 2h or 3d, or a level: 1 is 1 s, 2 is 5 s ... 18 is 2 h.",
)
@click.option(
    "--at",
    "deliver_at",
    callback=read_moment,
    metavar="TIME",
    help="Time of delivery, such as 2030-12-31T23:59; without a zone it is local. Brokers take times up to 40 days"
    " ahead, unless their timerMaxDelaySec says otherwise.",
)
@click.option("-n", "--count", type=click.IntRange(1), default=1, show_default=True, help="Number of copies to send.")
@OUTPUT
@cluster_options
def send(
    cluster: ClusterOptions,
    topic: str,
    body: str,
    tag: str,
    keys: tuple[str, ...],
    properties: dict[str, str],
    delay: tuple[int, float],
    deliver_at: datetime | None,
    count: int,
    output: str,
) -> None:
    """Send BODY to TOPIC; without BODY, or with -, the body is read from standard input.

    A topic that does not exist is created. A message whose status is not SEND_OK is stored as well, but not yet on the
    broker's disk or at a slave; with --count the number of such messages is printed.
    """
    if deliver_at is not None and any(delay):
        raise click.UsageError("--at and --delay exclude each other")
    content = sys.stdin.buffer.read() if body == "-" else body.encode()
    message = Message(
        topic=topic,
        body=content,
        tag=tag,
        keys=keys,
        properties=properties,
        delay_level=delay[0],
        delay=delay[1],
        deliver_at=deliver_at,
    )
    _checked(message)

    async def work(session: ClusterSession) -> None:
        producer = await producer_of(session, GROUP)
        clock = session.env.clock
        begin = clock.seconds()
        with ProgressLine(clock, "sent", count) as progress:
            result, statuses, ids = await _send_all(producer, message, count, progress)
        seconds = clock.seconds() - begin
        waits = result.recall_handle is not None or delay[0] > 0  # the offset is that of the place where it waits
        if output != TEXT:
            sent = {"sent": count, "seconds": round(seconds, 3), "statuses": dict(statuses), **_place(result, waits)}
            print_value(output, {**sent, "message_ids": ids})
        elif count == 1:
            place = f"queue {result.queue.queue_id} of {result.queue.broker_name}"
            if not waits:
                place = f"{place}, offset {result.queue_offset}"
            click.echo(f"sent {result.message_id} to {place} ({result.status.name})")
            if result.recall_handle is not None:
                click.echo(f"it waits for its time; to recall it: smartgo msg recall {result.recall_handle}")
            elif deliver_at is not None and deliver_at.timestamp() * 1000 <= clock.wall_ms():
                click.echo("its time is past: it is delivered at once")
        else:
            rate = f"{count / max(seconds, 0.001):,.0f} per second"
            click.echo(f"first {ids[0]}, last {ids[-1]}; all ids: -o json")
            click.echo(f"sent {count:,} messages in {seconds:.3f} s, {rate}{_not_ok(statuses)}")
            if result.recall_handle is not None:
                click.echo("they wait for their time; to be able to recall a message, send it without --count")

    cluster.do(work)


def _checked(message: Message) -> None:
    """Check a message. @raise CommandError: no broker would accept it, or smartgo's client does not send it."""
    if len(message.body) > BODY_LIMIT:
        raise CommandError(
            f"the body has {len(message.body):,} bytes; smartgo sends at most {BODY_LIMIT:,}, which is also the default"
            " maxMessageSize of brokers",
            USAGE,
        )
    try:
        message.check()
    except RequestRefused as error:
        raise command_error(error) from None


async def _send_all(
    producer: Producer, message: Message, count: int, progress: ProgressLine
) -> tuple[SendResult, Mapping[str, int], list[str]]:
    """
    Send a message C{count} times, many concurrently. Raises the first failure.

    @return: the result of the last one, the number of sends by status, and the message ids in the order of the sends.
    """
    results = {0: await producer.send(message)}  # alone: it creates the topic

    async def one(number: int) -> None:
        results[number + 1] = await producer.send(message)
        progress.advance()

    await call_each(one, count - 1, _AT_A_TIME)
    statuses = Counter(one.status.name for one in results.values())
    return results[count - 1], statuses, [results[number].message_id for number in range(count)]


def _not_ok(statuses: Mapping[str, int]) -> str:
    """Return how many ended otherwise than well, as the end of a sentence."""
    rest = [f"{count} of them {name}" for name, count in statuses.items() if name != SendStatus.SEND_OK.name]
    return f"; {', '.join(rest)}" if rest else ""


def _place(result: SendResult, waits: bool) -> dict[str, object]:
    """Return where a message was stored; one that waits for its time has no offset in its queue yet."""
    handle = result.recall_handle
    recall = {} if handle is None else {"recall_handle": handle, "due_ms": int(RecallHandle.parse(handle).due_ms)}
    return {
        "status": result.status.name,
        "message_id": result.message_id,
        "offset_id": result.offset_id,
        "topic": result.queue.topic,
        "broker": result.queue.broker_name,
        "queue": result.queue.queue_id,
        "offset": None if waits else result.queue_offset,
        **recall,
    }


@click.command(
    epilog=examples(
        "smartgo consume Greetings",
        "smartgo consume Orders --group audit --from first --count 10",
        "smartgo consume Orders --from 2030-12-31T08:00 --tag 'new || paid' -o json",
    ),
)
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "-g",
    "--group",
    default=GROUP,
    show_default=True,
    metavar="NAME",
    shell_complete=group_names,
    help="Consumer group to join.",
)
@click.option(
    "-f",
    "--from",
    "beginning",
    callback=read_beginning,
    metavar="first|last|TIME",
    default="last",
    show_default=True,
    help="Where a new group starts.",
)
@click.option("-t", "--tag", default="*", metavar="TAGS", help="Only messages with these tags: TAG, or 'TAG || TAG'.")
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@OUTPUT
@reading_options
def consume(
    cluster: ReadingOptions,
    topic: str,
    group: str,
    beginning: tuple[ConsumeFromWhere, int | None],
    tag: str,
    count: int | None,
    output: str,
) -> None:
    """Print the messages of TOPIC until ctrl-C.

    An existing group continues at its offsets and ignores --from. Members of one group share the messages. As with
    RocketMQ, a new group starts at the first message of a topic from which nothing has been removed yet. Brokers whose
    messages are lacking are named on standard error, at the start and whenever others are missing.
    """
    begin, begin_ms = beginning

    async def work(session: ClusterSession, watch: MissingBrokersWatch) -> None:
        ended: Deferred[None] = Deferred()
        printed = 0

        def listener(messages: list[ReceivedMessage]) -> Deferred[None] | None:
            nonlocal printed
            if ended.called:
                return Deferred()  # beyond --count: not acknowledged, so the group gets it again
            try:
                print_message(output, messages[0])
            except BrokenPipeError:
                ended.callback(None)
                return Deferred()
            printed += 1
            if printed == count:
                ended.callback(None)
            return None

        settings = ConsumerSettings(begin=begin, begin_ms=begin_ms, concurrency=1, stop_timeout=0.0)
        consumer = PushConsumer(session.client, group, listener, settings)
        consumer.subscribe(topic, tag)
        await consumer.start()
        watch.follow(say)
        if not any(queue.topic == topic for queue in consumer.queues):
            if session.client.routes.known(topic) is not None:
                say(f"waiting: other members of group {group} have all queues of topic {topic}")
            elif watch.sentence:
                say(f"waiting: topic {topic} is at no broker that is registered")
            else:
                say(f"waiting: topic {topic} does not exist yet")
        await ended

    cluster.stream(work)


def print_message(output: str, message: ReceivedMessage) -> None:
    """Print one of several messages."""
    if output == TEXT:
        click.echo(as_text(message))
    else:
        print_streamed(output, as_members(message))


def as_text(message: ReceivedMessage) -> str:
    """Return a message as one line for people; unprintable characters are escaped."""
    words = [f"{message.queue.queue_id}:{message.queue_offset}"]
    if message.tag:
        words.append(f"[{message.tag}]")
    words.append(message.body.decode("utf-8", "backslashreplace"))
    return printable(" ".join(words))


def sent_to(message: ReceivedMessage) -> str:
    """Return the topic that a message was first sent to; for a retry or dead letter that is not where it is stored."""
    return message.properties.get(RETRY_TOPIC) or message.topic


def as_members(message: ReceivedMessage) -> dict[str, object]:
    """Return a message as plain values; a body that is not UTF-8 is in C{body_base64}."""
    found: dict[str, object] = {
        "topic": sent_to(message),
        "stored_in": message.queue.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "tag": message.tag,
        "keys": message.keys,
        "properties": message.properties,
        "born_ms": message.born_ms,
        "stored_ms": message.stored_ms,
        "reconsume_times": message.reconsume_times,
    }
    try:
        found["body"] = message.body.decode()
    except UnicodeDecodeError:
        found["body_base64"] = base64.b64encode(message.body).decode()
    return found
