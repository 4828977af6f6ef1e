"""C{smartgo cluster forget}: take a missing broker out of service."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

import click

from smartgo.cli.support.completions import broker_names
from smartgo.cli.support.membermemory import timed_messages
from smartgo.cli.support.output import OUTPUT, TEXT, counted, moment, print_value
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.session import DRY_RUN, YES, confirm
from smartgo.cli.support.texts import broker_process, examples
from smartgo.client.administration.brokers import subject_of


@click.command(
    "forget", epilog=examples("smartgo cluster forget broker-a --dry-run", "smartgo cluster forget broker-a#1")
)
@click.argument("broker", shell_complete=broker_names)
@click.option(
    "--id", "broker_id", type=click.IntRange(0), metavar="N", help="Only this process: 0 the master, 1 a slave ..."
)
@DRY_RUN
@YES
@OUTPUT
@api_options
def forget(rest: RestOptions, broker: str, broker_id: int | None, dry_run: bool, yes: bool, output: str) -> None:
    """Take BROKER, which is missing, out of service: it is no longer expected, and no longer reported as missing.

    It shows first which messages and queues will no longer be mentioned. Files are not touched; a broker that registers
    again is expected again. A broker that is registered is not taken out of service: stop it first.
    """

    broker, broker_id = broker_process(broker, broker_id)

    async def work(api: RestClient) -> None:
        where = f"/brokers/{quote(broker, safe='')}"
        which = {} if broker_id is None else {"id": broker_id}
        found = await api.order("DELETE", f"{where}?{urlencode({**which, 'dryRun': 'true'})}")
        sentence = _sentence(found)
        if dry_run:
            if output != TEXT:
                print_value(output, found)
            else:
                click.echo(sentence)
            return
        confirm(sentence, yes)
        done = await api.order("DELETE", f"{where}?{urlencode(which)}" if which else where)
        if output != TEXT:
            print_value(output, done)
            return
        for one in done["members"]:
            click.echo(f"{_name(one)} is out of service")
        stays = _staying(done)
        if stays:
            click.echo(stays)

    rest.do(work)


def _name(member: dict[str, Any]) -> str:
    return f"{subject_of(member['name'], member['id'])} at {member['address']}"


def _staying(found: dict[str, Any]) -> str:
    """Return which processes of the broker stay, and what that means; empty for none."""
    staying = found.get("staying") or []
    if not staying:
        return ""
    first = staying[0]["name"]
    names = ", ".join(f"{_name(one)} ({one['state']})" for one in staying)
    words = f"{names} {'stays' if len(staying) == 1 else 'stay'} in service."
    if any(one["id"] == 0 for one in staying):
        return words
    return (
        f"{words} {first} then has no master, stores nothing and is reported so, until a master registers, or until its"
        " slaves are stopped and taken out of service, too."
    )


def _sentence(found: dict[str, Any]) -> str:
    """Return what will no longer be mentioned, in words."""
    members = [f"{_name(one)}, last seen {moment(one['lastSeenMs'])}" for one in found["members"]]
    words = f"{'; '.join(members)}: will no longer be expected, nor reported as missing."
    stays = _staying(found)
    if stays:
        words = f"{words} {stays}"
    lost = found["unreachable"]
    if lost is None:
        return words
    timed = f" So do {timed_messages(lost['timed'])}." if lost.get("timed") else ""
    if lost["countedMs"] is None or lost["messages"] is None:
        return f"{words} What it stored is not known, and stays out of reach.{timed}"
    return (
        f"{words} Its {counted(lost['messages'], 'message')} in {counted(lost['queues'], 'queue')} of"
        f" {counted(lost['topics'], 'topic')} stay out of reach, and nothing will mention them.{timed}"
    )
