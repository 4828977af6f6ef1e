"""Tables of a comparison of clients on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from .. import noise
from ..report import spread
from ..spread import Spread
from .results import ClientCosts, Subject
from .rows import UNITS, Quantity

KAFKA_REFERENCE = "aiokafka"
"""A second client to divide by, where it was measured."""


def costs(results: ClientCosts) -> Table:
    """Lay out CPU time, rates, latencies and memory, row by row and client by client."""
    table = _table(
        "CPU of the client's process a message, rates and latencies: medians",
        *("CPU\nµs", "messages/s", "p50\nms", "p99\nms", "resident\nMB", "others\ncores"),
    )

    def cells(row: str, subject: Subject) -> Sequence[str]:
        def median(quantity: Quantity, digits: int) -> str:
            found = results.spread(row, subject, quantity)
            return "-" if found is None else f"{found.median:,.{digits}f}"

        foreign = Spread.of(
            each.foreign_cores for each in results.samples if (each.row, each.subject) == (row, subject)
        ).median
        return [
            *(median("cpu_us", 2), median("rate", 0), median("p50_ms", 3), median("p99_ms", 3)),
            median("resident_mb", 0),
            noise.cell(foreign),
        ]

    _fill(table, results, results.subjects, cells)
    return table


def ratios(results: ClientCosts) -> Table:
    """Lay out the ratios to the reference, and those of CPU time to L{KAFKA_REFERENCE}."""
    quantities: tuple[Quantity, ...] = ("cpu_us", "rate", "p50_ms", "p99_ms", "resident_mb")
    titles = [f"{UNITS[each]}\nmin med max" for each in quantities]
    second = any(each.client == KAFKA_REFERENCE for each in results.subjects)
    if second:
        titles.append(f"CPU by\n{KAFKA_REFERENCE}")
    table = _table(f"Ratios to {results.reference}, round by round", *titles)

    def cells(row: str, subject: Subject) -> Sequence[str]:
        found = [spread(results.ratio(row, subject, each), 2) for each in quantities]
        if second:
            by_kafka = results.ratio(row, subject, "cpu_us", KAFKA_REFERENCE)
            found.append("-" if by_kafka is None else f"{by_kafka.median:.2f}")
        return found

    _fill(table, results, [each for each in results.subjects if each.client != results.reference], cells)
    return table


def show(results: ClientCosts, console: Console) -> None:
    """Print everything a comparison found."""
    if results.samples:
        console.print(costs(results))
        console.print(ratios(results))
    for sentence in results.failures:
        console.print(f"[red]{sentence}[/red]", highlight=False)
    for sentence in results.cautions():
        console.print(f"[yellow]{sentence}[/yellow]", highlight=False)


def _table(title: str, *figures: str) -> Table:
    table = Table(title=title, title_justify="left")
    for each in ("row", "client", "broker"):
        table.add_column(each, no_wrap=True)
    for each in figures:
        table.add_column(each, justify="right", no_wrap=True)
    return table


def _fill(
    table: Table, results: ClientCosts, subjects: Sequence[Subject], cells: Callable[[str, Subject], Sequence[str]]
) -> None:
    """Add a section for each row: a line for each client that was measured in it."""
    for row in results.rows:
        able = [each for each in subjects if results.figures(row, each, "cpu_us")]
        for number, each in enumerate(able):
            table.add_row(
                "" if number else row, each.client, each.broker, *cells(row, each), end_section=each == able[-1]
            )
