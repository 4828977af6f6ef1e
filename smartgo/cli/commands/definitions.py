"""C{smartgo cluster export} and C{import}: the settings of topics and groups, from one cluster to another."""

from __future__ import annotations

from typing import Any

import click

from smartgo.cli.support.output import OUTPUT, TEXT, plain, print_rows, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.client.administration.definitionfile import DefinitionSet, read_definitions
from smartgo.client.administration.definitions import Item, Step, counts_of
from smartgo.errors import BadBody, SettingError


@click.command(
    "export",
    epilog=examples(
        "smartgo cluster export > definitions.json",
        "smartgo cluster export -o yaml",
        "smartgo cluster export --kv FLAGS > definitions.json",
    ),
)
@click.option("-f", "--filter", "part", default="", metavar="TEXT", help="Only what has TEXT in its name.")
@click.option(
    "--kv",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Add the values of this namespace of the registries; may be repeated.",
)
@OUTPUT
@cluster_options
def export(cluster: ClusterOptions, part: str, namespaces: tuple[str, ...], output: str) -> None:
    """Print the settings of all topics and groups, for "smartgo cluster import": JSON, or YAML by -o yaml.

    Neither messages nor where groups stand. A broker that does not answer fails it.
    """

    async def work(session: ClusterSession) -> None:
        definitions = await session.admin.definitions.export(part, namespaces)
        print_value("json" if output == TEXT else output, plain(definitions))

    cluster.do(work)


@click.command(
    "import",
    epilog=examples(
        "smartgo cluster import definitions.json --dry-run",
        "smartgo cluster import definitions.json --broker broker-a --yes",
    ),
)
@click.argument("path", metavar="FILE")
@click.option("-b", "--broker", "brokers", multiple=True, metavar="NAME", help="To this broker; may be repeated.")
@click.option("--skip-refused", is_flag=True, help="Do the rest where some are refused; else nothing is done then.")
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def import_(
    cluster: ClusterOptions,
    path: str,
    brokers: tuple[str, ...],
    skip_refused: bool,
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Make the topics and groups of FILE, or give them its settings: at the brokers of the same names, or with --broker
    at others. What is not in FILE is left alone.

    A dry run says of each what would become of it: create, change, same or refused. FILE is refused whole where
    anything in it is wrong. Ends with 1 where some are refused or fail, with 66 where there is no FILE, with
    78 where it is wrong.
    """

    async def work(session: ClusterSession) -> None:
        steps = await session.admin.definitions.plan(_read(session, path), brokers or None)
        refused = [step.item for step in steps if step.item.outcome == "refused"]
        if not dry_run:
            if refused and not skip_refused:
                first = f"{refused[0].words}: {refused[0].reason}"
                raise CommandError(
                    f"nothing was done, as {len(refused)} of {len(steps)} are refused, such as {first};"
                    " --broker names other brokers, --skip-refused does the rest"
                )
            await _write(session, [step for step in steps if step.due], yes)
        _print(steps, output, path)
        if output == TEXT and dry_run:
            click.echo("Nothing was done: this was a dry run.")
        undone = {name: count for name, count in counts_of(steps).items() if name in ("refused", "failed")}
        if undone:
            raise CommandError(
                ", ".join(f"{count} {'were ' * (name == 'refused')}{name}" for name, count in undone.items())
            )

    cluster.do(work)


async def _write(session: ClusterSession, due: list[Step], yes: bool) -> None:
    if not due:
        return
    confirm(f"{len(due)} settings will be written.", yes)
    with ProgressLine(session.env.clock, "settings", len(due)) as progress:
        for step in due:
            await session.admin.definitions.write(step)
            progress.advance()


def _print(steps: list[Step], output: str, path: str) -> None:
    print_rows(
        output,
        [step.item for step in steps],
        {
            "what": lambda row: row.kind,
            "name": lambda row: row.name,
            "broker": lambda row: row.broker,
            "outcome": lambda row: row.outcome,
            "why": _why,
        },
        f"{path} holds nothing.",
    )


def _why(item: Item) -> str:
    changes = [f"{name} {_text(before)} -> {_text(after)}" for name, (before, after) in item.changes.items()]
    return "; ".join([*changes, *([item.reason] if item.reason else [])])


def _text(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _read(session: ClusterSession, path: str) -> DefinitionSet:
    """Read a file of definitions, JSON or YAML. @raise Refusal: it cannot be read. @raise SettingError: it is none."""
    import yaml

    try:
        return read_definitions(yaml.safe_load(session.env.files.read(path)))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", MISSING) from None
    except (yaml.YAMLError, ValueError, BadBody) as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"{path}: these are no definitions: {reason}") from None
