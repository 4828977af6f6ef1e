"""Run the rows: each by all clients, round by round in turn, so that what disturbs one disturbs all."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from .. import proc, runner
from ..errors import BenchmarkError
from ..generator import Load
from ..runner import Say
from ..targets import Target
from .kafka import QUEUES, Kafka
from .program import Answer, Program
from .programs.meter import Order
from .results import Pace, Sample, Subject
from .rows import ROWS, Quantity, Row
from .subjects import Client

_MB = 1e6
_BATCH = 64  # messages in a request of the load generator


class Broker(Protocol):
    """A broker that clients talk to."""

    name: str

    @property
    def pid(self) -> int:
        """The id of its process."""


class Running(Protocol):
    """A client that takes orders."""

    @property
    def pid(self) -> int:
        """The id of its process."""

    def run(self, order: Order) -> Answer:
        """Carry out a load. @raise BenchmarkError: it could not."""


class Pair:
    """A client that runs, and its broker."""

    def __init__(self, subject: Subject, program: Running, broker: Broker, warm_up: float) -> None:
        """@param warm_up: seconds of each kind of load before its first window."""
        self.subject = subject
        self.program = program
        self.broker = broker
        self.warm_up = warm_up
        self.warm: set[str] = set()  # the kinds of load that it has seen
        self.failed: set[str] = set()  # rows


def started(client: Client, broker: Broker, address: str, work: Path) -> Program:
    """
    Start a client's program.

    @param address: of the registry, or of Kafka's broker.
    @raise BenchmarkError: it does not get ready.
    """
    log = work / f"{client.name.replace('/', '-')}-{broker.name.replace(' ', '-')}.err"
    return Program(client, address, log, dict(os.environ))


def fill(broker: Target | Kafka, pairs: Sequence[Pair], row: Row, backlog: int, binary: Path) -> None:
    """
    Store the backlog of a consumer: by the load generator, or on Kafka by one of the clients.

    @param pairs: the clients; C{binary}: the load generator.
    @raise BenchmarkError: the broker did not take it.
    """
    if isinstance(broker, Target):
        runner.fill(binary, broker, Load("batch", (row.topic,), QUEUES, 4, 2, row.body, _BATCH), backlog)
        return
    stored = next(pair for pair in reversed(pairs) if pair.broker is broker).program.run(row.filling(backlog)).total
    if stored < backlog:
        raise BenchmarkError(f"{broker.name} took {stored} of {backlog} messages")


class Rounds:
    """Runs rows by clients that run, on brokers that are up."""

    def __init__(self, pairs: Sequence[Pair], pace: Pace, say: Say) -> None:
        """@param say: told what is being done now."""
        self._pairs = list(pairs)
        self._pace = pace
        self._say = say
        self._groups = 0
        self.failures: list[str] = []

    def run(self, rows: Iterable[Row] = ROWS) -> Iterator[Sample]:
        """
        Yield samples as they come.

        A client that fails in a row has no more samples in it; L{failures} tells why.
        """
        for row in rows:
            for number in range(1, self._pace.rounds + 1):
                # the first in a round is the last in the next
                for pair in self._pairs[:: 1 if number % 2 else -1]:
                    if row.name in pair.failed:
                        continue
                    try:
                        self._warm(row, pair)
                        self._say(f"{row.name}: {pair.subject.words}, round {number} of {self._pace.rounds}")
                        yield self._measure(row, pair, number)
                    except (BenchmarkError, OSError) as error:
                        pair.failed.add(row.name)
                        self.failures.append(f"{row.name} by {pair.subject.words} broke off: {error}")

    def _warm(self, row: Row, pair: Pair) -> None:
        """Give a client a kind of load that it has not seen before."""
        if row.kind in pair.warm:
            return
        pair.warm.add(row.kind)
        seconds = pair.warm_up if self._pace.first_warm_up is None else self._pace.first_warm_up
        if seconds > 0:
            self._say(f"{row.name}: {pair.subject.words} gets warm")
            pair.program.run(self._order(row, seconds))

    def _order(self, row: Row, seconds: float) -> Order:
        self._groups += 1
        group = f"ClientCost-{os.getpid()}-{self._groups}"
        return row.order(self._pace.warm_up, seconds, self._pace.backlog, group)

    def _measure(self, row: Row, pair: Pair, number: int) -> Sample:
        pids = (pair.program.pid, pair.broker.pid)
        began, before = time.monotonic(), proc.busy(*pids)
        answer = pair.program.run(self._order(row, self._pace.seconds))
        foreign = proc.foreign_cores(before, proc.busy(*pids), time.monotonic() - began)
        resident = proc.read_memory(pair.program.pid).resident
        return Sample(row.name, pair.subject, number, figures_of(row, answer, resident), foreign)


def figures_of(row: Row, answer: Answer, resident: int) -> dict[Quantity, float]:
    """
    Return the figures of a window.

    @param resident: bytes of memory of the client after it.
    @raise BenchmarkError: there was no message in the window.
    """
    if answer.messages <= 0 or answer.seconds <= 0:
        raise BenchmarkError("no message was acknowledged or consumed in the window")
    figures: dict[Quantity, float] = {
        "cpu_us": answer.cpu_s * 1e6 / answer.messages,
        "rate": answer.messages / answer.seconds,
        "resident_mb": resident / _MB,
    }
    if row.kind == "one":
        figures["p50_ms"], figures["p99_ms"] = answer.p50_ms, answer.p99_ms
    return figures
