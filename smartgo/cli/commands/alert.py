"""C{smartgo alert}: list alerts of a process, and silence known ones."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

import click

from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    Columns,
    counted,
    moment,
    print_members,
    print_rows,
    print_value,
    span,
)
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.texts import examples
from smartgo.health.judgements import NOUNS
from smartgo.schema.sizes import size_text

_SPAN: Final = re.compile(r"([0-9]{1,4})(m|h|d)\Z")
_MEANING: Final = 36  # columns: a table of rules fits in 120
_SECONDS: Final = {"m": 60, "h": 3600, "d": 86_400}


def amount(unit: str, value: float, rule: str) -> str:
    """Return a value of a rule with its unit."""
    if unit == "ratio":
        return f"{value:.1%}"
    if unit == "bytes":
        return size_text(value)
    if unit == "seconds":
        return span(value) or ""
    if unit == "state":
        return ""
    return counted(round(value), NOUNS[rule]) if rule in NOUNS else f"{value:,.10g}"


def limit(unit: str, threshold: float, rule: str) -> str:
    """Return a threshold with its unit; C{any} where every value above 0 is too much."""
    return "any" if unit != "state" and threshold == 0 else amount(unit, threshold, rule)


def read_span(context: click.Context, option: click.Parameter, text: str) -> int:
    """Parse a duration such as C{4h} into seconds. @raise click.BadParameter: the text is none."""
    match = _SPAN.match(text)
    if match is None:
        raise click.BadParameter(f"{text!r}: write a number followed by m, h or d", context, option)
    return int(match[1]) * _SECONDS[match[2]]


_ALERTS: Final[Columns[dict[str, Any]]] = {
    "severity": lambda row: row["severity"],
    "state": lambda row: row["state"],
    "rule": lambda row: row["rule"],
    "subject": lambda row: row["subject"] or "the process",
    "follows from": lambda row: row.get("cause") or "",
    "value": lambda row: amount(row["unit"], row["value"], row["rule"]),
    "limit": lambda row: limit(row["unit"], row["threshold"], row["rule"]),
    "since": lambda row: moment(row["sinceMs"]),
    "silenced": lambda row: _silenced(row["silence"]),
}


def _silenced(silence: dict[str, Any] | None) -> str:
    if silence is None:
        return ""
    return f"silence {silence['id']} by {silence['who']} until {moment(silence['untilMs'])}"


@click.group(
    epilog=examples(
        "smartgo alert list",
        "smartgo alert silence disk-full broker-a --for 4h --comment 'a bigger disk comes today'",
        "smartgo alert end 7",
        "smartgo alert test team",
    )
)
def alert() -> None:
    """List the problems found by the process that serves the REST API; silence known ones; test who is notified."""


@alert.command("list", epilog=examples("smartgo alert list", "smartgo alert list --state firing -o json"))
@click.option("--state", type=click.Choice(["firing", "pending", "resolved"]), help="Only alerts in this state.")
@click.option("--loud", is_flag=True, help="Leave out silenced alerts.")
@click.option(
    "--check",
    is_flag=True,
    help="Exit with status 1 if an alert fires that counts: not silenced, and no consequence of another.",
)
@OUTPUT
@api_options
def list_(rest: RestOptions, state: str | None, loud: bool, check: bool, output: str) -> None:
    """
    List the alerts that are firing, pending or recently resolved.

    The limit "any" means that every value above 0 breaks the rule. "smartgo alert history" has the times of the end.
    """

    async def work(api: RestClient) -> None:
        silenced = "false" if loud else None
        rows = (await api.get("/alerts", limit=200, state=state, silenced=silenced))["items"]
        print_rows(output, rows, _ALERTS, "No alerts.")
        firing = sum(one["state"] == "firing" and one["silence"] is None and not one.get("cause") for one in rows)
        if check and firing:
            raise CommandError(f"{counted(firing, 'alert')} firing")

    rest.do(work)


@alert.command("history", epilog=examples("smartgo alert history", "smartgo alert history -f broker-a -o jsonl"))
@click.option(
    "-f", "--filter", "text", default="", metavar="TEXT", help="Only alerts whose rule or subject contains TEXT."
)
@click.option(
    "-n", "--count", type=click.IntRange(1, 200), default=50, show_default=True, help="Maximum number of rows."
)
@OUTPUT
@api_options
def history(rest: RestOptions, text: str, count: int, output: str) -> None:
    """List past alerts, newest first."""

    async def work(api: RestClient) -> None:
        rows = (await api.get("/alerts/history", limit=count, q=text))["items"]
        print_rows(
            output,
            rows,
            {
                "fired": lambda row: moment(row["firedMs"]),
                "resolved": lambda row: moment(row["resolvedMs"]),
                "severity": lambda row: row["severity"],
                "rule": lambda row: row["rule"],
                "subject": lambda row: row["subject"] or "the process",
                "peak": lambda row: amount(row["unit"], row["peak"], row["rule"]),
            },
            "No alert has fired.",
        )

    rest.do(work)


@alert.command("rules", epilog=examples("smartgo alert rules", "smartgo alert rules -o yaml"))
@OUTPUT
@api_options
def rules(rest: RestOptions, output: str) -> None:
    """List the alert rules: threshold, and how long it must be exceeded."""

    async def work(api: RestClient) -> None:
        print_rows(
            output,
            await api.get("/alerts/rules"),
            {
                "rule": lambda row: row["name"],
                "severity": lambda row: row["severity"],
                "subject": lambda row: row["kind"],
                "above": lambda row: limit(row["unit"], row["threshold"], row["name"]),
                "for": lambda row: span(row["seconds"]) if row["seconds"] else "at once",
                "enabled": lambda row: row["enabled"],
                "meaning": lambda row: row["about"],
            },
            wrapped={"meaning": _MEANING},
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
@click.option("--subject", "other", default="", metavar="NAME", help="The subject, if no RULE is given.")
@click.option("--all", "everything", is_flag=True, help="Silence every alert.")
@click.option(
    "--for",
    "seconds",
    default="1h",
    show_default=True,
    metavar="SPAN",
    callback=read_span,
    help="Duration, such as 30m, 4h, 7d.",
)
@click.option("--comment", default="", metavar="TEXT", help="Reason, shown to others.")
@click.option("--force", is_flag=True, help="Accept a SUBJECT that does not exist yet.")
@OUTPUT
@api_options
def silence(
    rest: RestOptions,
    rule: str,
    subject: str,
    other: str,
    everything: bool,
    seconds: int,
    comment: str,
    force: bool,
    output: str,
) -> None:
    """Silence the alerts of RULE, or only those about SUBJECT. Silenced alerts are still listed, but do not count.

    A SUBJECT is named as in alerts and by the doctor, such as broker-a, or broker-a#1 for its slave. One that no alert,
    broker, registry, group or topic has is refused.
    """
    if bool(rule or subject or other) == everything:
        raise click.UsageError("give a RULE or --subject NAME, or only --all")

    async def work(api: RestClient) -> None:
        body = {
            "rule": rule, "subject": subject or other, "all": everything, "seconds": seconds, "comment": comment,
        }  # fmt: skip
        if body["subject"] and not force:
            body["known"] = True
        try:
            made = await api.order("POST", "/alerts/silences", body)
        except CommandError as error:
            if error.problem == "subject-not-found":
                raise CommandError(f"{error.message}; with --force it is accepted", MISSING) from None
            raise
        members = {
            "silence": made["id"],
            "until": moment(made["untilMs"]),
            "rule": rule or "any",
            "subject": made["subject"] or "all",
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
        click.echo(f"silence {id} ended")

    rest.do(work)


@alert.command("receivers", epilog=examples("smartgo alert receivers", "smartgo alert receivers -o json"))
@click.option("--check", is_flag=True, help="Exit with status 1 if the last message to a receiver failed.")
@OUTPUT
@api_options
def receivers(rest: RestOptions, check: bool, output: str) -> None:
    """List the receivers of alert notices (the setting alertReceivers) and the state of delivery."""

    async def work(api: RestClient) -> None:
        rows = await api.get("/alerts/receivers")
        print_rows(
            output,
            rows,
            {
                "receiver": lambda row: row["name"],
                "kind": lambda row: row["kind"],
                "from": lambda row: row["severity"],
                "state": lambda row: row["state"],
                "pending": lambda row: row["pending"],
                "sent": lambda row: row["sent"],
                "last sent": lambda row: moment(row["lastSentMs"]),
                "last error": lambda row: row["lastError"],
            },
            "No receiver is configured: set alertReceivers.",
        )
        failed = sum(one["state"] == "failed" for one in rows)
        if check and failed:
            raise CommandError(f"the last message to {counted(failed, 'receiver')} failed")

    rest.do(work)


@alert.command("test", epilog=examples("smartgo alert test team"))
@click.argument("receiver")
@OUTPUT
@api_options
def test(rest: RestOptions, receiver: str, output: str) -> None:
    """Send a test message to RECEIVER at once, and show what it answered."""

    async def work(api: RestClient) -> None:
        result = await api.order("POST", f"/alerts/receivers/{quote(receiver, safe='')}/test")
        if output != TEXT:
            print_value(output, result)
        elif result["delivered"]:
            click.echo(f"{receiver} took the test message in {result['tookMs']} ms: {result['answer']}")
        if not result["delivered"]:
            raise CommandError(f"{receiver} did not take the test message: {result['answer']}")

    rest.do(work)
