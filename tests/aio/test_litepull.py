"""The lite pull consumer on asyncio: what may be called when, cancellation, and listeners of queues."""

from __future__ import annotations

import asyncio

from twisted.internet.defer import Deferred

from smartgo.aio import (
    Admin,
    CallFailed,
    Client,
    ConsumeFromWhere,
    LitePullConsumer,
    LitePullSettings,
    MessageQueue,
    ReceivedMessage,
    SettingError,
)
from smartgo.client import litepull as twisted
from tests.aio.test_aio import WAIT, AioCase, send

FIRST = LitePullSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


class LitePullTests(AioCase):
    def test_before_start(self) -> Deferred[None]:
        """Topics are subscribed before the start, also while the client does not run; or queues are assigned."""

        async def work() -> None:
            client = Client(self.registry)
            consumer = LitePullConsumer(client, "cg", FIRST)
            consumer.subscribe("T")
            self.assertEqual(consumer.queues, [])
            with self.assertRaises(CallFailed):
                await consumer.start()
            await consumer.stop()
            async with client:
                await send(client, "T", 3)
                with self.assertRaises(CallFailed):
                    await consumer.poll()
                async with consumer:
                    messages = await consumer.poll(WAIT)
                    self.assertEqual([one.body for one in messages], [b"0", b"1", b"2"])
                    with self.assertRaises(SettingError):
                        consumer.subscribe("Other")
                    with self.assertRaises(SettingError):
                        await consumer.assign([])
                    with self.assertRaises(SettingError):
                        await consumer.start()
                    self.assertEqual(await consumer.poll(0), [])  # the second start changed nothing
                with self.assertRaises(SettingError):
                    await consumer.start()

        return self.run_on_loop(work)

    def test_cancelled(self) -> Deferred[None]:
        """A poll that is cancelled ends at once, and the next one has what comes after that."""

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "T", 1)
                consumer = LitePullConsumer(client, "cg", FIRST)
                consumer.subscribe("T")
                async with consumer:
                    self.assertEqual(len(await consumer.poll(WAIT)), 1)
                    with self.assertRaises(TimeoutError):
                        async with asyncio.timeout(0.01):
                            await consumer.poll(WAIT)
                    await send(client, "T", 1)
                    self.assertEqual(len(await consumer.poll(WAIT)), 1)

        return self.run_on_loop(work)

    def test_cancelled_late(self) -> Deferred[None]:
        """Messages that came in the moment in which the task was cancelled are polled again."""
        taken: list[ReceivedMessage] = []
        poll = twisted.LitePullConsumer.poll

        def polled(consumer: twisted.LitePullConsumer, timeout: float | None = None) -> Deferred[list[ReceivedMessage]]:
            def cancel(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
                if not taken:
                    taken.extend(messages)
                    asyncio.get_running_loop().call_soon(tasks[0].cancel)
                return messages

            return poll(consumer, timeout).addCallback(cancel)

        tasks: list[asyncio.Task[list[ReceivedMessage]]] = []
        self.patch(twisted.LitePullConsumer, "poll", polled)

        async def work() -> None:
            async with Client(self.registry) as client:
                await send(client, "Other", 1)  # its registry knows the broker
                await Admin(client).topics.create("T", queues=1)
                consumer = LitePullConsumer(client, "cg", FIRST)
                consumer.subscribe("T")
                async with consumer:
                    tasks.append(asyncio.create_task(consumer.poll(WAIT)))
                    await asyncio.sleep(0)
                    await send(client, "T", 1)
                    with self.assertRaises(asyncio.CancelledError):
                        await tasks[0]
                    (again,) = await consumer.poll(WAIT)
                    self.assertEqual([again.message_id], [one.message_id for one in taken])

        return self.run_on_loop(work)

    def test_queues_changed(self) -> Deferred[None]:
        """A listener, plain or a coroutine function, is told of the queues of a topic when there are more."""

        async def work() -> None:
            told: asyncio.Queue[tuple[str, int]] = asyncio.Queue()

            async def listener(topic: str, queues: tuple[MessageQueue, ...]) -> None:
                await told.put((topic, len(queues)))

            async with Client(self.registry) as client:
                await Admin(client).topics.create("T", queues=2)
                consumer = LitePullConsumer(client, "cg", FIRST)
                consumer.subscribe("T")
                async with consumer:
                    await consumer.on_queues_changed("T", listener)
                    await Admin(client).topics.create("T", queues=3)
                    await client.inner.routes.refresh().asFuture(asyncio.get_running_loop())
                    self.assertEqual(await told.get(), ("T", 3))

        return self.run_on_loop(work)

    def test_listener_broke(self) -> Deferred[None]:
        """A listener of queues that raises is logged, and disturbs nobody."""

        async def work() -> None:
            raised = asyncio.Event()

            async def listener(topic: str, queues: tuple[MessageQueue, ...]) -> None:
                raised.set()
                raise LookupError

            async with Client(self.registry) as client:
                await Admin(client).topics.create("T", queues=2)
                consumer = LitePullConsumer(client, "cg", FIRST)
                consumer.subscribe("T")
                async with consumer:
                    await consumer.on_queues_changed("T", listener)
                    await Admin(client).topics.create("T", queues=3)
                    await client.inner.routes.refresh().asFuture(asyncio.get_running_loop())
                    await raised.wait()
                    self.assertEqual(await consumer.poll(0), [])

        return self.run_on_loop(work).addCallback(
            lambda _: self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        )
