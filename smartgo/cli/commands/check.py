"""C{smartgo check}: check a store directory offline."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final

import click
from twisted.internet.defer import Deferred

from smartgo.broker.settings.storesettings import store_settings
from smartgo.cli.support.embedded import surroundings
from smartgo.cli.support.output import OUTPUT, TEXT, counted, plain, print_members, print_table, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.storecheck import StoreCheck
from smartgo.cli.support.storecheckresult import StoreCheckResult
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
@click.option(
    "-c",
    "--config",
    "path",
    metavar="FILE",
    help="The broker's configuration file: file sizes, delay levels, the CommitLog directory.",
)
@click.option(
    "--set",
    "flags",
    multiple=True,
    callback=read_pairs,
    metavar="NAME=VALUE",
    help="Set one of these settings; may be repeated.",
)
@OUTPUT
def check(directory: str, path: str | None, flags: Mapping[str, str], output: str) -> None:
    """Check the store in DIRECTORY, smartgo's or RocketMQ's: every record and its CRC, and the consume queues and the
    index against the CommitLog. Nothing is changed; no broker should be running on it.

    The exit status is 65 if something is damaged, and 0 if the store is sound or the next start of a broker repairs it.
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
                looked.cancelled = True  # after an interrupt: the thread is waited for at the end
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
            "commitlog": f"{counted(summary.log_files, 'file')} with {counted(summary.records, 'record')}",
            "first offset": summary.begin,
            "end offset": summary.end,
            "queues": f"{summary.queues:,} with {counted(summary.units, 'unit')}",
            "index": f"{counted(summary.index_files, 'file')} with {summary.index_entries:,} entries",
        },
    )
    click.echo()
    if not summary.findings:
        click.echo("No problems found.")
        return
    print_table(
        summary.findings,
        {"severity": lambda row: row.weight, "where": lambda row: row.where, "problem": lambda row: row.what},
    )
    if summary.more:
        click.echo(f"and {summary.more:,} more")
