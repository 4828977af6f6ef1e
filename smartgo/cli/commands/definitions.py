"""C{smartgo cluster export} and C{import}: copy the definitions of topics and groups to another cluster."""

from __future__ import annotations

from typing import Any

import click

from smartgo.cli.support.output import OUTPUT, TEXT, counted, plain, print_rows, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholechanges import ChangingOptions, changing_options
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
@click.option(
    "-f", "--filter", "part", default="", metavar="TEXT", help="Only topics and groups whose name contains TEXT."
)
@click.option(
    "--kv",
    "namespaces",
    multiple=True,
    metavar="NAMESPACE",
    help="Include the key-value settings of this registry namespace; may be repeated.",
)
@OUTPUT
@changing_options
def export(cluster: ChangingOptions, part: str, namespaces: tuple[str, ...], output: str) -> None:
    """Print the definitions of all topics and groups for "smartgo cluster import", as JSON, or as YAML with -o yaml.

    Messages and group offsets are not exported. Fails if a broker does not answer.
    """

    async def work(session: ClusterSession) -> None:
        definitions = await session.admin.definitions.export(part, namespaces)
        print_value("json" if output == TEXT else output, plain(definitions))

    cluster.do_if_whole(work, "the definitions")


@click.command(
    "import",
    epilog=examples(
        "smartgo cluster import definitions.json --dry-run",
        "smartgo cluster import definitions.json --broker broker-a --yes",
    ),
)
@click.argument("path", metavar="FILE")
@click.option(
    "-b", "--broker", "brokers", multiple=True, metavar="NAME", help="Import to this broker; may be repeated."
)
@click.option(
    "--skip-refused",
    is_flag=True,
    help="Skip refused items; without this option nothing is imported if an item is refused.",
)
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
    """Create or update the topics and groups of FILE at the brokers of the same names, or at those of --broker.
    Everything else stays as it is.

    With --dry-run, shows the outcome for each item: create, change, same or refused. If anything in FILE is invalid,
    nothing is imported. The exit status is 1 if items are refused or fail, 66 if there is no FILE, and 78 if FILE is
    invalid.
    """

    async def work(session: ClusterSession) -> None:
        steps = await session.admin.definitions.plan(_read(session, path), brokers or None)
        refused = [step.item for step in steps if step.item.outcome == "refused"]
        if not dry_run:
            if refused and not skip_refused:
                first = f"{refused[0].words}: {refused[0].reason}"
                raise CommandError(
                    f"nothing was imported: {len(refused)} of {counted(len(steps), 'item')} refused, such as"
                    f" {first}; use --broker to choose other brokers, or --skip-refused to import the rest"
                )
            await _write(session, [step for step in steps if step.due], yes)
        _print(steps, output, path)
        if output == TEXT and dry_run:
            click.echo("Dry run: nothing was changed.")
        undone = {name: count for name, count in counts_of(steps).items() if name in ("refused", "failed")}
        if undone:
            raise CommandError(", ".join(f"{counted(count, 'item')} {name}" for name, count in undone.items()))

    cluster.do(work)


async def _write(session: ClusterSession, due: list[Step], yes: bool) -> None:
    if not due:
        return
    confirm(f"{counted(len(due), 'definition')} will be created or changed.", yes)
    with ProgressLine(session.env.clock, "settings", len(due)) as progress:
        for step in due:
            await session.admin.definitions.write(step)
            progress.advance()


def _print(steps: list[Step], output: str, path: str) -> None:
    print_rows(
        output,
        [step.item for step in steps],
        {
            "kind": lambda row: row.kind,
            "name": lambda row: row.name,
            "broker": lambda row: row.broker,
            "outcome": lambda row: row.outcome,
            "details": _details,
        },
        f"{path} has no definitions.",
    )


def _details(item: Item) -> str:
    changes = [f"{name} {_text(before)} -> {_text(after)}" for name, (before, after) in item.changes.items()]
    return "; ".join([*changes, *([item.reason] if item.reason else [])])


def _text(value: Any) -> str:
    return "unset" if value is None else str(value)


def _read(session: ClusterSession, path: str) -> DefinitionSet:
    """Read a definitions file. @raise CommandError: it cannot be read. @raise SettingError: it is invalid."""
    import yaml

    try:
        return read_definitions(yaml.safe_load(session.env.files.read(path)))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}", MISSING) from None
    except (yaml.YAMLError, ValueError, BadBody) as error:
        reason = " ".join(str(error).split())
        raise SettingError(f"{path}: not a definitions file: {reason}") from None
