"""C{smartgo dev}: registry and broker in the foreground."""

from __future__ import annotations

import os.path
from typing import Final

import click
from twisted.internet.defer import Deferred

from smartgo.cli.embedded import Embedded, configuration_of
from smartgo.cli.running import STORE_FAILED, Refusal
from smartgo.cli.session import do
from smartgo.cli.texts import examples
from smartgo.config.loading import Configuration
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.node.options import listen_flags, ops_setting
from smartgo.node.stalls import StallWatch

_LOG_FILE: Final = "64MiB"


@click.command(
    epilog=examples(
        "smartgo dev",
        "smartgo dev --data /tmp/try --listen 21911 --registry-listen 29876",
        "smartgo dev --set flushDiskType=SYNC_FLUSH",
    ),
)
@click.option(
    "-d",
    "--data",
    default="./smartgo-data",
    show_default=True,
    metavar="DIR",
    help="Where messages and settings are kept; created if it is not there.",
)
@click.option("-l", "--listen", metavar="[ADDRESS:]PORT", help="Where the broker serves.  [default: 127.0.0.1:10911]")
@click.option(
    "--registry-listen", metavar="[ADDRESS:]PORT", help="Where the registry serves.  [default: 127.0.0.1:9876]"
)
@click.option(
    "--ops",
    metavar="[ADDRESS:]PORT|off",
    help="Where the REST API and the console are served.  [default: 127.0.0.1, the broker's port + 2]",
)
@click.option("-c", "--config", metavar="FILE", help="Settings: our TOML, or RocketMQ's broker.conf.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="One setting; may be repeated.")
def dev(
    data: str,
    listen: str | None,
    registry_listen: str | None,
    ops: str | None,
    config: str | None,
    settings: tuple[str, ...],
) -> None:
    """Run a registry and a broker in this terminal until ctrl-C.

    Messages are kept in DIR and are there again at the next start.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(data)
        configuration = configured(env, root, listen, registry_listen, config, settings, ops)
        failed: Deferred[str] = Deferred()
        node = Embedded(env, configuration, failed.callback, serve_ops=True, stalls=StallWatch(env.clock))
        try:
            await node.start()
            click.echo(f"registry    {node.registry}")
            click.echo(f"broker      {node.broker}")
            click.echo(f"store       {configuration.store.store_path_root_dir}")
            click.echo(f"durability  {node.durability}")
            if node.ops is not None:
                click.echo(f"console     {node.ops.login_url()}")
                click.echo("            (this link logs in as admin, once, within an hour)")
            click.echo("Ready. Stop with ctrl-C.")
            raise Refusal(f"the store failed: {await failed}", STORE_FAILED)
        finally:
            await node.stop()

    do(work, endless=True)


def configured(
    env: IEnvironment,
    root: str,
    listen: str | None = None,
    registry_listen: str | None = None,
    config: str | None = None,
    settings: tuple[str, ...] = (),
    ops: str | None = None,
) -> Configuration:
    """
    Return the configuration that the options stand for.

    @param root: the directory of all data, absolute.
    @raise SettingError: an option, the file or a setting is wrong.
    """
    flags: dict[str, str] = {}
    content = None
    if config:
        try:
            content = env.files.read(config)
        except OSError as error:
            raise SettingError(f"--config {config}: {error.strerror or error}") from None
    for text in settings:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise click.UsageError(f"--set {text}: write NAME=VALUE")
        flags[name] = value
    if listen:
        flags.update(listen_flags(listen, "broker"))
    if registry_listen:
        flags.update(listen_flags(registry_listen, "registry"))
    if ops:
        flags["ops.opsListen"] = ops_setting(ops)
    store = os.path.join(root, "store")
    flags.setdefault("storePathRootDir", store)
    flags.setdefault("kvConfigPath", os.path.join(root, "registry", "kvConfig.json"))
    # A store that is there has its own file size; a file's setting counts too.
    if content is None and not env.files.list(os.path.join(store, "commitlog")):
        flags.setdefault("mappedFileSizeCommitLog", _LOG_FILE)
    return configuration_of(env, flags, config or "", content)
