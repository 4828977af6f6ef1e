"""C{smartgo msg tail}: print the messages of a topic as they arrive."""

from __future__ import annotations

import click

from smartgo.cli.commands.sendconsume import print_message
from smartgo.cli.support.completions import topic_names
from smartgo.cli.support.output import OUTPUT
from smartgo.cli.support.reading import QueuePosition, read_position
from smartgo.cli.support.session import ClusterSession
from smartgo.cli.support.texts import examples
from smartgo.cli.support.topicfollower import TopicFollower
from smartgo.cli.support.wholeanswers import MissingBrokersWatch, ReadingOptions, reading_options, say
from smartgo.client.messages import ReceivedMessage

TAG = click.option(
    "-t", "--tag", default="*", metavar="TAGS", help="Only messages with these tags: TAG, or 'TAG || TAG'."
)


@click.command(
    "tail", epilog=examples("smartgo msg tail Orders", "smartgo msg tail Orders --from -10 --tag new -o jsonl")
)
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "-f",
    "--from",
    "begin",
    callback=read_position,
    default="last",
    show_default=True,
    metavar="first|last|TIME|OFFSET|-N",
    help="Start position in each queue; -N: N messages before its end.",
)
@TAG
@click.option("--grep", default="", metavar="TEXT", help="Only messages whose body contains TEXT.")
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many messages.")
@OUTPUT
@reading_options
def tail(
    cluster: ReadingOptions, topic: str, begin: QueuePosition, tag: str, grep: str, count: int | None, output: str
) -> None:
    """Print the messages of TOPIC as they arrive, until ctrl-C. Joins no group, so no consumer misses a message.

    Brokers whose messages are lacking are named on standard error, at the start and whenever others are missing.
    """

    async def work(session: ClusterSession, watch: MissingBrokersWatch) -> None:
        wanted = grep.encode()
        printed = 0

        def take(message: ReceivedMessage) -> bool:
            nonlocal printed
            if wanted in message.body:
                try:
                    print_message(output, message)
                except BrokenPipeError:
                    return False
                printed += 1
            return printed != count

        await session.client.routes.find(topic)

        def tell(sentence: str) -> None:
            say(sentence)
            session.client.routes.doubt()  # look up the queues soon

        watch.follow(tell)
        await TopicFollower(session, topic, begin, tag, take).run()

    cluster.stream(work)
