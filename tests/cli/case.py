"""The command against a cluster in memory: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.main import cli
from smartgo.cli.support import session
from smartgo.cli.support.running import Work, raise_from
from smartgo.env.interfaces import IEnvironment
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment

ROOT = str(Path(__file__).resolve().parents[2])


def smartgo(*arguments: str, stdin: bytes = b"", timeout: float = 240) -> subprocess.CompletedProcess[bytes]:
    """Run the command in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": ROOT}
    environment.pop("NAMESRV_ADDR", None)
    return subprocess.run(
        [sys.executable, "-m", "smartgo.cli.main", *arguments],
        input=stdin, capture_output=True, timeout=timeout, cwd=os.getcwd(), env=environment, check=False,
    )  # fmt: skip


class CommandCase(SynchronousTestCase):
    """
    Commands in an environment of fakes.

    @ivar seconds: how long a command may take, in virtual time.
    """

    seconds = 60.0

    def setUp(self) -> None:
        """An environment, and no reactor."""
        self.env = FakeEnvironment()
        self.patch(session, "run", self.run_work)
        self.during: Callable[[], None] = lambda: None

    def pump(self) -> None:
        """Let time pass."""
        self.env.clock.advance(0.1)

    def run_work(self, work: Work, verbose: bool = False) -> bool:
        """Do a command's work as the reactor would; an end that does not come is an interrupt."""
        env: IEnvironment = self.env
        results: list[Any] = []
        working = Deferred.fromCoroutine(work(env))
        working.addBoth(results.append)
        for _ in range(round(self.seconds * 10)):
            if results:
                break
            self.pump()
            self.during()
        else:
            working.cancel()
            self.pump()
            return True
        if isinstance(results[0], Failure):
            raise_from(results[0])
        return False

    def invoke(self, *arguments: str, stdin: str | None = None, status: int = 0) -> Result:
        """Run a command; it must end with this status."""
        result = CliRunner().invoke(cli, arguments, input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        self.assertEqual(result.exit_code, status, f"{arguments}: {result.output}")
        return result

    def out(self, *arguments: str, stdin: str | None = None) -> str:
        """Return what a command writes to standard output."""
        return self.invoke(*arguments, stdin=stdin).stdout

    def json(self, *arguments: str, stdin: str | None = None) -> Any:
        """Return what a command writes as JSON."""
        return json.loads(self.out(*arguments, "-o", "json", stdin=stdin))

    def refused(self, *arguments: str, status: int) -> str:
        """Return the one sentence of a command that ends with an error."""
        result = self.invoke(*arguments, status=status)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("smartgo: "), result.stderr)
        return result.stderr


class ClusterCase(CommandCase):
    """Commands against a registry and a broker."""

    def setUp(self) -> None:
        """Both, in the same environment."""
        super().setUp()
        self.cluster = Cluster(self.env)
        self.addCleanup(self.cluster.stop)

    def pump(self) -> None:
        """Let bytes and time pass."""
        self.cluster.pump(0.1)
