"""The wall clock that a broker tells."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema import runtimeclock
from smartgo.schema.runtimeclock import wall_clock_ms

__doctests__ = [runtimeclock]


class WallClockTests(SynchronousTestCase):
    """What can be read of the runtime information."""

    def test_unknown(self) -> None:
        """A table without the rows, or with others than expected, tells no clock."""
        for table in ({}, {"bootTimestamp": "1"}, {"bootTimestamp": "x", "runtime": "y"}, {"wallClockMs": "now"}):
            self.assertIs(wall_clock_ms(table), None)
