"""The real disk: the operating system's files, mapped ones, and the lock of a store's directory."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import shutil
import struct
import tempfile
import weakref
from collections.abc import Sequence

from zope.interface import implementer

from smartgo.env import writeback
from smartgo.env.interfaces import IDirectoryLock, IFiles, IMapping
from smartgo.errors import StoreHeld

_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE, Linux 5.14
_LOCK_TEXT = b"lock"  # what RocketMQ writes into the file

_libc = ctypes.CDLL(None, use_errno=True)  # a foreign call gives up the GIL, mmap.madvise does not
_libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.madvise.restype = ctypes.c_int

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of Linux: type, whence, start, len, pid


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
        self._mapped = weakref.ref(self._map)

    @property
    def released(self) -> bool:
        """Tell whether the last slice is gone."""
        return self._fd < 0 and self._mapped() is None

    def reserve(self, begin: int, end: int) -> None:
        """Allocate blocks for a range."""
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
        """Read through the file descriptor."""
        return _read_at(self._fd, offset, size)

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


def _read_at(fd: int, offset: int, size: int) -> bytes:
    """
    Read C{size} bytes, fewer at the end of the file.

    Where the disk cannot read a page, the kernel returns what lies before it, as at the end of a file: the error comes
    with the next read.

    @raise OSError: as the system says.
    """
    data = os.pread(fd, size, offset)
    while data and len(data) < size:
        more = os.pread(fd, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


_held: set[str] = set()  # POSIX locks of a process end when it closes any descriptor of the file


def _holder(fd: int) -> int | None:
    """Return the process that holds a C{lock} file, 0 if it cannot be told, C{None} for none."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
    try:
        kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    return None if kind == fcntl.F_UNLCK else int(pid)


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
            pid = _holder(self._fd) or 0
            os.close(self._fd)
            self._fd = -1
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StoreHeld(directory, pid) from None
        _held.add(path)
        if os.fstat(self._fd).st_size == 0:
            os.pwrite(self._fd, _LOCK_TEXT, 0)

    def release(self) -> None:
        """Close the file, which ends both locks."""
        if self._fd >= 0:
            _held.discard(self._path)
            os.close(self._fd)
            self._fd = -1


@implementer(IFiles)
class RealFiles:
    """
    The operating system's files, created 0600 in directories 0700, never through a symlink (reliability X15).

    @ivar refused_writes: see L{IFiles}; grows where L{RefusedWrites<smartgo.env.refusedwrites.RefusedWrites>} is
        installed, else such a write ends the process.
    """

    def __init__(self) -> None:
        self.refused_writes: list[str] = []

    def exists(self, path: str) -> bool:
        """Tell whether the path exists."""
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        """Tell whether C{path} is a directory."""
        return os.path.isdir(path)

    def list(self, path: str) -> list[str]:
        """Return the names in a directory, sorted."""
        try:
            return sorted(os.listdir(path))
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int:
        """Return the length of a file in bytes."""
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return the time of the last modification, in milliseconds since the epoch."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def mode(self, path: str) -> int:
        """Return the permission bits of C{path}, as C{chmod} sets them."""
        return os.stat(path).st_mode & 0o7777

    def real(self, path: str) -> str:
        """Return C{path} with symbolic links resolved."""
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
        """Return the content of a file."""
        with open(path, "rb") as file:
            return file.read(-1 if limit is None else limit)

    def read_at(self, path: str, offset: int, size: int) -> bytes:
        """A part of the content; without a file object, which takes longer to make than the reading does."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read_at(fd, offset, size)
        finally:
            os.close(fd)

    def data_ranges(self, path: str, begin: int) -> Sequence[tuple[int, int]]:
        """Return the ranges that are no holes; pages that were read count as data, so ask before reading."""
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
        except BaseException:
            os.unlink(path)
            raise
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
        """Append to a file."""
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _write_all(fd, data)
        finally:
            os.close(fd)

    def overwrite(self, path: str, offset: int, data: bytes) -> None:
        """Write over bytes of a file."""
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

    def link(self, source: str, target: str) -> None:
        """Make a hard link."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Rename a file, replacing C{target}."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Remove a file."""
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove an empty directory."""
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable (C{fsync})."""
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def write_back(self, path: str) -> None:
        """Let the disk write all that was changed."""
        writeback.write_back(path)

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
        except BaseException:
            os.unlink(path)
            raise
        finally:
            os.close(fd)

    def map(self, path: str, writable: bool = True, scattered: bool = False) -> RealMapping:
        """Map a file."""
        return RealMapping(path, writable, scattered)

    def lock_directory(self, path: str) -> RealDirectoryLock:
        """Lock a store directory."""
        return RealDirectoryLock(path)

    def lock_holder(self, path: str) -> int | None:
        """Ask for the lock's holder; a lock of this process is told from the paths that it holds."""
        lock = os.path.join(os.path.realpath(path), "lock")
        if lock in _held:
            return os.getpid()  # opening the file would end our own lock
        try:
            fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return _holder(fd)
        finally:
            os.close(fd)

    def usage(self, path: str) -> tuple[int, int]:
        """Return the total and the free bytes of a file system."""
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
