"""The client for asyncio: loops over messages, cancellation, context variables, loops and installed reactors."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from smartgo.aio import (
    CallFailed,
    Client,
    ConsumeFromWhere,
    ConsumerSettings,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    SettingError,
    Tracing,
)
from tests.client.test_cluster import ClusterCase
from tests.test_layers import ROOT

FIRST = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
WAIT = 60.0

_shade: ContextVar[str] = ContextVar("shade", default="none")


class AioCase(ClusterCase):
    """A node of ours in trial's thread, and a loop in another one."""

    def run_on_loop(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Deferred[None]:
        """Run a coroutine by C{asyncio.run} in a thread."""

        async def limited() -> None:
            async with asyncio.timeout(WAIT):
                await work()

        return deferToThread(asyncio.run, limited(), debug=True)

    @property
    def registry(self) -> str:
        """C{host:port} of the registry."""
        return self.node.registry


async def send(client: Client, topic: str, count: int) -> None:
    """Send messages to one queue of a topic, in order."""
    async with Producer(client, "pg-aio") as producer:
        queue = (await producer.queues(topic))[0]
        for number in range(count):
            await producer.send_to(Message(topic=topic, body=b"%d" % number), queue)


async def position(client: Client, group: str, topic: str) -> int | None:
    """Return a group's offset in the queue that L{send} uses."""
    puller = PullConsumer(client, group)
    return await puller.committed((await puller.queues(topic))[0])


class LoopTests(AioCase):
    def test_acknowledged(self) -> Deferred[None]:
        """A message is acknowledged when the next one is asked for; one that is in work when the loop ends is not."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 3)
                seen = []
                async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    async for message in consumer:
                        seen.append(message.body)
                        if len(seen) == 3:
                            break
                self.assertEqual(seen, [b"0", b"1", b"2"])
                self.assertEqual(await position(client, "cg", "T"), 2)
                async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    message = await anext(aiter(consumer))
                    self.assertEqual((message.body, message.reconsume_times), (b"2", 0))
                    consumer.acknowledge()
                self.assertEqual(await position(client, "cg", "T"), 3)

        return self.run_on_loop(work)

    def test_raised(self) -> Deferred[None]:
        """A message whose body raises is redelivered after a delay, with its count; the error leaves the loop."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 1)
                with self.assertRaises(ZeroDivisionError):
                    async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                        consumer.subscribe("T")
                        async for _ in consumer:
                            _ = 1 // 0
                async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    again = await consumer.receive(WAIT)
                    assert again is not None
                    self.assertEqual((again.topic, again.body, again.reconsume_times), ("T", b"0", 1))
                    consumer.acknowledge()

        return self.run_on_loop(work).addCallback(self._flush)

    def _flush(self, _: None) -> None:
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_batches(self) -> Deferred[None]:
        """Batches are lists of messages; single messages are refused where the settings ask for batches."""

        async def work() -> None:
            async with Client(self.registry) as client:
                async with Producer(client, "pg-aio") as producer:
                    await producer.send_batch([Message(topic="T", body=b"%d" % n) for n in range(4)])
                settings = ConsumerSettings(begin=FIRST.begin, batch=4)
                async with PushConsumer(client, "cg", settings=settings) as consumer:
                    consumer.subscribe("T")
                    with self.assertRaises(SettingError):
                        await consumer.receive()
                    async for messages in consumer.batches():
                        self.assertEqual([one.body for one in messages], [b"0", b"1", b"2", b"3"])
                        break

        return self.run_on_loop(work)

    def test_receive(self) -> Deferred[None]:
        """To receive waits as long as it is told to; one task waits at a time."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 1)
                async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    self.assertIsNotNone(await consumer.receive(WAIT))
                    self.assertIsNone(await consumer.receive(0.01))
                    waiting = asyncio.create_task(consumer.receive())
                    await asyncio.sleep(0)
                    with self.assertRaises(SettingError):
                        await consumer.receive()
                self.assertIsNone(await waiting)  # the consumer has stopped

        return self.run_on_loop(work)


class CancellationTests(AioCase):
    def test_receive(self) -> Deferred[None]:
        """A message is not lost where the task that was to get it is cancelled in the same moment."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 1)
                async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    self.assertIsNotNone(await consumer.receive(WAIT))
                    waiting = asyncio.create_task(consumer.receive())
                    await asyncio.sleep(0)
                    waiting.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await waiting
                    await send(client, "T", 1)
                    self.assertIsNotNone(await consumer.receive(WAIT))

        return self.run_on_loop(work)

    def test_pull(self) -> Deferred[None]:
        """A long poll whose task is cancelled ends at once, and its client goes on."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 1)
                puller = PullConsumer(client, "cg")
                queue = (await puller.queues("T"))[0]
                with self.assertRaises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await puller.pull(queue, 1, hold=30.0)
                self.assertEqual((await puller.pull(queue, 0)).messages[0].body, b"0")

        return self.run_on_loop(work)

    def test_stop(self) -> Deferred[None]:
        """A stop whose task is cancelled goes on to its end before the task is told."""

        async def work() -> None:
            client = Client(self.registry)
            await client.start()
            await send(client, "T", 1)
            stopping = asyncio.create_task(client.stop())
            await asyncio.sleep(0)
            stopping.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await stopping
            with self.assertRaises(CallFailed):
                _ = client.inner

        return self.run_on_loop(work)


class LifeTests(AioCase):
    def test_waiting(self) -> Deferred[None]:
        """A call that waits when its client stops fails; it does not wait for ever."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 1)
                puller = PullConsumer(client, "cg")
                queues = await puller.queues("T")
                producer = Producer(client, "pg-aio")
                await producer.start()
                asking = asyncio.create_task(producer.request(Message(topic="T", body=b"?"), timeout=600.0))
                while sum([await puller.max_offset(one) for one in queues]) < 2:
                    await asyncio.sleep(0)
            with self.assertRaises(CallFailed):
                await asking

        return self.run_on_loop(work)

    def test_again(self) -> Deferred[None]:
        """A client that was made before a loop runs works on one loop after another; nothing is left behind."""
        client = Client(self.registry)

        async def work() -> None:
            async with client:
                await send(client, "T", 1)
                with self.assertRaises(SettingError):
                    await client.start()
            await client.stop()
            with self.assertRaises(CallFailed):
                await send(client, "T", 1)

        return self.run_on_loop(work).addCallback(lambda _: self.run_on_loop(work))

    def test_listener(self) -> Deferred[None]:
        """A listener that is a coroutine function may await anything of asyncio, and sees the context of the start."""

        async def work() -> None:
            found: asyncio.Queue[tuple[bytes, str]] = asyncio.Queue()

            async def listener(messages: list[ReceivedMessage]) -> None:
                await asyncio.sleep(0.001)
                await found.put((messages[0].body, _shade.get()))

            _shade.set("blue")
            async with Client(self.registry) as client:
                consumer = PushConsumer(client, "cg", listener, FIRST)
                consumer.subscribe("T")
                async with consumer:
                    await send(client, "T", 1)
                    self.assertEqual(await found.get(), (b"0", "blue"))

        return self.run_on_loop(work)

    def test_span(self) -> Deferred[None]:
        """In a listener the span of its call is current, and so are the variables of the start."""
        if find_spec("opentelemetry.sdk") is None:
            self.skipTest("the extra otel is not installed")

        async def work() -> None:
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider

            found: asyncio.Queue[tuple[bool, str]] = asyncio.Queue()

            async def listener(messages: list[ReceivedMessage]) -> None:
                await asyncio.sleep(0)
                await found.put((trace.get_current_span().get_span_context().is_valid, _shade.get()))

            _shade.set("red")
            async with Client(self.registry, trace=Tracing(opentelemetry=TracerProvider())) as client:
                consumer = PushConsumer(client, "cg", listener, FIRST)
                consumer.subscribe("T")
                async with consumer:
                    await send(client, "T", 1)
                    self.assertEqual(await found.get(), (True, "red"))

        return self.run_on_loop(work)

    def test_selector(self) -> Deferred[None]:
        """A function that is called within a call sees the context of the caller, who sees no change of it."""

        async def work() -> None:
            seen = []

            def choose(queues: Any, message: Message, argument: object) -> Any:
                seen.append(_shade.get())
                _shade.set("changed")
                return queues[0]

            async with Client(self.registry) as client, Producer(client, "pg-aio") as producer:
                _shade.set("green")
                await producer.send_by(Message(topic="T", body=b"x"), choose, None)
                self.assertEqual((seen, _shade.get()), (["green"], "green"))

        return self.run_on_loop(work)

    def test_garbage(self) -> Deferred[None]:
        """A stopped client leaves no reader in its loop, and no socket open."""

        async def work() -> None:
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                async with Client(self.registry) as client:
                    await PullConsumer(client, "cg").queues("TBW102")
            gc.collect()
            self.assertLess(len(os.listdir("/proc/self/fd")), before + 4)  # the broker closes its ends meanwhile

        return self.run_on_loop(work)


PROGRAM = """
import asyncio, sys
{before}
from smartgo.aio import Client, Message, Producer

async def main():
    async with Client(sys.argv[1]) as client, Producer(client, "pg") as producer:
        results = await asyncio.gather(*[producer.send(Message(topic="T", body=b"x")) for _ in range(20)])
        print(len({{one.message_id for one in results}}), "twisted.internet.reactor" in sys.modules)

{run}
"""


class ProgramTests(AioCase):
    def run_program(self, before: str, run: str) -> Deferred[str]:
        """Run a program of its own; return what it prints. Warnings of resources are errors."""
        command = [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM.format(before=before, run=run)]

        def call() -> str:
            done = subprocess.run(
                [*command, self.registry], capture_output=True, text=True, check=False, cwd=ROOT, timeout=WAIT
            )
            return done.stdout + done.stderr

        return deferToThread(call)

    def test_alone(self) -> Deferred[None]:
        """No reactor is installed."""
        return self.run_program("", "asyncio.run(main())").addCallback(self.assertEqual, "20 False\n")

    def test_installed(self) -> Deferred[None]:
        """The client works where the program has installed Twisted's reactor for asyncio and runs that."""
        before = (
            "from twisted.internet import asyncioreactor\n"
            "asyncioreactor.install()\n"
            "from twisted.internet import reactor\n"
            "from twisted.internet.defer import Deferred\n"
            "from twisted.internet.task import react"
        )
        run = "react(lambda _: Deferred.fromFuture(asyncio.ensure_future(main())))"
        return self.run_program(before, run).addCallback(self.assertEqual, "20 True\n")

    def test_uvloop(self) -> Deferred[None]:
        """The client works on uvloop, where that is installed."""
        try:
            import uvloop  # noqa: F401
        except ImportError:
            self.skipTest("uvloop is not installed")
        return self.run_program("import uvloop", "uvloop.run(main())").addCallback(self.assertEqual, "20 False\n")

    def test_anyio(self) -> Deferred[None]:
        """The client works in tasks of anyio, where that is installed."""
        try:
            import anyio  # noqa: F401
        except ImportError:
            self.skipTest("anyio is not installed")
        return self.run_program("import anyio", "anyio.run(main)").addCallback(self.assertEqual, "20 False\n")
