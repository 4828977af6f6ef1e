"""C{smartgo alert}: what a process has noticed, and silencing what is known."""

from __future__ import annotations

import re
from typing import Any, Final

import click

from smartgo.cli.support.output import OUTPUT, Columns, moment, print_members, print_rows, size, span
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.texts import examples

_SPAN: Final = re.compile(r"([0-9]{1,4})(m|h|d)\Z")
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400}


def amount(unit: str, value: float) -> str:
    """A value in the words of its unit."""
    if unit == "ratio":
        return f"{value:.1%}"
    if unit == "bytes":
        return size(value)
    if unit == "seconds":
        return span(value) or ""
    return "" if unit == "state" else f"{value:,.10g}"


def read_span(context: click.Context, option: click.Parameter, text: str) -> int:
    """Return the seconds that a text such as C{4h} says. @raise click.BadParameter: it says none."""
    match = _SPAN.match(text)
    if match is None:
        raise click.BadParameter(f"{text!r}: write a number with m, h or d", context, option)
    return int(match[1]) * _SECONDS[match[2]]


_ALERTS: Final[Columns[dict[str, Any]]] = {
    "severity": lambda row: row["severity"],
    "state": lambda row: row["state"],
    "rule": lambda row: row["rule"],
    "about": lambda row: row["subject"] or "the process",
    "value": lambda row: amount(row["unit"], row["value"]),
    "limit": lambda row: amount(row["unit"], row["threshold"]),
    "since": lambda row: moment(row["sinceMs"]),
    "silenced": lambda row: _silenced(row["silence"]),
}


def _silenced(silence: dict[str, Any] | None) -> str:
    if silence is None:
        return ""
    return f"{silence['id']}, by {silence['who']} until {moment(silence['untilMs'])}"


@click.group(
    epilog=examples(
        "smartgo alert list",
        "smartgo alert silence disk-full broker-a --for 4h --comment 'a bigger disk comes today'",
        "smartgo alert end 7",
    )
)
def alert() -> None:
    """See what is wrong, as the process that serves the REST API has noticed; silence what is known."""


@alert.command("list", epilog=examples("smartgo alert list", "smartgo alert list --state firing -o json"))
@click.option("--state", type=click.Choice(["firing", "pending", "resolved"]), help="Those in this state alone.")
@click.option("--loud", is_flag=True, help="Leave out those that are silenced.")
@click.option("--check", is_flag=True, help="End with 1 where an alert fires that is not silenced.")
@OUTPUT
@api_options
def list_(rest: RestOptions, state: str | None, loud: bool, check: bool, output: str) -> None:
    """List alerts: those that fire, that are pending, and that are over since not long ago."""

    async def work(api: RestClient) -> None:
        silenced = "false" if loud else None
        rows = (await api.get("/alerts", limit=200, state=state, silenced=silenced))["items"]
        print_rows(output, rows, _ALERTS, "All is well.")
        firing = sum(one["state"] == "firing" and one["silence"] is None for one in rows)
        if check and firing:
            raise CommandError(f"{firing} alert{'s fire' if firing > 1 else ' fires'}")

    rest.do(work)


@alert.command("history", epilog=examples("smartgo alert history", "smartgo alert history -f broker-a -o jsonl"))
@click.option("-f", "--filter", "text", default="", metavar="TEXT", help="Only those with TEXT in rule or subject.")
@click.option("-n", "--count", type=click.IntRange(1, 200), default=50, show_default=True, help="So many at most.")
@OUTPUT
@api_options
def history(rest: RestOptions, text: str, count: int, output: str) -> None:
    """List alerts that fired, the newest first."""

    async def work(api: RestClient) -> None:
        rows = (await api.get("/alerts/history", limit=count, q=text))["items"]
        print_rows(
            output,
            rows,
            {
                "fired": lambda row: moment(row["firedMs"]),
                "over": lambda row: moment(row["resolvedMs"]),
                "severity": lambda row: row["severity"],
                "rule": lambda row: row["rule"],
                "about": lambda row: row["subject"] or "the process",
                "worst": lambda row: amount(row["unit"], row["peak"]),
            },
            "No alert has fired.",
        )

    rest.do(work)


@alert.command("rules", epilog=examples("smartgo alert rules", "smartgo alert rules -o yaml"))
@OUTPUT
@api_options
def rules(rest: RestOptions, output: str) -> None:
    """List the rules: what counts as wrong, and for how long it must be so."""

    async def work(api: RestClient) -> None:
        print_rows(
            output,
            await api.get("/alerts/rules"),
            {
                "rule": lambda row: row["name"],
                "severity": lambda row: row["severity"],
                "of each": lambda row: row["kind"],
                "above": lambda row: amount(row["unit"], row["threshold"]),
                "for": lambda row: span(row["seconds"]) if row["seconds"] else "at once",
                "on": lambda row: row["enabled"],
                "meaning": lambda row: row["about"],
            },
        )

    rest.do(work)


@alert.command(
    "silence",
    epilog=examples(
        "smartgo alert silence broker-down broker-a --for 2h --comment 'being moved'",
        "smartgo alert silence --subject audit --for 1d",
        "smartgo alert silence --all --for 30m --comment 'the network is being changed'",
    ),
)
@click.argument("rule", default="")
@click.argument("subject", default="")
@click.option("--subject", "other", default="", metavar="NAME", help="The subject, where no RULE is given.")
@click.option("--all", "everything", is_flag=True, help="Every alert, whatever it is about.")
@click.option(
    "--for", "seconds", default="1h", show_default=True, metavar="SPAN", callback=read_span, help="Such as 30m, 4h, 7d."
)
@click.option("--comment", default="", metavar="TEXT", help="For others: why.")
@OUTPUT
@api_options
def silence(
    rest: RestOptions, rule: str, subject: str, other: str, everything: bool, seconds: int, comment: str, output: str
) -> None:
    """Silence alerts of RULE, about SUBJECT alone where one is given: they are listed still, and count no more."""
    if bool(rule or subject or other) == everything:
        raise click.UsageError("give a RULE, or --subject NAME, or --all alone")

    async def work(api: RestClient) -> None:
        body = {
            "rule": rule, "subject": subject or other, "all": everything, "seconds": seconds, "comment": comment,
        }  # fmt: skip
        made = await api.order("POST", "/alerts/silences", body)
        members = {
            "silence": made["id"],
            "until": moment(made["untilMs"]),
            "rule": rule or "any",
            "about": made["subject"] or "all",
        }
        print_members(output, made, members)

    rest.do(work)


@alert.command("end", epilog=examples("smartgo alert end 7"))
@click.argument("id", type=click.IntRange(0))
@api_options
def end(rest: RestOptions, id: int) -> None:
    """End silence ID."""

    async def work(api: RestClient) -> None:
        await api.order("DELETE", f"/alerts/silences/{id}")
        click.echo(f"silence {id} is over")

    rest.do(work)
