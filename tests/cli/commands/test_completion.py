"""Tests of C{smartgo completion}, and of what the shells get from it."""

from __future__ import annotations

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.main import cli


class CompletionTests(SynchronousTestCase):
    def test_shells(self) -> None:
        """Each shell gets lines that name the command."""
        for shell in ("bash", "zsh", "fish"):
            result = CliRunner().invoke(cli, ["completion", shell])
            self.assertEqual(result.exit_code, 0, result.output)
            self.assertIn("_SMARTGO_COMPLETE", result.output)
        self.assertEqual(CliRunner().invoke(cli, ["completion", "csh"]).exit_code, 2)

    def test_completes(self) -> None:
        """Commands below commands, options and choices are completed as the shell asks."""

        def words(line: str, at: int) -> list[str]:
            result = CliRunner().invoke(
                cli, [], prog_name="smartgo",
                env={"_SMARTGO_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(at)},
            )  # fmt: skip
            return [one.partition(",")[2] for one in result.output.splitlines()]

        self.assertEqual(words("smartgo gr", 1), ["group"])
        self.assertEqual(words("smartgo group la", 2), ["lag"])
        self.assertIn("--topic", words("smartgo group lag --", 3))
        self.assertEqual(words("smartgo topic ls -o j", 4), ["json", "jsonl"])
