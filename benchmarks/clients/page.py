"""The part of C{docs/client-cost.rst} that a comparison of clients gives: facts, and tables of ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import BenchmarkError
from ..spread import Spread
from .report import KAFKA_REFERENCE
from .results import ClientCosts
from .rows import ROWS, UNITS, Quantity

PAGE = "client-cost.rst"
BEGIN = '.. Begin of the results: written by "python -m benchmarks clients-page".\n'
END = ".. End of the results.\n"
"""The lines of the page between which the results stand."""


def write(results: ClientCosts, docs: Path) -> Path:
    """
    Replace the results of the page in the folder of the documentation.

    @return: the page.
    @raise BenchmarkError: the page is not there or has no place for results.
    """
    path = docs / PAGE
    try:
        before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    except OSError as error:
        raise BenchmarkError(f"{path}: {error.strerror}") from None
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchmarkError(f"{path} has lost a line between which results stand: {BEGIN.strip()} {END.strip()}")
    path.write_text(f"{before}{BEGIN}\n{text(results)}\n{END}{after}", "utf-8")
    return path


def text(results: ClientCosts) -> str:
    """Return the reStructuredText; all figures are ratios."""
    blocks = [
        facts(results),
        *(f"**{sentence}**" for sentence in results.cautions()),
        _failures(results),
        *(_by_broker(results, quantity) for quantity in UNITS),
        _by_kafka(results),
        _rows(results),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def facts(results: ClientCosts) -> str:
    """Return a paragraph about machine, versions and rounds."""
    machine = results.machine
    gib = round(int(machine.get("memory_bytes", 0)) / (1 << 30))
    clients = "; ".join(f"``{each['name']}`` ({each['version']})" for each in results.clients)
    brokers = "; ".join(f"``{each['name']}``" for each in results.brokers)
    rounds = results.options.rounds
    return (
        f"Measured on {results.started[:10]}: {rounds} round{'s' * (rounds > 1)}, {results.took_s / 60:.0f} minutes"
        f" on {machine.get('processor')}, {machine.get('processors')} processors, {gib} GiB, Linux "
        f"{str(machine.get('kernel')).partition('-')[0]}, Python {machine.get('python')}. "
        f"Clients: {clients}. Brokers: {brokers}."
    )


def _failures(results: ClientCosts) -> str:
    """Return the first line of each failure, as they are; an empty text for none."""
    lines = [f"    {sentence.partition(chr(10))[0]}" for sentence in results.failures]
    return "\n".join(["What went wrong::", "", *lines]) if lines else ""


def _by_broker(results: ClientCosts, quantity: Quantity) -> str:
    """Return a table of the ratios of a quantity to the reference: a column for each client and broker."""
    subjects = [
        each for each in results.subjects if each.client != results.reference and results.reference_of(each) is not None
    ]
    lines = []
    for row in results.rows:
        found = [results.ratio(row, each, quantity) for each in subjects]
        if any(each is not None for each in found):
            lines.append([row, *map(_cell, found)])
    title = f"{UNITS[quantity]}, by {results.reference}: median (least to most)"
    return _table(title, ["row", *(each.words for each in subjects)], lines)


def _by_kafka(results: ClientCosts) -> str:
    """Return a table of the CPU time of clients on the first broker by that of aiokafka; an empty text without it."""
    first = results.brokers[0]["name"]
    subjects = [each for each in results.subjects if each.broker == first]
    lines = []
    for row in results.rows:
        found = [results.ratio(row, each, "cpu_us", KAFKA_REFERENCE) for each in subjects]
        if any(each is not None for each in found):
            lines.append([row, *map(_cell, found)])
    title = f"{UNITS['cpu_us']}, by {KAFKA_REFERENCE} on Kafka: median (least to most)"
    return _table(title, ["row", *(each.words for each in subjects)], lines)


def _rows(results: ClientCosts) -> str:
    return _table("The rows", ["row", "load"], [[row.name, row.about] for row in ROWS if row.name in results.rows])


def _cell(found: Spread | None) -> str:
    if found is None:
        return ""
    if found.rounds == 1:
        return f"{found.median:.2f}"
    return f"{found.median:.2f} ({found.minimum:.2f} to {found.maximum:.2f})"


def _table(title: str, heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a list-table; an empty text for no lines."""
    rows = ["   * - " + "\n     - ".join(cells) for cells in lines]
    if not rows:
        return ""
    return "\n".join([f".. list-table:: {title}", "   :header-rows: 1", "", "   * - " + "\n     - ".join(heads), *rows])
