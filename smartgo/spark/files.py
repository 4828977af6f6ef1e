"""
File access of this package: executors have no environment of smartgo's, only files on their disks.

Files are read, never mapped: a mapping of a file that somebody shortens, or of a network mount that goes away, would
end the worker with a signal.
"""

from __future__ import annotations

import errno
import glob
import mmap
import os
from typing import Final


def names(path: str) -> list[str]:
    """Return what lies in a directory, sorted; nothing if there is no such directory."""
    try:
        return sorted(os.listdir(path))
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_directory(path: str) -> bool:
    """Tell whether there is a directory of that name."""
    return os.path.isdir(path)


def matching(pattern: str) -> list[str]:
    """Return the paths that a shell pattern matches, sorted."""
    return sorted(glob.glob(pattern))


def size(path: str) -> int:
    """Return the length of a file, in bytes."""
    return os.stat(path).st_size


def read_at(path: str, at: int, count: int) -> bytes:
    """Return up to C{count} bytes from byte C{at} on; fewer where the file ends."""
    file = FileReader(path)
    try:
        return bytes(file.read(at, count))
    finally:
        file.close()


def read_whole(path: str, limit: int) -> bytes | None:
    """Return the content of a small file, at most C{limit} bytes of it; C{None} where there is none."""
    try:
        return read_at(path, 0, limit)
    except (FileNotFoundError, NotADirectoryError):
        return None


def scratch(size: int) -> mmap.mmap:
    """Return memory for C{size} bytes, of which only what is written to takes room."""
    return mmap.mmap(-1, max(size, 1), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class FileReader:
    """
    A file with a buffer that is reused: the next read overwrites what the last one returned.

    What is given out are memoryviews of that buffer; copy what is to be kept.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb", buffering=0)  # noqa: SIM115 - closed by close
        self._buffer = bytearray()

    def read(self, at: int, count: int) -> memoryview:
        """Read up to C{count} bytes from byte C{at} on; fewer where the file ends."""
        if len(self._buffer) < count:
            self._buffer = bytearray(count)
        view = memoryview(self._buffer)[:count]
        done = 0
        while done < count:
            got = os.preadv(self._file.fileno(), [view[done:]], at + done)
            if not got:
                break
            done += got
        return view[:done]

    def copy(self, at: int, count: int) -> bytes:
        """Return up to C{count} bytes from byte C{at} on, and leave the buffer alone; fewer where the file ends."""
        parts = []
        while count and (part := os.pread(self._file.fileno(), count, at)):
            parts.append(part)
            at, count = at + len(part), count - len(part)
        return b"".join(parts)

    def data_ranges(self, begin: int, end: int) -> list[tuple[int, int]]:
        """
        Return the parts of a range that may hold anything but zeros, as (first byte, after the last).

        A file system that knows no holes says that all of it does.
        """
        found = []
        file = self._file.fileno()
        end = min(end, os.fstat(file).st_size)
        while begin < end:
            try:
                low = os.lseek(file, begin, os.SEEK_DATA)
                high = os.lseek(file, low, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole follows
                    break
                if error.errno not in _NO_HOLES:
                    raise
                low, high = begin, end
            if low < end:
                found.append((low, min(high, end)))
            begin = high
        return found

    def close(self) -> None:
        """Close the file."""
        self._file.close()


_NO_HOLES: Final = (errno.EINVAL, errno.EOPNOTSUPP)


def data_ranges(path: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the parts of a range of a file that may hold anything but zeros, see L{FileReader.data_ranges}."""
    reader = FileReader(path)
    try:
        return reader.data_ranges(begin, end)
    finally:
        reader.close()
