"""The lite pull consumer of programs that block: what may be called when, interrupts, and listeners of queues."""

from __future__ import annotations

import queue
import threading

from twisted.internet.defer import Deferred

from smartgo.sync import (
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
from tests.sync.test_sync import WAIT, SyncCase, send

FIRST = LitePullSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


class Interrupted(BaseException):
    """What an interrupt raises in the thread that waits."""


class LitePullTests(SyncCase):
    def test_before_start(self) -> Deferred[None]:
        """Topics are subscribed before the start, also while the client does not run; or queues are assigned."""

        def work() -> None:
            client = Client(self.registry)
            consumer = LitePullConsumer(client, "cg", FIRST)
            consumer.subscribe("T")
            self.assertEqual(consumer.queues, [])
            with self.assertRaises(CallFailed):
                consumer.start()
            consumer.stop()
            with client:
                send(client, "T", 3)
                with self.assertRaises(CallFailed):
                    consumer.poll()
                with consumer:
                    messages = consumer.poll(WAIT)
                    self.assertEqual([one.body for one in messages], [b"0", b"1", b"2"])
                    for wrong in (lambda: consumer.subscribe("Other"), lambda: consumer.assign([]), consumer.start):
                        with self.assertRaises(SettingError):
                            wrong()
                    self.assertEqual(consumer.poll(0), [])  # the second start changed nothing
                with self.assertRaises(SettingError):
                    consumer.start()

        return self.run_in_thread(work)

    def test_interrupted(self) -> Deferred[None]:
        """Messages that came in the moment of an interrupt are polled again."""
        taken: list[ReceivedMessage] = []

        def work() -> None:
            with Client(self.registry) as client:
                send(client, "T", 2)
                consumer = LitePullConsumer(client, "cg", FIRST)
                consumer.subscribe("T")
                wait = client.wait

                def interrupted(begin: object) -> None:
                    taken.extend(wait(begin))  # type: ignore[arg-type]
                    raise Interrupted

                with consumer:
                    while not taken:
                        client.wait = interrupted  # type: ignore[method-assign,assignment]
                        with self.assertRaises(Interrupted):
                            consumer.poll(WAIT)
                        client.wait = wait  # type: ignore[method-assign]
                    again = consumer.poll(WAIT)
                    self.assertEqual([one.message_id for one in again], [one.message_id for one in taken])

        return self.run_in_thread(work)

    def test_queues_changed(self) -> Deferred[None]:
        """A listener runs in a thread when the queues of a topic change; one that raises is logged."""

        def work() -> None:
            told: queue.Queue[tuple[str, int, str]] = queue.Queue()

            def listener(topic: str, queues: tuple[MessageQueue, ...]) -> None:
                told.put((topic, len(queues), threading.current_thread().name))
                raise LookupError

            async def coroutine(topic: str, queues: tuple[MessageQueue, ...]) -> None: ...

            with Client(self.registry) as client:
                Admin(client).topics.create("T", queues=2)
                consumer = LitePullConsumer(client, "cg", FIRST)
                consumer.subscribe("T")
                with consumer:
                    with self.assertRaises(SettingError):
                        consumer.on_queues_changed("T", coroutine)
                    consumer.on_queues_changed("T", listener)
                    Admin(client).topics.create("T", queues=3)
                    client.wait(client.inner.routes.refresh)
                    topic, count, name = told.get(timeout=WAIT)
                    self.assertEqual((topic, count), ("T", 3))
                    self.assertTrue(name.startswith("smartgo-cg-queues"), name)
                    consumer.on_queues_changed("T", lambda topic, queues: told.put((topic, len(queues), "")))
                    Admin(client).topics.create("T", queues=4)
                    client.wait(client.inner.routes.refresh)
                    self.assertEqual(told.get(timeout=WAIT), ("T", 4, ""))

        return self.run_in_thread(work).addCallback(
            lambda _: self.assertEqual(len(self.flushLoggedErrors(LookupError)), 1)
        )
