"""Transactions of programs that block: threads, errors, interrupts and the end of a producer."""

from __future__ import annotations

import queue
import threading
from typing import ClassVar

from twisted.internet.defer import Deferred

from smartgo.sync import (
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
from tests.sync.test_sync import FIRST, WAIT, SyncCase


def never_asked(half: ReceivedMessage) -> TransactionState:
    """Leave a transaction undecided."""
    return TransactionState.UNKNOWN


class TransactionTests(SyncCase):
    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "1000", "transactionTimeOut": "1000"}

    def test_threads(self) -> Deferred[None]:
        """The local transaction runs in the thread that sends, and may send itself; the check runs in another one."""

        def work() -> None:
            checked: queue.Queue[tuple[str, str]] = queue.Queue()
            here = threading.current_thread()
            threads: list[threading.Thread] = []

            def check(half: ReceivedMessage) -> TransactionState:
                producer.send(Message(topic="Notes", body=b"asked"))  # a call that blocks
                checked.put((half.message_id, threading.current_thread().name))
                return TransactionState.COMMIT

            def local(message: Message, id: str) -> TransactionState:
                producer.send(Message(topic="Notes", body=b"local"))
                threads.append(threading.current_thread())
                return TransactionState.UNKNOWN

            with Client(self.registry) as client, TransactionProducer(client, "tp", check) as producer:
                result = producer.send_in_transaction(Message(topic="T", body=b"x"), local)
                self.assertEqual((result.state, threads), (TransactionState.UNKNOWN, [here]))
                with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    message = consumer.receive(WAIT)
                assert message is not None
                self.assertEqual(message.message_id, result.message_id)
                found, name = checked.get(timeout=WAIT)
                self.assertEqual(found, result.message_id)
                self.assertTrue(name.startswith("smartgo-tp"), name)

        return self.run_in_thread(work)

    def test_raised(self) -> Deferred[None]:
        """A local transaction that raises leaves its transaction undecided, and its error is in the result."""

        def local(message: Message, id: str) -> TransactionState:
            raise LookupError(id)

        def work() -> None:
            with Client(self.registry) as client, TransactionProducer(client, "tp", never_asked) as producer:
                result = producer.send_in_transaction(Message(topic="T", body=b"x"), local)
                self.assertEqual(result.state, TransactionState.UNKNOWN)
                self.assertIsInstance(result.error, LookupError)

        return self.run_in_thread(work).addCallback(lambda _: self.flushLoggedErrors(LookupError))

    def test_interrupted(self) -> Deferred[None]:
        """An interrupt of a local transaction leaves its thread; the broker asks, and the producer works on."""

        class Interrupted(BaseException):
            pass

        def local(message: Message, id: str) -> TransactionState:
            ids.append(id)
            raise Interrupted

        def work() -> None:
            checked: queue.Queue[str] = queue.Queue()

            def check(half: ReceivedMessage) -> TransactionState:
                checked.put(half.message_id)
                return TransactionState.ROLLBACK

            with Client(self.registry) as client, TransactionProducer(client, "tp", check) as producer:
                with self.assertRaises(Interrupted):
                    producer.send_in_transaction(Message(topic="T", body=b"x"), local)
                self.assertEqual(checked.get(timeout=WAIT), ids[0])
                producer.send(Message(topic="T", body=b"y"))

        ids: list[str] = []
        return self.run_in_thread(work).addCallback(lambda _: self.flushLoggedErrors())

    def test_again(self) -> Deferred[None]:
        """A producer can be started again after a stop; a second one of its group is refused, and changes nothing."""

        def work() -> None:
            with Client(self.registry) as client:
                producer = TransactionProducer(client, "tp", never_asked)
                message = Message(topic="T", body=b"x")
                with self.assertRaises(CallFailed):
                    producer.send_in_transaction(message, lambda *_: TransactionState.COMMIT)
                for _ in range(2):
                    with producer:
                        with self.assertRaises(SettingError):
                            Producer(client, "tp").start()
                        with self.assertRaises(SettingError):
                            producer.start()
                        result = producer.send_in_transaction(message, lambda *_: TransactionState.ROLLBACK)
                        self.assertEqual(result.state, TransactionState.ROLLBACK)

        return self.run_in_thread(work)

    def test_coroutine_functions(self) -> None:
        """Coroutine functions are refused, with the module that takes them."""

        async def check(half: ReceivedMessage) -> TransactionState:
            return TransactionState.COMMIT

        async def local(message: Message, id: str) -> TransactionState:
            return TransactionState.COMMIT

        client = Client("127.0.0.1")
        error = self.assertRaises(SettingError, TransactionProducer, client, "tp", check)
        self.assertIn("smartgo.aio", str(error))
        producer = TransactionProducer(client, "tp", never_asked)
        self.assertRaises(SettingError, producer.send_in_transaction, Message(topic="T", body=b"x"), local)
