"""Tests for L{benchmarks.compare.cli}."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from click.testing import CliRunner, Result
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from benchmarks.cli import main
from benchmarks.compare.rows import NAMES


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

    def test_attached(self) -> None:
        """A broker that runs already is refused: it cannot get an empty store."""
        if shutil.which("gcc") is None and shutil.which("cc") is None:
            raise SkipTest("no C compiler")
        work = Path(self.mktemp())
        work.mkdir()
        words = ["-t", "ours", "-t", f"address=127.0.0.1:1,pid={os.getpid()}", "--work", str(work)]
        result = self.invoke(*words)
        self.assertEqual(result.exit_code, 2, result.output)
        self.assertIn("empty", result.output)
        self.assertEqual(list(work.iterdir()), [])
