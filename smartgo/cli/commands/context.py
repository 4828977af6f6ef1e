"""C{smartgo context}: named connection settings."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from smartgo.cli.support.completions import context_names
from smartgo.cli.support.contextfile import (
    ClusterContext,
    ContextFile,
    check_context_name,
    contexts_path,
    load_contexts,
    save_contexts,
)
from smartgo.cli.support.output import OUTPUT, print_members, print_rows
from smartgo.cli.support.session import do
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.registryaddresses import registry_addresses


class ContextRow(msgspec.Struct, frozen=True):
    """One context: a row of C{smartgo context ls}."""

    name: str
    current: bool
    registry: str
    tls: bool


@click.group(
    epilog=examples(
        "smartgo context set prod --registry '10.0.0.1:9876;10.0.0.2:9876' --use",
        "smartgo context ls",
        "smartgo topic ls --context staging",
    )
)
def context() -> None:
    """Keep named connection settings, so that commands need no --registry.

    A command uses the first of these: --registry; the context of --context or SMARTGO_CONTEXT; the registry in
    NAMESRV_ADDR; the context chosen with "smartgo context use"; 127.0.0.1:9876.
    """


@context.command("ls", epilog=examples("smartgo context ls", "smartgo context ls -o yaml"))
@OUTPUT
def ls(output: str) -> None:
    """List the contexts; * marks the one in use."""

    async def work(env: IEnvironment) -> None:
        contexts = load_contexts(env)
        rows = [
            ContextRow(name, name == contexts.current, one.registry, one.tls)
            for name, one in sorted(contexts.contexts.items())
        ]
        print_rows(
            output,
            rows,
            {
                "": lambda row: "*" if row.current else " ",
                "name": lambda row: row.name,
                "registry": lambda row: row.registry,
                "tls": lambda row: row.tls,
            },
            "There are no contexts. To create one: smartgo context set NAME --registry HOST:PORT",
        )

    do(work)


@context.command("show", epilog=examples("smartgo context show", "smartgo context show prod -o json"))
@click.argument("name", shell_complete=context_names, required=False)
@OUTPUT
def show(name: str | None, output: str) -> None:
    """Show context NAME, or the one in use."""

    async def work(env: IEnvironment) -> None:
        contexts = load_contexts(env)
        chosen = name or contexts.current
        found = contexts.get(chosen) if chosen else ClusterContext()
        members = {"name": chosen, "file": contexts_path(env), **msgspec.structs.asdict(found)}
        print_members(output, members, members)

    do(work)


@context.command("use", epilog=examples("smartgo context use prod", "smartgo context use --none"))
@click.argument("name", shell_complete=context_names, required=False)
@click.option("--none", "nothing", is_flag=True, help="Stop using a context.")
def use(name: str | None, nothing: bool) -> None:
    """Use context NAME for later commands."""
    if (name is None) != nothing:
        raise click.UsageError("give a NAME, or --none")

    async def work(env: IEnvironment) -> None:
        contexts = load_contexts(env)
        if name is not None:
            contexts.get(name)
        contexts.current = name
        save_contexts(env, contexts)
        click.echo(f"using context {name}" if name else "using no context")

    do(work)


@context.command(
    "set",
    epilog=examples(
        "smartgo context set local --registry 127.0.0.1:9876 --use",
        "smartgo context set prod --registry prod-1:9876 --ca /etc/smartgo/ca.pem",
        "smartgo context set prod --no-tls",
    ),
)
@click.argument("name", shell_complete=context_names)
@click.option("-r", "--registry", metavar="HOST:PORT", help="Registry address; separate several with semicolons.")
@click.option("--tls/--no-tls", default=None, help="Use TLS, or do not.")
@click.option("--ca", metavar="FILE", help="CA certificate (PEM) to trust.")
@click.option("--cert", metavar="FILE", help="Client certificate (PEM).")
@click.option("--cert-key", "key", metavar="FILE", help="Private key of the client certificate (PEM).")
@click.option("--server-name", metavar="NAME", help="Host name expected in the server's certificate.")
@click.option("--access-key-file", metavar="FILE", help="File with accessKey and secretKey to sign requests with.")
@click.option("--use", "use_it", is_flag=True, help="Use this context for later commands.")
def set_(name: str, use_it: bool, **members: str | bool | None) -> None:
    """Create context NAME, or change the given settings of it; an empty value removes a setting."""

    async def work(env: IEnvironment) -> None:
        check_context_name(name)
        contexts = load_contexts(env)
        given: dict[str, Any] = {member: value for member, value in members.items() if value is not None}
        given = {member: None if value == "" else value for member, value in given.items()}
        if "registry" in given:
            given["registry"] = ";".join(registry_addresses(str(given["registry"] or "")))
        before = contexts.contexts.get(name, ClusterContext())
        contexts.contexts[name] = msgspec.structs.replace(before, **given)
        if use_it:
            contexts.current = name
        save_contexts(env, contexts)
        click.echo(f"context {name} saved in {contexts_path(env)}{' and in use' if use_it else ''}")

    do(work)


@context.command("rm", epilog=examples("smartgo context rm old"))
@click.argument("name", shell_complete=context_names)
def rm(name: str) -> None:
    """Remove context NAME."""

    async def work(env: IEnvironment) -> None:
        contexts: ContextFile = load_contexts(env)
        contexts.get(name)
        del contexts.contexts[name]
        if contexts.current == name:
            contexts.current = None
        save_contexts(env, contexts)
        click.echo(f"context {name} removed")

    do(work)
