"""Tests of L{smartgo.env.writeback}."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from smartgo.env import writeback
from smartgo.env.disk import RealFiles


class WriteBackTests(SynchronousTestCase):
    """Writing back a file system."""

    def setUp(self) -> None:
        self.root = os.path.abspath(self.mktemp())
        os.mkdir(self.root)
        self.files = RealFiles()

    def test_directory(self) -> None:
        """The file system is that of the directory; where there is none, or no such call, nothing is said."""
        asked: list[str] = []
        self.patch(writeback, "_syncfs", lambda fd: asked.append(os.readlink(f"/proc/self/fd/{fd}")))
        before = os.listdir("/proc/self/fd")
        self.files.write_back(self.root)
        self.files.write_back(os.path.join(self.root, "nowhere"))
        self.assertEqual(asked, [os.path.realpath(self.root)])
        self.assertEqual(len(os.listdir("/proc/self/fd")), len(before))
        self.patch(writeback, "_syncfs", None)
        self.files.write_back(self.root)
        self.assertEqual(len(asked), 1)

    def test_system(self) -> None:
        """The system takes the call."""
        asked: list[int] = []
        call = writeback._syncfs
        assert call is not None
        self.patch(writeback, "_syncfs", lambda fd: asked.append(call(fd)))
        self.files.write_back(self.root)
        self.assertEqual(asked, [0])
