"""C{smartgo group}: list, show, create, change and delete consumer groups."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from smartgo.cli.commands.groupchanges import create, rm, set_
from smartgo.cli.commands.groupoffsets import clone, reset, undo
from smartgo.cli.support.completions import group_names, topic_names
from smartgo.cli.support.memberinfo import consumption, print_info, release
from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    Columns,
    counted,
    moment,
    plain,
    print_rows,
    print_table,
    print_value,
    span,
)
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import ClusterSession
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholeanswers import ReadingOptions, reading_options
from smartgo.client.administration.groups import BUILT_IN, lag_of
from smartgo.schema.lag import acknowledged_tps, lag_over

_MEMBERS_ASKED: Final = 50  # for the retries that they send


class GroupListRow(msgspec.Struct, frozen=True):
    """One group, over all brokers: a row of C{smartgo group ls}."""

    group: str
    members: int
    model: str | None
    topics: list[str]
    lag: int
    consumed_per_second: float


class QueueLag(msgspec.Struct, frozen=True):
    """
    The offsets and the lag of a group in one queue.

    @ivar behind_seconds: the age of the oldest message that waits; C{None} without lag, or if unknown.
    @ivar member: the client that consumes the queue.
    """

    topic: str
    broker: str
    queue: int
    end: int
    position: int
    lag: int
    behind_seconds: float | None
    last_ms: int
    member: str | None


@click.group(
    epilog=examples(
        "smartgo group ls",
        "smartgo group lag audit",
        "smartgo group reset audit Orders --to earliest --dry-run",
        "smartgo group members audit",
    )
)
def group() -> None:
    """Show lag and members of consumer groups; create, change, reset and delete groups."""


@group.command("ls", epilog=examples("smartgo group ls", "smartgo group ls --lagging -o json"))
@click.option("-a", "--all", "everything", is_flag=True, help="Include system groups.")
@click.option("-f", "--filter", "part", default="", metavar="TEXT", help="Only groups whose name contains TEXT.")
@click.option("--lagging", is_flag=True, help="Only groups with lag.")
@OUTPUT
@reading_options
def ls(cluster: ReadingOptions, everything: bool, part: str, lagging: bool, output: str) -> None:
    """List the groups with their members, topics and lag."""

    async def work(session: ClusterSession) -> None:
        groups = session.admin.groups
        names = [one for one in await groups.names() if part in one and (everything or one not in BUILT_IN)]
        rows = []
        with ProgressLine(session.env.clock, "groups", len(names)) as progress:
            for name in names:
                connection = await groups.connections(name)
                stats = await groups.progress(name)
                rows.append(
                    GroupListRow(
                        name,
                        len(connection.connection_set) if connection is not None else 0,
                        connection.message_model.value if connection is not None else None,
                        sorted({queue.topic for queue in stats.offset_table if not queue.topic.startswith("%")}),
                        lag_of(stats),
                        acknowledged_tps(stats),
                    )
                )
                progress.advance()
        print_rows(
            output,
            [row for row in rows if row.lag or not lagging],
            {
                "group": lambda row: row.group,
                "members": lambda row: row.members,
                "model": lambda row: row.model and row.model.lower(),
                "lag": lambda row: row.lag,
                "consumed/s": lambda row: row.consumed_per_second,
                "topics": lambda row: row.topics,
            },
            cluster.nothing("There are no groups. A consumer's first connection creates its group."),
        )

    cluster.do(work)


@group.command("lag", epilog=examples("smartgo group lag audit", "smartgo group lag audit --topic Orders -o jsonl"))
@click.argument("name", shell_complete=group_names)
@click.option("-t", "--topic", metavar="NAME", shell_complete=topic_names, help="Only in this topic.")
@OUTPUT
@reading_options
def lag(cluster: ReadingOptions, name: str, topic: str | None, output: str) -> None:
    """Show the lag of group NAME in each queue, and which member consumes the queue."""

    async def work(session: ClusterSession) -> None:
        groups = session.admin.groups
        stats = await groups.progress(name, topic)
        if not stats.offset_table and not await groups.config(name):
            raise CommandError(f"there is no group {name}", MISSING)
        owners = await groups.owners(name)
        now = session.env.clock.wall_ms()
        rows = [
            QueueLag(
                queue.topic,
                queue.broker_name,
                queue.queue_id,
                one.broker_offset,
                one.consumer_offset,
                (waiting := lag_over((one,))).messages,
                (waiting.waited_ms(now) or 0) / 1000 or None,
                one.last_timestamp,
                owners.get(queue),
            )
            for queue, one in sorted(stats.offset_table.items())
        ]
        print_rows(
            output,
            rows,
            {
                "topic": lambda row: row.topic,
                "broker": lambda row: row.broker,
                "queue": lambda row: row.queue,
                "end": lambda row: row.end,
                "offset": lambda row: row.position,
                "lag": lambda row: row.lag,
                "time lag": lambda row: span(row.behind_seconds),
                "committed up to": lambda row: moment(row.last_ms),
                "member": lambda row: row.member,
            },
            cluster.nothing(f"Group {name} has no offsets."),
        )
        if output == TEXT and rows:
            rate = f"{acknowledged_tps(stats):,.1f} per second are acknowledged"
            if not owners and await groups.connections(name) is None:
                rate = "no member is connected"
            click.echo(f"\nLag: {counted(lag_of(stats), 'message')}; {rate}.")

    cluster.do(work, group=name)


@group.command("members", epilog=examples("smartgo group members audit", "smartgo group members audit -o yaml"))
@click.argument("name", shell_complete=group_names)
@OUTPUT
@reading_options
def members(cluster: ReadingOptions, name: str, output: str) -> None:
    """
    Show the connected members of group NAME, the retries that each asks for if it tells, and their subscriptions.
    """

    async def work(session: ClusterSession) -> None:
        found = await session.admin.groups.connections(name)
        if found is None:
            if not await session.admin.groups.config(name):
                raise CommandError(f"there is no group {name}", MISSING)
            if output != TEXT:
                print_value(output, {"connectionSet": [], "subscriptionTable": {}})
            else:
                cluster.nothing(f"Group {name} has no connected members.")()
            return
        few = found.connection_set[:_MEMBERS_ASKED]
        retries = await session.admin.groups.member_retries(name, [one.client_id for one in few])
        if output != TEXT:
            value = plain(found)
            for member in value["connectionSet"]:
                member["retries"] = retries.get(member["clientId"])
            print_value(output, value)
            return
        print_table(
            found.connection_set,
            {
                "client": lambda row: row.client_id,
                "address": lambda row: row.client_addr,
                "language": lambda row: row.language,
                "version": lambda row: release(row.version),
                "retries": lambda row: retries.get(row.client_id),
            },
        )
        click.echo(f"\n{consumption(found)}")
        print_table(
            [found.subscription_table[one] for one in sorted(found.subscription_table)],
            {
                "topic": lambda row: row.topic,
                "filter": lambda row: row.sub_string,
                "filter type": lambda row: row.expression_type,
            },
        )

    cluster.do(work)


@group.command(
    "info", epilog=examples("smartgo group info audit 10.0.0.1@4711", "smartgo group info audit CLIENT --stacks")
)
@click.argument("name", shell_complete=group_names)
@click.argument("client_id", metavar="CLIENT")
@click.option("--stacks", is_flag=True, help="Include thread stacks, if the client reports them.")
@click.option("--raw", is_flag=True, help="Show the client's properties by their names.")
@OUTPUT
@reading_options
def info(cluster: ReadingOptions, name: str, client_id: str, stacks: bool, raw: bool, output: str) -> None:
    """Show the state of member CLIENT of group NAME, as it reports it: listener calls, queues, rates.

    "smartgo group members NAME" lists the members.
    """

    async def work(session: ClusterSession) -> None:
        found = await session.admin.groups.running_info(name, client_id, stacks)
        if output != TEXT:
            print_value(output, plain(found))
        else:
            print_info(found, raw)

    cluster.do(work, one=True)


@group.command("show", epilog=examples("smartgo group show audit", "smartgo group show audit -o json"))
@click.argument("name", shell_complete=group_names)
@OUTPUT
@reading_options
def show(cluster: ReadingOptions, name: str, output: str) -> None:
    """Show the settings of group NAME at each broker."""

    async def work(session: ClusterSession) -> None:
        found = await session.admin.groups.config(name)
        if not found:
            raise CommandError(f"there is no group {name}", MISSING)
        rows = [{"broker": broker, **plain(config)} for broker, config in found.items()]
        columns: Columns[dict[str, object]] = {
            "broker": lambda row: row["broker"],
            "consuming": lambda row: row["consumeEnable"],
            "broadcasting": lambda row: row["consumeBroadcastEnable"],
            "retries": lambda row: row["retryMaxTimes"],
            "retry queues": lambda row: row["retryQueueNums"],
            "reads from broker": lambda row: row["brokerId"],
            "when slow": lambda row: row["whichBrokerWhenConsumeSlowly"],
            "notifies members": lambda row: row["notifyConsumerIdsChangedEnable"],
        }
        print_rows(output, rows, columns)

    cluster.do(work)


for _command in (create, set_, rm, reset, undo, clone):
    group.add_command(_command)
