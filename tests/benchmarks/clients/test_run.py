"""Tests for L{benchmarks.clients.run} and L{benchmarks.clients.rows}."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks.clients.kafka import Kafka
from benchmarks.clients.program import Answer
from benchmarks.clients.programs.meter import Order
from benchmarks.clients.results import Pace, Subject
from benchmarks.clients.rows import ROWS, Row
from benchmarks.clients.run import Pair, Rounds, figures_of, fill
from benchmarks.errors import BenchmarkError
from benchmarks.generator import Load
from benchmarks.processes import Ports
from benchmarks.targets import Attached

from benchmarks import runner  # isort: skip


def row(name: str) -> Row:
    """Return a row by its name."""
    return next(each for each in ROWS if each.name == name)


class FakeBroker:
    """A broker that does nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = os.getpid()


class FakeProgram:
    """A client that answers each order at once, and keeps them all."""

    def __init__(self, name: str, orders: list[tuple[str, Order]]) -> None:
        self.pid = os.getpid()
        self.fails = False
        self._name = name
        self._orders = orders

    def run(self, order: Order) -> Answer:
        self._orders.append((self._name, order))
        if self.fails:
            raise BenchmarkError("no route")
        return Answer(order.limit, 1000, 2.0, 0.05, 1.0, 3.0)


class RoundsTests(SynchronousTestCase):
    """Clients take turns."""

    def setUp(self) -> None:
        self.orders: list[tuple[str, Order]] = []
        broker = FakeBroker("smartgo")
        self.programs = {name: FakeProgram(name, self.orders) for name in ("twisted", "java", "aio")}
        self.pairs = [
            Pair(Subject(name, broker.name), program, broker, 4.0 if name == "java" else 0.5)
            for name, program in self.programs.items()
        ]

    def rounds(self, pace: Pace) -> Rounds:
        return Rounds(self.pairs, pace, lambda sentence: None)

    def test_turns(self) -> None:
        """The first client of a round is the last of the next."""
        found = list(self.rounds(Pace(rounds=2, first_warm_up=0)).run([row("pipelined-1k")]))
        turns = [(each.subject.client, each.round) for each in found]
        self.assertEqual(turns, [("twisted", 1), ("java", 1), ("aio", 1), ("aio", 2), ("java", 2), ("twisted", 2)])

    def test_warm_up(self) -> None:
        """Before its first window of a kind of load a client gets that load for some seconds, a JVM for more."""
        list(self.rounds(Pace(rounds=2, seconds=1.5)).run([row("pipelined-1k"), row("pipelined-128")]))
        seconds = [order.seconds for name, order in self.orders if name == "java"]
        self.assertEqual(seconds, [4.0, 1.5, 1.5, 1.5, 1.5])
        self.assertEqual(self.orders[0][1].seconds, 0.5)

    def test_failure(self) -> None:
        """A client that fails in a row has no more rounds in it; the others go on, and it is asked in the next row."""
        self.programs["twisted"].fails = True
        rounds = self.rounds(Pace(rounds=2, first_warm_up=0))
        found = list(rounds.run([row("pipelined-1k")]))
        self.assertEqual([each.subject.client for each in found], ["java", "aio", "aio", "java"])
        self.assertEqual(rounds.failures, ["pipelined-1k by twisted on smartgo broke off: no route"])
        self.programs["twisted"].fails = False
        self.assertEqual(len(list(rounds.run([row("one-by-one-1k")]))), 6)

    def test_groups(self) -> None:
        """Each consumer is a new group: it finds the whole backlog."""
        list(self.rounds(Pace(rounds=2)).run([row("consume-1k")]))
        groups = [order.group for _, order in self.orders]
        self.assertEqual(len(set(groups)), len(groups))


class BacklogTests(SynchronousTestCase):
    """The backlog of consumers."""

    def test_kafka(self) -> None:
        """Kafka's is stored by the last of its clients, to the topic that consumers read; too few are an error."""
        orders: list[tuple[str, Order]] = []
        broker = Kafka(Path(self.mktemp()), Ports(28800), Path("cache"))
        pairs = [Pair(Subject(name, "kafka"), FakeProgram(name, orders), broker, 0.5) for name in ("a", "b")]
        fill(broker, pairs, row("consume-128"), 500, Path("load"))
        ((name, order),) = orders
        self.assertEqual((name, order.topic, order.limit), ("b", row("consume-128").topic, 500))
        pairs[1].program.run = lambda order: Answer(400)  # type: ignore[method-assign]
        self.assertRaises(BenchmarkError, fill, broker, pairs, row("consume-128"), 500, Path("load"))

    def test_rocketmq(self) -> None:
        """That of a broker of RocketMQ's protocol is stored by the load generator."""
        loads: list[tuple[Load, int]] = []
        self.patch(runner, "fill", lambda binary, target, load, count: loads.append((load, count)))
        fill(Attached("mine", "127.0.0.1:1", 1), [], row("consume-1k"), 500, Path("load"))
        ((load, count),) = loads
        self.assertEqual((load.topics, load.size, load.bare, count), ((row("consume-1k").topic,), 1024, False, 500))


class RowTests(SynchronousTestCase):
    """What a row asks for."""

    def test_sends(self) -> None:
        """Pipelined sends have 64 in flight; one by one there is one. Neither is limited but by time."""
        orders = [row(name).order(0.2, 1.5, 1000, "G") for name in ("pipelined-128", "one-by-one-128")]
        self.assertEqual([order.in_flight for order in orders], [64, 1])
        rest = {(order.kind, order.body, order.warm_up, order.seconds) for order in orders}
        self.assertEqual(rest, {("send", 128, 0.2, 1.5)})

    def test_consumers(self) -> None:
        """A consumer's window lies between the first tenth and the last of the backlog."""
        order = row("consume-1k").order(0.2, 1.5, 1000, "G")
        self.assertEqual((order.kind, order.group, order.skip, order.limit), ("consume", "G", 100, 900))

    def test_figures(self) -> None:
        """CPU time is divided by the messages of the window; latencies count one by one alone."""
        answer = Answer(2000, 1000, 2.0, 0.05, 1.0, 3.0)
        self.assertEqual(
            figures_of(row("one-by-one-1k"), answer, 50_000_000),
            {"cpu_us": 50.0, "rate": 500.0, "resident_mb": 50.0, "p50_ms": 1.0, "p99_ms": 3.0},
        )
        self.assertNotIn("p50_ms", figures_of(row("pipelined-1k"), answer, 1))

    def test_no_message(self) -> None:
        """A window without a message has no figure."""
        self.assertRaises(BenchmarkError, figures_of, row("pipelined-1k"), Answer(5, 0, 0.0), 1)
