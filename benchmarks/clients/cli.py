"""The commands C{clients} and C{clients-page}."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path

import click

from .. import builder, runner
from ..checkouts import ROOT
from ..errors import BenchmarkError
from ..targets import Bench, Target
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
from .kafka import QUEUES, Kafka
from .results import ClientCosts, Pace, Subject, load
from .rows import NAMES, ROWS, Row
from .run import Pair, Rounds, fill, started
from .subjects import JAVA, Client, client_of
from .subjects import NAMES as CLIENTS

_NEEDED_BYTES = 6 << 30


@click.command("clients")
@target_option("ours", "rocketmq")
@click.option(
    "-c",
    "--client",
    "words",
    multiple=True,
    default=CLIENTS,
    show_default=True,
    metavar="CLIENT",
    help="A client to measure; may be repeated. twisted, aio, sync: smartgo's; twisted@PATH: that of another checkout. "
    "java: Apache's, of 4.9.7. aiokafka, confluent: Kafka's, on a broker of Kafka.",
)
@click.option("--rows", metavar="ROW,...", help=f"What to measure; default: all of {', '.join(NAMES)}.")
@click.option("--rounds", default=3, show_default=True, help="Rounds of each row by each client on each broker.")
@click.option("--seconds", default=1.0, show_default=True, help="Length of a window.")
@click.option("--warm-up", default=0.2, show_default=True, help="Seconds of load before each window.")
@click.option(
    "--first-warm-up", type=float, help="Seconds of each kind of load before its first window; default: 0.5, a JVM 4."
)
@click.option("--backlog", default=100_000, show_default=True, help="Messages a consumer finds.")
@folder_options
@json_option
@check_option
def clients_command(
    targets: tuple[str, ...],
    words: tuple[str, ...],
    rows: str | None,
    rounds: int,
    seconds: float,
    warm_up: float,
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
    Measure what clients cost: the CPU time of the client's process a message, its rate, latencies and memory.

    All clients of RocketMQ's protocol run on all brokers named, Kafka's on a broker of Kafka, in turn, round by round.
    Ratios are to the Java client, on the same broker where it was measured there. What cannot be installed here is left
    out, and named in the results. All of it takes about seven minutes.
    """
    wanted = [row for row in ROWS if rows is None or row.name in rows.split(",")]
    if rows is not None and (unknown := [name for name in rows.split(",") if name not in NAMES]):
        raise click.BadParameter(f"{', '.join(unknown)}: none of {', '.join(NAMES)}", param_hint="--rows")
    pace = Pace(rounds, seconds, warm_up, backlog, first_warm_up)
    with workshop(work, keep, ports, jars, _NEEDED_BYTES) as bench, ExitStack() as running:
        failures: list[str] = []
        clients = _clients(bench, words, failures)
        binary = builder.generator()
        warn_when_busy()
        began = time.monotonic()
        with console.status("starting brokers") as status:
            say = status.update if console.is_terminal else print_line
            brokers = _start_brokers(bench, targets, wanted, clients, running, failures)
            pairs = _pairs(bench, brokers, clients, running, failures)
            results = ClientCosts(
                now(),
                facts_of(bench),
                [each.facts() for each in clients],
                [each.facts() for each in brokers],
                _reference(clients),
                pace,
            )
            rounds_of = Rounds(pairs, pace, say)
            for broker in brokers:
                for row in wanted:
                    if row.kind == "consume":
                        say(f"{row.name}: storing {backlog} messages on {broker.name}")
                        fill(broker, pairs, row, backlog, binary)
            for sample in rounds_of.run(wanted):
                results.samples.append(sample)
        results.failures += failures + rounds_of.failures
        running.close()
        results.failures += [each for broker in brokers if isinstance(broker, Target) for each in broker.complaints]
        results.took_s = time.monotonic() - began
    report.show(results, console)
    keep_figures(results, json_path, "clients")
    if check and results.failures:
        sys.exit(1)


def _clients(bench: Bench, words: tuple[str, ...], failures: list[str]) -> list[Client]:
    """Make the clients; note why one cannot be measured here."""
    made: list[Client] = []
    for each in words:
        try:
            client = client_of(each, bench.rocketmq, bench.rocketmq.cache, bench.work)
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--client") from None
        except BenchmarkError as error:
            failures.append(f"{each} was left out: {error}")
            continue
        if client.name in {other.name for other in made}:
            raise click.BadParameter(f"{client.name} is given twice", param_hint="--client")
        made.append(client)
    return made


def _start_brokers(
    bench: Bench,
    words: tuple[str, ...],
    rows: list[Row],
    clients: list[Client],
    running: ExitStack,
    failures: list[str],
) -> list[Target | Kafka]:
    """Start the brokers that the clients need, with the topics of the rows; note why one cannot be had here."""
    brokers: list[Target | Kafka] = []
    candidates: list[Target | Kafka] = []
    if any(each.protocol == "rocketmq" for each in clients):
        candidates += targets_of(bench, words)
    if any(each.protocol == "kafka" for each in clients):
        candidates.append(Kafka(bench.work / "kafka", bench.ports, bench.rocketmq.cache))
    for broker in candidates:
        running.callback(broker.stop)
        try:
            broker.start()
            if isinstance(broker, Target):
                for topic in dict.fromkeys(row.topic for row in rows):
                    runner.create_topic(broker, topic, QUEUES)
        except BenchmarkError as error:
            failures.append(f"{broker.name} was left out: {error}")
        else:
            brokers.append(broker)
    return brokers


def _pairs(
    bench: Bench, brokers: list[Target | Kafka], clients: list[Client], running: ExitStack, failures: list[str]
) -> list[Pair]:
    """Start each client for each broker that it can talk to; note why one did not get ready."""
    pairs = []
    for broker in brokers:
        protocol = "kafka" if isinstance(broker, Kafka) else "rocketmq"
        address = broker.address if isinstance(broker, Kafka) else broker.registry or broker.address
        for client in clients:
            if client.protocol == protocol:
                try:
                    program = started(client, broker, address, bench.work / "clients")
                except BenchmarkError as error:
                    failures.append(f"{client.name} on {broker.name} was left out: {error}")
                    continue
                running.callback(program.stop)
                pairs.append(Pair(Subject(client.name, broker.name), program, broker, client.warm_up))
    return pairs


def _reference(clients: list[Client]) -> str:
    """Return the name of the Java client, or of the last one where it is not there."""
    names = [each.name for each in clients]
    return JAVA if JAVA in names or not names else names[-1]


@click.command("clients-page")
@click.argument("figures", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="FILE.json")
@click.argument("docs", type=click.Path(path_type=Path, file_okay=False, exists=True), default=ROOT / "docs")
def page_command(figures: Path, docs: Path) -> None:
    """
    Write the tables of docs/client-cost.rst from the figures of clients.

    DOCS is the folder of the documentation; default: that of this checkout.
    """
    try:
        written = page.write(load(figures), docs)
    except BenchmarkError as error:
        raise click.ClickException(str(error)) from None
    console.print(f"wrote {written}", highlight=False, soft_wrap=True)
