"""C{smartgo doctor}: what is wrong, and what to do."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

import click

from smartgo.cli.support.diagnosis import Diagnosis
from smartgo.cli.support.diagnosisresults import OK, PROBLEM, WARNING, DiagnosisFinding
from smartgo.cli.support.output import OUTPUT, TEXT, plain, print_value, printable
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
@click.option("--broker", metavar="HOST:PORT", help="A broker that should be there: does it answer, is it registered?")
@click.option("--store", metavar="DIR", help="A store on this machine: how full and how fast is its disk?")
@click.option("-q", "--quiet", is_flag=True, help="Leave out what is well.")
@OUTPUT
@cluster_options
def doctor(cluster: ClusterOptions, broker: str | None, store: str | None, quiet: bool, output: str) -> None:
    """Look for the usual causes of trouble, and say what to do.

    Registries that do not answer, or differ; ports that speak gRPC, HTTP or TLS; brokers whose advertised address
    cannot be reached, that have no master, that take no messages, whose disk is full or slow, whose clock differs; a
    missing template topic; topics that nobody can write to; groups with messages and no members, or whose members want
    different things.

    + is well, - is good to know, ! is to be looked at, X is a problem. Ends with 1 where there is a problem.
    """

    async def work(session: ClusterSession) -> None:
        found: list[DiagnosisFinding] = []
        async with aclosing(Diagnosis(session, broker, store).run()) as findings:
            async for one in findings:
                found.append(one)
                if output == TEXT and not (quiet and one.verdict == OK):
                    _print(one)
        shown = [one for one in found if not (quiet and one.verdict == OK)]
        if output != TEXT:
            print_value(output, plain(shown))
        problems = sum(one.verdict == PROBLEM for one in found)
        warnings = sum(one.verdict == WARNING for one in found)
        more = f"; {warnings} {'thing' if warnings == 1 else 'things'} to look at" if warnings else ""
        if problems:
            raise CommandError(f"{problems} {'problem' if problems == 1 else 'problems'}{more}")
        if output == TEXT:
            click.echo(f"No problem was found{more or '.'}")

    cluster.do(work)


def _print(finding: DiagnosisFinding) -> None:
    mark = click.style(_MARKS[finding.verdict], fg=_COLOURS[finding.verdict], bold=True)
    click.echo(f"{mark} {printable(f'{finding.subject}: {finding.what}')}")
    if finding.advice:
        click.echo(f"    {printable(finding.advice)}")
