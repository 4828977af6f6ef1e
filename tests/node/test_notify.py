"""Notifications of the program that started the process: readiness, reloads, keep-alives, the stop."""

from __future__ import annotations

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

from twisted.internet.defer import Deferred
from twisted.logger import LogLevel, capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.env.real import RealNetwork
from smartgo.errors import SettingError
from smartgo.node.notify import Notifier
from smartgo.node.process import Process
from tests.fakes import FakeEnvironment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TWISTD = "from twisted.scripts.twistd import run; run()"


class NotifierTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A machine on which somebody listens, and waits for a sign of life every 3 s."""
        self.env = FakeEnvironment()
        self.env.host.variables = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "4242"}

    def words(self) -> list[str]:
        """Return the notifications since the last call."""
        told, self.env.network.told = self.env.network.told, []
        self.assertLessEqual({path for path, _ in told}, {"/run/n"})
        return [data.decode() for _, data in told]

    def test_life(self) -> None:
        """Signs of life follow readiness, twice as often as they are waited for, and end with the stop."""
        notifier = Notifier(self.env)
        notifier.startService()
        self.env.clock.advance(10)
        self.assertEqual(self.words(), [])
        notifier.ready()
        self.env.clock.pump([0.5] * 9)
        self.assertEqual(self.words(), ["READY=1"] + ["WATCHDOG=1"] * 3)
        notifier.stopService()
        self.assertEqual((self.words(), self.env.clock.getDelayedCalls()), (["STOPPING=1"], []))
        notifier.ready()
        self.assertEqual((self.words(), self.env.clock.getDelayedCalls()), ([], []))

    def test_nobody(self) -> None:
        """Where nobody listens nothing is told and no timer runs."""
        self.env.host.variables.pop("NOTIFY_SOCKET")
        notifier = Notifier(self.env)
        notifier.ready()
        notifier.reloading()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        notifier.stopService()
        self.assertEqual(self.words(), [])

    def test_no_watchdog(self) -> None:
        """Signs of life that another process is asked for, or that are not asked for in numbers, are not given."""
        for changed in ({"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}):
            env = FakeEnvironment()
            env.host.variables = {**self.env.host.variables, **changed}
            notifier = Notifier(env)
            notifier.ready()
            self.assertEqual((notifier.beat, env.clock.getDelayedCalls()), (0.0, []), changed)

    def test_deaf(self) -> None:
        """A socket that takes nothing is a warning, no more."""
        self.env.network.deaf = OSError("nobody there")
        with capturedLogs() as logged:
            Notifier(self.env).ready()
        self.assertEqual([event["log_level"] for event in logged], [LogLevel.warn])
        self.env.clock.getDelayedCalls()[0].cancel()

    def test_process(self) -> None:
        """A process is ready when all its parts serve; a reload is told around, and not before."""
        process = Process(None, "test", Notifier(self.env))
        registry: Deferred[str] = Deferred()
        broker: Deferred[str] = Deferred()
        seen: list[str] = []
        for part in (registry, broker):
            process.watch(part)
            part.addCallback(seen.append)
        registry.callback("registry")
        process.reload()
        self.assertEqual(self.words(), [])
        broker.callback("broker")
        self.assertEqual((self.words(), seen), (["READY=1"], ["registry", "broker"]))
        self.env.clock.advance(1)
        process.reload()
        self.assertEqual(self.words(), ["RELOADING=1\nMONOTONIC_USEC=1000000", "READY=1"])

    def test_failed(self) -> None:
        """A process with a part that cannot start is never ready."""
        process = Process(_NoReactor(), "test", Notifier(self.env))
        parts: list[Deferred[object]] = [Deferred(), Deferred()]
        for part in parts:
            process.watch(part)
        self.patch(sys, "stderr", io.StringIO())
        parts[0].errback(SettingError("no"))
        parts[1].callback(None)
        self.assertEqual(self.words(), [])


class _NoReactor:
    """Not running, and never."""

    running = False

    def callWhenRunning(self, function: object) -> None:
        """Never."""


class ProcessTests(SynchronousTestCase):
    def test_registry(self) -> None:
        """A registry in a process of its own says that it is ready when it listens, reloads, lives, and stops."""
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        path = os.path.join(folder, "notify")
        port = RealNetwork(None).free_port()
        command = [sys.executable, "-c", TWISTD, "--nodaemon", "--pidfile=", "smartgo-registry", f"--listen={port}"]
        command += [f"--set=kvConfigPath={folder}/kv.json"]
        environment = {**os.environ, "PYTHONPATH": ROOT, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(path)
            receiver.settimeout(60)
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment, cwd=folder)
            try:
                self.assertEqual(receiver.recv(1000), b"READY=1")
                socket.create_connection(("127.0.0.1", port), 10).close()
                self.assertEqual(receiver.recv(1000), b"WATCHDOG=1")
                process.send_signal(signal.SIGHUP)
                heard = set()
                while b"READY=1" not in heard:
                    heard.add(receiver.recv(1000).partition(b"\n")[0])
                self.assertIn(b"RELOADING=1", heard)
            finally:
                process.send_signal(signal.SIGTERM)
                status = process.wait(60)
            self.assertEqual(status, 0)
            last = receiver.recv(1000)
            while last == b"WATCHDOG=1":
                last = receiver.recv(1000)
            self.assertEqual(last, b"STOPPING=1")
