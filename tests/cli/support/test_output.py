"""Tests of L{smartgo.cli.support.output}."""

from __future__ import annotations

import click
from click.testing import CliRunner
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.output import in_words, json_line, moment, print_table, printable, span


class SafetyTests(SynchronousTestCase):
    def test_terminal(self) -> None:
        """What others wrote does nothing to a terminal: escapes and directions are shown, not obeyed."""
        nasty = "a\x1b[2Jb\x9bc\u202ed\ne"
        self.assertEqual(printable(nasty), "a\\x1b[2Jb\\x9bc\\u202ed\\ne")
        self.assertEqual(printable(nasty, keep="\n").count("\n"), 1)
        self.assertEqual(printable("héllo 世界"), "héllo 世界")
        self.assertEqual(in_words([nasty]), printable(nasty))
        self.assertEqual(json_line({"a": "\x9b\x7f\x1b"}), '{"a":"\\u009b\\u007f\\u001b"}')

    def test_table(self) -> None:
        """The lines of a table end with their last letter, and not with blanks."""
        rows = [("a", "short"), ("b", "somewhat longer")]

        @click.command()
        def show() -> None:
            print_table(rows, {"name": lambda row: row[0], "state": lambda row: row[1]})

        printed = CliRunner().invoke(show).stdout
        self.assertEqual(printed, "name  state\na     short\nb     somewhat longer\n")

    def test_words(self) -> None:
        """Numbers, spans and moments are written as people read them."""
        cells: list[object] = [None, "", True, 1234567, 12.34, []]
        self.assertEqual([in_words(one) for one in cells], ["-", "-", "yes", "1,234,567", "12.3", "-"])
        spans = (None, 5.25, 600.0, 7200.0, 864000.0)
        self.assertEqual([span(one) for one in spans], [None, "5.25 s", "10 min", "2 h", "10 d"])
        self.assertEqual((moment(0), moment(None), moment(1 << 62)), (None, None, str(1 << 62)))
