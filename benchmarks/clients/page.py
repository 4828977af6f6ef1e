"""The part of C{docs/client-cost.rst} that a comparison of clients gives: facts, and tables of ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..resultspage import ResultsPlace, cell, failures, joined, measured, table
from .report import KAFKA_REFERENCE
from .results import ClientCosts, Subject
from .rows import ROWS, UNITS, Quantity

PAGE = "client-cost.rst"
COMMAND = "clients-page"
"""The command whose results the page holds."""


def write(results: ClientCosts, docs: Path) -> Path:
    """
    Replace the results of the page in the folder of the documentation.

    @return: the page.
    @raise BenchmarkError: the page is not there or has no place for results.
    """
    place = ResultsPlace(docs / PAGE, COMMAND)
    return place.write(text(results))


def text(results: ClientCosts) -> str:
    """Return the reStructuredText; all figures are ratios."""
    blocks = [
        facts(results),
        *(f"**{sentence}**" for sentence in results.cautions()),
        failures(results.failures),
        *(_by_broker(results, quantity) for quantity in UNITS),
        _by_kafka(results),
        _rows(results),
    ]
    return joined(blocks)


def facts(results: ClientCosts) -> str:
    """Return a paragraph about machine, versions and rounds."""
    clients = "; ".join(f"``{each['name']}`` ({each['version']})" for each in results.clients)
    brokers = "; ".join(f"``{each['name']}``" for each in results.brokers)
    told = measured(results.started, results.machine, results.options.rounds, results.took_s)
    return f"{told} Clients: {clients}. Brokers: {brokers}."


def _by_broker(results: ClientCosts, quantity: Quantity) -> str:
    """Return a table of the ratios of a quantity to the reference: a column for each client and broker."""
    subjects = [
        each for each in results.subjects if each.client != results.reference and results.reference_of(each) is not None
    ]
    return _ratios(results, subjects, quantity, results.reference, results.reference)


def _by_kafka(results: ClientCosts) -> str:
    """Return a table of the CPU time of clients on the first broker by that of aiokafka; an empty text without it."""
    first = results.brokers[0]["name"]
    subjects = [each for each in results.subjects if each.broker == first]
    return _ratios(results, subjects, "cpu_us", KAFKA_REFERENCE, f"{KAFKA_REFERENCE} on Kafka")


def _ratios(results: ClientCosts, subjects: Sequence[Subject], quantity: Quantity, reference: str, words: str) -> str:
    """Return a table of the rows in which one of the subjects, its columns, has a ratio to a client."""
    lines = []
    for row in results.rows:
        found = [results.ratio(row, each, quantity, reference) for each in subjects]
        if any(each is not None for each in found):
            lines.append([row, *map(cell, found)])
    title = f"{UNITS[quantity]}, by {words}: median (least to most)"
    return table(title, ["row", *(each.words for each in subjects)], lines)


def _rows(results: ClientCosts) -> str:
    return table("The rows", ["row", "load"], [[row.name, row.about] for row in ROWS if row.name in results.rows])
