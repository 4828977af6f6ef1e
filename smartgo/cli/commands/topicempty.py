"""C{smartgo topic empty}: let all groups of a topic skip its messages."""

from __future__ import annotations

import os.path

import click

from smartgo.cli.commands.groupoffsets import file_name, keep
from smartgo.cli.support.completions import topic_names
from smartgo.cli.support.output import OUTPUT, TEXT, counted, print_table, print_value
from smartgo.cli.support.running import FAILED, MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterSession, confirm
from smartgo.cli.support.texts import examples
from smartgo.cli.support.topicfields import queue_bounds
from smartgo.cli.support.wholechanges import ChangingOptions, changing_options
from smartgo.client.administration.resetplan import ResetPlan, ResetTarget
from smartgo.client.administration.topics import EMPTIED, kind_of
from smartgo.errors import CallFailed, PeerRefused
from smartgo.schema.codes import ResponseCode


@click.command("empty", epilog=examples("smartgo topic empty Orders --dry-run", "smartgo topic empty Orders --yes"))
@click.argument("name", shell_complete=topic_names)
@click.option(
    "--plans",
    "directory",
    default=".",
    show_default=True,
    metavar="DIRECTORY",
    help='Where to keep a file for each group, for "smartgo group undo".',
)
@DRY_RUN
@YES
@OUTPUT
@changing_options
def empty(cluster: ChangingOptions, name: str, directory: str, dry_run: bool, yes: bool, output: str) -> None:
    """Move the offsets of all groups of topic NAME behind its last message, so that they skip what it has now.

    The messages stay on the disk until retention removes their log files, as all topics share the log: searches find
    them, and a new group that begins with the first message gets them. Consumers that consume by broadcasting keep
    their offsets themselves and are not moved.
    """

    async def work(session: ClusterSession) -> None:
        topics, positions = session.admin.topics, session.admin.positions
        try:
            messages = sum(one.messages for one in queue_bounds(await topics.stats(name)))
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.TOPIC_NOT_EXIST:
                raise CommandError(f"there is no topic {name}", MISSING) from None
            raise
        kind = kind_of(name, await topics.system_names())
        if kind not in EMPTIED:
            raise CommandError(f"{name} is a {kind} topic; only normal and dead letter topics are emptied", FAILED)
        plans = [await positions.plan(group, name, ResetTarget("latest")) for group in await topics.groups(name)]
        if output == TEXT:
            _print(name, messages, plans)
        files: dict[str, str] = {}
        failed: dict[str, str] = {}
        behind = [one for one in plans if _skipped(one)]
        if behind and not dry_run:
            confirm(f"{counted(len(behind), 'group')} will skip all messages of {name}.", yes)
            for plan in behind:
                path = os.path.abspath(os.path.join(directory, file_name(plan)))
                try:
                    keep(session, path, plan)
                    files[plan.group] = path
                    await positions.apply(plan)
                except (CallFailed, CommandError) as error:
                    failed[plan.group] = str(error)
        rows = [
            {
                "group": one.group,
                "skipped": _skipped(one),
                "members": one.members,
                "plan": files.get(one.group),
                "error": failed.get(one.group),
            }
            for one in plans
        ]
        if output != TEXT:
            print_value(output, {"topic": name, "messages": messages, "dry_run": dry_run, "groups": rows})
        elif dry_run:
            click.echo("Dry run: nothing was changed.")
        for path in files.values() if output == TEXT else ():
            click.echo(f"To undo: smartgo group undo {path}")
        if failed:
            why = "; ".join(f"{group}: {error}" for group, error in failed.items())
            raise CommandError(f"{counted(len(failed), 'group')} not moved: {why}", FAILED)

    cluster.do(work)


def _skipped(plan: ResetPlan) -> int:
    """Return how many messages the group will not receive."""
    return sum(max(0, one.change) for one in plan.moves)


def _print(name: str, messages: int, plans: list[ResetPlan]) -> None:
    """Say what would be done."""
    if plans:
        columns = {"group": lambda one: one.group, "skips": _skipped, "members": lambda one: one.members}
        print_table(plans, columns)
    else:
        click.echo(f"No group reads {name}: there are no offsets to move.")
    stay = "stays" if messages == 1 else "stay"
    click.echo(f"\n{counted(messages, 'message')} of {name} {stay} on the disk until retention removes the log files.")
