"""The shared parts of the commands: options, a working folder, the targets, and the folder for figures."""

from __future__ import annotations

import datetime
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from . import proc
from .checkouts import THIS
from .errors import BenchmarkError
from .results import write
from .signals import ended_by_signals
from .targets import Bench, Target

RESULTS = Path(__file__).parent / "results"
_NEEDED_BYTES = 8 << 30

_F = TypeVar("_F", bound=Callable[..., Any])

console = Console(width=None if sys.stdout.isatty() else 150)


def folder_options(function: _F) -> _F:
    """Add the options of every command that starts brokers."""
    folder = click.Path(path_type=Path, file_okay=False)
    options = (
        click.option("--work", type=folder, help="Folder for stores and logs; default: a temporary one."),
        click.option("--keep", is_flag=True, help="Leave stores and logs there when done."),
        click.option("--ports", default=22000, show_default=True, help="Use free ports from this one upwards."),
        click.option(
            "--jars",
            type=folder,
            help="Folder with lib/ and libbench/ of the real RocketMQ; default: $SMARTGO_BENCH_JARS, else a cache "
            "of the user that Maven fills.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def target_option(*default: str) -> Callable[[_F], _F]:
    return click.option(
        "-t",
        "--target",
        "targets",
        multiple=True,
        default=default,
        show_default=True,
        metavar="TARGET",
        help="A broker to measure; may be repeated. ours: smartgo of this checkout, as it is; core: the same with its "
        "compiled core, an error without; pure: in Python alone. checkout=PATH[,name=X]: smartgo of another checkout. "
        "rocketmq: the real one. address=HOST:PORT,pid=N[,name=X][,registry=HOST:PORT]: one that runs already, which "
        "is left running.",
    )


def json_option(function: _F) -> _F:
    return click.option(
        "--json",
        "json_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File for the figures; default: benchmarks/results/TIME-COMMAND.json.",
    )(function)


def check_option(function: _F) -> _F:
    return click.option(
        "--check", is_flag=True, help="End with status 1 when a goal is missed or an answer was an error."
    )(function)


@contextmanager
def workshop(
    work: Path | None, keep: bool, ports: int, jars: Path | None, needed: int = _NEEDED_BYTES
) -> Iterator[Bench]:
    """
    Provide a folder and what makes brokers; say a benchmark's error in a sentence; clear the folder away.

    A signal that ends the benchmark does so from within the block, so that brokers end with it.

    @param needed: bytes that the stores may take.
    """
    folder = Path(tempfile.mkdtemp(prefix="smartgo-bench-", dir=work)) if work is None or work.is_dir() else work
    folder.mkdir(parents=True, exist_ok=True)
    try:
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise BenchmarkError(f"{folder} has {free >> 30} GiB free, stores may need {needed >> 30}: use --work")
        with ended_by_signals():
            yield Bench(folder, ports, jars)
    except BenchmarkError as error:
        keep = True  # the logs may say more
        raise click.ClickException(f"{error}\n(logs are in {folder})") from None
    finally:
        if keep:
            console.print(f"stores and logs are in {folder}", highlight=False)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def targets_of(bench: Bench, words: Sequence[str]) -> list[Target]:
    made: list[Target] = []
    for each in words:
        try:
            target = bench.target(each)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--target") from None
        if target.name in {other.name for other in made}:
            raise click.BadParameter(f"{target.name} is given twice", param_hint="--target")
        made.append(target)
    return made


def warn_when_busy() -> None:
    load = os.getloadavg()[0]
    if load > 0.3 * (os.cpu_count() or 1):
        console.print(f"[yellow]the machine is not quiet: load average {load:.2f}[/yellow]", highlight=False)


def facts_of(bench: Bench) -> dict[str, object]:
    return {**proc.machine(bench.work), "commit": THIS.commit()}


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def print_line(sentence: str) -> None:
    """Say what is being done where the output goes into a file: the moment and a line."""
    console.print(f"{now()} {sentence}", highlight=False, soft_wrap=True)


def keep_figures(figures: object, given: Path | None, command: str) -> None:
    """Write what was measured where it was asked for, else into the folder of results, and say where that is."""
    path = given or RESULTS / f"{now().replace(':', '').replace('+0000', 'Z')}-{command}.json"
    write(figures, path)
    console.print(f"figures are in {path}", highlight=False)
