"""The command line: C{python -m benchmarks}."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from . import (
    apache,
    apacheoutput,
    apachereport,
    builder,
    indexing,
    profiling,
    rebuild,
    report,
    runner,
    sparkcli,
)
from .clients.cli import clients_command
from .clients.cli import page_command as clients_page_command
from .compare.cli import compare_command, page_command
from .errors import BenchmarkError
from .results import Results
from .scale.cli import scale
from .scenarios import GOALS, IDLE, IDLE_CLIENTS, LOADS, NAMES, OTHERS, START_UP
from .targets import Attached, Target, running
from .workshop import (
    check_option,
    console,
    facts_of,
    folder_options,
    json_option,
    keep_figures,
    now,
    target_option,
    targets_of,
    warn_when_busy,
    workshop,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
def main() -> None:
    """
    Measure smartgo's broker, alone or beside the real RocketMQ.

    What counts is the CPU time the broker's process needs for a message, taken from the kernel the same way for every
    broker; rates depend on the machine and on what else it does. Compare brokers in one run: they take turns, round
    by round, and the ratio of neighbouring rounds is what lasts.

    \b
    First steps:
      python -m benchmarks list                      what can be measured, and the goals
      python -m benchmarks run                       everything, smartgo alone
      python -m benchmarks run -t ours -t rocketmq   everything, both, with ratios
      python -m benchmarks run send-1k --rounds 1    one scenario, quickly
      python -m benchmarks compare                   core, pure and RocketMQ: everything, with ratios and goals
      python -m benchmarks clients                   what clients cost, beside Java's and Kafka's
      python -m benchmarks apache                    Apache's own Producer and Consumer on both
      python -m benchmarks profile send-1k           where smartgo spends its time

    The load generator is C; gcc builds it on first use. The real broker's jars are fetched by Maven once (--jars).
    """


@main.command("list")
def list_command() -> None:
    """Tell what can be measured, and the goals."""
    names = {**OTHERS, **{scenario.name: scenario.about for scenario in LOADS}}
    for name in NAMES:
        console.print(f"[bold]{name:16}[/bold] {names[name]}", highlight=False)
    console.print(report.list_goals())


@main.command("run")
@click.argument("scenarios", nargs=-1, type=click.Choice(NAMES), metavar="[SCENARIO]...")
@target_option("ours")
@click.option("--rounds", default=5, show_default=True, help="Number of measured windows of each load, and of starts.")
@click.option("--seconds", default=3.0, show_default=True, help="Length of a window.")
@click.option("--warm-up", default=0.5, show_default=True, help="Seconds of load before each window.")
@click.option(
    "--first-warm-up",
    type=float,
    help="Seconds of load before the first window of a scenario; default: 1 for ours, 8 for a JVM.",
)
@click.option("--idle-seconds", default=60.0, show_default=True, help="Seconds for which idle brokers are observed.")
@folder_options
@json_option
@check_option
def run_command(
    scenarios: tuple[str, ...],
    targets: tuple[str, ...],
    rounds: int,
    seconds: float,
    warm_up: float,
    first_warm_up: float | None,
    idle_seconds: float,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Run SCENARIOs (default: all) on one broker or several in turn.

    With several brokers the last column divides the CPU a message by that of the last broker named.
    """
    wanted = scenarios or NAMES
    pace = runner.Pace(rounds, seconds, warm_up, first_warm_up)
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        brokers = targets_of(bench, targets)
        warn_when_busy()
        options = {"rounds": rounds, "seconds": seconds, "warm_up": warm_up, "first_warm_up": first_warm_up}
        results = Results(now(), facts_of(bench), [dict(each.facts()) for each in brokers], options)
        with running(brokers), console.status("starting") as status:
            _fill_in(results, binary, brokers, wanted, pace, idle_seconds, status.update)
        for target, words in zip(brokers, targets, strict=True):
            results.complaints += target.complaints
            if words != "rocketmq":
                results.judge(GOALS, target.name, wanted)
    report.show(results, console, brokers[-1].name if len(brokers) > 1 else None)
    keep_figures(results, json_path, "run")
    if check and (results.failures() or not all(verdict.met for verdict in results.verdicts)):
        sys.exit(1)


def _fill_in(
    results: Results,
    binary: Path,
    brokers: list[Target],
    wanted: Sequence[str],
    pace: runner.Pace,
    idle_seconds: float,
    say: runner.Say,
) -> None:
    """Run what is wanted, the scenarios at rest first: afterwards a broker has seen load."""
    if IDLE in wanted:
        results.quiet += [runner.idle(target, idle_seconds, say) for target in brokers]
    if IDLE_CLIENTS in wanted:
        results.quiet += [runner.idle_clients(binary, target, idle_seconds, say) for target in brokers]
    if START_UP in wanted:
        found = (runner.starts(target, pace.rounds, say) for target in brokers if not isinstance(target, Attached))
        results.starts += [each for each in found if each is not None]
    chosen = [scenario for scenario in LOADS if scenario.name in wanted]
    results.loads += runner.Loads(binary, brokers, pace, say).run(chosen)


@main.command("apache")
@click.argument("programs", nargs=-1, type=click.Choice(["producer", "consumer"]), metavar="[producer|consumer]...")
@target_option("ours", "rocketmq")
@click.option("--threads", default="1,16,64", show_default=True, help="Producer threads, a series of runs for each.")
@click.option("--consumer-threads", default=20, show_default=True, help="Consumer threads.")
@click.option("--rounds", default=3, show_default=True, help="Runs of each kind on each broker.")
@click.option("--seconds", default=20.0, show_default=True, help="Length of a producer's window, at least 11.")
@click.option("--warm-up", default=10.0, show_default=True, help="Warm-up of a producer in seconds.")
@click.option("--backlog", default=2_000_000, show_default=True, help="Messages a consumer finds.")
@folder_options
@json_option
@check_option
def apache_command(
    programs: tuple[apache.Program, ...],
    targets: tuple[str, ...],
    threads: str,
    consumer_threads: int,
    rounds: int,
    seconds: float,
    warm_up: float,
    backlog: int,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Run Apache's own Producer and Consumer (rocketmq-example 5.5.0) on brokers in turn.

    Ratios are to the last broker named. Both programs send binary headers. A full run takes about 15 minutes.
    """
    try:
        counts = [int(each) for each in threads.split(",")]
    except ValueError:
        raise click.BadParameter(f"{threads!r} is not numbers with commas", param_hint="--threads") from None
    pace = apache.Pace(rounds, max(seconds, apacheoutput.WINDOW + 2), warm_up, backlog)
    wanted = programs or ("producer", "consumer")
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        brokers = targets_of(bench, targets)
        warn_when_busy()
        facts = [dict(each.facts()) for each in brokers]
        results = apache.Results(now(), facts_of(bench), facts, pace)
        with running(brokers), console.status("starting") as status:
            runs = apache.Apache(bench.rocketmq, binary, bench.work, brokers, pace, status.update)
            if "producer" in wanted:
                results.collect(runs.producers(counts))
            if "consumer" in wanted:
                results.collect(runs.consumers(consumer_threads))
        results.failures += [complaint for target in brokers for complaint in target.complaints]
        reference = brokers[-1].name if len(brokers) > 1 else None
        if reference is not None:
            for target in brokers[:-1]:
                results.compare(target.name, reference)
    apachereport.show(results, console, reference)
    keep_figures(results, json_path, "apache")
    if check and (results.failures or not apachereport.all_met(results.ratios)):
        sys.exit(1)


@main.command("profile")
@click.argument("scenario", type=click.Choice([each.name for each in LOADS]), metavar="SCENARIO")
@click.option(
    "--method",
    type=click.Choice(["sample", "cprofile"]),
    default="sample",
    show_default=True,
    help="sample: true proportions, lines. cprofile: exact numbers of calls, but too much time for Python functions.",
)
@click.option("--seconds", default=10.0, show_default=True, help="Duration of the load in seconds.")
@click.option("--warm-up", default=2.0, show_default=True, help="Warm-up in seconds.")
@click.option("--top", default=30, show_default=True, help="Number of functions and lines to print.")
@folder_options
def profile_command(
    scenario: str,
    method: profiling.Method,
    seconds: float,
    warm_up: float,
    top: int,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
) -> None:
    """
    Run smartgo's broker under a profiler in SCENARIO and print the dearest functions.

    Costs are microseconds a message. With --method cprofile and --keep, the file "profile" can be read by pstats.
    """
    chosen = next(each for each in LOADS if each.name == scenario)
    with workshop(work, keep, ports, jars) as bench, console.status(f"profiling {scenario}"):
        binary = builder.generator()
        target = bench.ours()
        outcome, output = profiling.profile(binary, target, chosen, method, warm_up, seconds)
        functions, lines = profiling.read(method, output, outcome)
    about = f"{scenario}: {outcome.messages} messages, {outcome.server_cpu_us:.2f} µs CPU each with the profiler on"
    console.print(about, highlight=False)
    console.print(profiling.table("Functions, µs a message", functions, top))
    if lines:
        console.print(profiling.table("Lines, µs a message", lines, top))


@main.command("console")
@click.option("--rounds", default=5, show_default=True, help="Pairs of windows: with the console open, and without.")
@click.option("--seconds", default=8.0, show_default=True, help="Length of a window.")
@folder_options
@json_option
@check_option
def console_command(
    rounds: int,
    seconds: float,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Measure what an open console costs the broker under load, with 10,000 topics and 100 groups.

    The console's requests are replayed as a browser made them.
    """
    from . import opsload

    requests = opsload.recorded()
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        broker = bench.one_of_ours(opsload.OursWithOps)
        warn_when_busy()
        with running([broker]), console.status("starting") as status:
            outcome = opsload.run(broker, binary, requests, rounds, seconds, status.update)
    console.print(opsload.told(outcome), highlight=False)
    keep_figures({**facts_of(bench), "outcome": outcome}, json_path, "console")
    if check and not outcome.met:
        sys.exit(1)


@main.command("index")
@click.option("--rounds", default=5, show_default=True, help="Rounds of each case; the best is reported.")
@folder_options
def index_command(rounds: int, work: Path | None, keep: bool, ports: int, jars: Path | None) -> None:
    """Measure what the index costs a message, in this process: with numpy and without, in long runs and in short."""
    with workshop(work, keep, ports, jars) as bench:
        console.print(indexing.table(list(indexing.measure(bench.work, rounds))))


@main.command("rebuild")
@click.argument("cases", nargs=-1, type=click.Choice(rebuild.CASES), metavar="[CASE]...")
@target_option("ours")
@click.option("--rounds", default=3, show_default=True, help="Starts of each broker.")
@folder_options
@json_option
@check_option
def rebuild_command(
    cases: tuple[str, ...],
    targets: tuple[str, ...],
    rounds: int,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Measure how long a broker takes until it serves on a store that it has to recover.

    CASEs: rebuild, a log of 1 GiB without queues and index; kill, a process killed 64 MiB behind its last checkpoint.
    Brokers get the same directory in turn.
    """
    with workshop(work, keep, ports, jars) as bench:
        brokers = targets_of(bench, targets)
        warn_when_busy()
        with console.status("starting") as status:
            starts = rebuild.run(brokers, cases or rebuild.CASES, rounds, bench.work, status.update)
    console.print(rebuild.table(starts))
    keep_figures({**facts_of(bench), "started": now(), "starts": starts}, json_path, "rebuild")
    if check and rebuild.missed(starts):
        sys.exit(1)


@main.command("load", context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def load_command(arguments: tuple[str, ...]) -> None:
    """Run the load generator by hand: load --help tells its options."""
    try:
        binary = builder.generator()
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    sys.exit(subprocess.run([str(binary), *arguments], check=False).returncode)


main.add_command(compare_command)
main.add_command(page_command)
main.add_command(clients_command)
main.add_command(clients_page_command)
main.add_command(scale)
main.add_command(sparkcli.spark_command)
main.add_command(sparkcli.spark_memory_command)
main.add_command(sparkcli.spark_stream_command)
