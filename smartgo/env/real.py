"""The real world: a monotonic clock over the reactor, endpoints, threads, chance and the host."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import secrets
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
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
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from smartgo.env.disk import RealFiles
from smartgo.env.interfaces import (
    IClock,
    IEnvironment,
    IHost,
    INetwork,
    IPoller,
    IRandom,
    IThreads,
)
from smartgo.env.poller import epoll_poller

T = TypeVar("T")

_libc = ctypes.CDLL(None)
_UNLIMITED = 1 << 62
_BACKLOG = 4096  # connections that wait to be accepted: what Linux allows (net.core.somaxconn)
_GIVEN = 64  # free ports that are remembered: whoever asked for one may not listen there yet


@implementer(IClock)
class RealClock:
    """The reactor's timers on C{time.monotonic}."""

    def __init__(self, reactor: IReactorTime) -> None:
        # Stock Twisted follows the wall clock: set back by 3 s, a timer of 1 s takes 4 s (reliability H8).
        reactor.seconds = time.monotonic  # type: ignore[method-assign]
        self._reactor = reactor
        self._around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], object] | None = None

    def call_around(
        self, around: Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], object] | None
    ) -> None:
        """
        Call all timers that are set from now on through C{around(function, args, kwargs)}.

        @param around: calls the function, and may measure it; C{None}: timers call for themselves.
        """
        self._around = around

    def seconds(self) -> float:
        """Seconds of a clock that is never set."""
        return time.monotonic()

    def callLater(self, delay: float, callable: Callable[..., Any], *args: object, **kwargs: object) -> IDelayedCall:
        """Call once, C{delay} seconds from now."""
        if self._around is not None:
            return self._reactor.callLater(delay, self._around, callable, args, kwargs)
        return self._reactor.callLater(delay, callable, *args, **kwargs)

    def getDelayedCalls(self) -> Any:
        """The timers that are set."""
        return self._reactor.getDelayedCalls()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as the wall clock has it."""
        return time.time_ns() // 1_000_000

    def utc_offset(self) -> float:
        """Return the offset from UTC by the system's time zone."""
        return float(time.localtime().tm_gmtoff)


@implementer(INetwork)
class RealNetwork:
    """Sockets over Twisted's endpoints."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._given: deque[int] = deque(maxlen=_GIVEN)

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
        return cast("Deferred[Any]", endpoint.connect(factory)).addCallback(_uncouple)

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
        """A port that the system just gave and took back; what was returned lately is not, as nobody may listen yet."""
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.bind(("127.0.0.1", 0))
                port = int(probe.getsockname()[1])
            if port not in self._given:
                self._given.append(port)
                return port

    def tell(self, path: str, data: bytes) -> None:
        """Send one datagram."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.setblocking(False)
            sender.sendto(data, _unix_address(path))

    def poller(self, ready: Callable[[], None]) -> IPoller | None:
        """Make an epoll instance, and have it polled with all that the reactor polls."""
        return epoll_poller(self._reactor, ready)

    def hear(self, path: str, heard: Callable[[bytes], object]) -> IListeningPort:
        """Bind a datagram socket, and receive on it."""
        port: IListeningPort = self._reactor.listenUNIXDatagram(_unix_address(path), _Datagrams(heard))
        return port


def _uncouple(protocol: Any) -> Any:
    """
    Part a connection that was made from what has made it.

    Twisted's connector and its transport refer to each other for good, so that a lost connection would be left to the
    garbage collector. We never ask a connector for anything once it has connected.
    """
    connector = getattr(protocol.transport, "connector", None)
    if connector is not None:
        connector.transport = None
    return protocol


def _unix_address(path: str) -> str:
    return "\0" + path[1:] if path.startswith("@") else path


class _Datagrams(DatagramProtocol):
    """Hands over what comes, whoever it is from."""

    def __init__(self, heard: Callable[[bytes], object]) -> None:
        self._heard = heard

    def datagramReceived(self, datagram: bytes, addr: object) -> None:
        """Pass a datagram on."""
        self._heard(datagram)


@implementer(IThreads)
class RealThreads:
    """Threads for blocking work: one a lane, started when first used."""

    def __init__(self, reactor: IReactorFromThreads) -> None:
        self._reactor = reactor
        self._lanes: dict[str, ThreadPool] = {}
        self._running: dict[Deferred[Any], None] = {}
        self._around: Callable[[str, Callable[[], object]], object] | None = None

    def call_around(self, around: Callable[[str, Callable[[], object]], object] | None) -> None:
        """
        Deliver all results, on the reactor thread, through C{around(lane, deliver)}.

        @param around: calls C{deliver()}, and may measure it; C{None}: results are delivered directly.
        """
        self._around = around

    def run(self, lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """Run a function in the thread of a lane."""
        pool = self._lanes.get(lane)
        if pool is None:
            pool = self._lanes[lane] = ThreadPool(0, 1, f"smartgo-{lane}")
            pool.start()
        result: Deferred[T] = Deferred()
        self._running[result] = None
        result.addBoth(self._done, result)
        pool.callInThreadWithCallback(partial(self._bring, lane, result), function, *args)
        return result

    def _bring(self, lane: str, result: Deferred[Any], success: bool, value: Any) -> None:
        """Bring a result from its thread to the reactor's."""
        deliver = partial(result.callback if success else result.errback, value)
        around = self._around
        if around is None:
            self._reactor.callFromThread(deliver)
        else:
            self._reactor.callFromThread(around, lane, deliver)

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


@implementer(IRandom)
class RealRandom:
    """Random numbers of the operating system."""

    def __init__(self) -> None:
        self._random = random.Random()

    def below(self, limit: int) -> int:
        """0 to C{limit - 1}."""
        return self._random.randrange(limit)

    def fraction(self) -> float:
        """Return a random number from 0 to 1."""
        return self._random.random()

    def token(self, size: int) -> bytes:
        """Return C{size} unpredictable bytes."""
        return secrets.token_bytes(size)


def group_memory(root: str = "/sys/fs/cgroup", of_process: str = "/proc/self/cgroup") -> int:
    """
    Return how many bytes of memory the control groups of this process allow; a very large number without a limit.

    @param root: where control groups are mounted: version 2, or version 1 with a directory C{memory}.
    """
    found = [_UNLIMITED]
    try:
        with open(of_process, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError:
        return _UNLIMITED
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds not in ("", "memory"):
            continue
        above, name = (root, "memory.max") if not kinds else (f"{root}/memory", "memory.limit_in_bytes")
        while True:  # a limit holds for all groups below
            with contextlib.suppress(OSError, ValueError), open(f"{above}{path.rstrip('/')}/{name}", "rb") as file:
                found.append(int(file.read()))
            if path in ("", "/"):
                break
            path = path.rpartition("/")[0]
    return min(found)


@implementer(IHost)
class RealHost:
    """The machine that the process runs on."""

    def __init__(self) -> None:
        self.name = socket.gethostname()
        self.memory = min(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), group_memory())

    @property
    def pid(self) -> int:
        """Our process id, the right one after daemonizing too."""
        return os.getpid()

    def home(self) -> str:
        """Return the home directory."""
        return os.path.expanduser("~")

    def variable(self, name: str) -> str | None:
        """A variable of the environment."""
        return os.environ.get(name)

    def open_file_limit(self) -> int:
        """Return the soft limit of file descriptors."""
        return int(os.sysconf("SC_OPEN_MAX"))

    def open_files(self) -> int:
        """Return the number of file descriptors in use."""
        return len(os.listdir("/proc/self/fd"))

    def return_memory(self) -> None:
        """Ask glibc; other C libraries keep nothing that could be asked for."""
        trim = getattr(_libc, "malloc_trim", None)
        if trim is not None:
            trim(0)  # a foreign call gives up the GIL

    def resolve(self, name: str) -> str:
        """Resolve a host name by the system's resolver."""
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
    """The environment of a real process, over one reactor."""

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

    def buggify(self, name: str) -> bool:
        """Return false: rare paths are taken where they are needed."""
        return False
