"""Tests of C{smartgo demo}."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from smartgo.core import CORE
from tests.cli.case import smartgo


class DemoTests(SynchronousTestCase):
    def test_demo(self) -> None:
        """The demonstration finds every message, says so, ends with 0 and leaves nothing behind."""
        result = smartgo("demo", "--count", "1000")
        output = result.stdout.decode()
        self.assertEqual((result.returncode, result.stderr), (0, b""), output)
        self.assertIn("1,000", output)
        self.assertIn("Every message arrived", output)
        self.assertIn(f"Core: {CORE}.", " ".join(output.split()))
        store = next(word for word in output.split() if "smartgo-demo-" in word)
        self.assertFalse(os.path.exists(store))
