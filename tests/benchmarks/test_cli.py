"""Tests for L{benchmarks.cli}."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from click.testing import CliRunner, Result
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from benchmarks import builder, targets
from benchmarks.cli import main
from benchmarks.scenarios import NAMES


class CommandLineTests(SynchronousTestCase):
    """The command line."""

    def invoke(self, *words: str) -> Result:
        return CliRunner().invoke(main, list(words))

    def test_help(self) -> None:
        """Every command explains itself."""
        for command in ("list", "run", "apache", "compare", "profile"):
            result = self.invoke(command, "--help")
            self.assertEqual(result.exit_code, 0)
            self.assertIn("Usage:", result.output)
            self.assertIn(command, self.invoke("--help").output)

    def test_list(self) -> None:
        """The list names every scenario."""
        result = self.invoke("list")
        for name in NAMES:
            self.assertIn(name, result.output)

    def test_no_such_scenario(self) -> None:
        """A scenario there is not is refused with those there are."""
        result = self.invoke("run", "send-2k")
        self.assertEqual(result.exit_code, 2)
        for name in NAMES:
            self.assertIn(name, result.output)

    def need_compiler(self) -> None:
        if shutil.which("gcc") is None and shutil.which("cc") is None:
            raise SkipTest("no C compiler")

    def test_no_such_target(self) -> None:
        """A target that names no broker, or the same twice, is refused; nothing is left behind."""
        self.need_compiler()
        work = Path(self.mktemp())
        work.mkdir()
        for words in (["-t", "theirs"], ["-t", "ours", "-t", "ours"]):
            result = self.invoke("run", "send-1k", *words, "--work", str(work))
            self.assertEqual(result.exit_code, 2, result.output)
        self.assertEqual(list(work.iterdir()), [])

    def test_broker_that_is_not_there(self) -> None:
        """A broker that does not answer ends the run with a sentence and where the logs are."""
        self.need_compiler()
        words = ["-t", f"address=127.0.0.1:1,pid={os.getpid()}"]
        self.patch(targets, "ATTACH_TIMEOUT", 0.0)
        result = self.invoke("run", "send-1k", *words, "--work", str(Path(self.mktemp())))
        self.assertEqual(result.exit_code, 1)
        self.assertIn("127.0.0.1:1 is not ready", result.output.replace("\n", " "))
        self.assertIn("logs are in", result.output)

    def test_load_passes_on(self) -> None:
        """The generator's exit status is the command's."""
        for program, status in (("true", 0), ("false", 1)):
            self.patch(builder, "generator", lambda program=program: shutil.which(program))
            self.assertEqual(self.invoke("load", "--queues", "0").exit_code, status)
