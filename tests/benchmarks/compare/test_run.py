"""Tests for L{benchmarks.compare.run}."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.compare.results import Pace, Sample
from benchmarks.compare.rows import NAMES, ROWS, Row
from benchmarks.compare.run import WARMED_BYTES, Rounds, of_outcome
from benchmarks.errors import BenchmarkError
from benchmarks.generator import Latency, Outcome
from benchmarks.jars import RocketMQ
from benchmarks.processes import Ports
from benchmarks.results import Starts
from benchmarks.targets import Ours, Started, Theirs

from benchmarks import firsttouch, runner  # isort: skip


def outcome(messages: int = 1000) -> Outcome:
    """Return what the generator may say after a second."""
    latency = Latency(1000.0, 2000.0, 3000.0, 4000.0)
    codes = {"0": messages, "2": 7}
    return Outcome(
        *("send", 1.0, messages, messages, 7, messages, 7, 9, 0.7, 0.1, latency, codes, {}, None, 0.0, 0.0, 9.0, 6.0)
    )


class RoundsTests(SynchronousTestCase):
    """Brokers take turns."""

    def setUp(self) -> None:
        work, ports = Path(self.mktemp()), Ports(28500)
        self.core = Ours("core", work / "core", ports)
        self.rocketmq = Theirs("real", work / "real", ports, RocketMQ(work))
        self.events: list[tuple[str, ...]] = []
        self.work = work

    def rounds(self, pace: Pace) -> Rounds:
        return Rounds(RocketMQ(self.work), Path("load"), self.work, [self.core, self.rocketmq], pace, lambda text: None)

    def row(self, name: str) -> list[Row]:
        return [row for row in ROWS if row.name == name]

    def starting(self, seconds: Callable[[Started], float]) -> None:
        self.patch(runner, "starts", lambda target, rounds, say: Starts(target.name, [seconds(target)] * rounds))

    def test_turns(self) -> None:
        """The first broker of a round is the last of the next, and rounds are counted from 1."""
        self.starting(lambda target: 0.5)
        found = list(self.rounds(Pace(rounds=3)).run(self.row("start")))
        turns = [(each.target, each.round) for each in found]
        self.assertEqual(turns, [("core", 1), ("real", 1), ("real", 2), ("core", 2), ("core", 3), ("real", 3)])
        self.assertEqual(found[0], Sample("start", "core", 1, {"ready_s": 0.5}))

    def test_warm_memory(self) -> None:
        """Before each round of a load, on any broker, as much memory is touched; before a start none is."""
        self.starting(lambda target: 0.5)
        self.patch(firsttouch, "warm", lambda size: self.events.append(("warm", str(size))))
        list(self.rounds(Pace(rounds=1)).run(self.row("start")))
        self.assertEqual(self.events, [])

        def measure(binary: Path, target: Started, load: object, pace: object) -> None:
            self.events.append(("measure", target.name))
            raise BenchmarkError("enough")

        self.patch(runner, "measure", measure)
        for target in (self.core, self.rocketmq):
            self.patch(target, "renew", lambda mode: 0.0)
        self.patch(runner, "prepare", lambda binary, target, scenario: None)
        list(self.rounds(Pace(rounds=1, first_warm_up=0)).run(self.row("send-1k")))
        warm = ("warm", str(WARMED_BYTES))
        self.assertEqual(self.events, [warm, ("measure", "core"), warm, ("measure", "real")])

    def test_failure(self) -> None:
        """A broker that fails in a row has no more rounds in it; the other goes on, and the failure is told."""
        left = [1.0, 2.0]

        def seconds(target: Started) -> float:
            if target is self.core:
                raise BenchmarkError("no port")
            return left.pop(0)

        self.starting(seconds)
        rounds = self.rounds(Pace(rounds=2))
        found = [(each.target, each.figures["ready_s"]) for each in rounds.run(self.row("start"))]
        self.assertEqual(found, [("real", 1.0), ("real", 2.0)])
        self.assertEqual(rounds.failures, ["start on core broke off: no port"])

    def test_warm_up(self) -> None:
        """Before a row each broker starts on an empty store, in the row's flush mode, and gets load: a JVM longer."""
        for target in (self.core, self.rocketmq):
            self.patch(target, "renew", lambda mode, target=target: self.events.append(("renew", target.name, mode)))
        self.patch(runner, "prepare", lambda binary, target, scenario: self.events.append(("prepare", target.name)))
        self.patch(
            runner,
            "drive",
            lambda binary, target, load, warm, seconds: self.events.append(("drive", target.name, str(seconds))),
        )
        list(self.rounds(Pace(rounds=0)).run(self.row("sync-send-1k-64x1")))
        self.assertEqual(
            self.events,
            [
                ("renew", "core", "SYNC_FLUSH"),
                ("prepare", "core"),
                ("drive", "core", "2.0"),
                ("renew", "real", "SYNC_FLUSH"),
                ("prepare", "real"),
                ("drive", "real", "15.0"),
            ],
        )


class OutcomeTests(SynchronousTestCase):
    """The line of the generator becomes figures."""

    def test_figures(self) -> None:
        """CPU is split by threads, latencies are in milliseconds."""
        self.assertEqual(
            of_outcome(outcome()),
            {
                "rate": 1000.0,
                "cpu_us": 9.0,
                "main_us": 6.0,
                "client_us": 0.7,
                "p50_ms": 1.0,
                "p99_ms": 2.0,
                "p999_ms": 3.0,
            },
        )

    def test_nothing_succeeded(self) -> None:
        """A round without a success is no round: its cost a message would be 0."""
        error = self.assertRaises(BenchmarkError, of_outcome, outcome(0))
        self.assertIn("no message succeeded", str(error))


class RowTests(SynchronousTestCase):
    """The rows are complete."""

    def test_kinds(self) -> None:
        """A load has a scenario, a program has threads, and the brokers' start has neither."""
        for row in ROWS:
            self.assertEqual(
                (row.scenario is not None, row.threads > 0),
                (row.kind == "load", row.kind in ("producer", "batch", "consumer")),
                row.name,
            )
        self.assertIn("sync-send-1k-64x1", NAMES)
