"""Tables of a comparison on the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from .. import noise
from ..report import spread
from ..spread import Spread
from .results import Comparison
from .rows import UNITS, Quantity

_SIZES: tuple[Quantity, ...] = ("resident_mb", "outside_store_mb", "anonymous_mb", "ready_s")


def costs(results: Comparison) -> Table:
    """Lay out CPU time, rates and latencies, row by row and broker by broker."""
    table = _table(
        "CPU of the broker a message, rates and latencies: medians",
        *("CPU\nµs", "main\nthread", "other\nthreads", "messages/s", "p50\nms", "p99\nms", "p99.9\nms"),
        *("client\nCPU µs", "others\ncores", "failed"),
    )
    _fill(table, results, results.names, "cpu_us", lambda row, target: _cost_cells(results, row, target))
    return table


def _cost_cells(results: Comparison, row: str, target: str) -> Sequence[str]:
    def median(quantity: Quantity) -> str:
        return _median(results.spread(row, target, quantity), 2)

    total, main = results.spread(row, target, "cpu_us"), results.spread(row, target, "main_us")
    rate, samples = results.spread(row, target, "rate"), results.of(row, target)
    foreign = Spread.of(each.foreign_cores for each in samples).median
    failed = sum(each.failed for each in samples)
    return [
        median("cpu_us"),
        median("main_us"),
        f"{total.median - main.median:.2f}" if total and main else "-",
        f"{rate.median:,.0f}" if rate else "-",
        *(median("p50_ms"), median("p99_ms"), median("p999_ms"), median("client_us")),
        noise.cell(foreign),
        f"[red]{failed}[/red]" if failed else "0",
    ]


def ratios(results: Comparison) -> Table:
    """Lay out the ratios of CPU time, rates and latencies to the reference."""
    quantities: tuple[Quantity, ...] = ("cpu_us", "rate", "p50_ms", "p99_ms", "p999_ms")
    titles = (f"{UNITS[each]}\nmin med max" for each in quantities)
    table = _table(f"Ratios to {results.reference}, round by round", *titles)

    def cells(row: str, target: str) -> Sequence[str]:
        return [spread(results.ratio(row, target, each), 2) for each in quantities]

    _fill(table, results, [name for name in results.names if name != results.reference], "cpu_us", cells)
    return table


def sizes(results: Comparison) -> Table:
    """Lay out memory after each row, and seconds until ready, with the ratios to the reference."""
    table = _table(
        "Memory of the broker after the row, MB, and start-up: medians",
        *("resident", "of it without\nstore files", "anonymous", "s until ready"),
        *("ratio without\nstore files", "ratio until\nready"),
    )

    def cells(row: str, target: str) -> Sequence[str]:
        known = [_median(results.spread(row, target, each), 2 if each == "ready_s" else 0) for each in _SIZES]
        if target == results.reference:
            return known
        return known + [_median(results.ratio(row, target, each), 2) for each in ("outside_store_mb", "ready_s")]

    _fill(table, results, results.names, None, cells)
    return table


def verdicts(results: Comparison) -> Table:
    """Lay out asked against got."""
    table = Table(title=f"Goals: ratios to {results.reference}, round by round", title_justify="left")
    for title in ("row", "quantity", "broker"):
        table.add_column(title, no_wrap=True)
    for title in ("goal", "result\nmin med max", ""):
        table.add_column(title, justify="right", no_wrap=True)
    for each in results.verdicts:
        word = "not measured" if each.got is None else "[green]met[/green]" if each.met else "[red]missed[/red]"
        goal = each.goal
        table.add_row(goal.row, UNITS[goal.quantity], each.target, goal.words, spread(each.got, 2), word)
    return table


def show(results: Comparison, console: Console) -> None:
    """Print everything a comparison found."""
    if any("cpu_us" in each.figures for each in results.samples):
        console.print(costs(results))
        console.print(ratios(results))
    if results.samples:
        console.print(sizes(results))
    if results.verdicts:
        console.print(verdicts(results))
    if (touch := results.first_touch) is not None:
        sentence = f"new memory: {touch.first:.2f} µs of CPU a KiB at the first touch, {touch.again:.2f} once more"
        console.print(sentence, highlight=False)
    for sentence in results.failures:
        console.print(f"[red]{sentence}[/red]", highlight=False)
    for sentence in results.cautions():
        console.print(f"[yellow]{sentence}[/yellow]", highlight=False)


def _table(title: str, *figures: str) -> Table:
    table = Table(title=title, title_justify="left")
    for each in ("row", "broker"):
        table.add_column(each, no_wrap=True)
    for each in figures:
        table.add_column(each, justify="right", no_wrap=True)
    return table


def _fill(
    table: Table,
    results: Comparison,
    targets: Sequence[str],
    quantity: Quantity | None,
    cells: Callable[[str, str], Sequence[str]],
) -> None:
    """Add a section for each row: a line for each broker that has the quantity, or anything where none is named."""
    for row in results.rows:
        able = [
            name
            for name in targets
            if (results.of(row, name) if quantity is None else results.figures(row, name, quantity))
        ]
        for number, target in enumerate(able):
            table.add_row("" if number else row, target, *cells(row, target), end_section=target == able[-1])


def _median(found: Spread | None, digits: int) -> str:
    return "-" if found is None else f"{found.median:.{digits}f}"
