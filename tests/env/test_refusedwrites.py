"""Tests of L{smartgo.env.refusedwrites}: a write to a mapped page that the disk refuses does not end the process."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from smartgo.env import refusedwrites
from smartgo.env.disk import RealFiles
from smartgo.env.refusedwrites import RefusedWrites

_PAGES = 4
_FIXED = 0x10  # MAP_FIXED
#: The file ends, so that a write to the mapping is answered with SIGBUS, and there is nothing to read either.
_GONE = """
import os, sys
from smartgo.env.disk import RealFiles
from smartgo.env.refusedwrites import RefusedWrites
paths = []
refused = RefusedWrites(paths)
refused.install()
files = RealFiles()
files.allocate(sys.argv[1], 8192)
mapping = files.map(sys.argv[1])
os.truncate(sys.argv[1], 0)
print("writing", flush=True)
mapping.view[5000] = 1
print("written", flush=True)
"""


#: Another process sends the signal.
_SENT = """
import os, signal
from smartgo.env.refusedwrites import RefusedWrites
refused = RefusedWrites([])
refused.install()
print("sending", flush=True)
os.kill(os.getpid(), signal.SIGBUS)
print("sent", flush=True)
"""


class RefusedWritesTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A mapped file of some pages."""
        self.path = os.path.abspath(self.mktemp())
        files = RealFiles()
        files.allocate(self.path, _PAGES * mmap.PAGESIZE)
        self.mapping = files.map(self.path)
        self.addCleanup(self.mapping.close)
        self.mapping.view[:] = bytes(range(256)) * (_PAGES * mmap.PAGESIZE // 256)
        self.mapping.sync()
        self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.mapping.view))
        self.paths: list[str] = []

    def test_page_is_replaced(self) -> None:
        """The page keeps what it holds, takes the write, and no longer writes to the file; its file is noted."""
        before = bytes(self.mapping.view)
        self.assertTrue(RefusedWrites(self.paths).replace(self.begin + mmap.PAGESIZE + 17))
        self.assertEqual(self.paths, [self.path])
        self.assertEqual(bytes(self.mapping.view), before)
        at = mmap.PAGESIZE + 17
        self.mapping.view[at : at + 4] = b"lost"
        self.mapping.view[0:4] = b"kept"
        self.assertEqual(bytes(self.mapping.view[at : at + 4]), b"lost")
        self.assertEqual(self.mapping.read_at(at, 4), before[at : at + 4])
        self.assertEqual(self.mapping.read_at(0, 4), b"kept")

    def test_two_threads(self) -> None:
        """A second thread that wrote to the same page finds it replaced, and goes on."""
        refused = RefusedWrites(self.paths)
        self.assertTrue(refused.replace(self.begin))
        self.assertTrue(refused.replace(self.begin + 8))
        self.assertEqual(self.paths, [self.path])

    def test_at_once(self) -> None:
        """What a thread writes to a page that another one is replacing is not replaced with what was there before."""
        refused = RefusedWrites(self.paths)
        remap = refusedwrites._mremap

        def write() -> None:
            refused.replace(self.begin)
            self.mapping.view[10:14] = b"lost"

        other = Thread(target=write)

        def remap_late(*arguments: object) -> object:
            self.patch(refusedwrites, "_mremap", remap)
            other.start()
            other.join(0.2)
            return remap(*arguments)

        self.patch(refusedwrites, "_mremap", remap_late)
        self.assertTrue(refused.replace(self.begin))
        other.join()
        self.assertEqual((bytes(self.mapping.view[10:14]), self.paths), (b"lost", [self.path]))

    def test_mapped_again(self) -> None:
        """A page is counted by itself, not with those of other mappings that lay at the same address."""
        refused = RefusedWrites(self.paths)
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        with open(self.path, "r+b") as file:
            for _ in range(9):
                self.assertTrue(refused.replace(self.begin))
                refusedwrites._mmap(self.begin, mmap.PAGESIZE, rights, mmap.MAP_SHARED | _FIXED, file.fileno(), 0)
        self.assertEqual(self.paths, [self.path] * 9)

    def test_elsewhere(self) -> None:
        """An address that is in no writable mapping is not taken care of."""
        self.assertFalse(RefusedWrites(self.paths).replace(8))
        self.assertEqual(self.paths, [])

    def test_unreadable(self) -> None:
        """Where the page cannot be read either, the process ends by SIGBUS, as it would have without."""
        self.assert_ends(_GONE, b"writing\n")

    def test_sent(self) -> None:
        """A process to which the signal is sent ends by it."""
        self.assert_ends(_SENT, b"sending\n")

    def assert_ends(self, program: str, said: bytes) -> None:
        """Fail unless a program ends by SIGBUS, after it said something."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", program, os.path.abspath(self.mktemp())]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=False)
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGBUS, said))
