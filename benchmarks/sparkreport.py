"""The figures of the Spark benchmark as tables, held against the goals."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from rich.console import Console
from rich.table import Table

from .sparkbatch import Dataset, Outcome, Query
from .spread import Spread

SCAN_RATIO = 1.2
ROWS_AT_128 = 1_500_000.0
BYTES_AT_1024 = 1_000_000_000.0

_ALL = "smartgo: scan, 24 columns, checksums verified"


class Verdict(msgspec.Struct, frozen=True):
    """A goal and what was got."""

    goal: str
    got: str
    met: bool


def verdicts(outcome: Outcome) -> Iterator[Verdict]:
    """Hold the figures against the goals."""
    for dataset in outcome.datasets:
        if (ratio := dataset.ratio(_ALL, "parquet: scan")) is not None:
            name = f"full scan at {dataset.body_size} B: CPU of the tree at most {SCAN_RATIO} of Parquet's"
            yield Verdict(name, f"{ratio.median:.2f}", ratio.median <= SCAN_RATIO)
        for decoded in dataset.decoded[:2]:
            if dataset.body_size < 1024:
                name = f"decode at {dataset.body_size} B, {decoded.columns}: 1.5 M rows a CPU second"
                rate = decoded.rows_per_second
                yield Verdict(name, f"{rate / 1e6:.2f} M", rate >= ROWS_AT_128)
            else:
                name = f"decode at {dataset.body_size} B, {decoded.columns}: 1 GB a CPU second"
                rate = decoded.bytes_per_second
                yield Verdict(name, f"{rate / 1e9:.2f} GB", rate >= BYTES_AT_1024)


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
