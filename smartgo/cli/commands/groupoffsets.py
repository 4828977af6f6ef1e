"""C{smartgo group reset}, C{undo} and C{clone}: where groups stand."""

from __future__ import annotations

import os.path
from typing import Any, Final, Literal, cast

import click

from smartgo.cli.support.output import OUTPUT, TEXT, moment, plain, print_table, print_value
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples, moment_ms, read_queues
from smartgo.client.administration.positions import Move, ResetPlan, ResetTarget
from smartgo.errors import BadBody

_PLAN: Final = click.option(
    "--plan",
    "path",
    metavar="FILE",
    help='Where to keep the plan for "smartgo group undo".  [default: GROUP-TOPIC-TIME.plan.json]',
)


def read_target(context: click.Context, option: click.Parameter, text: str) -> ResetTarget:
    """
    Return the target that a text says: C{earliest}, C{latest}, an offset, C{+N}, C{-N}, or a time.

    @raise click.BadParameter: it says none of these.
    """
    if text in ("earliest", "latest"):
        return ResetTarget(cast("Literal['earliest', 'latest']", text))
    if text[:1] in "+-" and text[1:].isdecimal():
        return ResetTarget("shift", int(text))
    if text.isdecimal():
        return ResetTarget("offset", int(text))
    return ResetTarget("time", moment_ms(text, context, option, "earliest, latest, an offset, +N, -N"))


@click.command(
    "reset",
    epilog=examples(
        "smartgo group reset audit Orders --to earliest --dry-run",
        "smartgo group reset audit Orders --to 2030-12-31T08:00",
        "smartgo group reset audit Orders --to -100 --queue broker-a:3",
        "smartgo group undo audit-Orders-1893456000000.plan.json",
    ),
)
@click.argument("name")
@click.argument("topic")
@click.option(
    "--to",
    "target",
    required=True,
    callback=read_target,
    metavar="earliest|latest|TIME|OFFSET|+N|-N",
    help="Where to: the first message, the end, the first one stored at a time, an offset, or so many on or back.",
)
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    callback=read_queues,
    metavar="BROKER:ID",
    help="This queue alone; may be repeated.",
)
@_PLAN
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def reset(
    cluster: ClusterOptions,
    name: str,
    topic: str,
    target: ResetTarget,
    queues: list[tuple[str, int]],
    path: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Move group NAME in TOPIC. What it does is shown first, and kept in a file by which it can be undone.

    A group may have members: brokers tell them, and they go on from the new place within seconds.
    """

    async def work(session: ClusterSession) -> None:
        plan = await session.admin.positions.plan(name, topic, target, queues or None)
        await _carry_out(session, plan, path or _file_name(plan), dry_run, yes, output)

    cluster.do(work)


@click.command("undo", epilog=examples("smartgo group undo audit-Orders-1893456000000.plan.json"))
@click.argument("path", metavar="FILE")
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def undo(cluster: ClusterOptions, path: str, dry_run: bool, yes: bool, output: str) -> None:
    """Bring a group back to where it stood before the reset whose plan is in FILE."""

    async def work(session: ClusterSession) -> None:
        try:
            plan = ResetPlan.decode(session.env.files.read(path))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from None
        except BadBody as error:
            raise CommandError(f"{path}: {error}") from None
        offsets = {(one.broker, one.queue_id): one.before for one in plan.moves if one.before is not None}
        if not offsets:
            raise CommandError(f"{path}: the group had no position before; nothing can be brought back")
        back = await session.admin.positions.plan_to(plan.group, plan.topic, offsets)
        await _carry_out(session, back, None, dry_run, yes, output)

    cluster.do(work)


@click.command("clone", epilog=examples("smartgo group clone audit audit2 Orders --dry-run"))
@click.argument("source")
@click.argument("name")
@click.argument("topic")
@_PLAN
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def clone(
    cluster: ClusterOptions, source: str, name: str, topic: str, path: str | None, dry_run: bool, yes: bool, output: str
) -> None:
    """Let group NAME stand where group SOURCE stands in TOPIC."""

    async def work(session: ClusterSession) -> None:
        plan = await session.admin.positions.plan_copy(source, name, topic)
        await _carry_out(session, plan, path or _file_name(plan), dry_run, yes, output)

    cluster.do(work)


async def _carry_out(
    session: ClusterSession, plan: ResetPlan, path: str | None, dry_run: bool, yes: bool, output: str
) -> None:
    """Show a plan, ask, keep it at C{path} if there is one, and apply it."""
    found: dict[str, Any] = {**plain(plan), "dry_run": dry_run, "plan": None}
    if output == TEXT:
        _print_plan(plan)
    if not dry_run:
        confirm(f"Group {plan.group} will be moved in {plan.topic}.", yes)
        if path is not None:
            found["plan"] = path = os.path.abspath(path)
            _keep(session, path, plan)
        applied = await session.admin.positions.apply(plan)
        found.update(plain(applied))
    if output != TEXT:
        print_value(output, found)
    elif dry_run:
        click.echo("Nothing was done: this was a dry run.")
    else:
        words = []
        if applied.written:
            words.append(f"moved at {', '.join(applied.written)}")
        if applied.told:
            words.append(f"members were told by {', '.join(applied.told)}")
        click.echo(f"{'; '.join(words) or 'It stands there already'}.".capitalize())
        if path is not None:
            click.echo(f"Undo it with: smartgo group undo {path}")


def _file_name(plan: ResetPlan) -> str:
    return f"{plan.group}-{plan.topic}-{plan.made_ms}.plan.json".replace("%", "_").replace("|", "_")


def _keep(session: ClusterSession, path: str, plan: ResetPlan) -> None:
    try:
        session.env.files.create(path, plan.encode())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None


def _print_plan(plan: ResetPlan) -> None:
    def change(row: Move) -> str:
        if row.before == row.after:
            return "stays"
        return f"{row.change:+,}"

    print_table(
        plan.moves,
        {
            "broker": lambda row: row.broker,
            "queue": lambda row: row.queue_id,
            "first": lambda row: row.minimum,
            "end": lambda row: row.maximum,
            "stands": lambda row: row.before,
            "to": lambda row: row.after,
            "messages": change,
        },
    )
    again = sum(-one.change for one in plan.moves if one.change < 0)
    skipped = sum(one.change for one in plan.moves if one.change > 0)
    members = "nobody is connected" if not plan.members else f"{plan.members} members are connected"
    if plan.members == 1:
        members = "1 member is connected"
    click.echo(
        f"\nGroup {plan.group} in {plan.topic}, as of {moment(plan.made_ms)}: {again:,} messages come again, "
        f"{skipped:,} are left out; {members}."
    )
