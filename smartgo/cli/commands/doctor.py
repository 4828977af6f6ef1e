"""C{smartgo doctor}: find problems of a cluster, and say what to do about them."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import click

from smartgo.cli.support.diagnosis import Diagnosis
from smartgo.cli.support.diagnosisresults import OK, PROBLEM, WARNING, DiagnosisFinding
from smartgo.cli.support.output import OUTPUT, TEXT, counted, plain, print_value, printable
from smartgo.cli.support.rest import RestOptions, api_options
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import ClusterOptions, ClusterSession, cluster_options
from smartgo.cli.support.texts import examples

_MARKS: Final = {"ok": "+", "note": "-", "warning": "!", "problem": "X"}
_COLOURS: Final = {"ok": "green", "note": None, "warning": "yellow", "problem": "red"}


@click.command(
    epilog=examples(
        "smartgo doctor",
        "smartgo doctor --broker 10.0.0.2:10911",
        "smartgo doctor --store /var/lib/smartgo/store",
        "smartgo doctor --quiet -o json",
    )
)
@click.option("--broker", metavar="HOST:PORT", help="Check that this broker answers and is registered.")
@click.option(
    "--store", metavar="DIR", help="Check the disk of a store directory on this machine: free space and write latency."
)
@click.option("-q", "--quiet", is_flag=True, help="Show only notes, warnings and problems.")
@OUTPUT
@cluster_options
@api_options
def doctor(
    rest: RestOptions, cluster: ClusterOptions, broker: str | None, store: str | None, quiet: bool, output: str
) -> None:
    """Check a cluster for common problems, and say what to do about each.

    Finds registries that do not answer or differ; ports that speak gRPC, HTTP or TLS; brokers that are missing (which
    the REST API remembers), whose advertised address is unreachable, that have no master, that accept no messages,
    whose disk is full or slow, or whose clock is off; a missing template topic; topics that nobody can write to;
    groups with lag and no consumer, or with consumers whose subscriptions differ.

    + is fine, - is a note, ! is a warning, X is a problem. The exit status is 1 if there is a problem.
    """

    async def work(session: ClusterSession) -> None:
        found: list[DiagnosisFinding] = []
        async with aclosing(Diagnosis(session, rest, broker, store).run()) as findings:
            async for one in findings:
                found.append(one)
                if output == TEXT and not (quiet and one.verdict == OK):
                    _print(one)
        shown = [one for one in found if not (quiet and one.verdict == OK)]
        if output != TEXT:
            print_value(output, plain(shown))
        problems = sum(one.verdict == PROBLEM for one in found)
        warnings = sum(one.verdict == WARNING for one in found)
        more = f", {counted(warnings, 'warning')}" if warnings else ""
        if problems:
            raise CommandError(f"{counted(problems, 'problem')}{more}")
        if output == TEXT:
            click.echo(f"No problems{more}.")

    cluster.look(work)


def _print(finding: DiagnosisFinding) -> None:
    mark = click.style(_MARKS[finding.verdict], fg=_COLOURS[finding.verdict], bold=True)
    click.echo(f"{mark} {printable(f'{finding.subject}: {finding.what}')}")
    if finding.advice:
        click.echo(f"    {printable(finding.advice)}")
