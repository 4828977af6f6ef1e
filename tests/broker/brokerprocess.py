"""A broker in a process of its own, spoken to frame by frame, for tests that kill it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.command import Command, decode, encode
from tests.broker.fakecluster import SMALL, pull_command, records
from tests.interop.case import PORTS

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TWISTD = "from twisted.scripts.twistd import run; run()"


class BrokerProcessCase(SynchronousTestCase):
    """Tests of a broker in a process of its own, which may be killed by C{kill -9}."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.port = PORTS.take(4) + 2  # a broker takes the ports two below and one above, too
        self.settings: dict[str, str] = {}
        self.socket: socket.socket | None = None

    def start(self) -> None:
        """Start the broker, and wait until it is ready."""
        ready = os.path.join(self.folder, "notify")
        command = [sys.executable, "-c", TWISTD, "--nodaemon", "--pidfile=", "smartgo-broker", "--ops=off"]
        command += [f"--listen={self.port}", f"--store={self.folder}/store"]
        settings = {**SMALL, "mappedFileSizeConsumeQueue": "200000", **self.settings}
        command += [f"--set={name}={value}" for name, value in settings.items()]
        environment = {**os.environ, "PYTHONPATH": ROOT, "NOTIFY_SOCKET": ready}
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(ready)
            receiver.settimeout(60)
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, env=environment, cwd=self.folder
            )
            self.addCleanup(self.end, self.process)
            self.assertEqual(receiver.recv(1000), b"READY=1")
        os.unlink(ready)
        self.socket = socket.create_connection(("127.0.0.1", self.port), 30)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Kill it, and wait."""
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(30)

    def ask(self, command: Command) -> Command:
        """Ask, and wait for the answer."""
        assert self.socket is not None
        self.socket.sendall(encode(command))
        (size,) = struct.unpack(">i", self.receive(4))
        return decode(self.receive(size))

    def receive(self, size: int) -> bytes:
        """Read so many bytes."""
        assert self.socket is not None
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data)) or self.fail("the broker closed the connection")
        return data

    def bodies(self) -> list[bytes]:
        """The bodies of what topic T has in queue 0."""
        found: list[bytes] = []
        while True:
            answer = self.ask(pull_command("T", 0, len(found)))
            if answer.code != 0:
                return found
            found += [bytes(one.body) for one in records(answer.body)]
