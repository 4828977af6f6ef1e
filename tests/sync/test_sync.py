"""The client for programs that block: loops over messages, threads, forks, interrupts, and the end of the program."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from smartgo.sync import (
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


class SyncCase(ClusterCase):
    """A node of ours in trial's thread; the tests block in another one."""

    def run_in_thread(self, work: Callable[[], None]) -> Deferred[None]:
        """Run a function that blocks."""
        return deferToThread(work)

    @property
    def registry(self) -> str:
        """C{host:port} of the registry."""
        return self.node.registry


def send(client: Client, topic: str, count: int) -> None:
    """Send messages to one queue of a topic, in order."""
    with Producer(client, "pg-sync") as producer:
        queue = producer.queues(topic)[0]
        for number in range(count):
            producer.send_to(Message(topic=topic, body=b"%d" % number), queue)


def position(client: Client, group: str, topic: str) -> int | None:
    """Return a group's offset in the queue that L{send} uses."""
    puller = PullConsumer(client, group)
    return puller.committed(puller.queues(topic)[0])


class LoopTests(SyncCase):
    def test_acknowledged(self) -> Deferred[None]:
        """A message is acknowledged when the next one is asked for; one that is in work when the loop ends is not."""

        def work() -> None:
            with Client(self.registry) as client:
                send(client, "T", 3)
                seen = []
                with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    for message in consumer:
                        seen.append(message.body)
                        if len(seen) == 3:
                            break
                self.assertEqual(seen, [b"0", b"1", b"2"])
                self.assertEqual(position(client, "cg", "T"), 2)
                with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    again = consumer.receive(WAIT)
                    assert again is not None
                    self.assertEqual((again.body, again.reconsume_times), (b"2", 0))
                    self.assertIsNone(consumer.receive(0.01))
                self.assertEqual(position(client, "cg", "T"), 3)

        return self.run_in_thread(work)

    def test_raised(self) -> Deferred[None]:
        """A message whose body raises is redelivered after a delay, with its count; the error leaves the loop."""

        def work() -> None:
            with Client(self.registry) as client:
                send(client, "T", 1)
                with self.assertRaises(ZeroDivisionError), PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    for _ in consumer:
                        _ = 1 // 0
                with PushConsumer(client, "cg", settings=FIRST) as consumer:
                    consumer.subscribe("T")
                    again = consumer.receive(WAIT)
                    assert again is not None
                    self.assertEqual((again.topic, again.body, again.reconsume_times), ("T", b"0", 1))
                    consumer.acknowledge()

        return self.run_in_thread(work).addCallback(self._flush)

    def _flush(self, _: None) -> None:
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class ThreadTests(SyncCase):
    def test_listeners(self) -> Deferred[None]:
        """Listeners run side by side in threads, and may block: here each waits for all others."""

        def work() -> None:
            together = threading.Barrier(4, timeout=WAIT)
            threads: set[str] = set()
            done = threading.Semaphore(0)

            def listener(messages: list[ReceivedMessage]) -> None:
                together.wait()
                threads.add(threading.current_thread().name)
                done.release()

            with Client(self.registry) as client:
                consumer = PushConsumer(client, "cg", listener, FIRST)
                consumer.subscribe("T")
                with consumer:
                    send(client, "T", 4)
                    for _ in range(4):
                        self.assertTrue(done.acquire(timeout=WAIT))
            self.assertEqual(len(threads), 4)

        return self.run_in_thread(work)

    def test_many(self) -> Deferred[None]:
        """Several threads send with one producer; a listener that sends does not block itself."""

        def work() -> None:
            sent: list[str] = []
            arrived = threading.Semaphore(0)
            with Client(self.registry) as client, Producer(client, "pg-sync") as producer:

                def listener(messages: list[ReceivedMessage]) -> None:
                    producer.send(Message(topic="Answers", body=messages[0].body))
                    arrived.release()

                consumer = PushConsumer(client, "cg", listener, FIRST)
                consumer.subscribe("T")
                with consumer:

                    def send_some() -> None:
                        for _ in range(10):
                            sent.append(producer.send(Message(topic="T", body=b"x")).message_id)

                    threads = [threading.Thread(target=send_some) for _ in range(4)]
                    for one in threads:
                        one.start()
                    for one in threads:
                        one.join()
                    for _ in range(40):
                        self.assertTrue(arrived.acquire(timeout=WAIT))
            self.assertEqual(len(set(sent)), 40)

        return self.run_in_thread(work)

    def test_stopping(self) -> Deferred[None]:
        """A listener that is in a call while the client stops may use the client until it has ended."""

        def work() -> None:
            begun, stopping = threading.Event(), threading.Event()
            found: list[object] = []

            def listener(messages: list[ReceivedMessage]) -> None:
                begun.set()
                stopping.wait(WAIT)
                found.append(len(PullConsumer(client, "cg").queues("T")))

            with Client(self.registry) as client:
                send(client, "T", 1)
                consumer = PushConsumer(client, "cg", listener, FIRST)
                consumer.subscribe("T")
                consumer.start()
                self.assertTrue(begun.wait(WAIT))
                client.call_before_stop(stopping.set)
            self.assertEqual(found, [4])

        return self.run_in_thread(work)

    def test_span(self) -> Deferred[None]:
        """In a listener, which runs in a thread, the span of its call is current."""
        if find_spec("opentelemetry.sdk") is None:
            self.skipTest("the extra otel is not installed")

        def work() -> None:
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider

            found: list[bool] = []
            called = threading.Event()

            def listener(messages: list[ReceivedMessage]) -> None:
                found.append(trace.get_current_span().get_span_context().is_valid)
                called.set()

            with Client(self.registry, trace=Tracing(opentelemetry=TracerProvider())) as client:
                consumer = PushConsumer(client, "cg", listener, FIRST)
                consumer.subscribe("T")
                with consumer:
                    send(client, "T", 1)
                    self.assertTrue(called.wait(WAIT))
            self.assertEqual(found, [True])

        return self.run_in_thread(work)

    def test_own_thread(self) -> Deferred[None]:
        """A call that would block the reactor's own thread is refused: it would wait for ever."""

        def work() -> None:
            with Client(self.registry) as client, Producer(client, "pg-sync") as producer:

                def choose(queues: Any, message: Message, argument: object) -> Any:
                    producer.send(message)

                with self.assertRaises(SettingError):
                    producer.send_by(Message(topic="T", body=b"x"), choose, None)

        return self.run_in_thread(work)

    def test_wrong_listener(self) -> None:
        """A coroutine function is refused as a listener, with the module that takes one."""

        async def listener(messages: list[ReceivedMessage]) -> None: ...

        error = self.assertRaises(SettingError, PushConsumer, Client("127.0.0.1"), "cg", listener)
        self.assertIn("smartgo.aio", str(error))

    def test_not_running(self) -> None:
        """A client that does not run says so."""
        producer = Producer(Client("127.0.0.1"), "pg")
        self.assertRaises(CallFailed, producer.start)
        self.assertRaises(CallFailed, producer.send, Message(topic="T", body=b"x"))


FORK = """
import os, sys
from smartgo.sync import Client, Message, Producer, SettingError

client = Client(sys.argv[1])
client.start()
producer = Producer(client, "pg")
producer.start()
producer.send(Message(topic="T", body=b"x"))
pid = os.fork()
if not pid:
    try:
        producer.send(Message(topic="T", body=b"x"))
    except SettingError as error:
        print("forked:", "start a new one" in str(error), flush=True)
    client.stop()
    with Client(sys.argv[1]) as client, Producer(client, "pg") as producer:
        print(producer.send(Message(topic="T", body=b"x")).status.name, flush=True)
    sys.exit()
print(os.waitpid(pid, 0)[1], producer.send(Message(topic="T", body=b"x")).status.name, flush=True)
"""

INTERRUPT = """
import os, signal, sys, threading
from smartgo.sync import *

with Client(sys.argv[1]) as client, Producer(client, "pg") as producer:
    producer.send(Message(topic="T", body=b"x"))
    consumer = PushConsumer(client, "cg")
    consumer.subscribe("Nothing")
    with consumer:
        main = threading.main_thread().ident
        threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
        try:
            consumer.receive()
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    print(producer.send(Message(topic="T", body=b"x")).status.name, flush=True)
"""

FORGOTTEN = """
import sys, threading, time
from smartgo.sync import *

client = Client(sys.argv[1])
client.start()
producer = Producer(client, "pg")
producer.start()
producer.send(Message(topic="T", body=b"x"))
begun = threading.Event()

def never(messages):
    begun.set()
    threading.Event().wait()

settings = ConsumerSettings(begin=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, stop_timeout=0.1)
consumer = PushConsumer(client, "cg", never, settings)
consumer.subscribe("T")
consumer.start()
begun.wait()
print("end", flush=True)
"""


THREADS = """
import sys, threading
from smartgo.sync import *

def work():
    with Client("localhost:" + sys.argv[1].partition(":")[2]) as client, Producer(client, "pg") as producer:
        producer.send(Message(topic="T", body=b"x"))
        threading.main_thread().join()
        print({producer.send(Message(topic="T", body=b"x")).status.name for _ in range(100)}, flush=True)

threading.Thread(target=work).start()
"""

FAILING = """
from twisted.internet.defer import fail, succeed
from smartgo.env.reactorthread import ReactorThread

def other():
    print("other", flush=True)
    return succeed(None)

thread = ReactorThread.shared()
thread.call_at_end(lambda: fail(ValueError("first")))
thread.call_at_end(other)
"""

STOPPED_CLIENT = """
import sys
from smartgo.sync import *

with Client(sys.argv[1]) as client:
    consumer = PushConsumer(client, "cg", print)
    consumer.subscribe("T")
    consumer.start()
consumer.stop()
print("end", flush=True)
"""


class ProgramTests(SyncCase):
    def run_program(self, text: str) -> Deferred[str]:
        """Run a program of its own, which ends within a minute; return what it prints."""

        def call() -> str:
            done = subprocess.run(
                [sys.executable, "-X", "dev", "-c", text, self.registry],
                capture_output=True,
                text=True,
                check=False,
                cwd=ROOT,
                timeout=WAIT,
            )
            return done.stdout + done.stderr

        return deferToThread(call)

    def test_fork(self) -> Deferred[None]:
        """A forked process is told that its parent's client is not its own, and makes one; the parent goes on."""
        return self.run_program(FORK).addCallback(self.assertEqual, "forked: True\nSEND_OK\n0 SEND_OK\n")

    def test_interrupt(self) -> Deferred[None]:
        """Control-C ends a call that blocks, and the client works on."""
        return self.run_program(INTERRUPT).addCallback(self.assertEqual, "interrupted\nSEND_OK\n")

    def test_threads(self) -> Deferred[None]:
        """A client works while a thread of the program does, though the main thread has ended."""
        return self.run_program(THREADS).addCallback(self.assertEqual, "{'SEND_OK'}\n")

    def test_failing_end(self) -> Deferred[None]:
        """What fails at the end of the program is told, and does not keep other clients from their end."""

        def told(text: str) -> None:
            self.assertIn("other\n", text)
            self.assertIn("ValueError: first", text)

        return self.run_program(FAILING).addCallback(told)

    def test_stopped_client(self) -> Deferred[None]:
        """A consumer can be stopped after its client, which has stopped it already."""
        return self.run_program(STOPPED_CLIENT).addCallback(self.assertEqual, "end\n")

    def test_forgotten(self) -> Deferred[None]:
        """A program that stops nothing ends nevertheless, even with a listener that never returns."""
        return self.run_program(FORGOTTEN).addCallback(self.assertEqual, "end\n")
