"""C{smartgo cluster scrub}: have a broker read and check all of its log, and show what is damaged."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import click

from smartgo.cli.support.completions import broker_names
from smartgo.cli.support.output import OUTPUT, TEXT, Columns, counted, moment, print_members, print_rows, span
from smartgo.cli.support.rest import RestClient, RestOptions, api_options
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.texts import broker_process, examples
from smartgo.schema.sizes import size_text

_DAMAGED: Final[Columns[dict[str, Any]]] = {
    "position": lambda row: str(row["offset"]),
    "size": lambda row: size_text(row["length"]),
    "topic": lambda row: row["topic"],
    "queue": lambda row: str(row["queueId"]) if row["topic"] else "",
    "offset": lambda row: str(row["queueOffset"]) if row["topic"] else "",
    "reason": lambda row: row["reason"],
    "found": lambda row: moment(row["foundMs"]),
}


@click.command(
    "scrub",
    epilog=examples(
        "smartgo cluster scrub start",
        "smartgo cluster scrub status --check",
        "smartgo cluster scrub start broker-a",
        "smartgo cluster scrub status broker-a#1",
    ),
)
@click.argument("what", type=click.Choice(["status", "start", "stop"]), default="status")
@click.argument("broker", required=False, shell_complete=broker_names)
@click.option(
    "--id",
    "broker_id",
    type=click.IntRange(0),
    metavar="N",
    help="Which process of BROKER: 0 the master, 1 a slave ...",
)
@click.option("--check", is_flag=True, help="Exit with status 1 if a region of the log is damaged.")
@OUTPUT
@api_options
def scrub(rest: RestOptions, what: str, broker: str | None, broker_id: int | None, check: bool, output: str) -> None:
    """Check all of the log of BROKER, and show what is damaged; without a name, of the broker whose process serves the
    REST API.

    "start" begins a scrub, "stop" ends it, "status" shows progress, the last result and the damaged regions. A scrub
    begins by itself once a week and reads scrubRate bytes per second.
    """

    if broker is None and broker_id is not None:
        raise click.UsageError("--id needs the name of a broker")
    if broker is not None:
        broker, broker_id = broker_process(broker, broker_id)

    async def work(api: RestClient) -> None:
        order = {"running": what == "start"}
        if broker is not None:
            where = f"/brokers/{quote(broker, safe='')}"
            which = f"?id={broker_id or 0}"
            if what == "status":
                store = await api.get(f"{where}/store", id=broker_id or 0)
            else:
                store = await api.order("POST", f"{where}/scrub{which}", order)
            found = store["integrity"]
        else:
            try:
                if what == "status":
                    found = await api.get("/process/integrity")
                else:
                    found = await api.order("POST", "/process/scrub", order)
            except CommandError as error:
                if error.exit_code != MISSING:
                    raise
                names = sorted({one["name"] for one in (await api.get("/brokers"))["items"]})
                raise CommandError(
                    f"the process that serves the REST API has no broker; name one: smartgo cluster scrub {what}"
                    f" {names[0] if len(names) == 1 else 'BROKER'} ({', '.join(names)})",
                    MISSING,
                ) from None
        state = found["scrub"]
        print_members(output, found, _in_words(found, state))
        if output == TEXT and found["newest"]:
            print_rows(output, found["newest"], _DAMAGED, "")
        if check and found["regions"]:
            raise CommandError(f"the log has {counted(found['regions'], 'damaged region')}")

    rest.do(work)


def _in_words(found: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Return what there is to say, in words."""
    now = "none"
    if state["running"]:
        now = (
            f"{size_text(state['checkedBytes'])} of {size_text(state['totalBytes'])} checked,"
            f" {span(state['secondsLeft'])} left;"
            f" {counted(state['records'], 'message')} right, {counted(state['damaged'], 'damaged region')}"
        )
    last = "never"
    if state["lastEndedMs"]:
        last = (
            f"{moment(state['lastEndedMs'])}: {size_text(state['lastBytes'])},"
            f" {counted(state['lastRecords'], 'message')} right, {counted(state['lastDamaged'], 'damaged region')}"
        )
    return {
        "scrub": now,
        "last scrub": last,
        "damaged": f"{counted(found['regions'], 'region')}, {size_text(found['bytes'])}",
    }
