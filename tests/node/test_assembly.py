"""Tests of L{smartgo.node.assembly}."""

from __future__ import annotations

import os
import subprocess
import sys

from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.loading import Configuration
from smartgo.core import CORE
from smartgo.env.product import product_version
from smartgo.env.real import RealNetwork
from smartgo.node.assembly import NodeService
from tests.fakes import FakeEnvironment
from tests.node.test_notify import ROOT, TWISTD


class NodeTests(SynchronousTestCase):
    """Services over one environment."""

    def logged(self, user: int) -> list[str]:
        """Return what a process of this user logs at its start, after its version."""
        node = NodeService(FakeEnvironment(), Configuration(), lambda: user)
        with capturedLogs() as events:
            node.startService()
        self.successResultOf(node.stopService())
        first, *others = [formatEvent(event) for event in events]
        self.assertEqual(first, f"smartgo {product_version()} starts; core: {CORE}")
        return others

    def test_root(self) -> None:
        """A process that runs as root says so at its start, any other says nothing (reliability X15)."""
        self.assertEqual(
            self.logged(0), ["this process runs as root, which it does not need: run it as a user of its own"]
        )
        self.assertEqual(self.logged(1000), [])


class DaemonTests(SynchronousTestCase):
    def test_open_without_token(self) -> None:
        """A REST API that would be open to everybody is refused before twistd makes the process a daemon."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        ports = [RealNetwork(None).free_port() for _ in range(4)]
        command = [
            sys.executable, "-c", TWISTD, "smartgo", f"--listen={ports[0]}", f"--registry-listen={ports[1]}",
            f"--set=opsListen=0.0.0.0:{ports[2]}", f"--set=haListenPort={ports[3]}", "--set=fastPort=false",
            f"--store={folder}/store", f"--set=kvConfigPath={folder}/kv.json", "--set=mappedFileSizeCommitLog=1MiB",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": ROOT}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (78, 1), done.stderr)
        self.assertIn("would listen on 0.0.0.0 without any token", done.stderr)
        self.assertFalse(os.path.exists(f"{folder}/smartgo.pid"))
