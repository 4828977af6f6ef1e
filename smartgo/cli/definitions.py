"""C{smartgo cluster export} and C{import}: the settings of topics and groups, from one cluster to another."""

from __future__ import annotations

from typing import Final

import click
import msgspec

from smartgo.cli.output import OUTPUT, TEXT, plain, print_rows, print_value
from smartgo.cli.progress import Progress
from smartgo.cli.running import Refusal
from smartgo.cli.session import DRY_RUN, YES, Cluster, Connected, cluster_options, confirm
from smartgo.cli.texts import examples
from smartgo.client.administration.groups import BUILT_IN
from smartgo.client.administration.registries import ORDER_NAMESPACE
from smartgo.client.administration.topics import TopicKind, kind_of
from smartgo.errors import BadBody
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig

VERSION: Final = 1


class Definitions(msgspec.Struct, kw_only=True):
    """
    What brokers keep of topics and groups.

    @ivar topics: settings by topic, then by broker name; C{groups} likewise.
    @ivar order: where the queues of topics consumed in order are, by topic.
    """

    version: int = VERSION
    topics: dict[str, dict[str, dict[str, object]]]
    groups: dict[str, dict[str, dict[str, object]]]
    order: dict[str, str] = {}


class Change(msgspec.Struct, frozen=True):
    """One thing that an import makes, or gives other settings; C{brokers} where."""

    kind: str
    name: str
    brokers: list[str]


@click.command("export", epilog=examples("smartgo cluster export > definitions.json", "smartgo cluster export -o yaml"))
@click.option(
    "-f", "--filter", "part", default="", metavar="TEXT", help="Only topics and groups whose name holds TEXT."
)
@OUTPUT
@cluster_options
def export(cluster: Cluster, part: str, output: str) -> None:
    """Print the settings of all topics and groups, for "smartgo cluster import": JSON, or YAML by -o yaml."""

    async def work(there: Connected) -> None:
        admin = there.admin
        system = await admin.topics.system_names()
        topics: dict[str, dict[str, dict[str, object]]] = {}
        for broker, configs in (await admin.topics.configs()).items():
            for name, topic in configs.items():
                if part in name and kind_of(name, system) is TopicKind.NORMAL:
                    topics.setdefault(name, {})[broker] = plain(topic)
        groups: dict[str, dict[str, dict[str, object]]] = {}
        for broker, found in (await admin.groups.configs()).items():
            for name, group in found.items():
                if part in name and name not in BUILT_IN:
                    groups.setdefault(name, {})[broker] = plain(group)
        order = {key: value for key, value in (await admin.registries.values(ORDER_NAMESPACE)).items() if part in key}
        definitions = Definitions(topics=dict(sorted(topics.items())), groups=dict(sorted(groups.items())), order=order)
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
@DRY_RUN
@YES
@OUTPUT
@cluster_options
def import_(cluster: Cluster, path: str, brokers: tuple[str, ...], dry_run: bool, yes: bool, output: str) -> None:
    """Make the topics and groups of FILE, or give them its settings: at the brokers of the same names, or with --broker
    at others. What is not in FILE is left alone."""

    async def work(there: Connected) -> None:
        definitions = _read(there, path)
        masters = {one.name for one in await there.admin.brokers.places() if one.id == 0}
        changes = [
            Change(kind, name, sorted(brokers or masters & at.keys()))
            for kind, table in (("topic", definitions.topics), ("group", definitions.groups))
            for name, at in table.items()
        ]
        homeless = [one.name for one in changes if not one.brokers]
        if homeless:
            raise Refusal(
                f"{len(homeless)} such as {homeless[0]} are of brokers that are not here; name some by --broker"
            )
        changes += [Change("order", name, []) for name in definitions.order]
        if not dry_run:
            confirm(f"{len(changes)} settings will be written.", yes)
            with Progress(there.env.clock, "settings", len(changes)) as progress:
                for one in changes:
                    await _make(there, definitions, one)
                    progress.advance()
        print_rows(
            output,
            changes,
            {"what": lambda row: row.kind, "name": lambda row: row.name, "brokers": lambda row: row.brokers},
            f"{path} holds nothing.",
        )
        if output == TEXT and dry_run:
            click.echo("Nothing was done: this was a dry run.")

    cluster.do(work)


def _read(there: Connected, path: str) -> Definitions:
    """Read a file of definitions, JSON or YAML. @raise Refusal: it is none."""
    import yaml

    try:
        data = there.env.files.read(path)
        return msgspec.convert(yaml.safe_load(data), Definitions)
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, msgspec.ValidationError) as error:
        raise Refusal(f"{path}: these are no definitions: {error}") from None


async def _make(there: Connected, definitions: Definitions, change: Change) -> None:
    """Write one setting, at each broker as the file has it of that broker, else as of the first. @raise BadBody"""
    if change.kind == "order":
        await there.admin.registries.put(ORDER_NAMESPACE, change.name, definitions.order[change.name])
        return
    at = (definitions.topics if change.kind == "topic" else definitions.groups)[change.name]
    for broker in change.brokers:
        settings = at.get(broker) or next(iter(at.values()))
        try:
            if change.kind == "topic":
                await there.admin.topics.update(TopicConfig.convert(settings), [broker])
            else:
                await there.admin.groups.update(SubscriptionGroupConfig.convert(settings), [broker])
        except BadBody as error:
            raise Refusal(f"{change.kind} {change.name}: {error}") from None
