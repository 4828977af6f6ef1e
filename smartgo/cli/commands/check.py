"""C{smartgo check}: check a store directory offline."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final

import click

from smartgo.cli.support.output import OUTPUT
from smartgo.cli.support.running import CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.storefiles import CONFIG, SET, checked, directory_settings, print_check
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment

DAMAGED: Final = 65  # EX_DATAERR


@click.command(
    epilog=examples(
        "smartgo check ~/store",
        "smartgo check /var/lib/smartgo/store --config /etc/smartgo/broker.conf -o json",
        "smartgo check old --set maxHashSlotNum=100 --set maxIndexNum=400",
    )
)
@click.argument("directory", metavar="DIRECTORY")
@CONFIG
@SET
@OUTPUT
def check(directory: str, path: str | None, flags: Mapping[str, str], output: str) -> None:
    """Check the store in DIRECTORY, smartgo's or RocketMQ's: every record and its CRC, and the consume queues and the
    index against the CommitLog. Nothing is changed; no broker should be running on it.

    The exit status is 65 if something is damaged, and 0 if the store is sound or the next start of a broker repairs it.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        summary = (await checked(env, root, directory_settings(env, root, path, flags))).summary
        print_check(summary, output)
        if summary.damaged:
            raise CommandError(f"{root} is damaged", DAMAGED)

    do(work)
