"""The commands that measure Spark: C{python -m benchmarks spark} and C{spark-stream}."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import click

from . import builder
from .errors import BenchmarkError
from .targets import Started, running
from .workshop import (
    check_option,
    console,
    facts_of,
    folder_options,
    json_option,
    keep_figures,
    now,
    targets_of,
    warn_when_busy,
    workshop,
)


@click.command("spark")
@click.option("--scale", default=1.0, show_default=True, help="Size of the stores: 1 for 1 GiB and 256 MiB.")
@click.option("--rounds", default=3, show_default=True, help="Rounds that count, after two warm ones.")
@click.option(
    "--bodies",
    type=click.Choice(["json", "random"]),
    default="json",
    show_default=True,
    help="Content of the messages; random bytes favour Parquet, which then has nothing to decompress.",
)
@folder_options
@json_option
@check_option
def spark_command(
    scale: float,
    rounds: int,
    bodies: str,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Read stores by Spark, beside Parquet with the same rows and beside what a user would write instead.

    Whole scans and counts in local[2]: wall time, and CPU time of the whole process tree; and the reader alone, outside
    Spark. Needs Java 17 and the extra [spark]; about a quarter of an hour on a quiet machine.
    """
    from . import sparkbatch, sparkreport

    with workshop(work, keep, ports, jars) as bench, console.status("starting") as status:
        options = {"scale": scale, "rounds": rounds, "bodies": bodies}
        outcome = sparkbatch.Outcome(now(), facts_of(bench), options)
        with closing(sparkbatch.Batch(bench.work, outcome, rounds, bodies, status.update)) as batch:
            batch.run(sparkbatch.sizes(scale))
    sparkreport.show(outcome, console)
    keep_figures(outcome, json_path, "spark")
    if check and not all(verdict.met for verdict in sparkreport.verdicts(outcome)):
        sys.exit(1)


@click.command("spark-memory")
@click.option(
    "--sizes",
    default="1,8",
    show_default=True,
    help="GiB of log, growing; comma separated. The disk must hold the last.",
)
@folder_options
@json_option
@check_option
def spark_memory_command(
    sizes: str,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Read stores of several sizes by Spark, and see how much memory its processes take.

    All columns in local[2], with a Java heap of 1 GiB. Needs Java 17 and the extra [spark].
    """
    from . import sparkmemory, sparkreport

    with workshop(work, keep, ports, jars) as bench, console.status("starting") as status:
        wanted = [int(float(size) * sparkmemory.GIB) for size in sizes.split(",")]
        found = sparkmemory.run(bench.work, wanted, status.update)
        facts = facts_of(bench)
    console.print(sparkreport.memory_table(found))
    keep_figures({**facts, "memory": found}, json_path, "spark-memory")
    if check and not sparkmemory.is_flat(found):
        sys.exit(1)


@click.command("spark-stream")
@click.option(
    "-t",
    "--target",
    type=click.Choice(["ours", "rocketmq"]),
    default="ours",
    show_default=True,
    help="Broker that writes the store.",
)
@click.option("--rate", default=5000, show_default=True, help="Messages a second.")
@click.option("--seconds", default=300.0, show_default=True, help="Duration in seconds; the query is killed half-way.")
@click.option("--trigger", default="1 second", show_default=True, help="Minimum seconds between two micro-batches.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="SVG file for a plot of the lag over time."
)
@folder_options
@json_option
@check_option
def spark_stream_command(
    target: str,
    rate: int,
    seconds: float,
    trigger: str,
    plot: Path | None,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Follow a store by Spark while its broker is under load; kill the query once.

    Every message must be in the sink once. The lag of a micro-batch is how old its oldest message was when all of it
    lay in the sink. Needs Java 17 and the extra [spark].
    """
    from . import lagplot, sparkstream

    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        (broker,) = targets_of(bench, [target])
        if not isinstance(broker, Started):
            raise BenchmarkError(f"{target} was not started here")
        warn_when_busy()
        with running([broker]), console.status("starting") as status:
            outcome = sparkstream.run(broker, binary, rate, seconds, trigger, status.update)
    console.print(sparkstream.told(outcome), highlight=False)
    keep_figures({**facts_of(bench), "outcome": outcome}, json_path, "spark-stream")
    if plot is not None:
        title = f"Lag of a Spark stream behind {outcome.broker}, {rate:,} messages a second"
        marks = [(begin, "driver and JVM killed") for begin, _ in outcome.restarts]
        plot.write_text(lagplot.svg(title, outcome.lags, marks), encoding="utf-8")
    if check and not outcome.exact:
        sys.exit(1)
