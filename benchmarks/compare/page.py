"""The part of C{docs/speed.rst} that a comparison gives: facts, charts, and tables of ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import BenchmarkError
from ..spread import Spread
from . import plots
from .results import Comparison
from .rows import ROWS, UNITS, Quantity

PAGE = "speed.rst"
BEGIN = '.. Begin of the results: written by "python -m benchmarks compare-page".\n'
END = ".. End of the results.\n"
"""The lines of the page between which the results stand."""

_IMAGES = "images"


def write(results: Comparison, docs: Path) -> list[Path]:
    """
    Replace the results of the page in the folder of the documentation, and draw its charts.

    @return: the files.
    @raise BenchmarkError: the page is not there or has no place for results, or matplotlib is not installed.
    """
    path = docs / PAGE
    try:
        before, begin, rest = path.read_text("utf-8").partition(BEGIN)
    except OSError as error:
        raise BenchmarkError(f"{path}: {error.strerror}") from None
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise BenchmarkError(f"{path} has lost a line between which results stand: {BEGIN.strip()} {END.strip()}")
    charts = plots.draw(results, docs / _IMAGES)
    path.write_text(f"{before}{BEGIN}\n{text(results)}\n{END}{after}", "utf-8")
    return [path, *charts]


def text(results: Comparison) -> str:
    """Return the reStructuredText; figures are ratios, but for the price of new memory."""
    others = [name for name in results.names if name != results.reference]
    blocks = [
        facts(results),
        *(f"**{sentence}**" for sentence in results.cautions()),
        _failures(results),
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
    return "\n\n".join(block for block in blocks if block) + "\n"


def facts(results: Comparison) -> str:
    """Return a paragraph about machine, versions and rounds."""
    machine = results.machine
    gib = round(int(machine.get("memory_bytes", 0)) / (1 << 30))
    brokers = []
    for target in results.targets:
        known = [str(target[key]) for key in ("commit", "java") if key in target]
        brokers.append(f"``{target['name']}``" + (f" ({', '.join(known)})" if known else ""))
    rounds = results.options.rounds
    told = (
        f"Measured on {results.started[:10]}: {rounds} round{'s' * (rounds > 1)}, {results.took_s / 60:.0f} minutes"
        f" on {machine.get('processor')}, {machine.get('processors')} processors, {gib} GiB, Linux "
        f"{str(machine.get('kernel')).partition('-')[0]}, Python {machine.get('python')}. "
        f"Brokers: {'; '.join(brokers)}."
    )
    if (touch := results.first_touch) is not None:
        told += f" A KiB of new memory cost {touch.first:.2f} µs of CPU at first, {touch.again:.2f} µs once more."
    if results.warmed_bytes:
        told += f" Before each round {results.warmed_bytes / (1 << 30):g} GiB of memory was touched and given back."
    return told


def _failures(results: Comparison) -> str:
    """Return the first line of each failure, as they are; an empty text for none."""
    lines = [f"    {sentence.partition(chr(10))[0]}" for sentence in results.failures]
    return "\n".join(["What went wrong::", "", *lines]) if lines else ""


def _ratios(results: Comparison, title: str, quantities: Sequence[Quantity], targets: Sequence[str]) -> str:
    """Return a table of the rows that have any of the quantities; a column for each quantity and broker."""
    columns = [(quantity, target) for quantity in quantities for target in targets]
    lines = []
    for row in results.rows:
        found = [results.ratio(row, target, quantity) for quantity, target in columns]
        if any(each is not None for each in found):
            lines.append([row, *map(_cell, found)])
    used = [n for n in range(len(columns)) if any(line[n + 1] for line in lines)]
    heads = [f"{UNITS[columns[n][0]]}, {columns[n][1]}" for n in used]
    return _table(
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
    return _table("Part of the broker's CPU time that its main thread spent", ["row", *targets], lines)


def _goals(results: Comparison) -> str:
    lines = [
        [
            each.goal.row,
            UNITS[each.goal.quantity],
            each.goal.words,
            _cell(each.got) or "not measured",
            "" if each.got is None else "met" if each.met else "missed",
        ]
        for each in results.verdicts
    ]
    names = ", ".join(dict.fromkeys(each.target for each in results.verdicts))
    return _table(f"Goals of {names}, by {results.reference}", ["row", "quantity", "goal", "ratio", ""], lines)


def _rows(results: Comparison) -> str:
    lines = [[row.name, row.about] for row in ROWS if row.name in results.rows]
    return _table("The rows", ["row", "load"], lines)


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
