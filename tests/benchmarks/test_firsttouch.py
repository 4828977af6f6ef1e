"""Tests for L{benchmarks.firsttouch}."""

from __future__ import annotations

import time

from twisted.trial.unittest import SynchronousTestCase

from benchmarks import firsttouch


class FirstTouchTests(SynchronousTestCase):
    """The cost of new memory."""

    def test_unit(self) -> None:
        """The CPU time of a pass is divided by the KiB touched in it."""
        times = iter([1.0, 1.000512, 2.0, 2.000256])
        self.patch(time, "thread_time", lambda: next(times))
        found = firsttouch.measure(1 << 20)
        self.assertAlmostEqual(found.first, 0.5)
        self.assertAlmostEqual(found.again, 0.25)
