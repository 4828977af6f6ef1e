"""The real environment: the clock, the threads and the network do what their interfaces promise."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import SynchronousTestCase, TestCase
from zope.interface.verify import verifyObject

from smartgo.env.interfaces import (
    IClock,
    IDirectoryLock,
    IEnvironment,
    IFiles,
    IHost,
    IMapping,
    INetwork,
    IRandom,
    IThreads,
)
from smartgo.env.real import RealClock, RealEnvironment, RealHost, RealNetwork, RealThreads, group_memory
from tests.fakes import FakeEnvironment


class InterfaceTests(SynchronousTestCase):
    def test_real(self) -> None:
        """The real environment provides every door."""
        env = RealEnvironment(reactor)
        self.check(env)
        path = self.mktemp()
        env.files.create(path, bytes(4096))
        mapping = env.files.map(path)
        verifyObject(IMapping, mapping)
        mapping.close()

    def test_fake(self) -> None:
        """The fake environment provides every door."""
        env = FakeEnvironment()
        self.check(env)
        env.files.create("/a", bytes(10))
        verifyObject(IMapping, env.files.map("/a"))
        verifyObject(IDirectoryLock, env.files.lock_directory("/"))

    def check(self, env: Any) -> None:
        """Compare with the interfaces."""
        verifyObject(IEnvironment, env)
        for interface, part in (
            (IClock, env.clock),
            (INetwork, env.network),
            (IThreads, env.threads),
            (IFiles, env.files),
            (IRandom, env.random),
            (IHost, env.host),
        ):
            verifyObject(interface, part)


class RealClockTests(SynchronousTestCase):
    def test_monotonic(self) -> None:
        """The reactor's own idea of time becomes the monotonic clock (reliability H8)."""
        other = ReactorBaseForTests()
        clock = RealClock(other)
        wall = time.time()
        self.patch(time, "time", lambda: wall - 3600)
        before = other.seconds()
        self.assertLess(abs(before - time.monotonic()), 5)
        self.assertLess(abs(clock.seconds() - before), 5)
        self.assertLess(abs(clock.callLater(5, lambda: None).getTime() - before - 5), 5)

    def test_wall(self) -> None:
        """Wall time is in milliseconds."""
        self.assertLess(abs(RealClock(ReactorBaseForTests()).wall_ms() - time.time() * 1000), 1000)


class ReactorBaseForTests(ReactorBase):
    """A reactor that is never run and installs nothing."""

    def installWaker(self) -> None:
        """None needed."""

    def _initThreads(self) -> None:
        """None needed."""


class RealThreadsTests(TestCase):
    async def test_lanes(self) -> None:
        """What is given to one lane runs there in order, away from the reactor thread; stop waits for it."""
        threads = RealThreads(reactor)  # type: ignore[arg-type]
        done: list[int] = []
        results = [threads.run("flush", done.append, number) for number in range(50)]
        await gatherResults(results)
        self.assertEqual(done, list(range(50)))
        last = threads.run("flush", done.append, 50)
        await threads.stop()
        self.assertTrue(last.called)

    async def test_failure(self) -> None:
        """An exception of the function comes through the Deferred."""
        threads = RealThreads(reactor)  # type: ignore[arg-type]

        def fail() -> int:
            raise OSError("no")

        with self.assertRaises(OSError):
            await threads.run("read", fail)
        await threads.stop()

    async def test_around(self) -> None:
        """Results and failures are delivered through what was asked for, on the reactor thread, with their lane."""
        threads = RealThreads(reactor)  # type: ignore[arg-type]
        seen: list[object] = []

        def around(lane: str, deliver: Callable[[], object]) -> None:
            seen.append((lane, threading.get_ident()))
            deliver()
            seen.append("after")

        threads.call_around(around)
        result = threads.run("read", int, "7").addCallback(seen.append)
        await result
        with self.assertRaises(ValueError):
            await threads.run("flush", int, "seven")
        here = threading.get_ident()
        self.assertEqual(seen[:4], [("read", here), 7, "after", ("flush", here)])
        await threads.stop()


class RealNetworkTests(TestCase):
    async def test_connect(self) -> None:
        """A listening endpoint can be dialled, and probed before."""
        network = RealNetwork(reactor)
        free = network.free_port()
        description = f"tcp:{free}:interface=127.0.0.1"
        network.probe(description)
        lost: Deferred[None] = Deferred()
        factory = Factory.forProtocol(Protocol)
        port = await network.listen(description, factory)
        self.assertRaises(OSError, network.probe, description)

        class Client(Protocol):
            def connectionLost(self, reason: Any = None) -> None:
                lost.callback(None)

        client = await network.connect("127.0.0.1", free, Factory.forProtocol(Client), 5)
        client.transport.loseConnection()
        await lost
        await maybeDeferred(port.stopListening)

    def test_free_ports(self) -> None:
        """Who asks for several free ports, to listen there later, gets different ones, whatever the system gives."""
        given = iter([5000, 5000, 5001, 5000, 5002])

        class Probe:
            """A socket that the system binds anywhere."""

            def __init__(self, *_: object) -> None:
                self.bind = lambda address: None
                self.getsockname = lambda: ("127.0.0.1", next(given))

            def __enter__(self) -> Probe:
                return self

            def __exit__(self, *_: object) -> None:
                pass

        self.patch(socket, "socket", Probe)
        network = RealNetwork(reactor)
        self.assertEqual([network.free_port() for _ in range(3)], [5000, 5001, 5002])

    async def test_hear(self) -> None:
        """What is told to a socket is heard by who listens there, until he stops."""
        network = RealNetwork(reactor)
        address = f"@smartgo-test-{os.getpid()}"
        heard: Deferred[bytes] = Deferred()
        port = network.hear(address, heard.callback)
        network.tell(address, b"READY=1")
        self.assertEqual(await heard, b"READY=1")
        await maybeDeferred(port.stopListening)
        self.assertRaises(OSError, network.tell, address, b"x")

    def test_tell(self) -> None:
        """A datagram reaches a Unix socket by its path, or by its abstract name; nobody there is an error."""
        network = RealNetwork(reactor)
        path = os.path.join(tempfile.mkdtemp(), "s")  # short: a path of a socket has 107 bytes at most
        self.addCleanup(shutil.rmtree, os.path.dirname(path))
        self.assertRaises(OSError, network.tell, path, b"x")
        for name, address in ((path, path), (f"@{path}", f"\0{path}")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
                receiver.bind(address)
                network.tell(name, b"READY=1")
                self.assertEqual(receiver.recv(100), b"READY=1")


class MemoryTests(SynchronousTestCase):
    """The memory of the process, and what it gives back."""

    def setUp(self) -> None:
        """A mount of control groups."""
        self.root = self.mktemp()

    def limit(self, path: str, text: str) -> None:
        """Write a file of a control group."""
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def found(self, lines: str) -> int:
        """Return the memory that a process in these groups may use."""
        self.limit("process", lines)
        return group_memory(self.root, os.path.join(self.root, "process"))

    def test_groups(self) -> None:
        """The lowest limit of a process's group and of those above counts, in both versions of control groups."""
        self.limit("a/memory.max", "1000\n")
        self.limit("a/b/memory.max", "max\n")
        self.limit("memory/docker/memory.limit_in_bytes", "500")
        self.assertEqual(self.found("0::/a/b\n"), 1000)
        self.assertEqual(self.found("3:cpu:/x\n2:memory:/docker\n"), 500)
        self.assertGreater(self.found("0::/c\n"), 1 << 60)
        self.assertGreater(group_memory(self.root, os.path.join(self.root, "missing")), 1 << 60)

    def test_returns(self) -> None:
        """Freed pieces between others that stay go back to the system."""
        host = RealHost()
        pieces = [(bytearray(65536), bytes(600)) for _ in range(1000)]
        small = [piece[1] for piece in pieces]
        held = anonymous()
        pieces.clear()
        host.return_memory()
        self.assertLess(anonymous(), held - (40 << 20))
        self.assertEqual(len(small), 1000)


def anonymous() -> int:
    """Bytes of this process that no file stands behind."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("RssAnon:"))
