"""Tables of the results, for people."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from . import noise
from .results import Loaded, Results
from .scenarios import GOALS, UNITS
from .spread import Spread


def spread(found: Spread | None, digits: int = 1) -> str:
    """Write minimum, median and maximum, the median in bold."""
    if found is None:
        return "-"
    return f"{found.minimum:.{digits}f} [bold]{found.median:.{digits}f}[/bold] {found.maximum:.{digits}f}"


def loads(results: Results, reference: str | None) -> Table:
    """
    Lay out the load scenarios.

    @param reference: the broker whose CPU a message the others are divided by; C{None} for no such column.
    """
    table = Table(title="Load: CPU of the broker a message, all threads, user and system", title_justify="left")
    table.add_column("scenario")
    table.add_column("broker")
    for title in ("µs a message\nmin med max", "messages/s\nmedian", "p50\nms", "p99\nms", "max\nms"):
        table.add_column(title, justify="right")
    table.add_column("generator\nµs", justify="right")
    table.add_column("others\ncores", justify="right")
    table.add_column("MB\nanonymous", justify="right")
    if reference is not None:
        table.add_column(f"CPU ratio to\n{reference}", justify="right")
    previous = None
    for each in results.loads:
        if previous not in (None, each.scenario):
            table.add_section()
        row = [each.scenario if previous != each.scenario else "", each.target, *_load_cells(each)]
        previous = each.scenario
        if reference is not None:
            same = each.target == reference
            row.append("" if same else spread(results.cpu_ratio(each.target, reference, each.scenario), 2))
        table.add_row(*row)
    return table


def _load_cells(each: Loaded) -> Sequence[str]:
    if not each.rounds:
        return [f"[red]{'broke off' if each.error else '-'}[/red]", *[""] * 7]
    outcomes = [one.outcome for one in each.rounds]
    foreign = Spread.of(one.foreign_cores for one in each.rounds).median

    def milliseconds(figures: Spread) -> str:
        return f"{figures.median / 1e3:.2f}"

    return [
        spread(each.cpu()),
        f"{each.rate().median:,.0f}",
        milliseconds(Spread.of(one.latency_us.p50 for one in outcomes)),
        milliseconds(Spread.of(one.latency_us.p99 for one in outcomes)),
        f"{max(one.latency_us.max for one in outcomes) / 1e3:.1f}",
        f"{Spread.of(one.generator_cpu_us for one in outcomes).median:.2f}",
        noise.cell(foreign),
        f"{each.anonymous_mb:.0f}",
    ]


def quiet(results: Results) -> Table:
    """Lay out what brokers need when nothing happens, and how long they take to start."""
    table = Table(title="At rest", title_justify="left")
    for title in ("scenario", "broker"):
        table.add_column(title)
    for title in ("% of a core", "MB anonymous", "MB resident", "s until ready\nmin med max"):
        table.add_column(title, justify="right")
    for each in results.quiet:
        cells = [f"{each.percent:.2f}", f"{each.anonymous_mb:.1f}", f"{each.resident_mb:.1f}", ""]
        table.add_row(each.scenario, each.target, *cells)
    for start in results.starts:
        if start.seconds:
            table.add_row("start-up", start.target, "", "", "", spread(Spread.of(start.seconds), 2))
    return table


def verdicts(results: Results) -> Table:
    """Lay out asked against got."""
    table = Table(title="Goals and results (medians)", title_justify="left")
    for title in ("scenario", "broker", "quantity"):
        table.add_column(title)
    for title in ("goal, at most", "result", ""):
        table.add_column(title, justify="right")
    for each in results.verdicts:
        got = "not measured" if each.got is None else f"{each.got:.2f}"
        word = "[green]met[/green]" if each.met else "[red]missed[/red]" if each.got is not None else ""
        goal = each.goal
        table.add_row(goal.scenario, each.target, UNITS[goal.quantity], f"{goal.at_most:g}", got, word)
    return table


def show(results: Results, console: Console, reference: str | None) -> None:
    """Print everything a run found."""
    if results.loads:
        console.print(loads(results, reference))
    if results.quiet or results.starts:
        console.print(quiet(results))
    if results.verdicts:
        console.print(verdicts(results))
    for sentence in results.failures():
        console.print(f"[red]{sentence}[/red]", highlight=False)
    for sentence in cautions(results):
        console.print(f"[yellow]{sentence}[/yellow]", highlight=False)


def cautions(results: Results) -> list[str]:
    """Return sentences that say why these figures should not be quoted; empty if they may be."""
    sentences = []
    noisy = {
        each.scenario
        for each in results.loads
        if each.rounds and Spread.of(one.foreign_cores for one in each.rounds).median > noise.NOISY_CORES
    }
    if noisy:
        sentences.append(
            f"Other programs were busy during {', '.join(sorted(noisy))} (column others): "
            "repeat on a quiet machine before quoting a figure."
        )
    if any(each.scenario.endswith("1x1") for each in results.loads):
        sentences.append(
            "One request in flight measures how this machine wakes an idle processor as much as it measures a broker."
        )
    return sentences


def list_goals() -> Table:
    """Lay out what was asked of smartgo's broker."""
    table = Table(title="Goals of smartgo's broker", title_justify="left")
    for title in ("scenario", "quantity"):
        table.add_column(title)
    table.add_column("at most", justify="right")
    for goal in GOALS:
        table.add_row(goal.scenario, UNITS[goal.quantity], f"{goal.at_most:g}")
    return table
