"""The real environment: the clock, the threads, the files and the lock do what their interfaces promise."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
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
from smartgo.env.real import RealClock, RealEnvironment, RealFiles, RealMapping, RealNetwork, RealThreads
from smartgo.errors import StoreHeld
from tests.fakes import FakeEnvironment

HOLDER = """
import sys, fcntl, os
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


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
        self.assertEqual(clock.callLater(5, lambda: None).getTime() // 1, (before + 5) // 1)

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


class RealFilesTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A directory of the test's own."""
        self.files = RealFiles()
        self.root = os.path.abspath(self.mktemp())
        self.files.make_directories(os.path.join(self.root, "a", "b"))

    def test_modes(self) -> None:
        """Directories are 0700 and files 0600 (reliability X15)."""
        path = os.path.join(self.root, "a", "file")
        self.files.create(path, b"x")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        self.assertEqual(os.stat(os.path.dirname(path)).st_mode & 0o777, 0o700)
        self.assertRaises(FileExistsError, self.files.create, path, b"y")

    def test_replace(self) -> None:
        """Replacing keeps the content before as .bak and leaves no temporary, also after a crash left one."""
        path = os.path.join(self.root, "table.json")
        self.files.create(path + ".tmp", b"left by a crash")
        for content in (b"1", b"22", b"333"):
            self.files.replace(path, content)
        self.assertEqual((self.files.read(path), self.files.read(path + ".bak")), (b"333", b"22"))
        self.assertEqual(self.files.list(self.root), ["a", "table.json", "table.json.bak"])

    def test_symlink(self) -> None:
        """Nothing is created through a symlink."""
        target = os.path.join(self.root, "outside")
        link = os.path.join(self.root, "link")
        os.symlink(target, link)
        self.assertRaises(OSError, self.files.create, link, b"x")
        self.assertRaises(OSError, self.files.append, link, b"x")
        self.assertRaises(OSError, self.files.allocate, link, 10)
        self.assertFalse(os.path.exists(target))

    def test_allocate(self) -> None:
        """An allocated file has its blocks; one that cannot be allocated leaves nothing."""
        path = os.path.join(self.root, "log")
        self.files.allocate(path, 1 << 20)
        self.assertGreaterEqual(os.stat(path).st_blocks * 512, 1 << 20)
        self.assertRaises(OSError, self.files.allocate, path + "2", 1 << 60)
        self.assertFalse(self.files.exists(path + "2"))

    def test_data_ranges(self) -> None:
        """What was never written is left out, in holes and in blocks without content; what was written never is."""
        sparse, allocated = os.path.join(self.root, "sparse"), os.path.join(self.root, "allocated")
        self.files.create_sparse(sparse, 1 << 20)
        self.files.allocate(allocated, 1 << 20)
        for path in (sparse, allocated):
            for place in (300_000, 600_000):
                self.files.overwrite(path, place, b"here")
            for begin in (0, 4096, 599_999, 600_000, 600_003, 700_000, 1 << 20):
                ranges = self.files.data_ranges(path, begin)
                for place in range(begin, 600_004):
                    if place in (300_000, 300_003, 600_000, 600_003):
                        self.assertTrue(any(low <= place < high for low, high in ranges))
        self.assertEqual(self.files.data_ranges(sparse, 700_000), [])

    def test_zero_and_overwrite(self) -> None:
        """Bytes are changed in place."""
        path = os.path.join(self.root, "log")
        self.files.create(path, b"abcdefgh")
        self.files.zero(path, 2, 5)
        self.files.overwrite(path, 6, b"XY")
        self.assertEqual(self.files.read(path), b"ab\0\0\0fXY")
        self.assertEqual(self.files.read_at(path, 5, 2), b"fX")

    def test_mapping(self) -> None:
        """A write to the view is in the file; a slice that is held keeps the mapping alive past close."""
        path = os.path.join(self.root, "log")
        self.files.allocate(path, 1 << 16)
        mapping = self.files.map(path)
        mapping.reserve(0, 1 << 16)
        mapping.populate(0, 1 << 16)
        mapping.view[100:105] = b"hello"
        mapping.sync()
        self.assertEqual(mapping.read_at(100, 5), b"hello")
        held = mapping.view[100:105]
        mapping.close()
        mapping.close()
        self.assertEqual(bytes(held), b"hello")

    def test_read_only(self) -> None:
        """A mapping asked for reading cannot be written."""
        path = os.path.join(self.root, "log")
        self.files.create(path, bytes(100))
        mapping: RealMapping = self.files.map(path, writable=False)
        with self.assertRaises(TypeError):
            mapping.view[0:1] = b"x"
        mapping.close()

    def test_usage(self) -> None:
        """The file system tells its size."""
        total, free = self.files.usage(self.root)
        self.assertGreater(total, free)


class LockTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A store directory."""
        self.files = RealFiles()
        self.root = os.path.abspath(self.mktemp())
        os.mkdir(self.root)

    def test_text(self) -> None:
        """The file holds what RocketMQ writes there."""
        lock = self.files.lock_directory(self.root)
        self.assertEqual(self.files.read_at(os.path.join(self.root, "lock"), 0, 10), b"lock")
        lock.release()

    def test_twice_here(self) -> None:
        """The same process cannot take it twice, and trying does not lose it."""
        lock = self.files.lock_directory(self.root)
        self.assertEqual(self.assertRaises(StoreHeld, self.files.lock_directory, self.root).pid, os.getpid())
        self.assertNotEqual(self.try_elsewhere(), 0)
        lock.release()
        lock.release()
        self.assertEqual(self.try_elsewhere(), 0)
        self.files.lock_directory(self.root).release()

    def try_elsewhere(self) -> int:
        """Exit status of another process that tries for byte 0, as RocketMQ does."""
        code = "import sys,fcntl,os; fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)"
        path = os.path.join(self.root, "lock")
        return subprocess.run([sys.executable, "-c", code, path], stderr=subprocess.DEVNULL, check=False).returncode

    def test_held_elsewhere(self) -> None:
        """A holder that locks byte 0 as Java does is seen, with its process id."""
        path = os.path.join(self.root, "lock")
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as holder:
            assert holder.stdout is not None and holder.stdin is not None
            holder.stdout.readline()
            error = self.assertRaises(StoreHeld, self.files.lock_directory, self.root)
            self.assertEqual(error.pid, holder.pid)
            holder.stdin.close()
        self.files.lock_directory(self.root).release()

    def test_flock(self) -> None:
        """The file is flock-ed too."""
        lock = self.files.lock_directory(self.root)
        path = os.path.join(self.root, "lock")
        code = "import sys,fcntl; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        status = subprocess.run([sys.executable, "-c", code, path], stderr=subprocess.DEVNULL, check=False).returncode
        self.assertNotEqual(status, 0)
        lock.release()
