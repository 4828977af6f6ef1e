"""
One fake per interface of the environment: a clock that is advanced by hand, files in memory, threads that run at
once or when told, connections in memory. Faults are set as attributes.
"""

from __future__ import annotations

import errno
import posixpath
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.error import CannotListenError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.task import Clock
from twisted.test.iosim import FakeTransport, IOPump
from zope.interface import implementer

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
from smartgo.errors import StoreHeld

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000


@implementer(IClock)
class FakeClock(Clock):
    """Time that stands still; the wall clock is the same time plus an offset that a test may change."""

    def __init__(self) -> None:
        super().__init__()
        self.wall_offset_ms = EPOCH_MS

    def wall_ms(self) -> int:
        """The wall clock."""
        return self.wall_offset_ms + round(self.seconds() * 1000)

    def utc_offset(self) -> float:
        """The tests are at Greenwich."""
        return 0.0


class WallClock(Protocol):
    """What knows the wall clock of a machine."""

    def wall_ms(self) -> int:
        """Return the wall clock, in milliseconds since the epoch."""


@implementer(IThreads)
class FakeThreads:
    """
    Lanes whose work is done at once, or, for the lanes in C{held}, when L{release} is called.

    @ivar held: names of lanes that wait.
    """

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.waiting: dict[str, list[tuple[Deferred[Any], Callable[[], Any]]]] = {}
        self.stopped = False

    def run(self, lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Do it now, or queue it."""
        if self.stopped:
            raise AssertionError(f"work for lane {lane} after stop")
        if lane not in self.held:
            return maybeDeferred(function, *args)
        result: Deferred[T] = Deferred()
        self.waiting.setdefault(lane, []).append((result, lambda: function(*args)))
        return result

    def release(self, lane: str, count: int = -1) -> int:
        """Do C{count} waiting pieces of work of a lane, all by default; return how many were done."""
        done = 0
        queue = self.waiting.get(lane, [])
        while queue and done != count:
            result, work = queue.pop(0)
            maybeDeferred(work).chainDeferred(result)
            done += 1
        return done

    def stop(self) -> Deferred[None]:
        """Do what waits."""
        for lane in list(self.waiting):
            self.release(lane)
        self.stopped = True
        return succeed(None)


BLOCK = 512


class FakeFile:
    """
    Content in memory, and what of it was synced.

    @ivar holes: numbers of the blocks, L{BLOCK} bytes each, that take no space on the disk yet.
    """

    def __init__(self, data: bytes, modified_ms: int) -> None:
        self.data = bytearray(data)
        self.synced = bytes(data)
        self.modified_ms = modified_ms
        self.syncs = 0
        self.holes: set[int] = set()

    def make_sparse(self) -> None:
        """Give the blocks up that hold zeros only."""
        blocks = range(-(-len(self.data) // BLOCK))
        self.holes = {one for one in blocks if not any(self.data[one * BLOCK : one * BLOCK + BLOCK])}


@implementer(IMapping)
class FakeMapping:
    """A view over a L{FakeFile}."""

    def __init__(self, files: FakeFiles, path: str, writable: bool) -> None:
        self._files = files
        self._file = files.files[path]
        self.path = path
        self.size = len(self._file.data)
        view = memoryview(self._file.data)
        self.view = view if writable else view.toreadonly()
        self.closed = False
        self.reserved: list[tuple[int, int]] = []
        files.mappings.append(self)

    @property
    def released(self) -> bool:
        """Closed, and no test says that somebody holds a slice."""
        return self.closed and self.path not in self._files.slices_of

    def reserve(self, begin: int, end: int) -> None:
        """Remember the range, and fill its holes; fails where there is no space for them."""
        wanted = self._file.holes.intersection(range(begin // BLOCK, -(-end // BLOCK)))
        if wanted:
            self._files.take_space(len(wanted) * BLOCK)
            self._file.holes -= wanted
        self.reserved.append((begin, end))

    def populate(self, begin: int, end: int) -> None:
        """Nothing to do in memory."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Copy."""
        return bytes(self._file.data[offset : offset + size])

    def sync(self) -> None:
        """Take a snapshot as durable; fails when C{files.sync_error} is set."""
        if self._files.sync_error:
            raise OSError(self._files.sync_error, "sync failed")
        data = bytes(self._file.data)
        if data != self._file.synced:
            self._file.modified_ms = self._files.now_ms()
        self._file.synced = data
        self._file.syncs += 1

    def close(self) -> None:
        """Forget it."""
        if not self.closed:
            self.closed = True
            self._files.mappings.remove(self)


@implementer(IDirectoryLock)
class FakeDirectoryLock:
    """A name in a set."""

    def __init__(self, files: FakeFiles, path: str) -> None:
        if path in files.locks:
            raise StoreHeld(path, 4711)
        self._files = files
        self._path = path
        files.locks.add(path)
        files.files.setdefault(posixpath.join(path, "lock"), FakeFile(b"lock", 0))

    def release(self) -> None:
        """Give it back."""
        self._files.locks.discard(self._path)


@implementer(IFiles)
class FakeFiles:
    """
    A file system in memory.

    @ivar free: bytes that may still be allocated; allocating more raises ENOSPC.
    @ivar sync_error: an errno that every sync raises from now on, 0 for none.
    @ivar fail: path -> errno for C{create}, C{replace}, C{allocate}, C{create_sparse} and C{remove}.
    @ivar slices_of: paths of files whose mappings somebody holds slices of, once they are closed.
    """

    def __init__(self, clock: WallClock) -> None:
        self._clock = clock
        self.files: dict[str, FakeFile] = {}
        self.directories: set[str] = {"/"}
        self.synced_directories: list[str] = []
        self.written_back: list[str] = []
        self.locks: set[str] = set()
        self.mappings: list[FakeMapping] = []
        self.refused_writes: list[str] = []
        self.total = 1 << 40
        self.free = 1 << 39
        self.sync_error = 0
        self.fail: dict[str, int] = {}
        self.slices_of: set[str] = set()
        self.now_ms = clock.wall_ms
        self.modes: dict[str, int] = {}

    def take_space(self, size: int) -> None:
        """Take C{size} bytes of the disk. @raise OSError: ENOSPC."""
        if self.free <= 0 or size > self.free:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.free -= size

    def _new(self, path: str, size: int) -> FakeFile:
        if path in self.fail:
            raise OSError(self.fail[path], "fault set by the test", path)
        if path in self.files:
            raise FileExistsError(errno.EEXIST, "File exists", path)
        if posixpath.dirname(path) not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        self.files[path] = FakeFile(bytes(size), self._clock.wall_ms())
        return self.files[path]

    def _get(self, path: str) -> FakeFile:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "No such file", path) from None

    def exists(self, path: str) -> bool:
        """File or directory."""
        return path in self.files or path in self.directories

    def is_directory(self, path: str) -> bool:
        """Directory."""
        return path in self.directories

    def list(self, path: str) -> list[str]:
        """Names."""
        under = path.rstrip("/") + "/"
        size = len(under)
        names = {one[size:] for one in self.files if one.startswith(under) and one.find("/", size) < 0}
        names |= {one[size:] for one in self.directories if one.startswith(under) and one.find("/", size) < 0}
        return sorted(names - {""})

    def size(self, path: str) -> int:
        """Length."""
        return len(self._get(path).data)

    def modified_ms(self, path: str) -> int:
        """Time of creation or the last change through a method here."""
        return self._get(path).modified_ms

    def mode(self, path: str) -> int:
        """As set, 0o600 where it is not."""
        self._get(path)
        return self.modes.get(path, 0o600)

    def real(self, path: str) -> str:
        """Normalised."""
        return posixpath.normpath(path)

    def make_directories(self, path: str, sync: bool = True) -> None:
        """Add it and its parents."""
        while path not in self.directories:
            self.directories.add(path)
            path = posixpath.dirname(path)

    def read(self, path: str, limit: int | None = None) -> bytes:
        """Content."""
        return bytes(self._get(path).data[:limit])

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """Part of it."""
        return bytes(self._get(path).data[offset : offset + size])

    def data_ranges(self, path: str, begin: int) -> Sequence[tuple[int, int]]:
        """Leave zeros out, by blocks of L{BLOCK} bytes."""
        data = self._get(path).data
        starts = range(begin, len(data), BLOCK)
        return [(at, min(at + BLOCK, len(data))) for at in starts if any(data[at : at + BLOCK])]

    def create(self, path: str, data: bytes, sync: bool = True) -> None:
        """New file."""
        self.take_space(len(data))
        file = self._new(path, 0)
        file.data = bytearray(data)
        if sync:
            file.synced = data

    def replace(self, path: str, data: bytes, backup: bool = True) -> None:
        """New content, old as .bak."""
        if path in self.fail:
            raise OSError(self.fail[path], "fault set by the test", path)
        if posixpath.dirname(path) not in self.directories:
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        self.take_space(len(data))
        if backup and path in self.files:
            self.files[path + ".bak"] = self.files[path]
        self.files[path] = FakeFile(data, self._clock.wall_ms())

    def append(self, path: str, data: bytes) -> None:
        """Longer content."""
        self.take_space(len(data))
        if path not in self.files:
            self._new(path, 0)
        self.files[path].data += data

    def overwrite(self, path: str, offset: int, data: bytes) -> None:
        """Other content."""
        file = self._get(path)
        file.data[offset : offset + len(data)] = data
        file.modified_ms = self._clock.wall_ms()

    def zero(self, path: str, begin: int, end: int) -> None:
        """Zeros."""
        file = self._get(path)
        file.data[begin:end] = bytes(end - begin)
        file.synced = bytes(file.data)

    def link(self, source: str, target: str) -> None:
        """The same content under another name."""
        if target in self.files:
            raise FileExistsError(errno.EEXIST, "File exists", target)
        self.files[target] = self._get(source)

    def rename(self, source: str, target: str) -> None:
        """Other name, of a file or a directory."""
        if source in self.directories:
            self.directories.remove(source)
            self.directories.add(target)
            for path in [one for one in self.files if one.startswith(source + "/")]:
                self.files[target + path[len(source) :]] = self.files.pop(path)
            return
        self.files[target] = self._get(source)
        del self.files[source]

    def remove(self, path: str) -> None:
        """Gone; its space is free again."""
        file = self._get(path)
        if path in self.fail:
            raise OSError(self.fail[path], "fault set by the test", path)
        self.free += max(0, len(file.data) - len(file.holes) * BLOCK)
        del self.files[path]

    def remove_directory(self, path: str) -> None:
        """Gone, if empty."""
        if self.list(path):
            raise OSError(errno.ENOTEMPTY, "Directory not empty", path)
        self.directories.remove(path)

    def sync_directory(self, path: str) -> None:
        """Note it."""
        self.synced_directories.append(path)

    def write_back(self, path: str) -> None:
        """Note it; nothing is durable by that."""
        self.written_back.append(path)

    def allocate(self, path: str, size: int) -> None:
        """New file of zeros."""
        self.take_space(size)
        self._new(path, size)

    def create_sparse(self, path: str, size: int) -> None:
        """New file of zeros that takes no space."""
        self._new(path, size).make_sparse()

    def map(self, path: str, writable: bool = True, scattered: bool = False) -> FakeMapping:
        """A view."""
        self._get(path)
        return FakeMapping(self, path, writable)

    def lock_directory(self, path: str) -> FakeDirectoryLock:
        """A lock."""
        return FakeDirectoryLock(self, path)

    def lock_holder(self, path: str) -> int | None:
        """Always the same process."""
        return 4711 if path in self.locks else None

    def usage(self, path: str) -> tuple[int, int]:
        """As set."""
        return self.total, self.free

    def temporary_directory(self, prefix: str) -> str:
        """A fixed place."""
        path = f"/tmp/{prefix}{len(self.directories)}"
        self.make_directories(path)
        return path

    def remove_tree(self, path: str) -> None:
        """All below; its space is free again."""
        for one in [one for one in self.files if one.startswith(path + "/")]:
            self.remove(one)
        self.directories = {one for one in self.directories if one != path and not one.startswith(path + "/")}


@implementer(IRandom)
class FakeRandom:
    """Chance with a seed."""

    def __init__(self, seed: int = 1) -> None:
        self._random = random.Random(seed)

    def below(self, limit: int) -> int:
        """0 to limit - 1."""
        return self._random.randrange(limit)

    def fraction(self) -> float:
        """0 to 1."""
        return self._random.random()

    def token(self, size: int) -> bytes:
        """Bytes."""
        return self._random.randbytes(size)


@implementer(IHost)
class FakeHost:
    """A machine of the test's choice."""

    def __init__(self) -> None:
        self.pid = 4242
        self.name = "testhost"
        self.memory = 8 << 30
        self.variables: dict[str, str] = {}
        self.files_open = 10
        self.returned_memory = 0

    def return_memory(self) -> None:
        """Count."""
        self.returned_memory += 1

    def home(self) -> str:
        """A home."""
        return "/home/test"

    def variable(self, name: str) -> str | None:
        """As set."""
        return self.variables.get(name)

    def open_file_limit(self) -> int:
        """A usual one."""
        return 20000

    def open_files(self) -> int:
        """As set."""
        return self.files_open

    def resolve(self, name: str) -> str:
        """Every name but C{nowhere} is ours."""
        if name == "nowhere":
            raise OSError(errno.ENOENT, "unknown host")
        return "127.0.0.1"

    def address_towards(self, host: str, port: int) -> str:
        """Loopback."""
        return "127.0.0.1"


@implementer(IListeningPort)
class FakePort:
    """A name in the network's table."""

    def __init__(self, network: FakeNetwork, port: int, factory: IProtocolFactory) -> None:
        self._network = network
        self.port = port
        self.factory = factory

    def startListening(self) -> None:
        """Already does."""

    def stopListening(self) -> Deferred[None]:
        """Leave the table."""
        if self._network.ports.pop(self.port, None) is not None:
            self.factory.doStop()
        return succeed(None)

    def getHost(self) -> IPv4Address:
        """Loopback."""
        return IPv4Address("TCP", "127.0.0.1", self.port)


class FakeEar:
    """Somebody who hears datagrams."""

    def __init__(self, network: FakeNetwork, path: str, heard: Callable[[bytes], object]) -> None:
        self._network = network
        self._path = path
        self.heard = heard

    def stopListening(self) -> Deferred[None]:
        """Leave the table."""
        self._network.ears.pop(self._path, None)
        return succeed(None)


@implementer(INetwork)
class FakeNetwork:
    """
    Connections in memory; L{pump} moves bytes until all is quiet.

    @ivar ports: port number -> listening port.
    @ivar told: datagrams in the order in which they were sent, each with its address.
    @ivar deaf: an error that sending a datagram ends with.
    @ivar ears: who hears datagrams, by address.
    @ivar client_ip: the address that connections come from.
    """

    def __init__(self) -> None:
        self.ports: dict[int, FakePort] = {}
        self.told: list[tuple[str, bytes]] = []
        self.deaf: OSError | None = None
        self.ears: dict[str, FakeEar] = {}
        self.client_ip = "127.0.0.1"
        self._pumps: list[IOPump] = []
        self._next_port = 40000

    def listen(self, description: str, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Enter the table."""
        port = int(description.split(":")[1]) or self.free_port()
        if port in self.ports:
            return fail(CannotListenError("127.0.0.1", port, OSError(errno.EADDRINUSE, "Address in use")))
        factory.doStart()
        self.ports[port] = FakePort(self, port, factory)
        return succeed(cast("IListeningPort", self.ports[port]))

    def connect(self, host: str, port: int, factory: IProtocolFactory, timeout: float) -> Deferred[Any]:
        """Join a new pair of protocols."""
        listening = self.ports.get(port)
        if listening is None:
            return fail(Refused())
        self._next_port += 1
        family = IPv6Address if ":" in self.client_ip else IPv4Address
        here = family("TCP", self.client_ip, self._next_port)
        there = listening.getHost()
        server = cast("Any", listening.factory.buildProtocol(here))
        if server is None:
            return fail(Refused())
        client = cast("Any", factory.buildProtocol(there))
        client_side = FakeTransport(client, isServer=False, hostAddress=here, peerAddress=there)
        server_side = FakeTransport(server, isServer=True, hostAddress=there, peerAddress=here)
        for side in (client_side, server_side):
            cast("Any", side).setTcpNoDelay = cast("Any", side).setTcpKeepAlive = lambda on: None
        self._pumps.append(IOPump(client, server, client_side, server_side, False, None))
        server.makeConnection(server_side)
        client.makeConnection(client_side)
        return succeed(client)

    def kill(self, port: int) -> None:
        """End what listens at a port, and all its connections, as the end of its process does."""
        self.ports.pop(port)
        for pump in list(self._pumps):
            if pump.serverIO.getHost().port == port:
                pump.serverIO.abortConnection()
        self.pump()

    def probe(self, description: str) -> None:
        """Refuse a port that is in the table."""
        if int(description.split(":")[1]) in self.ports:
            raise OSError(errno.EADDRINUSE, "Address in use")

    def free_port(self) -> int:
        """The next one."""
        self._next_port += 1
        return self._next_port

    def tell(self, path: str, data: bytes) -> None:
        """Keep it."""
        if self.deaf is not None:
            raise self.deaf
        self.told.append((path, data))
        if path in self.ears:
            self.ears[path].heard(data)

    def poller(self, ready: Callable[[], None]) -> None:
        """Return nothing: there are no sockets."""

    def hear(self, path: str, heard: Callable[[bytes], object]) -> IListeningPort:
        """Listen to what is told there."""
        if path in self.ears:
            raise CannotListenError("unix", path, OSError(errno.EADDRINUSE, "Address in use"))
        self.ears[path] = FakeEar(self, path, heard)
        return cast("IListeningPort", self.ears[path])

    def pump(self) -> int:
        """Move bytes between all pairs until none moves; return how many rounds that took."""
        rounds = 0
        while sum(bool(pump.pump()) for pump in list(self._pumps)):
            rounds += 1
            if rounds > 10000:
                raise AssertionError("the connections never fall silent")
        ended = [one for one in self._pumps if one.clientIO.disconnected and one.serverIO.disconnected]
        for pump in ended:
            self._pumps.remove(pump)
        return rounds


@implementer(IEnvironment)
class FakeEnvironment:
    """
    All fakes together.

    @ivar rare_paths: tells whether to take the rare path of this name; see L{IEnvironment.buggify}.
    """

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.network = FakeNetwork()
        self.threads = FakeThreads()
        self.files = FakeFiles(self.clock)
        self.random = FakeRandom()
        self.host = FakeHost()
        self.rare_paths: Callable[[str], bool] = frozenset[str]().__contains__

    def buggify(self, name: str) -> bool:
        """Take the rare paths that the test chose."""
        return self.rare_paths(name)
