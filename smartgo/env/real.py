"""The real world: a monotonic clock over the reactor, endpoints, threads and the operating system's files."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import random
import secrets
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from twisted.internet.abstract import isIPAddress
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, serverFromString
from twisted.internet.interfaces import (
    IDelayedCall,
    IListeningPort,
    IProtocolFactory,
    IReactorCore,
    IReactorFromThreads,
    IReactorTime,
)
from twisted.internet.protocol import DatagramProtocol
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool
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

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_BACKLOG = 1024
_LOCK_TEXT = b"lock"  # what RocketMQ writes into the file

_libc = ctypes.CDLL(None, use_errno=True)  # a foreign call gives up the GIL, mmap.madvise does not
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.restype = ctypes.c_int

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of Linux: type, whence, start, len, pid


@implementer(IClock)
class RealClock:
    """The reactor's timers on C{time.monotonic}."""

    def __init__(self, reactor: IReactorTime) -> None:
        # Stock Twisted follows the wall clock: set back by 3 s, a timer of 1 s takes 4 s (reliability H8).
        reactor.seconds = time.monotonic  # type: ignore[method-assign]
        self._reactor = reactor

    def seconds(self) -> float:
        """Seconds of a clock that is never set."""
        return time.monotonic()

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object) -> IDelayedCall:
        """Call once, C{delay} seconds from now."""
        return self._reactor.callLater(delay, callable, *args, **kwargs)

    def getDelayedCalls(self) -> Any:
        """The timers that are set."""
        return self._reactor.getDelayedCalls()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as the wall clock has it."""
        return time.time_ns() // 1_000_000

    def utc_offset(self) -> float:
        """What the system's time zone says."""
        return float(time.localtime().tm_gmtoff)


@implementer(INetwork)
class RealNetwork:
    """Sockets over Twisted's endpoints."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def listen(self, description: str, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """Listen at an endpoint description; TCP gets a backlog that a burst of clients fits into."""
        if description.startswith("tcp:") and "backlog=" not in description:
            description += f":backlog={_BACKLOG}"
        return cast("Deferred[IListeningPort]", serverFromString(self._reactor, description).listen(factory))

    def connect(self, host: str, port: int, factory: IProtocolFactory, timeout: float) -> Deferred[Any]:
        """Dial an address or a name."""
        endpoint: TCP4ClientEndpoint | HostnameEndpoint
        if isIPAddress(host):
            endpoint = TCP4ClientEndpoint(self._reactor, host, port, timeout)
        else:
            endpoint = HostnameEndpoint(self._reactor, host, port, timeout)
        return cast("Deferred[Any]", endpoint.connect(factory))

    def probe(self, description: str) -> None:
        """Bind and let go again."""
        kind, _, rest = description.partition(":")
        if kind != "tcp":
            return
        port, _, options = rest.partition(":")
        interface = ""
        for option in options.split(":"):
            name, _, value = option.partition("=")
            if name == "interface":
                interface = value.replace("\\", "")
        family = socket.AF_INET6 if ":" in interface else socket.AF_INET
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((interface, int(port)))
            probe.listen(1)

    def free_port(self) -> int:
        """A port that the system just gave and took back."""
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def tell(self, path: str, data: bytes) -> None:
        """Send one datagram."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto(data, _unix_address(path))

    def hear(self, path: str, heard: Callable[[bytes], object]) -> IListeningPort:
        """Bind a datagram socket."""
        port: IListeningPort = self._reactor.listenUNIXDatagram(_unix_address(path), _Datagrams(heard))
        return port


def _unix_address(path: str) -> str:
    return "\0" + path[1:] if path.startswith("@") else path


class _Datagrams(DatagramProtocol):
    """Hands over what comes, whoever it is from."""

    def __init__(self, heard: Callable[[bytes], object]) -> None:
        self._heard = heard

    def datagramReceived(self, datagram: bytes, addr: object) -> None:
        """One came."""
        self._heard(datagram)


@implementer(IThreads)
class RealThreads:
    """One thread a lane, started when first used."""

    def __init__(self, reactor: IReactorFromThreads) -> None:
        self._reactor = reactor
        self._lanes: dict[str, ThreadPool] = {}
        self._running: dict[Deferred[Any], None] = {}

    def run(self, lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Give work to a lane."""
        pool = self._lanes.get(lane)
        if pool is None:
            pool = self._lanes[lane] = ThreadPool(0, 1, f"smartgo-{lane}")
            pool.start()
        result: Deferred[T] = deferToThreadPool(self._reactor, pool, function, *args)
        self._running[result] = None
        result.addBoth(self._done, result)
        return result

    def _done(self, value: Any, result: Deferred[Any]) -> Any:
        del self._running[result]
        return value

    def stop(self) -> Deferred[None]:
        """Wait for what runs, then end the threads."""
        waits: list[Deferred[None]] = []
        for running in list(self._running):
            wait: Deferred[None] = Deferred()
            running.addBoth(_pass_on, wait)
            waits.append(wait)
        return DeferredList(waits).addCallback(self._join)

    def _join(self, _: object) -> None:
        for pool in self._lanes.values():
            pool.stop()
        self._lanes.clear()


def _pass_on(value: Any, wait: Deferred[None]) -> Any:
    wait.callback(None)
    return value


@implementer(IMapping)
class RealMapping:
    """A file under C{mmap}."""

    def __init__(self, path: str, writable: bool, scattered: bool) -> None:
        self.path = path
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
        self._fd = os.open(path, flags)
        try:
            self.size = os.fstat(self._fd).st_size
            self._map = mmap.mmap(self._fd, self.size, access=mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ)
        except BaseException:
            os.close(self._fd)
            raise
        if scattered:
            self._map.madvise(mmap.MADV_RANDOM)  # else a first touch may read megabytes around it
        self.view = memoryview(self._map)

    def reserve(self, begin: int, end: int) -> None:
        """Give blocks to a range."""
        os.posix_fallocate(self._fd, begin, end - begin)

    def populate(self, begin: int, end: int) -> None:
        """Fault the pages of a range in for writing; older kernels say EINVAL and are left alone."""
        begin -= begin % mmap.PAGESIZE
        end = min(end, self.size)
        if begin >= end:
            return
        anchor = ctypes.c_char.from_buffer(self._map)
        _libc.madvise(ctypes.addressof(anchor) + begin, end - begin, _POPULATE_WRITE)

    def read_at(self, offset: int, size: int) -> bytes:
        """Read by the descriptor."""
        return os.pread(self._fd, size, offset)

    def sync(self) -> None:
        """C{fdatasync}: covers pages dirtied through the mapping, and gives up the GIL (C{mmap.flush} keeps it)."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Close the descriptor now, the mapping with the last slice of it."""
        if self._fd < 0:
            return
        os.close(self._fd)
        self._fd = -1
        try:
            self.view.release()
            self._map.close()
        except BufferError:
            pass  # somebody holds a slice: the mapping goes when that does
        del self._map


_held: set[str] = set()  # POSIX locks of a process end when it closes any descriptor of the file


@implementer(IDirectoryLock)
class RealDirectoryLock:
    """The C{lock} file of a store directory, held."""

    def __init__(self, directory: str) -> None:
        path = os.path.join(os.path.realpath(directory), "lock")
        if path in _held:
            raise StoreHeld(directory, os.getpid())
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = self._holder()
            os.close(self._fd)
            self._fd = -1
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StoreHeld(directory, pid) from None
        _held.add(path)
        if os.fstat(self._fd).st_size == 0:
            os.pwrite(self._fd, _LOCK_TEXT, 0)

    def _holder(self) -> int:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        try:
            kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_GETLK, asked))
        except OSError:
            return 0
        return 0 if kind == fcntl.F_UNLCK else int(pid)

    def release(self) -> None:
        """Close the file, which ends both locks."""
        if self._fd >= 0:
            _held.discard(self._path)
            os.close(self._fd)
            self._fd = -1


@implementer(IFiles)
class RealFiles:
    """The operating system's files, created 0600 in directories 0700, never through a symlink (reliability X15)."""

    def exists(self, path: str) -> bool:
        """Whether there is anything."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        """Whether it is a directory."""
        return os.path.isdir(path)

    def list(self, path: str) -> list[str]:
        """Sorted names."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int:
        """Length in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When last modified, in milliseconds since the epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def mode(self, path: str) -> int:
        """What C{chmod} sets."""
        return os.stat(path).st_mode & 0o7777

    def real(self, path: str) -> str:
        """Symlinks resolved."""
        return os.path.realpath(path)

    def make_directories(self, path: str, sync: bool = True) -> None:
        """Create what is missing of a path."""
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for one in reversed(missing):
            try:
                os.mkdir(one, 0o700)
            except FileExistsError:
                if not os.path.isdir(one):
                    raise
            if sync:
                self.sync_directory(os.path.dirname(one) or ".")

    def read(self, path: str, limit: int | None = None) -> bytes:
        """The content."""
        with open(path, "rb") as file:
            return file.read(-1 if limit is None else limit)

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """A part of the content; without a file object, which takes longer to make than the reading does."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, size, offset)
        finally:
            os.close(fd)

    def data_ranges(self, path: str, begin: int) -> Sequence[tuple[int, int]]:
        """Ask for holes; pages that were read count as data, so all is asked before anything is read."""
        found = []
        with open(path, "rb") as file:
            try:
                while True:
                    begin = os.lseek(file.fileno(), begin, os.SEEK_DATA)
                    end = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
                    found.append((begin, end))
                    begin = end
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
        return found

    def create(self, path: str, data: bytes, sync: bool = True) -> None:
        """Write a file that must not exist yet."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        if sync:
            self.sync_directory(os.path.dirname(path))

    def replace(self, path: str, data: bytes, backup: bool = True) -> None:
        """Write aside, keep the old content as C{.bak}, rename."""
        aside = path + ".tmp"
        try:
            os.unlink(aside)  # left by a crash
        except FileNotFoundError:
            pass
        self.create(aside, data, sync=False)
        fd = os.open(aside, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        if backup and os.path.lexists(path):
            link = path + ".bak.tmp"
            try:
                os.unlink(link)
            except FileNotFoundError:
                pass
            os.link(path, link)
            os.replace(link, path + ".bak")
        os.replace(aside, path)
        self.sync_directory(os.path.dirname(path))

    def append(self, path: str, data: bytes) -> None:
        """Add to the end."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)

    def overwrite(self, path: str, offset: int, data: bytes) -> None:
        """Write in place."""
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(fd, data[done:], offset + done)
        finally:
            os.close(fd)

    def zero(self, path: str, begin: int, end: int) -> None:
        """Zeros over a range, durably."""
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            zeros = bytes(1 << 20)
            while begin < end:
                begin += os.pwrite(fd, zeros[: min(len(zeros), end - begin)], begin)
            os.fdatasync(fd)
        finally:
            os.close(fd)

    def rename(self, source: str, target: str) -> None:
        """Rename."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Unlink."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """C{fsync} of a directory."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def allocate(self, path: str, size: int) -> None:
        """A new file with all its blocks."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, size)
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)

    def create_sparse(self, path: str, size: int) -> None:
        """A new file of holes."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)

    def map(self, path: str, writable: bool = True, scattered: bool = False) -> RealMapping:
        """Map a file."""
        return RealMapping(path, writable, scattered)

    def lock_directory(self, path: str) -> RealDirectoryLock:
        """Take a store directory."""
        return RealDirectoryLock(path)

    def usage(self, path: str) -> tuple[int, int]:
        """Total and free bytes."""
        found = os.statvfs(path)
        usable = found.f_blocks - found.f_bfree + found.f_bavail
        return usable * found.f_frsize, found.f_bavail * found.f_frsize

    def temporary_directory(self, prefix: str) -> str:
        """A directory for scratch data."""
        return tempfile.mkdtemp(prefix=prefix)

    def remove_tree(self, path: str) -> None:
        """Remove scratch data."""
        shutil.rmtree(path, ignore_errors=True)


def _write_all(fd: int, data: bytes) -> None:
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:])


@implementer(IRandom)
class RealRandom:
    """The system's chance."""

    def __init__(self) -> None:
        self._random = random.Random()

    def below(self, limit: int) -> int:
        """0 to C{limit - 1}."""
        return self._random.randrange(limit)

    def fraction(self) -> float:
        """0 to 1."""
        return self._random.random()

    def token(self, size: int) -> bytes:
        """Unpredictable bytes."""
        return secrets.token_bytes(size)


@implementer(IHost)
class RealHost:
    """This machine."""

    def __init__(self) -> None:
        self.name = socket.gethostname()
        self.memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @property
    def pid(self) -> int:
        """Our process id, the right one after daemonizing too."""
        return os.getpid()

    def home(self) -> str:
        """The home directory."""
        return os.path.expanduser("~")

    def variable(self, name: str) -> str | None:
        """A variable of the environment."""
        return os.environ.get(name)

    def open_file_limit(self) -> int:
        """Soft limit of descriptors."""
        return int(os.sysconf("SC_OPEN_MAX"))

    def open_files(self) -> int:
        """Descriptors in use."""
        return len(os.listdir("/proc/self/fd"))

    def resolve(self, name: str) -> str:
        """Ask the system's resolver."""
        return socket.gethostbyname(name)

    def address_towards(self, host: str, port: int) -> str:
        """Ask the routing table; nothing is sent."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((host, port))
                return str(probe.getsockname()[0])
            except OSError:
                return "127.0.0.1"


@implementer(IEnvironment)
class RealEnvironment:
    """All doors, on one reactor."""

    def __init__(self, reactor: Any) -> None:
        """
        @param reactor: the one that will run; its C{seconds} becomes monotonic.
        """
        IReactorCore(reactor)
        self.clock = RealClock(reactor)
        self.network = RealNetwork(reactor)
        self.threads = RealThreads(reactor)
        self.files = RealFiles()
        self.random = RealRandom()
        self.host = RealHost()
