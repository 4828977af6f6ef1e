"""Tests of L{smartgo.cli.support.load}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.support.load import Latencies


class LatencyTests(SynchronousTestCase):
    def test_shares(self) -> None:
        """The time within which a share was done is right to about a percent; memory is bounded."""
        found = Latencies()
        for number in range(1, 10_001):
            found.add(number / 1000)
        for share, seconds in ((0.5, 5.0), (0.9, 9.0), (0.99, 9.9), (1.0, 10.0)):
            self.assertApproximates(found.within(share), seconds, seconds * 0.011)
        self.assertEqual((found.figures()["max"], found.figures()["mean"]), (10_000.0, 5000.5))
        self.assertEqual(Latencies().figures()["p99"], 0.0)
