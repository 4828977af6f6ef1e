"""
Tests of L{smartgo.testing.embeddedbroker}, L{smartgo.testing.asyncbroker} and L{smartgo.testing.server}: a broker as a
process.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Coroutine
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadName, CallFailed, SettingError, SmartgoError
from smartgo.testing import AsyncEmbeddedBroker, EmbeddedBroker, FaultButtons
from smartgo.testing.wire import BrokerCall, Reply, failed, read, result_of

SEND = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from smartgo import Client, Message, Producer, RealEnvironment

async def work(reactor, registry, topic, bodies):
    client = Client(RealEnvironment(reactor), registry)
    producer = Producer(client, "senders")
    await producer.start()
    for body in bodies:
        await producer.send(Message(topic=topic, body=body.encode(), tag="new"))
    await client.stop()

react(lambda reactor, *words: Deferred.fromCoroutine(work(reactor, words[0], words[1], words[2:])), sys.argv[1:])
"""

PARENT = """
import sys
from smartgo.testing import EmbeddedBroker
broker = EmbeddedBroker()
broker.start()
print(broker.directory, flush=True)
sys.stdin.read()
"""


def send(registry: str, topic: str, *bodies: str) -> None:
    """Send messages from a process of their own."""
    subprocess.run([sys.executable, "-c", SEND, registry, topic, *bodies], check=True, timeout=60)


def connect(place: str) -> None:
    """Connect to C{host:port}."""
    host, _, port = place.partition(":")
    socket.create_connection((host, int(port)), timeout=10).close()


def process_of(broker: EmbeddedBroker) -> int:
    """Return the id of a broker's process."""
    process = broker._process
    assert process is not None
    return process.pid


class EmbeddedBrokerTests(SynchronousTestCase):
    """The blocking form."""

    def start(self, **settings: str) -> EmbeddedBroker:
        """Start a broker that ends with the test."""
        broker = EmbeddedBroker(settings)
        self.addCleanup(broker.stop)
        broker.start()
        return broker

    def test_broker(self) -> None:
        """Topics, messages, lag, time, purge and faults of a broker in another process."""
        with EmbeddedBroker({"brokerClusterName": "Mine"}) as broker:
            directory = broker.directory
            self.assertTrue(os.path.isdir(directory))
            broker.create_topic("Orders", 1)
            broker.start()  # it runs
            send(broker.registry, "Orders", "one", "two")
            found = broker.messages("Orders", at_least=2)
            self.assertEqual([(one.body, one.tag, one.queue_offset) for one in found], [
                (b"one", "new", 0), (b"two", "new", 1),
            ])  # fmt: skip
            self.assertEqual(broker.lag("nobody"), 0)
            fault = broker.faults.refuse(2, topic="Orders", count=None)
            self.assertEqual(fault.met(), 0)
            broker.faults.clear()
            broker.advance(86400)
            send(broker.registry, "Orders", "three")
            last = broker.messages("Orders")[-1]
            self.assertGreater(last.stored_ms - last.born_ms, 86_000_000)
            registry = broker.registry
            with broker.down():
                self.assertRaises(ConnectionRefusedError, connect, registry)
                self.assertRaises(ConnectionRefusedError, connect, broker.address)
                self.assertRaises(CallFailed, broker.messages, "Orders")
            connect(registry)
            connect(broker.address)
            self.assertEqual(len(broker.messages("Orders")), 3)
            broker.restart()
            self.assertEqual(len(broker.messages("Orders")), 3)
            broker.purge()
            self.assertEqual((broker.messages("Orders"), broker.registry), ([], registry))
        self.assertFalse(os.path.exists(directory))
        self.assertRaises(CallFailed, broker.messages, "Orders")

    def test_errors(self) -> None:
        """What fails in the process fails in the test, with the same words; the broker goes on."""
        broker = self.start()
        self.assertRaises(BadName, broker.create_topic, "no topic!")
        error = self.assertRaises(CallFailed, broker.messages, "Orders", at_least=1, timeout=0.01)
        self.assertEqual(str(error), "topic Orders has 0 of 1 messages after 0.01 s")
        self.assertRaises(ValueError, broker.advance, -1)
        self.assertRaises(ValueError, broker.call, "stop_everything")
        self.assertRaises(SmartgoError, broker.call, "lag", team="x")
        self.assertRaises(ValueError, broker.call, "add_fault", action="explode")
        self.assertRaises(SettingError, broker.call, "add_fault", action="drop", kind="lock", topic="Orders")
        self.assertEqual(broker.messages("Orders"), [])

    def test_no_start(self) -> None:
        """A broker that cannot start says so, and leaves no process."""
        broker = EmbeddedBroker({"flushDiskTyp": "x"})
        self.assertRaises(CallFailed, broker.start)
        self.assertRaises(CallFailed, broker.messages, "Orders")
        broker.stop()

    def test_side_by_side(self) -> None:
        """Several brokers at once have ports and stores of their own."""
        brokers = [self.start() for _ in range(3)]
        self.assertEqual(len({one.registry for one in brokers}), 3)
        brokers[0].create_topic("Orders", 1)
        send(brokers[0].registry, "Orders", "one")
        self.assertEqual([len(one.messages("Orders")) for one in brokers], [1, 0, 0])

    def test_process_killed(self) -> None:
        """After the process was killed calls fail, and the store is removed in the end."""
        broker = self.start()
        os.kill(process_of(broker), signal.SIGKILL)
        self.assertRaises(CallFailed, broker.messages, "Orders")
        broker.stop()
        self.assertFalse(os.path.exists(broker.directory))

    def test_parent_killed(self) -> None:
        """The process ends, and removes its store, when the process that started it is killed."""
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=writer, text=True
        )
        os.close(writer)
        assert parent.stdout is not None
        directory = parent.stdout.readline().strip()
        self.assertTrue(os.path.isdir(directory))
        parent.kill()
        parent.communicate()
        while os.read(reader, 4096):  # its standard error, which the broker has too: closed once both have ended
            pass
        self.assertFalse(os.path.exists(directory))


class ProcessTests(SynchronousTestCase):
    """C{python -m smartgo.testing} as tests in other languages use it."""

    def test_lines(self) -> None:
        """It prints its addresses, answers each line, what is no call too, and ends with its input."""
        process = subprocess.Popen(
            [sys.executable, "-m", "smartgo.testing", "--set", "brokerClusterName=Mine"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        self.assertEqual(set(ready), {"registry", "broker", "directory"})
        assert process.stdin is not None
        process.stdin.write(b'{"id": 1, "do": "bodies", "arguments": {"topic": "T"}}\nhello\n')
        process.stdin.flush()
        answers = {one["id"]: one for one in (json.loads(process.stdout.readline()) for _ in range(2))}
        self.assertEqual(answers[1], {"id": 1, "result": [], "error": None, "kind": ""})
        self.assertIn("not a call", answers[-1]["error"])
        said, _ = process.communicate(timeout=60)
        self.assertEqual((said, process.returncode), (b"", 0))
        self.assertFalse(os.path.exists(ready["directory"]))

    def test_wrong(self) -> None:
        """A wrong setting ends it with a sentence and a status."""
        for setting in ("flushDiskTyp=x", "flushDiskType"):
            done = subprocess.run(
                [sys.executable, "-m", "smartgo.testing", "--set", setting], stdin=subprocess.DEVNULL,
                capture_output=True, check=False, timeout=60,
            )  # fmt: skip
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(done.stdout, b"")
            self.assertIn(b"flushDiskTyp", done.stderr)


class AsyncEmbeddedBrokerTests(SynchronousTestCase):
    """The form for asyncio."""

    def run_with(self, work: Any, **settings: str) -> None:
        """Run C{work(broker)} in a loop."""

        async def main() -> None:
            async with EmbeddedBroker(settings) as broker:
                await work(broker)
            self.assertFalse(os.path.exists(broker.directory))

        asyncio.run(main())

    def test_broker(self) -> None:
        """All methods are coroutines, and several run at a time."""

        async def work(broker: AsyncEmbeddedBroker) -> None:
            await broker.create_topic("Orders", 1)
            waiting = asyncio.create_task(broker.messages("Orders", at_least=1, timeout=30))
            await broker.advance(1)
            self.assertFalse(waiting.done())
            await asyncio.to_thread(send, broker.registry, "Orders", "one")
            self.assertEqual([one.body for one in await waiting], [b"one"])
            self.assertEqual(await broker.lag("nobody"), 0)
            faults: FaultButtons[Any, Coroutine[Any, Any, None]] = broker.faults  # type: ignore[assignment]
            fault = await faults.refuse(2)
            self.assertEqual(await fault.met(), 0)
            await faults.clear()
            async with broker.down():
                self.assertRaises(ConnectionRefusedError, connect, broker.registry)
            connect(broker.registry)
            await broker.restart()
            self.assertEqual(len(await broker.messages("Orders")), 1)
            await broker.purge()
            self.assertEqual(await broker.messages("Orders"), [])
            with self.assertRaises(BadName):
                await broker.create_topic("no topic!")

        self.run_with(work)

    def test_killed(self) -> None:
        """A call under way fails when the process ends, and so does each after it."""

        async def work(broker: AsyncEmbeddedBroker) -> None:
            waiting = asyncio.create_task(broker.messages("Orders", at_least=1, timeout=30))
            await broker.lag("nobody")
            process = broker._process
            assert process is not None
            process.kill()
            with self.assertRaises(CallFailed):
                await waiting
            with self.assertRaises(CallFailed):
                await broker.lag("nobody")

        self.run_with(work)

    def test_no_start(self) -> None:
        """A broker that cannot start says so."""

        async def main() -> None:
            with self.assertRaises(CallFailed):
                await EmbeddedBroker({"flushDiskTyp": "x"}).__aenter__()

        asyncio.run(main())


class WireTests(SynchronousTestCase):
    """The lines."""

    def test_errors(self) -> None:
        """Errors arrive as what they were, where a test may want to tell them apart."""
        for error in (BadName("a"), CallFailed("b"), SettingError("c"), ValueError("d"), SmartgoError("e")):
            reply = failed(BrokerCall(1, "x"), error)
            raised = self.assertRaises(type(error), result_of, reply)
            self.assertEqual(str(raised), str(error))
        self.assertIs(
            type(self.assertRaises(SmartgoError, result_of, failed(BrokerCall(1, "x"), KeyError()))), SmartgoError
        )
        self.assertEqual(result_of(Reply(1, [2])), [2])

    def test_output(self) -> None:
        """The end of the process, and words of something else on its output, fail the call."""
        self.assertIn("has ended", str(self.assertRaises(CallFailed, read, b"", Reply)))
        self.assertIn("b'hello", str(self.assertRaises(CallFailed, read, b"hello\n", Reply)))
