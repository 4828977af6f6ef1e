"""The results of a comparison of clients: samples by row, client, broker and round, and their ratios."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..noise import cautions
from ..results import read
from ..spread import Spread, ratios
from .rows import Quantity


class Pace(msgspec.Struct, frozen=True):
    """
    The number and length of the rounds.

    @ivar warm_up: seconds of load before each window.
    @ivar backlog: messages that a consumer finds.
    @ivar first_warm_up: seconds of each kind of load before its first window; C{None}: what a client needs.
    """

    rounds: int = 3
    seconds: float = 1.0
    warm_up: float = 0.2
    backlog: int = 100_000
    first_warm_up: float | None = None


class Subject(msgspec.Struct, frozen=True):
    """A client on a broker."""

    client: str
    broker: str

    @property
    def words(self) -> str:
        """Both names."""
        return f"{self.client} on {self.broker}"


class Sample(msgspec.Struct, frozen=True):
    """
    One round of one row.

    @ivar foreign_cores: processors that were busy with neither this client nor its broker.
    """

    row: str
    subject: Subject
    round: int
    figures: Mapping[Quantity, float]
    foreign_cores: float = 0.0


class ClientCosts(msgspec.Struct):
    """
    Everything one run found, with the facts needed to read it.

    @ivar clients: facts about the clients; C{brokers}: about the brokers, the first of which is the main one.
    @ivar reference: the name of the client that others are divided by: of the same broker where it was measured on it,
        else on the first broker.
    """

    started: str
    machine: Mapping[str, Any]
    clients: list[Mapping[str, Any]]
    brokers: list[Mapping[str, Any]]
    reference: str
    options: Pace
    samples: list[Sample] = []
    failures: list[str] = []
    took_s: float = 0.0

    @property
    def rows(self) -> list[str]:
        """The names of the rows that have samples, in the order measured."""
        return list(dict.fromkeys(each.row for each in self.samples))

    @property
    def subjects(self) -> list[Subject]:
        """The clients on brokers that have samples: by broker, then by client, in the orders given."""
        clients = [each["name"] for each in self.clients]
        brokers = [each["name"] for each in self.brokers]
        found = dict.fromkeys(each.subject for each in self.samples)
        return sorted(found, key=lambda each: (brokers.index(each.broker), clients.index(each.client)))

    def figures(self, row: str, subject: Subject, quantity: Quantity) -> dict[int, float]:
        """Return a quantity by round."""
        return {
            each.round: each.figures[quantity]
            for each in self.samples
            if (each.row, each.subject) == (row, subject) and quantity in each.figures
        }

    def spread(self, row: str, subject: Subject, quantity: Quantity) -> Spread | None:
        """Return a quantity over all rounds; C{None} where it was not measured."""
        found = self.figures(row, subject, quantity)
        return Spread.of(found.values()) if found else None

    def reference_of(self, subject: Subject, client: str | None = None) -> Subject | None:
        """
        Return whom a client on a broker is divided by; C{None} where that was not measured.

        @param client: the name of another client than the reference.
        """
        name = client or self.reference
        known = [each for each in self.subjects if each.client == name]
        return next((each for each in known if each.broker == subject.broker), known[0] if known else None)

    def ratio(self, row: str, subject: Subject, quantity: Quantity, client: str | None = None) -> Spread | None:
        """
        Divide a quantity by that of the reference, each round by the same round.

        @param client: the name of another client than the reference.
        """
        other = self.reference_of(subject, client)
        if other is None:
            return None
        ours, theirs = self.figures(row, subject, quantity), self.figures(row, other, quantity)
        both = sorted(ours.keys() & theirs.keys())
        return ratios((ours[number] for number in both), (theirs[number] for number in both))

    def foreign_cores(self, row: str) -> float:
        """Return the processors that others kept busy in the middle sample of a row."""
        return Spread.of(each.foreign_cores for each in self.samples if each.row == row).median

    def cautions(self) -> list[str]:
        """Return sentences that say why these figures should not be quoted; empty if they may be."""
        return cautions(((row, self.foreign_cores(row)) for row in self.rows), self.options.rounds)


def load(path: Path) -> ClientCosts:
    """
    Read the results that a run wrote.

    @raise BenchmarkError: the file is none of a comparison of clients.
    """
    return read(path, ClientCosts, "comparison of clients")
