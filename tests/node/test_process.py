"""Tests of L{smartgo.node.process}."""

from __future__ import annotations

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
