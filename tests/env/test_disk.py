"""The real disk: the files and the lock do what their interfaces promise."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from functools import partial

from twisted.trial.unittest import SynchronousTestCase

from smartgo.env.disk import RealFiles, RealMapping
from smartgo.errors import StoreHeld

HOLDER = """
import sys, fcntl, os
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
print("held", flush=True)
sys.stdin.read()
"""


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

    def test_nothing_left(self) -> None:
        """A file that cannot get its length or its content is not there: its name is free for the next try."""

        def refuse(*_: object) -> None:
            raise OSError(errno.EFBIG, "File too large")

        path = os.path.join(self.root, "file")
        for call, make in (
            ("ftruncate", lambda: self.files.create_sparse(path, 100)),
            ("posix_fallocate", lambda: self.files.allocate(path, 100)),
            ("write", lambda: self.files.create(path, b"content")),
            ("fsync", lambda: self.files.create(path, b"content")),
        ):
            patched = self.patch(os, call, refuse)
            self.assertRaises(OSError, make)
            patched.restore()
            self.assertFalse(self.files.exists(path), call)
        self.files.create_sparse(path, 100)
        self.assertEqual(self.files.size(path), 100)

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

    def test_read_in_parts(self) -> None:
        """A read that the kernel ends early goes on, to the end of the file or to what the disk cannot read."""
        path = os.path.join(self.root, "log")
        self.files.create(path, b"abcdefgh")
        mapping = self.files.map(path)
        pread = os.pread

        def in_parts(fd: int, size: int, offset: int) -> bytes:
            if offset <= self.bad < offset + size:
                if offset == self.bad:
                    raise OSError(errno.EIO, "Input/output error")
                size = self.bad - offset
            return pread(fd, min(3, size), offset)

        self.patch(os, "pread", in_parts)
        self.bad = 100
        for read in (partial(self.files.read_at, path), mapping.read_at):
            self.assertEqual([read(0, 8), read(1, 100), read(8, 4), read(0, 0)], [b"abcdefgh", b"bcdefgh", b"", b""])
        self.bad = 5
        for read in (partial(self.files.read_at, path), mapping.read_at):
            self.assertEqual([read(0, 5), read(6, 2)], [b"abcde", b"gh"])
            for begin in range(6):
                self.assertEqual(self.assertRaises(OSError, read, begin, 8 - begin).errno, errno.EIO)
        mapping.close()

    def test_released(self) -> None:
        """A mapping is released when it was closed and its last slice is gone."""
        path = os.path.join(self.root, "log")
        self.files.allocate(path, 1 << 16)
        mapping = self.files.map(path)
        held = mapping.view[100:105][1:]
        self.assertFalse(mapping.released)
        mapping.close()
        self.assertFalse(mapping.released)
        self.files.remove(path)
        self.assertEqual(bytes(held), bytes(4))
        del held
        self.assertTrue(mapping.released)

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
        self.assertEqual(self.files.lock_holder(self.root), os.getpid())
        self.assertNotEqual(self.try_elsewhere(), 0)
        lock.release()
        lock.release()
        self.assertIsNone(self.files.lock_holder(self.root))
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
            self.assertEqual(self.files.lock_holder(self.root), holder.pid)
            holder.stdin.close()
        self.assertIsNone(self.files.lock_holder(self.root))
        self.files.lock_directory(self.root).release()

    def test_flock(self) -> None:
        """The file is flock-ed too."""
        lock = self.files.lock_directory(self.root)
        path = os.path.join(self.root, "lock")
        code = "import sys,fcntl; fcntl.flock(open(sys.argv[1]), fcntl.LOCK_EX | fcntl.LOCK_NB)"
        status = subprocess.run([sys.executable, "-c", code, path], stderr=subprocess.DEVNULL, check=False).returncode
        self.assertNotEqual(status, 0)
        lock.release()
