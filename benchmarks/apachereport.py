"""Tables of the runs of Apache's programs."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .apache import Ratio, Results
from .report import spread
from .spread import Spread


def measured(results: Results) -> Table:
    """Lay out what was measured, kind by kind and broker by broker."""
    table = Table(title="Apache's benchmark programs, 1 KiB, topic of 16 queues", title_justify="left")
    for title in ("program", "threads", "broker"):
        table.add_column(title)
    for title in ("messages/s\nmin med max", "counted\nmedian", "broker's CPU, µs a message\nmin med max", "failed"):
        table.add_column(title, justify="right")
    previous = None
    for key in dict.fromkeys((each.program, each.threads, each.target) for each in results.measured):
        program, threads, target = key
        runs = results.of(program, threads, target)
        first = previous != key[:2]
        if first and previous is not None:
            table.add_section()
        previous = key[:2]
        failed = sum(each.failed for each in runs)
        table.add_row(
            program if first else "",
            str(threads) if first else "",
            target,
            spread(Spread.of(each.rate for each in runs), 0),
            f"{Spread.of(each.counted_rate for each in runs).median:.0f}",
            spread(Spread.of(each.cpu_us for each in runs)),
            f"[red]{failed}[/red]" if failed else "0",
        )
    return table


def ratios(results: Results, reference: str) -> Table:
    """Lay out the ratios to the reference, asked beside got."""
    table = Table(title=f"Ratios to {reference}, round by round", title_justify="left")
    for title in ("program", "threads", "broker"):
        table.add_column(title)
    for title in ("rate\nmin med max", "asked", "", "CPU a message\nmin med max", "asked", ""):
        table.add_column(title, justify="right")
    for each in results.ratios:
        table.add_row(
            *(each.program, str(each.threads), each.target),
            *(spread(each.rate, 2), "" if each.rate_goal is None else f"≥ {each.rate_goal:g}", _word(each.rate_met)),
            *(spread(each.cpu, 2), "" if each.cpu_goal is None else f"≤ {each.cpu_goal:g}", _word(each.cpu_met)),
        )
    return table


def show(results: Results, console: Console, reference: str | None) -> None:
    """Print everything a run found."""
    if results.measured:
        console.print(measured(results))
    if reference is not None and results.ratios:
        console.print(ratios(results, reference))
    for sentence in results.failures:
        console.print(f"[red]{sentence}[/red]", highlight=False)


def all_met(found: list[Ratio]) -> bool:
    """Tell whether no goal was missed."""
    return all(each.rate_met is not False and each.cpu_met is not False for each in found)


def _word(met: bool | None) -> str:
    return "" if met is None else "[green]met[/green]" if met else "[red]missed[/red]"
