"""C{smartgo cluster}: brokers."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from smartgo.cli.commands.definitions import export, import_
from smartgo.cli.commands.drain import drain
from smartgo.cli.support.output import OUTPUT, TEXT, plain, print_members, print_rows, print_value, span
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.errors import CallFailed
from smartgo.schema.bodies import BrokerStatsData, StatsItem

COUNTERS: Final = (
    "BROKER_PUT_NUMS", "BROKER_GET_NUMS", "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE",
    "SNDBCK_PUT_NUMS", "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE", "QUEUE_GET_NUMS", "QUEUE_GET_SIZE", "GROUP_GET_LATENCY",
    "GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME",
)  # fmt: skip


class BrokerRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    One broker process.

    @ivar id: 0 the master, others its slaves.
    @ivar version: what it says it is; C{None} where it does not answer, as for all that follow.
    @ivar put_per_second: messages stored, of late; C{get_per_second} handed out.
    @ivar disk: how full the disk of the log is, 0 to 1.
    @ivar kept_seconds: how old its oldest message is.
    """

    cluster: str
    broker: str
    id: int
    address: str
    version: str | None = None
    put_per_second: float | None = None
    get_per_second: float | None = None
    put_today: int | None = None
    get_today: int | None = None
    disk: float | None = None
    kept_seconds: float | None = None
    runs: str | None = None
    failure: str | None = None


def number(table: dict[str, str], *names: str) -> float | None:
    """Return the first number that one of these values of a broker begins with; C{None} where there is none."""
    for name in names:
        words = table.get(name, "").split()
        try:
            return float(words[0])
        except (IndexError, ValueError):
            continue
    return None


def difference(table: dict[str, str], end: str, begin: str) -> int | None:
    """Return how far one count is above another; C{None} where one is missing."""
    high, low = number(table, end), number(table, begin)
    return None if high is None or low is None else int(high - low)


async def broker_rows(session: ClusterSession) -> list[BrokerRow]:
    """Return all brokers with what they tell of themselves; one that does not answer with why."""
    now = session.env.clock.wall_ms()
    rows = []
    for place in await session.admin.brokers.places():
        row = BrokerRow(cluster=place.cluster, broker=place.name, id=place.id, address=place.address)
        try:
            table = await session.admin.brokers.runtime(place.address)
        except CallFailed as error:
            rows.append(msgspec.structs.replace(row, failure=str(error)))
            continue
        oldest = number(table, "earliestMessageTimeStamp")
        rows.append(
            msgspec.structs.replace(
                row,
                version=table.get("brokerVersionDesc"),
                put_per_second=number(table, "putTps"),
                get_per_second=number(table, "getTransferredTps", "getTransferedTps"),
                put_today=difference(table, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
                get_today=difference(table, "msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
                disk=number(table, "commitLogDiskRatio"),
                kept_seconds=(now - oldest) / 1000 if oldest is not None and oldest > 0 else None,
                runs=table.get("runtime"),
            )
        )
    return rows


@click.group(
    epilog=examples(
        "smartgo cluster ls",
        "smartgo cluster show broker-a",
        "smartgo cluster stats TOPIC_PUT_NUMS Orders",
        "smartgo cluster drain broker-a",
    )
)
def cluster() -> None:
    """See how brokers are doing; take one out of use for a while; tidy up."""


@cluster.command("ls", epilog=examples("smartgo cluster ls", "smartgo cluster ls -o jsonl"))
@OUTPUT
@cluster_options
def ls(cluster: ClusterOptions, output: str) -> None:
    """List the brokers: their rates, and how full their disks are. Ends with 75 where one does not answer."""

    async def work(session: ClusterSession) -> None:
        rows = await broker_rows(session)
        print_rows(
            output,
            rows,
            {
                "cluster": lambda row: row.cluster,
                "broker": lambda row: row.broker,
                "id": lambda row: str(row.id),
                "address": lambda row: row.address,
                "version": lambda row: row.version or f"no answer: {row.failure}",
                "in/s": lambda row: row.put_per_second,
                "out/s": lambda row: row.get_per_second,
                "in today": lambda row: row.put_today,
                "out today": lambda row: row.get_today,
                "disk": lambda row: None if row.disk is None else f"{row.disk:.0%}",
                "kept": lambda row: span(row.kept_seconds),
            },
            "No broker is registered.",
        )
        silent = [row.broker for row in rows if row.failure is not None]
        if silent:
            raise CommandError(f"no answer from {', '.join(silent)}", 75)

    cluster.do(work)


@cluster.command(
    "show", epilog=examples("smartgo cluster show broker-a", "smartgo cluster show 10.0.0.2:10911 -o yaml")
)
@click.argument("broker")
@OUTPUT
@cluster_options
def show(cluster: ClusterOptions, broker: str, output: str) -> None:
    """Show all that BROKER, a name or an address, tells of itself."""

    async def work(session: ClusterSession) -> None:
        table = await session.admin.brokers.runtime(broker)
        print_members(output, table, dict(sorted(table.items())))

    cluster.do(work)


@cluster.command(
    "stats",
    epilog=examples(
        "smartgo cluster stats TOPIC_PUT_NUMS Orders",
        "smartgo cluster stats GROUP_GET_NUMS Orders@audit -o json",
        "smartgo cluster stats QUEUE_PUT_SIZE Orders@3",
    )
    + f"\n\nCounters: {', '.join(COUNTERS)}.",
)
@click.argument("counter", metavar="COUNTER")
@click.argument("key")
@OUTPUT
@cluster_options
def stats(cluster: ClusterOptions, counter: str, key: str, output: str) -> None:
    """Show what brokers counted, over a minute, an hour and a day.

    KEY is a topic, TOPIC@GROUP, TOPIC@QUEUE, TOPIC@QUEUE@GROUP, QUEUE@TOPIC@GROUP for latencies, or a cluster.
    """

    async def work(session: ClusterSession) -> None:
        found = await session.admin.brokers.counters(counter, key)
        if not found:
            raise CommandError(f"no broker has counted {counter} of {key}", MISSING)
        if output != TEXT:
            print_value(output, {broker: plain(one) for broker, one in found.items()})
            return
        print_rows(
            output,
            [(broker, *line) for broker, one in found.items() for line in _spans(one)],
            {
                "broker": lambda row: row[0],
                "over": lambda row: row[1],
                "sum": lambda row: row[2].sum,
                "a second": lambda row: row[2].tps,
                "average": lambda row: row[2].avgpt,
            },
        )

    cluster.do(work)


def _spans(data: BrokerStatsData) -> list[tuple[str, StatsItem]]:
    return [("minute", data.stats_minute), ("hour", data.stats_hour), ("day", data.stats_day)]


@cluster.command("stop-writes", epilog=examples("smartgo cluster stop-writes broker-a --dry-run"))
@click.argument("broker")
@DRY_RUN
@YES
@cluster_options
def stop_writes(cluster: ClusterOptions, broker: str, dry_run: bool, yes: bool) -> None:
    """Have registries tell producers to leave BROKER out, so that it can be emptied and stopped.

    Producers follow within 30 s. What is there can still be read. It lasts until BROKER registers a changed topic, is
    started again, or "smartgo cluster start-writes".
    """

    async def work(session: ClusterSession) -> None:
        await session.admin.brokers.address(broker)
        if dry_run:
            click.echo(f"nothing would be written to {broker} any more")
            return
        confirm(f"Nothing will be written to {broker} any more.", yes)
        count = await session.admin.brokers.wipe_write(broker)
        click.echo(f"nothing is written to {count} topics of {broker} any more")

    cluster.do(work)


@cluster.command("start-writes", epilog=examples("smartgo cluster start-writes broker-a"))
@click.argument("broker")
@DRY_RUN
@cluster_options
def start_writes(cluster: ClusterOptions, broker: str, dry_run: bool) -> None:
    """Have registries tell producers to use all topics of BROKER again."""

    async def work(session: ClusterSession) -> None:
        await session.admin.brokers.address(broker)
        if dry_run:
            click.echo(f"all topics of {broker} would be written again")
            return
        count = await session.admin.brokers.restore_write(broker)
        click.echo(f"{count} topics of {broker} are written again")

    cluster.do(work)


_CLEANINGS: Final = {
    "queues": "what queues hold of messages that are gone",
    "topics": "the queues of topics that are gone",
    "log": "log files that are old enough",
}


@cluster.command(
    "clean", epilog=examples("smartgo cluster clean log broker-a", "smartgo cluster clean topics broker-a -y")
)
@click.argument("what", type=click.Choice(list(_CLEANINGS)))
@click.argument("broker")
@DRY_RUN
@YES
@cluster_options
def clean(cluster: ClusterOptions, what: str, broker: str, dry_run: bool, yes: bool) -> None:
    """Have BROKER remove what nobody needs now, not at its next round: in queues of messages that are gone, the queues
    of topics that are gone, or log files that are old enough."""

    async def work(session: ClusterSession) -> None:
        brokers = session.admin.brokers
        await brokers.address(broker)
        if dry_run:
            click.echo(f"{broker} would remove {_CLEANINGS[what]}")
            return
        confirm(f"{broker} will remove {_CLEANINGS[what]}.", yes)
        await {"queues": brokers.clean_queues, "topics": brokers.clean_topics, "log": brokers.clean_log}[what](broker)
        click.echo(f"{broker} removes {_CLEANINGS[what]}")

    cluster.do(work)


for _command in (drain, export, import_):
    cluster.add_command(_command)
