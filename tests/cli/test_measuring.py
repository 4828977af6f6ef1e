"""The commands that measure and watch, their progress, and completion."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import click
from click.testing import CliRunner
from rich.console import Console
from twisted.trial.unittest import SynchronousTestCase

from smartgo.cli.commands.top import view
from smartgo.cli.main import cli
from smartgo.cli.support.load import Latencies
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.sampling import ClusterSample, GroupSample, TopicSample
from tests.cli.case import ClusterCase
from tests.fakes import FakeClock


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


class ProgressTests(SynchronousTestCase):
    def setUp(self) -> None:
        """What is written to standard error is kept."""
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


class CompletionTests(SynchronousTestCase):
    def test_shells(self) -> None:
        """Each shell gets lines that name the command."""
        for shell in ("bash", "zsh", "fish"):
            result = CliRunner().invoke(cli, ["completion", shell])
            self.assertEqual(result.exit_code, 0, result.output)
            self.assertIn("_SMARTGO_COMPLETE", result.output)
        self.assertEqual(CliRunner().invoke(cli, ["completion", "csh"]).exit_code, 2)

    def test_completes(self) -> None:
        """Commands below commands, options and choices are completed as the shell asks."""

        def words(line: str, at: int) -> list[str]:
            result = CliRunner().invoke(
                cli, [], prog_name="smartgo",
                env={"_SMARTGO_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(at)},
            )  # fmt: skip
            return [one.partition(",")[2] for one in result.output.splitlines()]

        self.assertEqual(words("smartgo gr", 1), ["group"])
        self.assertEqual(words("smartgo group la", 2), ["lag"])
        self.assertIn("--topic", words("smartgo group lag --", 3))
        self.assertEqual(words("smartgo topic ls -o j", 4), ["json", "jsonl"])
