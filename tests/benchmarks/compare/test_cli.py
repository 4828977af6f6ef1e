"""Tests for L{benchmarks.compare.cli}."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

from click.testing import CliRunner, Result
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from benchmarks.checkouts import ROOT
from benchmarks.cli import main
from benchmarks.compare.results import Sample, load
from benchmarks.compare.rows import NAMES
from benchmarks.compare.run import Rounds
from benchmarks.targets import Ours, Started, Theirs


def needs_compiler() -> None:
    """Skip where the load generator cannot be built."""
    if shutil.which("gcc") is None and shutil.which("cc") is None:
        raise SkipTest("no C compiler")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class StoppedTests(SynchronousTestCase):
    """A comparison that is stopped."""

    def test_terminated(self) -> None:
        """SIGTERM ends registries and brokers, and clears the folder away."""
        needs_compiler()
        work = Path(self.mktemp()).absolute()
        work.mkdir()
        words = ["-t", "ours", "-t", "pure", "--rows", "start", "--rounds", "1000"]
        command = [sys.executable, "-u", "-m", "benchmarks", "compare", *words, "--work", str(work), "--ports", "28600"]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as running:
            self.addCleanup(running.kill)
            assert running.stdout is not None
            said = next((line for line in running.stdout if "round 2" in line), None)
            self.assertIsNotNone(said)
            started = children(running.pid)
            running.send_signal(signal.SIGTERM)
            running.stdout.read()
            self.assertEqual(running.wait(60), 128 + signal.SIGTERM)
        self.assertGreaterEqual(len(started), 4)
        self.assertEqual([pid for pid in started if Path(f"/proc/{pid}").exists()], [])
        self.assertEqual(list(work.iterdir()), [])


class CompareTests(SynchronousTestCase):
    """What cannot be compared is refused before a broker is started."""

    def invoke(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["compare", *words])

    def test_help(self) -> None:
        """The command explains itself and names its rows."""
        told = self.invoke("--help").output
        for name in NAMES:
            self.assertIn(name, told.replace("\n", " "))

    def test_rows(self) -> None:
        """A row there is not is refused with those there are."""
        result = self.invoke("--rows", "send-1k,send-2k")
        self.assertEqual(result.exit_code, 2)
        self.assertIn("send-2k: none of", result.output)

    def test_alone(self) -> None:
        """One broker alone has nobody to be compared with."""
        self.assertEqual(self.invoke("-t", "rocketmq").exit_code, 2)

    def judged(self, *targets: str) -> set[str]:
        """Compare brokers that are never started, by a row that is made up; return whose goals were judged."""
        needs_compiler()
        path = Path(self.mktemp()).absolute()
        found = [Sample("start", name, 1, {"ready_s": 0.5}) for name in ("smartgo", "pure", "rocketmq 4.9.7")]
        self.patch(Rounds, "run", lambda *unused: found)
        words = [word for target in targets for word in ("-t", target)]
        with (
            mock.patch("benchmarks.compare.cli.running"),
            mock.patch("benchmarks.compare.cli.firsttouch.measure", lambda: None),
        ):
            result = self.invoke(*words, "--rows", "start", "--json", str(path))
        self.assertEqual(result.exit_code, 0, result.output)
        return {verdict.target for verdict in load(path).verdicts}

    def test_goals(self) -> None:
        """Goals are ratios to RocketMQ: where another broker is the reference, none is judged."""
        self.patch(Ours, "facts", Started.facts)
        self.patch(Theirs, "facts", Started.facts)
        self.assertEqual(self.judged("pure", "ours", "rocketmq"), {"pure"})
        self.assertEqual(self.judged("rocketmq", "pure", "ours"), set())

    def test_attached(self) -> None:
        """A broker that runs already is refused: it cannot get an empty store."""
        needs_compiler()
        work = Path(self.mktemp())
        work.mkdir()
        words = ["-t", "ours", "-t", f"address=127.0.0.1:1,pid={os.getpid()}", "--work", str(work)]
        result = self.invoke(*words)
        self.assertEqual(result.exit_code, 2, result.output)
        self.assertIn("empty", result.output)
        self.assertEqual(list(work.iterdir()), [])
