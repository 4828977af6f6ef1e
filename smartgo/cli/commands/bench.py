"""C{smartgo bench}: measure the throughput and latency of a cluster from one client."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import click
import msgspec
from twisted.internet.defer import Deferred

from smartgo.cli.support.completions import group_names, topic_names
from smartgo.cli.support.load import Latencies, SendLoad, producer_of
from smartgo.cli.support.output import OUTPUT, TEXT, counted, plain, print_members, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import ClusterOptions, ClusterSession, cluster_options
from smartgo.cli.support.texts import examples
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import BODY_LIMIT, Message, ReceivedMessage
from smartgo.schema.bodies import ConsumeFromWhere
from smartgo.schema.sizes import size_text

GROUP: Final = "smartgo-bench"
SENT_AT: Final = "SENT_AT"
"""Property with the sender's monotonic clock, in seconds."""


class BenchResult(msgspec.Struct, frozen=True):
    """
    The result of a benchmark.

    @ivar per_second: messages; C{bytes_per_second} of bodies.
    @ivar latency_ms: see L{Latencies.figures}.
    @ivar failures: sends that failed; the first reason is in C{failure}.
    """

    what: str
    topic: str
    messages: int
    seconds: float
    per_second: float
    bytes_per_second: float
    latency_ms: dict[str, float]
    failures: int = 0
    failure: str | None = None


@click.group(
    epilog=examples(
        "smartgo bench send Bench --count 100000",
        "smartgo bench consume Bench --count 100000",
        "smartgo bench trip Bench --rate 1000 --seconds 30",
    )
)
def bench() -> None:
    """Measure throughput and latency: sending, consuming, and end to end.

    One client process is often slower than the broker; to load a broker fully, start several.
    """


def _load(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(
        (
            click.option("-n", "--count", type=click.IntRange(1), help="Number of messages.  [default: 10000]"),
            click.option("-s", "--seconds", type=click.FloatRange(0.1), help="Stop after this many seconds."),
            click.option(
                "--size",
                "body_size",
                type=click.IntRange(1, BODY_LIMIT),
                default=1024,
                show_default=True,
                help="Body size in bytes.",
            ),
            click.option(
                "-w", "--in-flight", type=click.IntRange(1, 4096), default=64, show_default=True,
                help="Number of concurrent sends.",
            ),
            click.option("--rate", type=click.FloatRange(0.1), help="Maximum sends per second."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


@bench.command(
    "send",
    epilog=examples(
        "smartgo bench send Bench --count 100000 --size 512",
        "smartgo bench send Bench --seconds 60 --rate 2000 -o json",
        "smartgo bench send Bench --batch 32 --in-flight 8",
    ),
)
@click.argument("topic", shell_complete=topic_names)
@_load
@click.option("--batch", type=click.IntRange(1, 1000), default=1, show_default=True, help="Messages in one send.")
@click.option("--keys/--no-keys", default=False, show_default=True, help="Give each message a key of its own.")
@OUTPUT
@cluster_options
def send(
    cluster: ClusterOptions,
    topic: str,
    count: int | None,
    seconds: float | None,
    body_size: int,
    in_flight: int,
    rate: float | None,
    batch: int,
    keys: bool,
    output: str,
) -> None:
    """Send messages to TOPIC and measure the latency of the acknowledgements. --count counts messages, --rate sends."""

    async def work(session: ClusterSession) -> None:
        producer = await producer_of(session, GROUP)
        body = bytes(body_size)
        await producer.send(Message(topic=topic, body=body))  # makes the topic

        async def one(number: int) -> int:
            if batch == 1:
                await producer.send(Message(topic=topic, body=body, keys=[f"bench-{number}"] if keys else ()))
                return 1
            first = number * batch
            messages = [
                Message(topic=topic, body=body, keys=[f"bench-{at}"] if keys else ())
                for at in range(first, first + batch)
            ]
            await producer.send_batch(messages)
            return batch

        limit = None if count is None else math.ceil(count / batch)
        with ProgressLine(session.env.clock, "sent", count) as progress:
            load = SendLoad(session.env.clock, one, limit, seconds, in_flight, rate, progress)
            await load.run()
        _tell("sent", topic, load.sent, load.took, body_size, load.latencies, output, load)

    cluster.do(work)


@bench.command(
    "consume",
    epilog=examples("smartgo bench consume Bench --count 100000", "smartgo bench consume Bench --seconds 30 -o json"),
)
@click.argument("topic", shell_complete=topic_names)
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@click.option("-s", "--seconds", type=click.FloatRange(0.1), help="Stop after this many seconds.  [default: 30]")
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
    "--batch",
    type=click.IntRange(1, 1024),
    default=32,
    show_default=True,
    help="Messages per batch handed to the consumer.",
)
@OUTPUT
@cluster_options
def consume(
    cluster: ClusterOptions, topic: str, count: int | None, seconds: float | None, group: str, batch: int, output: str
) -> None:
    """Consume the messages of TOPIC and measure the rate, starting with the first message received.

    A new group starts at the first message. Latency is measured from the sender's wall clock to this machine's.
    """

    async def work(session: ClusterSession) -> None:
        clock = session.env.clock
        latencies = Latencies()
        ended: Deferred[None] = Deferred()
        first = last = 0.0
        received = octets = 0
        progress = ProgressLine(clock, "consumed", count)

        def listener(messages: list[ReceivedMessage]) -> None:
            nonlocal first, last, received, octets
            last = clock.seconds()
            first = first or last
            now = clock.wall_ms()
            for message in messages:
                received += 1
                octets += len(message.body)
                latencies.add(max(0, now - message.born_ms) / 1000)
            progress.to(received)
            if count is not None and received >= count and not ended.called:
                ended.callback(None)

        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, batch=batch)
        consumer = PushConsumer(session.client, group, listener, settings)
        consumer.subscribe(topic)
        limit = seconds if seconds is not None else None if count is not None else 30.0
        with progress:
            await consumer.start()
            if limit is not None:
                ended.addTimeout(limit, clock, onTimeoutCancel=lambda result, _: None)
            await ended
        if not received:
            raise CommandError(f"no message of topic {topic} was received")
        _tell("consumed", topic, received, max(last - first, 1e-6), octets / received, latencies, output)

    cluster.do(work)


@bench.command(
    "trip", epilog=examples("smartgo bench trip Bench --rate 1000 --seconds 30", "smartgo bench trip Bench -o json")
)
@click.argument("topic", shell_complete=topic_names)
@_load
@OUTPUT
@cluster_options
def trip(
    cluster: ClusterOptions,
    topic: str,
    count: int | None,
    seconds: float | None,
    body_size: int,
    in_flight: int,
    rate: float | None,
    output: str,
) -> None:
    """Send messages to TOPIC and consume them here: measure end-to-end latency.

    The exit status is 1 if messages are missing ten seconds after the last send.
    """

    async def work(session: ClusterSession) -> None:
        clock = session.env.clock
        latencies = Latencies()
        waiting: set[str] = set()
        early: set[str] = set()
        done: Deferred[None] = Deferred()
        over = False
        name = f"{GROUP}-{session.env.random.token(4).hex()}"

        def listener(messages: list[ReceivedMessage]) -> None:
            now = clock.seconds()
            for message in messages:
                sent_at = message.properties.get(SENT_AT)
                if sent_at is None or message.properties.get("RUN") != name:
                    continue
                latencies.add(max(0.0, now - float(sent_at)))
                if message.message_id in waiting:
                    waiting.discard(message.message_id)
                else:
                    early.add(message.message_id)
            if over and not waiting and not done.called:
                done.callback(None)

        producer = await producer_of(session, GROUP)
        body = bytes(body_size)
        await producer.send(Message(topic=topic, body=body))  # makes the topic
        consumer = PushConsumer(session.client, name, listener, ConsumerSettings(batch=32))
        consumer.subscribe(topic)
        await consumer.start()

        async def one(number: int) -> int:
            properties = {SENT_AT: repr(clock.seconds()), "RUN": name}
            result = await producer.send(Message(topic=topic, body=body, properties=properties))
            if result.message_id in early:
                early.discard(result.message_id)
            else:
                waiting.add(result.message_id)
            return 1

        with ProgressLine(clock, "sent", count) as progress:
            load = SendLoad(clock, one, count, seconds, in_flight, rate, progress)
            await load.run()
        over = True
        if waiting:
            await done.addTimeout(10.0, clock, onTimeoutCancel=lambda result, _: None)
        await consumer.stop()
        await session.admin.groups.delete(name)
        _tell("end to end", topic, latencies.count, load.took, body_size, latencies, output, load)
        if waiting:
            raise CommandError(f"{len(waiting):,} of {counted(load.sent, 'message')} did not arrive")

    cluster.do(work)


def _tell(
    what: str,
    topic: str,
    messages: int,
    seconds: float,
    body_size: float,
    latencies: Latencies,
    output: str,
    load: SendLoad | None = None,
) -> None:
    result = BenchResult(
        what,
        topic,
        messages,
        round(seconds, 3),
        round(messages / seconds, 1),
        round(messages * body_size / seconds, 1),
        latencies.figures(),
        load.failures if load is not None else 0,
        load.failure if load is not None else None,
    )
    if output != TEXT:
        print_value(output, plain(result))
    else:
        figures = ", ".join(f"{name} {value:g}" for name, value in result.latency_ms.items())
        members: dict[str, object] = {
            what: f"{counted(messages, 'message')} in {seconds:.2f} s",
            "per second": f"{result.per_second:,.0f} messages, {size_text(result.bytes_per_second)}",
            "latency, ms": figures,
        }
        if result.failures:
            members["failed"] = f"{counted(result.failures, 'send')}; first error: {result.failure}"
        print_members(TEXT, result, members)
    if result.failures:
        raise CommandError(f"{counted(result.failures, 'send')} failed")
