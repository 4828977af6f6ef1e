"""Tests of L{smartgo.node.process}."""

from __future__ import annotations

import signal
import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import SettingError
from smartgo.node.process import probe_pid_file
from tests.fakes import FakeEnvironment


class PidFileTests(SynchronousTestCase):
    def test_missing_directory(self) -> None:
        """A pid file in a directory that does not exist is refused in one sentence that names file and option."""
        error = self.assertRaises(SettingError, probe_pid_file, FakeEnvironment(), "/missing/mine.pid", ".")
        self.assertIn("the pid file /missing/mine.pid cannot be written", str(error))
        self.assertIn("--pidfile", str(error))

    def test_writable(self) -> None:
        """A path that can be written passes, relative to the run directory too; nothing is left behind."""
        env = FakeEnvironment()
        env.files.make_directories("/run")
        probe_pid_file(env, "mine.pid", "/run")
        probe_pid_file(env, "/run/mine.pid", "/elsewhere")
        self.assertEqual(env.files.list("/run"), [])

    def test_none(self) -> None:
        """Without a pid file nothing is checked."""
        probe_pid_file(FakeEnvironment(), "", "/missing")


class BusErrorTests(SynchronousTestCase):
    """A process that is ended by SIGBUS, as by a mapped file on a dead disk."""

    def test_stacks(self) -> None:
        """It says so on standard error, with the stacks, even where the program logs to its own files."""
        program = (
            "import os, signal, sys; from twisted.internet import reactor; from smartgo.node.process import Process;"
            "sys.stderr = open(os.devnull, 'w'); Process(reactor, 'smartgo', None).install();"
            "reactor.callWhenRunning(os.kill, os.getpid(), signal.SIGBUS); reactor.run()"
        )
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
        self.assertEqual(ended.returncode, -signal.SIGBUS)
        self.assertIn(b"Fatal Python error: Bus error", ended.stderr)
        self.assertIn(b"most recent call first", ended.stderr)
