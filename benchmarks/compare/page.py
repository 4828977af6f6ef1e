"""The part of C{docs/speed.rst} that a comparison gives: facts, charts, and tables of ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..resultspage import ResultsPlace, cell, failures, joined, measured, table
from . import plots
from .results import Comparison
from .rows import ROWS, UNITS, Quantity

PAGE = "speed.rst"
COMMAND = "compare-page"
"""The command whose results the page holds."""

_IMAGES = "images"


def write(results: Comparison, docs: Path) -> list[Path]:
    """
    Replace the results of the page in the folder of the documentation, and draw its charts.

    @return: the files.
    @raise BenchmarkError: the page is not there or has no place for results, or matplotlib is not installed.
    """
    place = ResultsPlace(docs / PAGE, COMMAND)
    charts = plots.draw(results, docs / _IMAGES)
    return [place.write(text(results)), *charts]


def text(results: Comparison) -> str:
    """Return the reStructuredText; figures are ratios, but for the price of new memory."""
    others = [name for name in results.names if name != results.reference]
    blocks = [
        facts(results),
        *(f"**{sentence}**" for sentence in results.cautions()),
        failures(results.failures),
        *(
            f".. image:: {_IMAGES}/{name}\n   :alt: {UNITS[quantity]} of each row, by that of {results.reference}"
            for name, (quantity, _) in plots.CHARTS.items()
        ),
        _ratios(results, "CPU time a message and rate", ("cpu_us", "rate"), others),
        _ratios(results, "Latency", ("p50_ms", "p99_ms", "p999_ms"), others),
        _ratios(results, "Memory after the load, and start-up", ("resident_mb", "outside_store_mb", "ready_s"), others),
        _shares(results, others),
        _goals(results),
        _rows(results),
    ]
    return joined(blocks)


def facts(results: Comparison) -> str:
    """Return a paragraph about machine, versions and rounds."""
    brokers = []
    for target in results.targets:
        known = [str(target[key]) for key in ("commit", "java") if key in target]
        brokers.append(f"``{target['name']}``" + (f" ({', '.join(known)})" if known else ""))
    told = measured(results.started, results.machine, results.options.rounds, results.took_s)
    told += f" Brokers: {'; '.join(brokers)}."
    if (touch := results.first_touch) is not None:
        told += f" A KiB of new memory cost {touch.first:.2f} µs of CPU at first, {touch.again:.2f} µs once more."
    if results.warmed_bytes:
        told += f" Before each round {results.warmed_bytes / (1 << 30):g} GiB of memory was touched and given back."
    return told


def _ratios(results: Comparison, title: str, quantities: Sequence[Quantity], targets: Sequence[str]) -> str:
    """Return a table of the rows that have any of the quantities; a column for each quantity and broker."""
    columns = [(quantity, target) for quantity in quantities for target in targets]
    lines = []
    for row in results.rows:
        found = [results.ratio(row, target, quantity) for quantity, target in columns]
        if any(each is not None for each in found):
            lines.append([row, *map(cell, found)])
    used = [n for n in range(len(columns)) if any(line[n + 1] for line in lines)]
    heads = [f"{UNITS[columns[n][0]]}, {columns[n][1]}" for n in used]
    return table(
        f"{title}, by {results.reference}: median (least to most)",
        ["row", *heads],
        ([line[0], *(line[n + 1] for n in used)] for line in lines),
    )


def _shares(results: Comparison, targets: Sequence[str]) -> str:
    lines = []
    for row in results.rows:
        shares = [results.main_share(row, target) for target in targets]
        if any(each is not None for each in shares):
            lines.append([row, *("" if each is None else f"{each:.0%}" for each in shares)])
    return table("Part of the broker's CPU time that its main thread spent", ["row", *targets], lines)


def _goals(results: Comparison) -> str:
    lines = [
        [
            each.goal.row,
            UNITS[each.goal.quantity],
            each.goal.words,
            cell(each.got) or "not measured",
            "" if each.got is None else "met" if each.met else "missed",
        ]
        for each in results.verdicts
    ]
    names = ", ".join(dict.fromkeys(each.target for each in results.verdicts))
    return table(f"Goals of {names}, by {results.reference}", ["row", "quantity", "goal", "ratio", ""], lines)


def _rows(results: Comparison) -> str:
    lines = [[row.name, row.about] for row in ROWS if row.name in results.rows]
    return table("The rows", ["row", "load"], lines)
