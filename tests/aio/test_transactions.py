"""Transactions on asyncio: coroutine functions, errors, and cancellation."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from twisted.internet.defer import Deferred

from smartgo.aio import (
    CallFailed,
    Client,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    SettingError,
    TransactionProducer,
    TransactionState,
)
from tests.aio.test_aio import FIRST, WAIT, AioCase


async def never_asked(half: ReceivedMessage) -> TransactionState:
    """Leave a transaction undecided."""
    return TransactionState.UNKNOWN


class TransactionTests(AioCase):
    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}

    def test_coroutines(self) -> Deferred[None]:
        """Local transaction and check may be coroutine functions; the check is asked what the first left open."""

        async def work() -> None:
            checked: list[str] = []

            async def check(half: ReceivedMessage) -> TransactionState:
                await asyncio.sleep(0)
                checked.append(half.message_id)
                return TransactionState.COMMIT

            async def local(message: Message, id: str) -> TransactionState:
                await asyncio.sleep(0)
                return TransactionState.UNKNOWN

            async with Client(self.registry) as client, TransactionProducer(client, "tp", check) as producer:
                result = await producer.send_in_transaction(Message(topic="T", body=b"x"), local)
                self.assertEqual((result.state, result.error), (TransactionState.UNKNOWN, None))
                async with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    message = await consumer.receive(WAIT)
                assert message is not None
                self.assertEqual((message.message_id, checked), (result.message_id, [result.message_id]))

        return self.run_on_loop(work)

    def test_raised(self) -> Deferred[None]:
        """A local transaction that raises leaves its transaction undecided, and its error is in the result."""

        async def local(message: Message, id: str) -> TransactionState:
            raise LookupError(id)

        async def work() -> None:
            async with Client(self.registry) as client, TransactionProducer(client, "tp", never_asked) as producer:
                result = await producer.send_in_transaction(Message(topic="T", body=b"x"), local)
                self.assertEqual(result.state, TransactionState.UNKNOWN)
                self.assertIsInstance(result.error, LookupError)

        return self.run_on_loop(work).addCallback(lambda _: self.flushLoggedErrors(LookupError))

    def test_cancelled(self) -> Deferred[None]:
        """A send that is cancelled cancels its local transaction; the broker asks, and the producer works on."""

        async def work() -> None:
            begun, cancelled = asyncio.Event(), asyncio.Event()
            checked: asyncio.Queue[str] = asyncio.Queue()
            ids: list[str] = []

            async def check(half: ReceivedMessage) -> TransactionState:
                await checked.put(half.message_id)
                return TransactionState.ROLLBACK

            async def local(message: Message, id: str) -> TransactionState:
                ids.append(id)
                begun.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
                return TransactionState.COMMIT

            async with Client(self.registry) as client, TransactionProducer(client, "tp", check) as producer:
                sending = asyncio.create_task(producer.send_in_transaction(Message(topic="T", body=b"x"), local))
                await begun.wait()
                sending.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await sending
                await cancelled.wait()
                self.assertEqual(await checked.get(), ids[0])
                await producer.send(Message(topic="T", body=b"y"))

        return self.run_on_loop(work).addCallback(lambda _: self.flushLoggedErrors(CallFailed))

    def test_again(self) -> Deferred[None]:
        """A producer can be started again after a stop; a second one of its group is refused, and changes nothing."""

        async def work() -> None:
            async with Client(self.registry) as client:
                producer = TransactionProducer(client, "tp", never_asked)
                with self.assertRaises(CallFailed):
                    await producer.send_in_transaction(Message(topic="T", body=b"x"), lambda *_: never)
                for _ in range(2):
                    async with producer:
                        with self.assertRaises(SettingError):
                            await Producer(client, "tp").start()
                        result = await producer.send_in_transaction(Message(topic="T", body=b"x"), lambda *_: never)
                        self.assertEqual(result.state, never)

        never = TransactionState.ROLLBACK
        return self.run_on_loop(work)
