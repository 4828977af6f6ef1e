"""C{smartgo group reset}, C{undo} and C{clone}: change the offsets of groups."""

from __future__ import annotations

import os.path
from typing import Any, Final, Literal, cast

import click

from smartgo.cli.support.completions import group_names, topic_names
from smartgo.cli.support.output import OUTPUT, TEXT, counted, moment, plain, print_table, print_value
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples, moment_ms, read_queues
from smartgo.cli.support.wholechanges import ChangingOptions, changing_options
from smartgo.client.administration.resetplan import Move, ResetPlan, ResetTarget
from smartgo.errors import BadBody

_PLAN: Final = click.option(
    "--plan",
    "path",
    metavar="FILE",
    help='File in which to keep the plan for "smartgo group undo".  [default: GROUP-TOPIC-TIME.plan.json]',
)


def read_target(context: click.Context, option: click.Parameter, text: str) -> ResetTarget:
    """
    Parse a reset target: C{earliest}, C{latest}, an offset, C{+N}, C{-N}, or a time.

    @raise click.BadParameter: the text is none of these.
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
@click.argument("name", shell_complete=group_names)
@click.argument("topic", shell_complete=topic_names)
@click.option(
    "--to",
    "target",
    required=True,
    callback=read_target,
    metavar="earliest|latest|TIME|OFFSET|+N|-N",
    help="New offset: the earliest or latest, the first message stored at or after TIME, a given offset, or N messages"
    " forward (+) or back (-).",
)
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    callback=read_queues,
    metavar="BROKER:ID",
    help="Only this queue; may be repeated.",
)
@click.option(
    "--create", is_flag=True, help="Accept a group that does not exist yet, and create it with these offsets."
)
@_PLAN
@DRY_RUN
@YES
@OUTPUT
@changing_options
def reset(
    cluster: ChangingOptions,
    name: str,
    topic: str,
    target: ResetTarget,
    queues: list[tuple[str, int]],
    create: bool,
    path: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Reset the offsets of group NAME in TOPIC. Shows the changes first, and keeps them in a file so that they can be
    undone.

    The group may have connected members: brokers notify them, and they continue at the new offsets within seconds. A
    group that does not exist is refused, as it may be misspelt; --create sets the offsets that it will start at.
    """

    async def work(session: ClusterSession) -> None:
        plan = await session.admin.positions.plan(name, topic, target, queues or None)
        if plan.new_group and not create:
            raise CommandError(
                f"group {name} does not exist; check the name, or use --create to set the offsets of a new group",
                MISSING,
            )
        await _carry_out(session, plan, path or file_name(plan), dry_run, yes, output)

    cluster.do(work, only={broker for broker, _ in queues})


@click.command("undo", epilog=examples("smartgo group undo audit-Orders-1893456000000.plan.json"))
@click.argument("path", metavar="FILE")
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def undo(cluster: ClusterOptions, path: str, dry_run: bool, yes: bool, output: str) -> None:
    """Restore the offsets that a group had before the reset whose plan is in FILE."""

    async def work(session: ClusterSession) -> None:
        try:
            plan = ResetPlan.decode(session.env.files.read(path))
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from None
        except BadBody as error:
            raise CommandError(f"{path}: {error}") from None
        offsets = {(one.broker, one.queue_id): one.before for one in plan.moves if one.before is not None}
        if not offsets:
            raise CommandError(f"{path}: the group had no offsets before the reset; there is nothing to restore")
        back = await session.admin.positions.plan_to(plan.group, plan.topic, offsets)
        await _carry_out(session, back, None, dry_run, yes, output)

    cluster.do(work)


@click.command("clone", epilog=examples("smartgo group clone audit audit2 Orders --dry-run"))
@click.argument("source", shell_complete=group_names)
@click.argument("name", shell_complete=group_names)
@click.argument("topic", shell_complete=topic_names)
@_PLAN
@DRY_RUN
@YES
@OUTPUT
@changing_options
def clone(
    cluster: ChangingOptions,
    source: str,
    name: str,
    topic: str,
    path: str | None,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Set the offsets of group NAME in TOPIC to those of group SOURCE; group NAME is created if it does not exist."""

    async def work(session: ClusterSession) -> None:
        plan = await session.admin.positions.plan_copy(source, name, topic)
        await _carry_out(session, plan, path or file_name(plan), dry_run, yes, output)

    cluster.do(work)


async def _carry_out(
    session: ClusterSession, plan: ResetPlan, path: str | None, dry_run: bool, yes: bool, output: str
) -> None:
    """Show a plan, ask for confirmation, keep the plan at C{path} if given, and apply it."""
    found: dict[str, Any] = {**plain(plan), "dry_run": dry_run, "plan": None}
    if output == TEXT:
        _print_plan(plan)
    if not dry_run:
        confirm(f"The offsets of group {plan.group} in {plan.topic} will be changed.", yes)
        if path is not None:
            found["plan"] = path = os.path.abspath(path)
            keep(session, path, plan)
        applied = await session.admin.positions.apply(plan)
        found.update(plain(applied))
    if output != TEXT:
        print_value(output, found)
    elif dry_run:
        click.echo("Dry run: nothing was changed.")
    else:
        words = []
        if applied.written:
            words.append(f"Offsets changed at {', '.join(applied.written)}")
        if applied.told:
            words.append(f"{'connected' if words else 'Connected'} members notified by {', '.join(applied.told)}")
        click.echo(f"{'; '.join(words) or 'The group has these offsets already'}.")
        if path is not None:
            click.echo(f"To undo: smartgo group undo {path}")


def file_name(plan: ResetPlan) -> str:
    """Return the name of the file that a plan is kept in."""
    return f"{plan.group}-{plan.topic}-{plan.made_ms}.plan.json".replace("%", "_").replace("|", "_")


def keep(session: ClusterSession, path: str, plan: ResetPlan) -> None:
    """Write a plan to a new file, for an undo. @raise CommandError: it cannot be written."""
    try:
        session.env.files.create(path, plan.encode())
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from None


def _print_plan(plan: ResetPlan) -> None:
    def change(row: Move) -> str:
        if row.before == row.after:
            return "unchanged"
        return f"{row.change:+,}"

    print_table(
        plan.moves,
        {
            "broker": lambda row: row.broker,
            "queue": lambda row: row.queue_id,
            "first": lambda row: row.minimum,
            "end": lambda row: row.maximum,
            "offset": lambda row: row.before,
            "new offset": lambda row: row.after,
            "change": change,
        },
    )
    if plan.new_group:
        click.echo(f"\nGroup {plan.group} does not exist yet; it will be created.")
    again = sum(-one.change for one in plan.moves if one.change < 0)
    skipped = sum(one.change for one in plan.moves if one.change > 0)
    members = f"{counted(plan.members, 'member')} connected" if plan.members else "no member is connected"
    click.echo(
        f"\nGroup {plan.group} in {plan.topic} at {moment(plan.made_ms)}: redelivers {counted(again, 'message')}, "
        f"skips {counted(skipped, 'message')}; {members}."
    )
