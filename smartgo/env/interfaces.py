"""
Interfaces to the world outside the process, the only ones that product code uses (reliability T1).

Everything with an effect outside the process, or an answer that differs from run to run, passes through an
L{IEnvironment}. The real one is L{smartgo.env.real} with L{smartgo.env.disk}; tests use C{tests.fakes}. Paths are
C{str}, durations seconds, sizes bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IListeningPort, IProtocolFactory, IReactorTime
from zope.interface import Attribute, Interface

T = TypeVar("T")


class IClock(IReactorTime, Interface):
    """Timers on a monotonic clock, and the wall clock for timestamps alone."""

    def wall_ms() -> int:
        """The wall clock, in milliseconds since the epoch. Never for durations."""

    def utc_offset() -> float:
        """Seconds by which local time is ahead of UTC now."""


class INetwork(Interface):
    """Sockets, by endpoint description."""

    def listen(description: str, factory: IProtocolFactory) -> Deferred[IListeningPort]:
        """
        Listen where a server endpoint string says (C{tcp:10911:interface=127.0.0.1}, C{unix:/path}).

        @raise twisted.internet.error.CannotListenError: the address is taken or not ours.
        @raise ValueError: the description cannot be read.
        """

    def connect(host: str, port: int, factory: IProtocolFactory, timeout: float) -> Deferred[Any]:
        """Dial; fires with the protocol once connected. Cancelling gives up."""

    def probe(description: str) -> None:
        """
        Bind to the address of a C{tcp:} description and let it go again, blocking; for use before a daemon forks.

        @raise OSError: the address is taken or not ours.
        """

    def free_port() -> int:
        """A TCP port of 127.0.0.1 that nobody listens on now; another one each time that somebody asks."""

    def tell(path: str, data: bytes) -> None:
        """
        Send one datagram to a Unix socket, without waiting; an address that begins with C{@} is an abstract one.

        @raise OSError: nobody is there, or the receiver is behind.
        """

    def poller(ready: Callable[[], None]) -> IPoller | None:
        """
        Return an empty set of sockets; C{None} where the system or the reactor has no such thing.

        @param ready: called by the reactor as long as one of them can be read.
        """

    def hear(path: str, heard: Callable[[bytes], object]) -> IListeningPort:
        """
        Call C{heard} with each datagram sent to a Unix socket, which is made; see L{tell}.

        @raise twisted.internet.error.CannotListenError: there is something already.
        """


class IPoller(Interface):
    """A set of sockets, of which those that can be read are found without the reactor's part for each of them."""

    def fileno() -> int:
        """Return the descriptor of an epoll instance that holds the sockets."""

    def watched() -> int:
        """
        Return the descriptor of an epoll instance with all that the reactor polls, level-triggered, this one included.

        Whoever is called may wait for it in the reactor's place, for a short time. -1: there is none.
        """

    def spare() -> float:
        """Return the seconds until the reactor's next timer is due; 0 where one is, infinity where there is none."""

    def add(fd: int) -> None:
        """Add a socket. @raise OSError: it cannot be."""

    def remove(fd: int) -> None:
        """Remove a socket, before it is closed."""

    def readable(limit: int) -> list[int]:
        """Return sockets that can be read now, or that have an error or an end to be read; never waits."""

    def close() -> None:
        """Call nobody any more, and free the descriptor."""


class IThreads(Interface):
    """Threads by lane: what is given to one lane runs there one after another, in order."""

    def run(lane: str, function: Callable[..., T], *args: Any) -> Deferred[T]:
        """
        Run C{function(*args)} in the lane's thread; the Deferred fires on the reactor thread.

        Lanes in use: C{flush} (store), C{prepare} (preallocation), C{read} (cold reads), C{tables} (config files),
        C{checkpoint} (queue files and positions), C{remove} (files that retention lets go), C{index} (index files),
        C{search} (looking into them), C{timers} and C{timersync} (the timer log),
        C{inflate} (bodies of messages, for the API), C{registrations} (large registrations at a registry),
        C{memory} (returning what was freed), C{backup} (copies of the store), C{filters} (the parser of SQL92),
        C{spans} (the end of their export).
        Cancelling is not supported.
        """

    def stop() -> Deferred[None]:
        """End the threads after what was given to them; fires when all have ended."""


class IMapping(Interface):
    """One file mapped into memory."""

    path = Attribute("Where the file is.")
    size = Attribute("Its length, in bytes; fixed.")
    view = Attribute("A memoryview of all of it, writable if it was mapped so. Slices of it keep the file mapped.")
    released = Attribute("Whether it was closed and no slice of C{view} is left: the memory is not mapped any more.")

    def reserve(begin: int, end: int) -> None:
        """Allocate blocks for this range (C{posix_fallocate}); blocking. @raise OSError: disk full."""

    def populate(begin: int, end: int) -> None:
        """Touch the pages of this range for writing ahead of use, without holding the GIL; blocking, best effort."""

    def read_at(offset: int, size: int) -> bytes:
        """
        Read through the file, not the mapping (C{pread}): releases the GIL while the disk works; blocking.

        @raise OSError: the disk cannot read some of it.
        """

    def sync() -> None:
        """C{fdatasync} the file; blocking. @raise OSError: what was written may be lost, now or later."""

    def close() -> None:
        """Unmap the file, once the last slice of C{view} is gone. Idempotent."""


class IDirectoryLock(Interface):
    """A locked directory."""

    def release() -> None:
        """Release the lock. Idempotent."""


class IFiles(Interface):
    """The file system. All methods block; the slow ones are called in a lane of L{IThreads}."""

    refused_writes = Attribute(
        "List of the paths of mapped files of which the disk refused a write, in order; it only grows. What was written"
        " there since may be lost though a sync succeeds: whoever syncs must look here after it."
    )

    def exists(path: str) -> bool:
        """Tell whether C{path} exists."""

    def is_directory(path: str) -> bool:
        """Tell whether C{path} is a directory."""

    def list(path: str) -> list[str]:
        """The sorted names in a directory; empty where there is none."""

    def size(path: str) -> int:
        """The length of a file in bytes. @raise FileNotFoundError: there is none."""

    def modified_ms(path: str) -> int:
        """Return the time at which a file was last modified, in milliseconds since the epoch."""

    def mode(path: str) -> int:
        """The permission bits of a file, such as C{0o600}; of its target where it is a symlink."""

    def real(path: str) -> str:
        """The absolute path with symlinks resolved."""

    def make_directories(path: str, sync: bool = True) -> None:
        """Create a directory (mode 0700) and what is above it; durably, or else the caller syncs what is above."""

    def read(path: str, limit: int | None = None) -> bytes:
        """The content of a file, C{limit} bytes of it at most."""

    def read_at(path: str, offset: int, size: int) -> bytes:
        """
        Return C{size} bytes from C{offset} of a file, fewer at its end.

        @raise OSError: the disk cannot read some of them.
        """

    def data_ranges(path: str, begin: int) -> Sequence[tuple[int, int]]:
        """
        The (begin, end) of all that may be anything but zeros in a file, from offset C{begin} on.

        Holes, and blocks that were allocated and never written, are left out where the file system tells.
        """

    def create(path: str, data: bytes, sync: bool = True) -> None:
        """
        Write a new file (mode 0600, C{O_EXCL|O_NOFOLLOW}); fsync it and its directory if asked.

        @raise FileExistsError: there is one.
        """

    def replace(path: str, data: bytes, backup: bool = True) -> None:
        """
        Replace a file as a whole and durably: a temporary beside it, fsync, the old content kept as C{.bak},
        rename over it, fsync of the directory (reliability S12).
        """

    def append(path: str, data: bytes) -> None:
        """Add to the end of a file, creating it (mode 0600)."""

    def overwrite(path: str, offset: int, data: bytes) -> None:
        """Write into an existing file in place; no fsync."""

    def zero(path: str, begin: int, end: int) -> None:
        """Overwrite a range with zeros, in place, and fdatasync."""

    def link(source: str, target: str) -> None:
        """
        Give a file a second name on the same file system (a hard link).

        @raise OSError: C{EXDEV} where that is another file system, or as the system says.
        """

    def rename(source: str, target: str) -> None:
        """Rename, replacing C{target}."""

    def remove(path: str) -> None:
        """Unlink a file. @raise FileNotFoundError"""

    def remove_directory(path: str) -> None:
        """Remove an empty directory."""

    def sync_directory(path: str) -> None:
        """Make the names in a directory durable (C{fsync})."""

    def write_back(path: str) -> None:
        """
        Let the disk write all that was changed in the file system of a directory (C{syncfs}); blocking, best effort.

        It promises nothing, and an error is told by none but the sync of each file, which is cheap afterwards: a file
        that is synced by itself waits for the journal of the file system, one after another.
        """

    def allocate(path: str, size: int) -> None:
        """
        Create a file with all its blocks (C{posix_fallocate}); a failure leaves no file behind.

        @raise OSError: disk full, or as the system says.
        """

    def create_sparse(path: str, size: int) -> None:
        """Create a file of this length without blocks (C{ftruncate})."""

    def map(path: str, writable: bool = True, scattered: bool = False) -> IMapping:
        """
        Map a whole existing file.

        @param scattered: little of it is used at a time: a touched page brings no others with it.
        """

    def lock_directory(path: str) -> IDirectoryLock:
        """
        Lock C{lock} in a store directory as RocketMQ does: C{lockf} on its byte 0, and C{flock} (reliability S13).

        @raise smartgo.errors.StoreHeld: another process has it.
        """

    def lock_holder(path: str) -> int | None:
        """
        The id of the process that holds C{lock} in a store directory, 0 if it cannot be told, C{None} for none.

        Nothing is locked and no file is made.
        """

    def usage(path: str) -> tuple[int, int]:
        """(total, free) bytes of the file system of C{path} that we may use: nothing that is reserved for others."""

    def temporary_directory(prefix: str) -> str:
        """Create a directory of our own for scratch data."""

    def remove_tree(path: str) -> None:
        """Remove a directory and everything in it; for scratch data alone."""


class IRandom(Interface):
    """Random numbers."""

    def below(limit: int) -> int:
        """An int from 0 to C{limit - 1}."""

    def fraction() -> float:
        """A float from 0 to 1, 1 excluded."""

    def token(size: int) -> bytes:
        """Return C{size} unpredictable bytes."""


class IHost(Interface):
    """The machine and the process."""

    pid = Attribute("Our process id.")
    name = Attribute("The host's name.")
    memory = Attribute("What this process may use, in bytes: physical memory, or less where a control group says so.")

    def home() -> str:
        """Return the user's home directory."""

    def variable(name: str) -> str | None:
        """A variable of the process environment."""

    def open_file_limit() -> int:
        """Return the maximum number of file descriptors of this process."""

    def open_files() -> int:
        """Return the number of open file descriptors of this process."""

    def return_memory() -> None:
        """Return freed memory that the allocator keeps to the system; blocking, about 0.2 ms a MiB."""

    def resolve(name: str) -> str:
        """The IPv4 address of a host name; blocking, for the start. @raise OSError: there is none."""

    def address_towards(host: str, port: int) -> str:
        """Our own address as a peer at C{host} would see it; C{127.0.0.1} where there is no route."""


class IEnvironment(Interface):
    """The whole environment; one object for a process, passed to whatever needs it."""

    clock = Attribute("L{IClock}")
    network = Attribute("L{INetwork}")
    threads = Attribute("L{IThreads}")
    files = Attribute("L{IFiles}")
    random = Attribute("L{IRandom}")
    host = Attribute("L{IHost}")

    def buggify(name: str) -> bool:
        """
        Tell whether to take a rare path on purpose; always false outside the simulator.

        Each place of the product where a rare path matters asks by a name of its own, in one line, and keeps every
        promise on either path. Not for what runs once a message (docs/spec/reliability#T5).
        """
