"""C{smartgo kv}: key-value settings in the registries."""

from __future__ import annotations

import click

from smartgo.cli.support.output import OUTPUT, TEXT, print_rows, print_value
from smartgo.cli.support.running import MISSING, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, ClusterOptions, ClusterSession, cluster_options, confirm
from smartgo.cli.support.texts import examples
from smartgo.client.administration.registries import ORDER_NAMESPACE


@click.group(
    epilog=examples(
        f"smartgo kv ls {ORDER_NAMESPACE}",
        f"smartgo kv put {ORDER_NAMESPACE} Orders 'broker-a:4;broker-b:4'",
    )
)
def kv() -> None:
    """Read and write the key-value settings of the registries.

    Namespace ORDER_TOPIC_CONFIG has the queue order of ordered topics: BROKER:QUEUES, separated by semicolons.
    Changes are made at every registry that --registry names.
    """


@kv.command("ls", epilog=examples(f"smartgo kv ls {ORDER_NAMESPACE} -o json"))
@click.argument("namespace")
@OUTPUT
@cluster_options
def ls(cluster: ClusterOptions, namespace: str, output: str) -> None:
    """List the keys and values of NAMESPACE."""

    async def work(session: ClusterSession) -> None:
        found = await session.admin.registries.values(namespace)
        rows = [{"key": key, "value": value} for key, value in sorted(found.items())]
        print_rows(
            output,
            rows,
            {"key": lambda row: row["key"], "value": lambda row: row["value"]},
            f"Namespace {namespace} is empty.",
        )

    cluster.do(work)


@kv.command("get", epilog=examples(f"smartgo kv get {ORDER_NAMESPACE} Orders"))
@click.argument("namespace")
@click.argument("key")
@OUTPUT
@cluster_options
def get(cluster: ClusterOptions, namespace: str, key: str, output: str) -> None:
    """Print the value of KEY in NAMESPACE."""

    async def work(session: ClusterSession) -> None:
        value = await session.admin.registries.value(namespace, key)
        if value is None:
            raise CommandError(f"there is no key {key} in namespace {namespace}", MISSING)
        if output == TEXT:
            click.echo(value)
        else:
            print_value(output, {"namespace": namespace, "key": key, "value": value})

    cluster.do(work)


@kv.command("put", epilog=examples(f"smartgo kv put {ORDER_NAMESPACE} Orders 'broker-a:4;broker-b:4' --dry-run"))
@click.argument("namespace")
@click.argument("key")
@click.argument("value")
@DRY_RUN
@cluster_options
def put(cluster: ClusterOptions, namespace: str, key: str, value: str, dry_run: bool) -> None:
    """Set KEY in NAMESPACE to VALUE at all registries."""

    async def work(session: ClusterSession) -> None:
        registries = session.admin.registries
        before = await registries.value(namespace, key)
        if not dry_run:
            await registries.put(namespace, key, value)
        was = "not set before" if before is None else f"was {before}"
        click.echo(f"{key} in {namespace} {'would be' if dry_run else 'is'} set to {value} ({was})")

    cluster.do(work)


@kv.command("rm", epilog=examples(f"smartgo kv rm {ORDER_NAMESPACE} Orders --yes"))
@click.argument("namespace")
@click.argument("key")
@DRY_RUN
@YES
@cluster_options
def rm(cluster: ClusterOptions, namespace: str, key: str, dry_run: bool, yes: bool) -> None:
    """Remove KEY of NAMESPACE from all registries."""

    async def work(session: ClusterSession) -> None:
        registries = session.admin.registries
        before = await registries.value(namespace, key)
        if before is None:
            raise CommandError(f"there is no key {key} in namespace {namespace}", MISSING)
        if not dry_run:
            confirm(f"Key {key} in {namespace} with value {before} will be removed.", yes)
            await registries.delete(namespace, key)
        click.echo(f"{key} in {namespace} {'would be' if dry_run else 'is'} removed (was {before})")

    cluster.do(work)
