"""C{python -m benchmarks scale}."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .. import builder, runner, scaling
from ..scenarios import LOADS
from ..targets import Bench
from ..workshop import (
    check_option,
    console,
    facts_of,
    folder_options,
    json_option,
    keep_figures,
    now,
    warn_when_busy,
    workshop,
)
from . import backlog, backlogreport, connections, connectionsreport, topics, topicsreport
from .crowd import Kind
from .process import Sized

_GB = 1e9


class Sizes(click.ParamType[tuple[int, ...]]):
    """Whole numbers with commas between them, smallest first."""

    name = "N,N..."

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Read them."""
        try:
            found = tuple(sorted({int(each) for each in str(value).replace("_", "").split(",")}))
        except ValueError:
            self.fail(f"{value!r} is not numbers with commas", param, ctx)
        if found[0] < 1:
            self.fail("a size must be at least 1", param, ctx)
        return found


def _finish(
    bench: Bench, outcome: backlog.Outcome | connections.Outcome | topics.Outcome, path: Path | None, command: str
) -> None:
    """Say what went wrong besides, and keep the figures."""
    for complaint in outcome.complaints:
        console.print(complaint, highlight=False)
    keep_figures({**facts_of(bench), "started": now(), "outcome": outcome}, path, command)


def _listed(sizes: Sequence[int]) -> str:
    return ",".join(map(str, sizes))


class ScaleGroup(click.Group):
    """A group whose first command is meant where no command is named."""

    default = "groups"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read C{scale [OPTIONS] [SCENARIO]...} as C{scale groups [OPTIONS] [SCENARIO]...}."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


@click.group("scale", cls=ScaleGroup)
def scale() -> None:
    """
    Measure how the costs grow with the size: backlog, connections, topics, brokers on one machine.

    \b
    scale [SCENARIO]... is the same as scale groups [SCENARIO]...
    """


@scale.command("backlog")
@click.option(
    "--sizes",
    type=Sizes(),
    default=_listed(backlog.SIZES),
    show_default=True,
    help="Messages of the backlog; one store grows from each to the next.",
)
@click.option("--size", default=64, show_default=True, help="Bytes of a body.")
@click.option("--keys", is_flag=True, help="Give each message a tag and a unique key, which the broker indexes.")
@click.option("--floor", default=6.0, show_default=True, help="GB that must stay free on the disk.")
@folder_options
@json_option
def backlog_command(
    sizes: tuple[int, ...],
    size: int,
    keys: bool,
    floor: float,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
) -> None:
    """Measure a backlog of small messages: storing, disk, memory, restarts, and pulls at head, middle and tail."""
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        warn_when_busy()
        with console.status("starting") as status:
            run = backlog.Backlog(bench.one_of_ours(Sized), binary, size, keys, floor * _GB, status.update)
            outcome = run.run(sizes)
    console.print(backlogreport.table(outcome))
    _finish(bench, outcome, json_path, "scale-backlog")


@scale.command("connections")
@click.option("--sizes", type=Sizes(), default=_listed(connections.SIZES), show_default=True, help="Connections.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice(["beat", "poll"]),
    multiple=True,
    default=("beat", "poll"),
    show_default=True,
    help="Clients that only send a heart-beat every 30 s, or that long-poll as well; may be repeated.",
)
@click.option(
    "--rounds", default=3, show_default=True, help="Pairs of windows of 64 senders: beside the clients, alone."
)
@click.option("--seconds", default=4.0, show_default=True, help="Length of a window.")
@click.option("--warm-up", default=0.5, show_default=True, help="Seconds of load before each window.")
@click.option("--idle-seconds", default=30.0, show_default=True, help="Seconds for which idle clients are observed.")
@folder_options
@json_option
def connections_command(
    sizes: tuple[int, ...],
    kinds: tuple[Kind, ...],
    rounds: int,
    seconds: float,
    warm_up: float,
    idle_seconds: float,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
) -> None:
    """Measure what connections cost: memory, CPU while idle, sends beside them, and all of them connecting again."""
    pace = runner.Pace(rounds, seconds, warm_up)
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        warn_when_busy()
        with console.status("starting") as status:
            first = bench.one_of_ours(Sized)
            first.settings = connections.settings_for(sizes[-1])
            targets = (first, first.another())
            outcome = connections.run(targets, binary, sizes, kinds, pace, idle_seconds, status.update)
    for kind in kinds:
        console.print(connectionsreport.table(outcome, kind))
    _finish(bench, outcome, json_path, "scale-connections")


@scale.command("topics")
@click.option("--sizes", type=Sizes(), default=_listed(topics.SIZES), show_default=True, help="Topics.")
@click.option("--queues", default=topics.QUEUES, show_default=True, help="Queues of each topic.")
@click.option(
    "--rounds", default=3, show_default=True, help="Pairs of windows: sends to one topic, and to all in turn."
)
@click.option("--seconds", default=4.0, show_default=True, help="Length of a window.")
@click.option("--warm-up", default=1.0, show_default=True, help="Seconds of load before each window.")
@click.option("--idle-seconds", default=35.0, show_default=True, help="Seconds for which the idle broker is observed.")
@click.option("--floor", default=6.0, show_default=True, help="GB that must stay free on the disk.")
@folder_options
@json_option
def topics_command(
    sizes: tuple[int, ...],
    queues: int,
    rounds: int,
    seconds: float,
    warm_up: float,
    idle_seconds: float,
    floor: float,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
) -> None:
    """Measure what topics cost: memory, files, starts, registrations, routes, and sends to all of them."""
    pace = runner.Pace(rounds, seconds, warm_up)
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        warn_when_busy()
        with console.status("starting") as status:
            target = bench.one_of_ours(Sized)
            run = topics.Topics(target, binary, queues, pace, idle_seconds, floor * _GB, status.update)
            outcome = run.run(sizes)
    console.print(topicsreport.table(outcome))
    _finish(bench, outcome, json_path, "scale-topics")


@scale.command("groups")
@click.argument("scenarios", nargs=-1, type=click.Choice(scaling.SCENARIOS), metavar="[SCENARIO]...")
@click.option("--brokers", type=click.IntRange(2), default=2, show_default=True, help="Number of broker processes.")
@click.option("--pin", is_flag=True, help="Pin each broker with all its threads to a processor of its own.")
@click.option("--rounds", default=5, show_default=True, help="Pairs of windows: one broker under load, and all.")
@click.option("--seconds", default=5.0, show_default=True, help="Length of a window.")
@click.option("--warm-up", default=1.0, show_default=True, help="Seconds of load before each window.")
@folder_options
@json_option
@check_option
def groups_command(
    scenarios: tuple[str, ...],
    brokers: int,
    pin: bool,
    rounds: int,
    seconds: float,
    warm_up: float,
    work: Path | None,
    keep: bool,
    ports: int,
    jars: Path | None,
    json_path: Path | None,
    check: bool,
) -> None:
    """
    Measure what one more broker process brings on this machine: the rate of all together by that of one.

    SCENARIOs are those of "run" that send; send-128 and send-1k where none is named.
    """
    wanted = [each for each in LOADS if each.name in (scenarios or scaling.USUAL)]
    pace = runner.Pace(rounds, seconds, warm_up)
    with workshop(work, keep, ports, jars) as bench:
        binary = builder.generator()
        warn_when_busy()
        with console.status("starting") as status:
            targets = scaling.brokers_of(bench, brokers, pin)
            outcome = scaling.run(targets, binary, wanted, pace, status.update)
    console.print(scaling.table(outcome))
    for sentence in scaling.sentences(outcome):
        console.print(sentence, highlight=False)
    keep_figures({**facts_of(bench), "started": now(), "outcome": outcome}, json_path, "scale")
    if check and not outcome.met:
        sys.exit(1)
