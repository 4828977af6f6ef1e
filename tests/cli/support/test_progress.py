"""Tests of L{smartgo.cli.support.progress}."""

from __future__ import annotations

import json

import click
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.progress import ProgressLine
from tests.fakes import FakeClock


class ProgressTests(SynchronousTestCase):
    def setUp(self) -> None:
        """Record what is written to standard error."""
        self.clock = FakeClock()
        self.said: list[str] = []
        self.patch(click, "echo", lambda text, nl=True, err=False: self.said.append(text))

    def test_lines(self) -> None:
        """Where nobody looks, it is a line of JSON a second, with what is left, and one in the end."""
        with ProgressLine(self.clock, "records", 100, terminal=False) as progress:
            for _ in range(10):
                self.clock.advance(0.5)
                progress.advance(10)
        lines = [json.loads(text) for text in self.said]
        self.assertEqual([line["done"] for line in lines], [20, 40, 60, 80, 100, 100])
        self.assertEqual((lines[0]["eta_seconds"], lines[0]["ended"]), (4.0, False))
        self.assertEqual((lines[-1]["ended"], lines[-1]["total"]), (True, 100))

    def test_terminal(self) -> None:
        """A person sees one line that changes, and it is gone in the end."""
        with ProgressLine(self.clock, "records", 100, terminal=True) as progress:
            self.clock.advance(1.0)
            progress.to(50)
        self.assertIn("50/100", self.said[0])
        self.assertIn("50/s", self.said[0])
        self.assertIn("1 s left", self.said[0])
        self.assertEqual(self.said[-1], "\r\x1b[K")

    def test_short(self) -> None:
        """Short work is silent; without a total nothing is said of the end."""
        with ProgressLine(self.clock, "x", 10, terminal=True) as progress:
            progress.to(10)
        self.assertEqual(self.said, [])
        with ProgressLine(self.clock, "x", terminal=False) as progress:
            self.clock.advance(2.0)
            progress.to(10)
        self.assertEqual(json.loads(self.said[0])["eta_seconds"], None)
