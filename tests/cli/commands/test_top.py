"""Tests of C{smartgo top}."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

from rich.console import Console

from smartgo.cli.commands.top import view
from smartgo.cli.support.sampling import ClusterSample, GroupSample, TopicSample
from tests.cli.case import ClusterCase


class TopTests(ClusterCase):
    def samples(self, *arguments: str) -> Iterator[Any]:
        """The looks of a command, as programs read them."""
        return map(json.loads, self.out("top", "-o", "jsonl", *arguments).splitlines())

    def test_rates(self) -> None:
        """The first look has no rates, the second those of the time between; lag and its end are told."""
        self.out("topic", "create", "T", "-n", "1")
        for _ in range(10):
            self.cluster.send("T")
        self.cluster.pump(1.0)
        self.out("group", "create", "cg")
        self.out("group", "reset", "cg", "T", "--to", "4", "--yes", "--plan", "/p")
        looks = 0

        def send() -> None:
            nonlocal looks
            looks += 1
            if looks < 20:
                self.cluster.send("T")

        self.during = send
        first, second = self.samples("-n", "2", "-i", "2")
        (topic,) = first["topics"]
        self.assertEqual((topic["topic"], topic["in_per_second"]), ("T", None))
        (group,) = first["groups"]
        self.assertEqual((group["group"], group["out_per_second"]), ("cg", None))
        self.assertEqual(group["lag"], topic["messages"] - 4)
        self.assertTrue(second["topics"][0]["in_per_second"] > 5, second)
        self.assertEqual(second["groups"][0]["out_per_second"], 0.0)
        self.assertEqual(second["groups"][0]["drained_seconds"], None)
        self.assertEqual([one["broker"] for one in second["brokers"]], ["broker-a"])

    def test_filter(self) -> None:
        """Only what is asked for is shown; the system's topics too if they are wanted."""
        self.out("topic", "create", "A")
        self.out("topic", "create", "B")
        (only,) = self.samples("-n", "1", "--filter", "A")
        self.assertEqual([one["topic"] for one in only["topics"]], ["A"])
        (one,) = self.samples("-n", "1", "--topics", "1")
        self.assertEqual(([each["topic"] for each in one["topics"]], one["left_out"]), (["A"], 1))
        self.out("group", "create", "readers")
        self.out("group", "reset", "readers", "B", "--to", "latest", "--yes", "--plan", "/p")
        (one,) = self.samples("-n", "1", "--topics", "1")
        self.assertEqual([each["topic"] for each in one["topics"]], ["B"])
        (one,) = self.samples("-n", "1", "--filter", "readers")
        self.assertEqual([each["group"] for each in one["groups"]], ["readers"])
        (everything,) = self.samples("-n", "1", "--all")
        self.assertIn("TBW102", {one["topic"] for one in everything["topics"]})
        self.assertIn("broker-a", self.out("top", "-n", "1"))

    def test_view(self) -> None:
        """The busiest topics and the longest lags come first, as many as there is room for."""
        topics = [TopicSample(f"T{number}", number, float(number)) for number in range(50)]
        groups = [GroupSample(f"G{number}", "T", number, 1.0, 90.0) for number in range(50)]
        sample = ClusterSample(1_700_000_000_000, 2.0, [], topics, groups, 7)
        console = Console(width=100, record=True, file=io.StringIO())
        console.print(view(sample, "r:1", 30, "no answer"))
        text = console.export_text()
        self.assertIn("T49", text)
        self.assertIn("G49", text)
        self.assertIn("90 s", text)
        self.assertIn("no answer", text)
        self.assertIn("7 more topics", text)
        self.assertNotIn("T20 ", text)
