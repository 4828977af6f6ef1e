"""C{smartgo cluster}: show, drain and clean up brokers."""

from __future__ import annotations

from typing import Final

import click

from smartgo.cli.commands.backup import backup
from smartgo.cli.commands.definitions import export, import_
from smartgo.cli.commands.drain import drain
from smartgo.cli.commands.forget import forget
from smartgo.cli.commands.scrub import scrub
from smartgo.cli.commands.tidy import tidy
from smartgo.cli.support.brokerlist import broker_rows, missing_rows, state_of, version_of
from smartgo.cli.support.completions import broker_names
from smartgo.cli.support.membermemory import ask_memory
from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    counted,
    plain,
    print_members,
    print_rows,
    print_value,
    span,
)
from smartgo.cli.support.rest import RestOptions, api_options
from smartgo.cli.support.running import FAILED, MISSING, USAGE, CommandError, command_error
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.client.administration.brokers import subject_of
from smartgo.client.internal.route import MASTER
from smartgo.errors import CallFailed
from smartgo.schema.bodies import BrokerStatsData, StatsItem
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command

COUNTERS: Final = (
    "BROKER_PUT_NUMS", "BROKER_GET_NUMS", "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE",
    "SNDBCK_PUT_NUMS", "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE", "QUEUE_GET_NUMS", "QUEUE_GET_SIZE", "GROUP_GET_LATENCY",
    "GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME",
)  # fmt: skip


async def silent_registries(session: ClusterSession) -> list[str]:
    """Return the addresses of the registries that do not answer."""
    silent = []
    for address in session.client.registries:
        try:
            await session.client.ask(address, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        except CallFailed:
            silent.append(address)
    return silent


@click.group(
    epilog=examples(
        "smartgo cluster ls",
        "smartgo cluster show broker-a",
        "smartgo cluster stats TOPIC_PUT_NUMS Orders",
        "smartgo cluster drain broker-a",
    )
)
def cluster() -> None:
    """Show the state of brokers; drain one for maintenance; clean up; export and import definitions."""


@cluster.command("ls", epilog=examples("smartgo cluster ls", "smartgo cluster ls -o jsonl"))
@OUTPUT
@cluster_options
@api_options
def ls(rest: RestOptions, cluster: ClusterOptions, output: str) -> None:
    """List the brokers with their rates and disk use, those that are missing too: the REST API remembers them.

    The exit status is 75 if a broker is missing, does not answer or has no master, or a registry does not answer.
    """

    async def work(session: ClusterSession) -> None:
        rows = await broker_rows(session)
        places = [row.address for row in rows]
        rows += missing_rows(rows, await ask_memory(session.env, rest, session.client.registries, places))
        rows.sort(key=lambda row: (row.cluster, row.broker, row.id))
        print_rows(
            output,
            rows,
            {
                "cluster": lambda row: row.cluster,
                "broker": lambda row: row.broker,
                "id": lambda row: str(row.id),
                "address": lambda row: row.address,
                "version": version_of,
                "in/s": lambda row: row.put_per_second,
                "out/s": lambda row: row.get_per_second,
                "in today": lambda row: row.put_today,
                "out today": lambda row: row.get_today,
                "disk": lambda row: None if row.disk is None else f"{row.disk:.0%}",
                "oldest message": lambda row: span(row.kept_seconds),
                "state": state_of,
            },
            "No broker is registered.",
        )
        silent = [row.broker for row in rows if row.state == "down"]
        silent += [f"registry {address}" for address in await silent_registries(session)]
        gone = [row for row in rows if row.state == "missing"]
        words = [f"missing: {', '.join(subject_of(row.broker, row.id) for row in gone)}"] if gone else []
        masters = {row.broker for row in rows if row.id == MASTER}
        headless = sorted({row.broker for row in rows} - masters)
        words += [f"no master: {', '.join(headless)}"] if headless else []
        words += [f"no answer from {', '.join(silent)}"] if silent else []
        if words:
            raise CommandError("; ".join(words), 75)

    cluster.do(work)


@cluster.command(
    "show", epilog=examples("smartgo cluster show broker-a", "smartgo cluster show 10.0.0.2:10911 -o yaml")
)
@click.argument("broker", shell_complete=broker_names)
@OUTPUT
@cluster_options
def show(cluster: ClusterOptions, broker: str, output: str) -> None:
    """Show the runtime information of BROKER, a name or an address."""

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
    """Show a counter of each broker over the last minute, hour and day.

    KEY is a topic, TOPIC@GROUP, TOPIC@QUEUE, TOPIC@QUEUE@GROUP, QUEUE@TOPIC@GROUP for latencies, or a cluster.
    """

    async def work(session: ClusterSession) -> None:
        found = await session.admin.brokers.counters(counter, key)
        if not found:
            raise CommandError(f"no broker has a counter {counter} for {key}", MISSING)
        if output != TEXT:
            print_value(output, {broker: plain(one) for broker, one in found.items()})
            return
        print_rows(
            output,
            [(broker, *line) for broker, one in found.items() for line in _spans(one)],
            {
                "broker": lambda row: row[0],
                "period": lambda row: row[1],
                "sum": lambda row: row[2].sum,
                "per second": lambda row: row[2].tps,
                "average": lambda row: row[2].avgpt,
            },
        )

    cluster.do(work)


def _spans(data: BrokerStatsData) -> list[tuple[str, StatsItem]]:
    return [("minute", data.stats_minute), ("hour", data.stats_hour), ("day", data.stats_day)]


@cluster.command("stop-writes", epilog=examples("smartgo cluster stop-writes broker-a --dry-run"))
@click.argument("broker", shell_complete=broker_names)
@DRY_RUN
@YES
@cluster_options
def stop_writes(cluster: ClusterOptions, broker: str, dry_run: bool, yes: bool) -> None:
    """Stop writes to BROKER, so that it can be drained and stopped: registries remove its write permission from routes.

    Producers follow within 30 s. Messages can still be consumed. This lasts until BROKER registers a changed topic or
    restarts, or until "smartgo cluster start-writes".
    """

    async def work(session: ClusterSession) -> None:
        await session.admin.brokers.address(broker)
        if dry_run:
            click.echo(f"writes to {broker} would be stopped")
            return
        confirm(f"Writes to {broker} will be stopped.", yes)
        count = await session.admin.brokers.wipe_write(broker)
        click.echo(f"writes to {counted(count, 'topic')} of {broker} are stopped")

    cluster.do(work)


@cluster.command("start-writes", epilog=examples("smartgo cluster start-writes broker-a"))
@click.argument("broker", shell_complete=broker_names)
@DRY_RUN
@YES
@cluster_options
def start_writes(cluster: ClusterOptions, broker: str, dry_run: bool, yes: bool) -> None:
    """Allow writes to BROKER again: registries restore its write permission in routes. Never asks for confirmation."""

    async def work(session: ClusterSession) -> None:
        await session.admin.brokers.address(broker)
        if dry_run:
            click.echo(f"writes to all topics of {broker} would be allowed again")
            return
        count = await session.admin.brokers.restore_write(broker)
        click.echo(f"writes to {counted(count, 'topic')} of {broker} are allowed again")

    cluster.do(work)


_CLEANINGS: Final = {
    "queues": "consume queue entries of removed messages",
    "topics": "the consume queues of deleted topics",
    "log": "expired CommitLog files",
}


@cluster.command(
    "clean",
    epilog=examples("smartgo cluster clean topics broker-a --dry-run", "smartgo cluster clean topics broker-a -y"),
)
@click.argument("what", type=click.Choice(list(_CLEANINGS)))
@click.argument("brokers", nargs=-1, metavar="[BROKER]...", shell_complete=broker_names)
@DRY_RUN
@YES
@cluster_options
def clean(cluster: ClusterOptions, what: str, brokers: tuple[str, ...], dry_run: bool, yes: bool) -> None:
    """Have BROKERs, or all of them, clean up now, not at the next scheduled time: consume queue entries of removed
    messages (queues), the consume queues of deleted topics (topics), or expired CommitLog files (log).

    "smartgo cluster tidy" shows first which CommitLog files would go.
    """

    async def work(session: ClusterSession) -> None:
        admin = session.admin.brokers
        if any(not one.strip() for one in brokers):
            raise CommandError("a broker's name is empty; name no broker to clean up all of them", USAGE)
        if brokers:
            names = brokers
            for broker in names:
                await admin.address(broker)
        else:
            names = tuple(sorted((await admin.cluster()).broker_addr_table))
        if dry_run:
            for broker in names:
                click.echo(f"{broker} would remove {_CLEANINGS[what]}")
            return
        whose = ", ".join(names) if brokers else f"All brokers, {len(names)} ({', '.join(names)}),"
        confirm(f"{whose} will remove {_CLEANINGS[what]}.", yes)
        order = {"queues": admin.clean_queues, "topics": admin.clean_topics, "log": admin.clean_log}[what]
        failed = []
        statuses = set()
        for broker in names:
            try:
                await order(broker)
            except CallFailed as error:
                refused = command_error(error)
                failed.append(f"{broker}: {refused.message}")
                statuses.add(refused.exit_code)
            else:
                click.echo(f"{broker} was asked to remove {_CLEANINGS[what]}")
        if failed:
            words = f"{len(failed)} of {counted(len(names), 'broker')} not cleaned up: {'; '.join(failed)}"
            raise CommandError(words, statuses.pop() if len(statuses) == 1 else FAILED)

    cluster.do(work)


for _command in (backup, drain, export, forget, import_, scrub, tidy):
    cluster.add_command(_command)
