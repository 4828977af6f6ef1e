"""The figures of the Spark benchmark as tables, held against the goals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from rich.console import Console
from rich.table import Table

from .sparkbatch import Dataset, Outcome, Query
from .sparkmemory import GIB, Measured
from .spread import Spread

SCAN_RATIO = 1.1
PURE_RATIO = 1.45
COUNT_RATIO = 3.0
ROWS_AT_128 = 4_000_000.0
BYTES_AT_1024 = 2_000_000_000.0

_ALL = "smartgo: scan, 24 columns, checksums verified"
_RATIOS = (
    ("full scan", _ALL, "parquet: scan", SCAN_RATIO),
    ("full scan without the core", "smartgo without the core: scan, 24 columns", "parquet: scan", PURE_RATIO),
    ("count of one column", "smartgo: count, schema asks for queue_id", "parquet: count", COUNT_RATIO),
)


class Verdict(msgspec.Struct, frozen=True):
    """A goal and what was got."""

    goal: str
    got: str
    met: bool


def verdicts(outcome: Outcome) -> Iterator[Verdict]:
    """Hold the figures against the goals."""
    for dataset in outcome.datasets:
        for what, name, reference, limit in _RATIOS:
            if (ratio := dataset.ratio(name, reference)) is not None:
                goal = f"{what} at {dataset.body_size} B: CPU of the tree at most {limit} of Parquet's"
                yield Verdict(
                    goal, f"{ratio.median:.2f} ({ratio.minimum:.2f}-{ratio.maximum:.2f})", ratio.median <= limit
                )
        for decoded in dataset.decoded[:2]:
            if dataset.body_size < 1024:
                goal = (
                    f"decode at {dataset.body_size} B, {decoded.columns}: {ROWS_AT_128 / 1e6:.0f} M rows a CPU second"
                )
                rate = decoded.rows_per_second
                yield Verdict(goal, f"{rate / 1e6:.2f} M", rate >= ROWS_AT_128)
            else:
                goal = f"decode at {dataset.body_size} B, {decoded.columns}: {BYTES_AT_1024 / 1e9:.0f} GB a CPU second"
                rate = decoded.bytes_per_second
                yield Verdict(goal, f"{rate / 1e9:.2f} GB", rate >= BYTES_AT_1024)


def show(outcome: Outcome, console: Console) -> None:
    """Print all results."""
    for dataset in outcome.datasets:
        _show_dataset(dataset, console)
    console.print(_queries("What a user would write instead (16 MiB, 1 KiB bodies)", outcome.instead))
    table = Table(title="Goals")
    for column in ("goal", "got", ""):
        table.add_column(column)
    for verdict in verdicts(outcome):
        table.add_row(verdict.goal, verdict.got, "met" if verdict.met else "[red]missed[/red]")
    console.print(table)


def memory_table(found: Sequence[Measured]) -> Table:
    """Return the memory of Spark's processes as a table."""
    table = Table(title="Anonymous memory while all columns are read, at most, in MB")
    for column in ("GiB of log", "Python workers", "Java", "the query's Python"):
        table.add_column(column, justify="right")
    for one in found:
        sizes = (f"{size / 1e6:.0f}" for size in (one.workers, one.java, one.python))
        table.add_row(f"{one.log_bytes / GIB:g}", *sizes)
    return table


def _show_dataset(dataset: Dataset, console: Console) -> None:
    about = f"{dataset.rows} rows of {dataset.body_size} B bodies, {dataset.log_bytes / 1e6:.0f} MB of log"
    table = Table(title=f"The reader alone: {about}")
    for column in ("columns", "CPU s", "M rows a CPU s", "GB of log a CPU s", "peak MB anonymous"):
        table.add_column(column, justify="left" if column == "columns" else "right")
    for one in dataset.decoded:
        table.add_row(
            one.columns,
            f"{one.cpu_seconds:.2f}",
            f"{one.rows_per_second / 1e6:.2f}",
            f"{one.bytes_per_second / 1e9:.2f}",
            f"{one.peak_anonymous / 1e6:.0f}",
        )
    console.print(table)
    console.print(
        _queries(f"In Spark, local[2]: {about}; Parquet {dataset.parquet_bytes / 1e6:.0f} MB", dataset.queries)
    )


def _queries(title: str, queries: list[Query]) -> Table:
    table = Table(title=title)
    for column in ("query", "CPU s of the tree", "wall s", "M rows/s wall", "worker MB anonymous"):
        table.add_column(column, justify="left" if column == "query" else "right")
    for query in queries:
        cpu, wall = Spread.of(query.cpu), Spread.of(query.wall)
        table.add_row(
            query.name,
            f"{cpu.median:.2f} ({cpu.minimum:.2f}-{cpu.maximum:.2f})",
            f"{wall.median:.2f}",
            f"{query.rows / wall.median / 1e6:.2f}",
            f"{query.worker_anonymous / 1e6:.0f}",
        )
    return table
