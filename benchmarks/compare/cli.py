"""The command C{compare}."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from .. import builder, firsttouch
from ..checkouts import ROOT
from ..errors import BenchmarkError
from ..targets import Started, Theirs, running
from ..workshop import (
    check_option,
    console,
    facts_of,
    folder_options,
    json_option,
    keep_figures,
    now,
    print_line,
    target_option,
    targets_of,
    warn_when_busy,
    workshop,
)
from . import page, report
from .results import Comparison, Pace, load
from .rows import GOALS, NAMES, ROWS
from .run import WARMED_BYTES, Rounds

_NEEDED_BYTES = 16 << 30
_JUDGED = "core"


@click.command("compare")
@target_option("core", "pure", "rocketmq")
@click.option("--rows", metavar="ROW,...", help=f"What to measure; default: all of {', '.join(NAMES)}.")
@click.option("--rounds", default=3, show_default=True, help="Rounds of each row on each broker.")
@click.option("--seconds", default=8.0, show_default=True, help="Window of one of Apache's producers.")
@click.option("--warm-up", default=5.0, show_default=True, help="Seconds of a producer before its window.")
@click.option("--load-seconds", default=3.0, show_default=True, help="Window of a load of the generator.")
@click.option(
    "--first-warm-up", type=float, help="Seconds of load on a broker that has just started; default: 2, a JVM 15."
)
@click.option("--backlog", default=1_000_000, show_default=True, help="Messages a consumer finds.")
@folder_options
@json_option
@check_option
def compare_command(
    targets: tuple[str, ...],
    rows: str | None,
    rounds: int,
    seconds: float,
    warm_up: float,
    load_seconds: float,
    first_warm_up: float | None,
    backlog: int,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Compare brokers by our load generator and by Apache's programs, in turn, round by round.

    Ratios are to the last broker named. Goals are those of the compiled core (core), or of the first broker named where
    that is not among them; there are none unless the last one is rocketmq. All rows on three brokers take
    about half an hour.
    """
    wanted = tuple(rows.split(",")) if rows else NAMES
    if unknown := [name for name in wanted if name not in NAMES]:
        raise click.BadParameter(f"{', '.join(unknown)}: none of {', '.join(NAMES)}", param_hint="--rows")
    if len(targets) < 2:
        raise click.BadParameter("name two brokers or more", param_hint="--target")
    pace = Pace(rounds, seconds, warm_up, load_seconds, first_warm_up, backlog)
    with workshop(work, keep, ports, jars, _NEEDED_BYTES) as bench:
        binary = builder.generator()
        brokers = [each for each in targets_of(bench, targets) if isinstance(each, Started)]
        if len(brokers) < len(targets):
            raise click.BadParameter("brokers that run already cannot get empty stores", param_hint="--target")
        warn_when_busy()
        facts = [each.facts() for each in brokers]
        results = Comparison(now(), facts_of(bench), facts, brokers[-1].name, pace)
        began = time.monotonic()
        with console.status("measuring the first touch of memory") as status:
            results.first_touch, results.warmed_bytes = firsttouch.measure(), WARMED_BYTES
            with running([*brokers]):
                say = status.update if console.is_terminal else print_line
                rounds_of = Rounds(bench.rocketmq, binary, bench.work, brokers, pace, say)
                for sample in rounds_of.run([row for row in ROWS if row.name in wanted]):
                    results.samples.append(sample)
        results.failures += rounds_of.failures
        results.failures += [complaint for broker in brokers for complaint in broker.complaints]
        results.took_s = time.monotonic() - began
    names = results.names
    if isinstance(brokers[-1], Theirs):  # goals are ratios to the real one
        results.judge(GOALS, _JUDGED if _JUDGED in names else names[0], wanted)
    report.show(results, console)
    keep_figures(results, json_path, "compare")
    if check and (results.failures or not all(verdict.met for verdict in results.verdicts)):
        sys.exit(1)


@click.command("compare-page")
@click.argument("figures", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE.json")
@click.argument("docs", type=click.Path(path_type=Path, file_okay=False, exists=True), default=ROOT / "docs")
def page_command(figures: Path, docs: Path) -> None:
    """
    Write the charts and tables of docs/speed.rst from the figures of compare.

    DOCS is the folder of the documentation; default: that of this checkout. Needs matplotlib.
    """
    try:
        written = page.write(load(figures), docs)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    for path in written:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)
