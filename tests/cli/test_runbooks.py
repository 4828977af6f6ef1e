"""The commands in the runbooks of alerts, and in what judgements advise: each runs as it is written."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.main import cli
from smartgo.cli.support import session
from smartgo.health.judgements import JUDGEMENTS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def runbook_commands() -> list[str]:
    """Return the commands in the runbooks of the page of alerts, without C{smartgo}."""
    page = (DOCS / "alerts.rst").read_text(encoding="utf-8")
    text = page.partition(".. _runbooks:")[2].partition("Over REST\n---")[0]
    spans: list[str] = re.findall(r"``([^`]+)``", text)
    words = [" ".join(span.split()) for span in spans]
    return sorted({one.removeprefix("smartgo ") for one in words if one.startswith("smartgo ")})


def advised_commands() -> list[str]:
    """Return the commands that judgements advise: C{smartgo} and the words after it that are a command's."""
    found = set()
    for one in JUDGEMENTS.values():
        for words in re.findall(r"smartgo ((?:[a-z]+ ?)+(?:(?:[A-Z]+|--[a-z-]+) ?)*)", one.advice):
            found.add(str(words).strip())
    return sorted(found)


class RunbookTests(SynchronousTestCase):
    """What an operator copies at night."""

    def refusal(self, command: str) -> str:
        """Return why the command line refuses a command before it asks a cluster; empty if it does not."""
        asked: list[object] = []
        self.patch(session, "run", lambda *rest, **more: asked.append(rest))
        result = CliRunner().invoke(cli, shlex.split(command))
        return "" if asked else result.output or "it asks nothing"

    def test_runbooks(self) -> None:
        """Each command has all of its arguments, and options that there are, in a choice that is enough."""
        commands = runbook_commands()
        self.assertGreater(len(commands), 12)
        refused = {one: why for one in commands if (why := self.refusal(one))}
        self.assertEqual(refused, {})

    def test_finds(self) -> None:
        """Commands that lack an argument, an option's value, or a choice, are found."""
        for wrong in (
            "dlq ack GROUP",
            "group reset GROUP --dry-run",
            "nosuch",
            "alert list --nosuch",
            "group info GROUP",
        ):
            self.assertNotEqual(self.refusal(wrong), "", wrong)

    def test_advice(self) -> None:
        """So has each command that a judgement advises."""
        commands = advised_commands()
        self.assertIn("cluster forget NAME", commands)
        refused = {one: why for one in commands if (why := self.refusal(one))}
        self.assertEqual(refused, {})
