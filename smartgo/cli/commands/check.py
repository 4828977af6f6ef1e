"""C{smartgo check}: a store directory, offline."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final

import click
from twisted.internet.defer import Deferred

from smartgo.broker.settings.storesettings import store_settings
from smartgo.cli.support.embedded import surroundings
from smartgo.cli.support.output import OUTPUT, TEXT, plain, print_members, print_table, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.storecheck import StoreCheck, StoreCheckResult
from smartgo.cli.support.texts import examples, read_pairs
from smartgo.config.loading import BROKER, load
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError
from smartgo.schema.index import Geometry

DAMAGED: Final = 65  # EX_DATAERR
_LANE: Final = "read"


@click.command(
    epilog=examples(
        "smartgo check ~/store",
        "smartgo check /var/lib/smartgo/store --config /etc/smartgo/broker.conf -o json",
        "smartgo check old --set maxHashSlotNum=100 --set maxIndexNum=400",
    )
)
@click.argument("directory", metavar="DIRECTORY")
@click.option("-c", "--config", "path", metavar="FILE", help="The broker's settings: sizes, delays, the log's place.")
@click.option("--set", "flags", multiple=True, callback=read_pairs, metavar="NAME=VALUE", help="One of them.")
@OUTPUT
def check(directory: str, path: str | None, flags: Mapping[str, str], output: str) -> None:
    """Check the store in DIRECTORY, ours or RocketMQ's: every record and its CRC, the queues and the index against the
    log. Nothing is changed; no broker should be running on it.

    Ends with 65 where something is damaged, with 0 where all is well or the next start of a broker sets it right.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        data = None
        if path is not None:
            try:
                data = env.files.read(path)
            except OSError as error:
                raise SettingError(f"{path}: {error.strerror or error}") from None
        given = {"storePathRootDir": root, **flags}
        store = load(surroundings(env), BROKER, path or "", data, given).store
        geometry = Geometry(store.max_hash_slot_num, store.max_index_num)
        with ProgressLine(env.clock, "log") as progress:
            looked = StoreCheck(
                env.files,
                root,
                store_settings(store),
                geometry,
                lambda what, done, total: progress.to(done, total, what),
            )
            working: Deferred[StoreCheckResult] = env.threads.run(_LANE, looked.run)
            try:
                summary = await working
            finally:
                looked.cancelled = True  # an interrupt came: the thread is waited for in the end
        _print(summary, output)
        if summary.damaged:
            raise CommandError(f"{root} is damaged", DAMAGED)

    do(work)


def _print(summary: StoreCheckResult, output: str) -> None:
    if output != TEXT:
        print_value(output, plain(summary))
        return
    print_members(
        TEXT,
        summary,
        {
            "store": summary.store,
            "closed cleanly": summary.clean,
            "log": f"{summary.log_files:,} files with {summary.records:,} records",
            "from": summary.begin,
            "to": summary.end,
            "queues": f"{summary.queues:,} with {summary.units:,} units",
            "index": f"{summary.index_files:,} files with {summary.index_entries:,} entries",
        },
    )
    click.echo()
    if not summary.findings:
        click.echo("All is well.")
        return
    print_table(
        summary.findings,
        {"weight": lambda row: row.weight, "where": lambda row: row.where, "what": lambda row: row.what},
    )
    if summary.more:
        click.echo(f"and {summary.more:,} more")
