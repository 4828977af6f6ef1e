"""C{smartgo demo}: a short demonstration that leaves nothing behind."""

from __future__ import annotations

import posixpath
from collections import Counter
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from twisted.internet.defer import Deferred

from smartgo.cli.support.embedded import EmbeddedNode, configuration_of
from smartgo.cli.support.parallel import call_each
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.texts import examples
from smartgo.client.admin import Admin
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage, SendResult
from smartgo.client.producer import Producer
from smartgo.core import CORE
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.bodies import ConsumeFromWhere

TOPIC: Final = "DemoRun"
GROUP: Final = "demo"
QUEUES: Final = 8
CONSUME_TIMEOUT: Final = 60.0  # seconds for all messages to be consumed

_AT_A_TIME: Final = 256  # sends that wait for their answers


@click.command(
    epilog=examples("smartgo demo", "smartgo demo --count 100000"),
)
@click.option(
    "-n", "--count", type=click.IntRange(2), default=10_000, show_default=True, help="Number of messages to send."
)
def demo(count: int) -> None:
    """Start a broker on free ports with a temporary store, send messages, consume them in a group of two
    consumers, find one by its id, and remove everything again.

    The exit status is 0 if every message arrived.
    """
    console = Console(highlight=False)

    async def work(env: IEnvironment) -> None:
        directory = env.files.temporary_directory("smartgo-demo-")
        try:
            node = EmbeddedNode(env, configuration_of(env, _settings(env, directory)), console.print, fill_disk=True)
            try:
                await node.start()
                console.print(f"Started a registry at [b]{node.registry}[/b] and a broker at [b]{node.broker}[/b].")
                console.print(f"Store: {directory} (removed at the end). {node.durability}. Core: {CORE}.")
                await DemoRun(env, node.registry, console, count).run()
            finally:
                await node.stop()
        finally:
            env.files.remove_tree(directory)
        console.print("Every message arrived. The broker is stopped and its store removed.")
        console.print(
            "Next: [b]smartgo dev[/b] runs a broker until you stop it; [b]smartgo --help[/b] lists all commands."
        )

    do(work)


def _settings(env: IEnvironment, directory: str) -> dict[str, str]:
    """Return settings with free ports, and with small files that fit on a nearly full disk."""
    ports = [env.network.free_port() for _ in range(3)]
    return {
        "registry.listenPort": str(ports[0]),
        "broker.listenPort": str(ports[1]),
        "haListenPort": str(ports[2]),
        "fastPort": "false",
        "brokerName": "demo-broker",
        "storePathRootDir": posixpath.join(directory, "store"),
        "kvConfigPath": posixpath.join(directory, "kvConfig.json"),
        "mappedFileSizeCommitLog": "4MiB",
        "mappedFileSizeConsumeQueue": "200000",
    }


class DemoRun:
    """Sends, consumes and finds the messages of the demonstration."""

    def __init__(self, env: IEnvironment, registry: str, console: Console, count: int) -> None:
        self._env = env
        self._registry = registry
        self._console = console
        self._count = count
        self._sent: dict[str, SendResult] = {}
        self._seen: Counter[str] = Counter()
        self._shares = [0, 0]
        self._all_seen: Deferred[None] = Deferred()

    async def run(self) -> None:
        """
        Run the demonstration.

        @raise CommandError: a message is missing.
        """
        clients = [Client(self._env, self._registry) for _ in range(3)]
        try:
            await Admin(clients[0]).topics.create(TOPIC, QUEUES)
            consumers = [self._consumer(clients[1 + number], number) for number in range(2)]
            for consumer in consumers:
                await consumer.start()
            begin = self._env.clock.seconds()
            await self._send(clients[0])
            sent = self._env.clock.seconds() - begin
            await self._wait()
            consumed = self._env.clock.seconds() - begin
            await self._find(clients[0])
        finally:
            for client in clients:
                await client.stop()
        self._report(sent, consumed)

    def _consumer(self, client: Client, number: int) -> PushConsumer:
        def listener(messages: list[ReceivedMessage]) -> None:
            self._shares[number] += len(messages)
            self._seen.update(message.message_id for message in messages)
            self._look()

        settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, batch=32)
        consumer = PushConsumer(client, GROUP, listener, settings)
        consumer.subscribe(TOPIC)
        return consumer

    def _look(self) -> None:
        if len(self._seen) >= self._count and not self._all_seen.called:
            self._all_seen.callback(None)

    async def _send(self, client: Client) -> None:
        producer = Producer(client, GROUP, timeout=30.0)
        await producer.start()

        async def one(number: int) -> None:
            message = Message(topic=TOPIC, body=b"message %d" % number, tag="demo", keys=[f"key-{number}"])
            result = await producer.send(message)
            self._sent[result.message_id] = result

        await call_each(one, self._count, _AT_A_TIME)

    async def _wait(self) -> None:
        """Wait up to C{CONSUME_TIMEOUT} s until all messages are consumed; the report names what is missing."""
        await self._all_seen.addTimeout(CONSUME_TIMEOUT, self._env.clock, onTimeoutCancel=lambda result, _: None)

    async def _find(self, client: Client) -> None:
        result = list(self._sent.values())[self._count // 2]
        found = await Admin(client).messages.by_id(result.offset_id)
        if found.message_id != result.message_id:
            raise CommandError(f"the search for message {result.message_id} found {found.message_id}")
        self._console.print(
            f"Found message {result.message_id} by its id: body {found.body.decode()!r}, key {found.keys[0]}."
        )

    def _report(self, sent: float, consumed: float) -> None:
        table = Table("step", box=None)
        for heading in ("messages", "seconds", "per second"):
            table.add_column(heading, justify="right")
        for what, count, seconds in (
            ("sent and acknowledged", len(self._sent), sent),
            ("consumed by a group of two", len(self._seen), consumed),
        ):
            table.add_row(what, f"{count:,}", f"{seconds:.2f}", f"{count / max(seconds, 0.001):,.0f}")
        self._console.print(table)
        twice = sum(self._seen.values()) - len(self._seen)
        self._console.print(
            f"The two consumers received {self._shares[0]:,} and {self._shares[1]:,} messages, {twice:,} of them twice."
        )
        missing = self._sent.keys() - self._seen.keys()
        if len(self._sent) != self._count or missing:
            raise CommandError(f"{len(missing)} of {self._count} messages did not arrive")
