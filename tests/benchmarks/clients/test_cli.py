"""Tests for L{benchmarks.clients.cli}: the command, and smartgo's programs against a broker."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from click.testing import CliRunner, Result
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from benchmarks.cli import main
from benchmarks.clients import subjects
from benchmarks.clients.results import load
from benchmarks.clients.rows import NAMES
from benchmarks.errors import BenchmarkError
from benchmarks.jars import RocketMQ


class CommandTests(SynchronousTestCase):
    """The command line."""

    def invoke(self, *words: str) -> Result:
        return CliRunner().invoke(main, ["clients", *words])

    def test_help(self) -> None:
        """The command explains itself and names its rows and clients."""
        told = re.sub(r"(?<=\w-)\n\s+", "", self.invoke("--help").output)  # words are broken at hyphens
        for name in (*NAMES, *subjects.NAMES):
            self.assertIn(name, told)

    def test_refused(self) -> None:
        """A row or client there is not, or a client given twice, is refused before a broker is started."""
        for words in (["--rows", "consume-2k"], ["-c", "pika"], ["-c", "aio", "-c", "aio"]):
            result = self.invoke(*words, "-t", "ours")
            self.assertEqual(result.exit_code, 2, result.output)


class MeasuredTests(SynchronousTestCase):
    """smartgo's three clients on smartgo's broker, for moments."""

    def setUp(self) -> None:
        """The load generator stores the backlog."""
        if shutil.which("gcc") is None and shutil.which("cc") is None:
            raise SkipTest("no C compiler")

    def test_measured(self) -> None:
        """
        Every kind of load has a figure of each client; one that cannot be had is left out, and the results say why.
        """
        path = Path(self.mktemp()).absolute()

        def no_java(*unused: object) -> list[str]:
            raise BenchmarkError("no javac")

        self.patch(RocketMQ, "client_program", no_java)
        clients = [word for name in ("twisted", "aio", "sync", "java") for word in ("-c", name)]
        pace = ["--rounds", "1", "--seconds", "0.2", "--warm-up", "0", "--first-warm-up", "0", "--backlog", "2000"]
        rows = "pipelined-128,one-by-one-128,consume-128"
        words = ["clients", "-t", "ours", *clients, *pace, "--rows", rows, "--ports", "28700", "--json", str(path)]
        result = CliRunner().invoke(main, words)
        self.assertEqual(result.exit_code, 0, result.output)
        found = load(path)
        self.assertEqual(found.failures, ["java was left out: no javac"])
        self.assertEqual(found.reference, "sync")
        measured = {(each.row, each.subject.client) for each in found.samples}
        self.assertEqual(measured, {(row, client) for row in rows.split(",") for client in ("twisted", "aio", "sync")})
        for each in found.samples:
            self.assertGreater(each.figures["rate"], 0, each)
            self.assertGreater(each.figures["resident_mb"], 10, each)
