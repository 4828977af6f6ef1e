"""Tests for L{benchmarks.scale.cli}."""

from __future__ import annotations

import click
from click.testing import CliRunner, Result
from twisted.trial.unittest import SynchronousTestCase

from benchmarks.cli import main
from benchmarks.scale.cli import Sizes


class CommandLineTests(SynchronousTestCase):
    """The command line."""

    def invoke(self, *words: str) -> Result:
        """Run a command."""
        return CliRunner().invoke(main, ["scale", *words])

    def test_help(self) -> None:
        """Every command explains itself, and the group lists them."""
        told = self.invoke("--help").output
        for command in ("backlog", "connections", "topics", "groups"):
            result = self.invoke(command, "--help")
            self.assertEqual(result.exit_code, 0)
            self.assertIn(f"scale {command}", result.output)
            self.assertIn(command, told)

    def test_no_command(self) -> None:
        """Without a command, scenarios and options are those of groups."""
        result = self.invoke("send-2k", "--pin")
        self.assertEqual(result.exit_code, 2)
        self.assertIn("send-2k", result.output)
        self.assertIn("scale groups", result.output)
        self.assertIn("scale groups", self.invoke("--brokers", "1").output)

    def test_sizes(self) -> None:
        """Sizes are numbers with commas, in any order."""
        self.assertEqual(Sizes().convert("20,1_000,20", None, None), (20, 1000))
        for wrong in ("", "a", "0,5", "1;2"):
            self.assertRaises(click.BadParameter, Sizes().convert, wrong, None, None)
