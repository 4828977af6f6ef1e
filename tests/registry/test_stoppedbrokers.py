"""Brokers that unregistered."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.registry.stoppedbrokers import LIMIT, StoppedBrokers


class StoppedBrokersTests(SynchronousTestCase):
    """Which are remembered, and with which time."""

    def setUp(self) -> None:
        """Begin without any."""
        self.now = 1_000
        self.stopped = StoppedBrokers(lambda: self.now)

    def test_back(self) -> None:
        """Each id of a name by itself, the last time counts, and one that is back is forgotten."""
        self.stopped.unregistered("b", 0)
        self.stopped.unregistered("a", 1)
        self.now = 2_000
        self.stopped.unregistered("b", 0)
        self.stopped.unregistered("b", 2)
        self.assertEqual(self.stopped.times(), {"a": {1: 1_000}, "b": {0: 2_000, 2: 2_000}})
        self.stopped.registered("b", 0)
        self.stopped.registered("a", 1)
        self.assertEqual(self.stopped.times(), {"b": {2: 2_000}})

    def test_limit(self) -> None:
        """Of too many the latest are remembered."""
        for number in range(LIMIT + 5):
            self.stopped.unregistered("a", number)
        found = self.stopped.times()["a"]
        self.assertEqual((len(found), min(found)), (LIMIT, 5))
