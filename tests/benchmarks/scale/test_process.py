"""Tests for L{benchmarks.scale.process}."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.errors import BenchmarkError
from benchmarks.scale.process import Sized, held
from benchmarks.targets import Bench


class ProcessTests(SynchronousTestCase):
    """What a process holds."""

    def test_held(self) -> None:
        """An open file is one more descriptor."""
        before = held(os.getpid())
        with Path(os.devnull).open():
            during = held(os.getpid())
        self.assertEqual(during.descriptors, before.descriptors + 1)
        self.assertGreater(before.mappings, 10)
        self.assertGreaterEqual(before.resident, before.anonymous)

    def test_gone(self) -> None:
        """A process that is not there holds nothing."""
        self.assertRaises(BenchmarkError, held, 1 << 30)

    def test_settings(self) -> None:
        """Limits of the size under test are given to the broker."""
        target = Bench(Path("work"), 24000).one_of_ours(Sized)
        target.settings = ("maxConnections=5",)
        self.assertEqual(target.broker_command(Path("x"))[-1], "--set=maxConnections=5")
