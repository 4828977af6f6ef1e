"""Tests of C{smartgo bench}."""

from __future__ import annotations

from tests.cli.case import ClusterCase


class BenchTests(ClusterCase):
    def test_send(self) -> None:
        """So many messages are sent and measured; batches count their messages."""
        self.out("topic", "create", "B", "-n", "2")
        found = self.json("bench", "send", "B", "-n", "100", "--size", "10", "-w", "8", "--keys")
        self.assertEqual((found["messages"], found["failures"]), (100, 0))
        self.assertEqual(set(found["latency_ms"]), {"mean", "p50", "p90", "p99", "p999", "max"})
        self.assertEqual(self.json("bench", "send", "B", "-n", "100", "--batch", "30")["messages"], 120)
        self.assertEqual(sum(one["messages"] for one in self.json("topic", "stats", "B")), 222)
        self.assertIn("100 messages", self.out("bench", "send", "B", "-n", "100"))

    def test_rate(self) -> None:
        """A rate is kept, and an end by time."""
        found = self.json("bench", "send", "B", "--rate", "10", "--seconds", "5", "-w", "2")
        self.assertTrue(48 <= found["messages"] <= 51, found)
        self.assertApproximates(found["per_second"], 10.0, 0.5)

    def test_consume(self) -> None:
        """What comes is counted, in time; nothing at all ends with 1."""
        self.json("bench", "send", "B", "-n", "50")
        self.cluster.pump(1.0)
        found = self.json("bench", "consume", "B", "-n", "51", "--seconds", "20")
        self.assertEqual(found["messages"], 51)
        self.out("topic", "create", "Empty")
        self.refused("bench", "consume", "Empty", "--seconds", "3", "--group", "other", status=1)

    def test_trip(self) -> None:
        """All that was sent is consumed, and the group is gone afterwards."""
        found = self.json("bench", "trip", "B", "-n", "40", "--rate", "20")
        self.assertEqual((found["messages"], found["failures"]), (40, 0))
        self.assertEqual([row["group"] for row in self.json("group", "ls")], [])

    def test_broken(self) -> None:
        """A broker that takes nothing ends it with what it said."""
        self.refused("bench", "send", "bad topic", status=2)
        self.invoke("bench", "send", "B", "--size", "0", status=2)
