"""C{smartgo store}: list, check and repair a store directory without a broker."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final

import click

from smartgo.cli.commands.storeexport import diff, export
from smartgo.cli.commands.storereading import dump, hexdump
from smartgo.cli.commands.storerepair import repair
from smartgo.cli.commands.tidy import print_tidy, tidy_row
from smartgo.cli.support.output import OUTPUT, TEXT, moment, plain, print_members, print_table, print_value
from smartgo.cli.support.running import FAILED, CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.storefiles import CONFIG, SET, Reading, checked, directory_settings, print_check, say_in_use
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.bodies import ExpiringFile, RetentionReport
from smartgo.schema.sizes import size_text
from smartgo.store.offline.listing import StoreListing, list_store
from smartgo.store.offline.retentionplan import plan_retention
from smartgo.store.retention import RetentionPlan

_SHOWN: Final = 20  # rows of a table for people

JSON: Final = click.option("--json", "as_json", is_flag=True, help="The same as -o json.")


@click.group(
    epilog=examples(
        "smartgo store ls ~/store",
        "smartgo store verify ~/store",
        "smartgo store dump ~/store --topic Orders --key 4711",
        "smartgo store repair ~/store --dry-run",
    )
)
def store() -> None:
    """List, check, repair, compare and export a store directory, smartgo's or RocketMQ's, without a broker.

    Commands that only read may run beside a broker; they then see what it has written so far.
    """


@store.command("ls", epilog=examples("smartgo store ls ~/store", "smartgo store ls ~/store -o json"))
@click.argument("directory", metavar="DIRECTORY")
@click.option("-a", "--all", "everything", is_flag=True, help="Show all files and queues.")
@CONFIG
@SET
@OUTPUT
def ls(directory: str, everything: bool, path: str | None, flags: Mapping[str, str], output: str) -> None:
    """List the files of the store in DIRECTORY with their offsets and times, its queues, and what looks wrong."""

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        reading = Reading(env, root, directory_settings(env, root, path, flags))
        store = await reading.open()
        listing = await reading.run(lambda: list_store(store))
        if output != TEXT:
            print_value(output, plain(listing))
        else:
            _print_listing(listing, everything)

    do(work)


def _print_listing(listing: StoreListing, everything: bool) -> None:
    shown = None if everything else _SHOWN
    print_members(
        TEXT,
        listing,
        {
            "store": listing.store,
            "in use": f"by process {listing.holder or '?'}" if listing.holder is not None else False,
            "closed cleanly": listing.clean,
            "flushed up to": listing.flushed,
            "RocketMQ's checkpoint": moment(listing.log_ms),
            "tables": listing.tables,
        },
    )
    click.echo()
    print_table(
        listing.files[:shown],
        {
            "file": lambda row: f"{row.kind}/{row.name}",
            "size": lambda row: size_text(row.size),
            "first offset": lambda row: row.begin,
            "end offset": lambda row: row.end,
            "keys": lambda row: row.keys,
            "first message": lambda row: moment(row.first_ms),
            "last message": lambda row: moment(row.last_ms),
        },
    )
    _say_more(len(listing.files), shown, "file")
    click.echo()
    print_table(
        listing.queues[:shown],
        {
            "topic": lambda row: row.topic,
            "queue": lambda row: row.queue_id,
            "files": lambda row: row.files,
            "min": lambda row: row.minimum,
            "max": lambda row: row.end,
        },
    )
    _say_more(len(listing.queues), shown, "queue")
    click.echo()
    if not listing.problems:
        click.echo("Nothing looks wrong; smartgo store verify reads every record.")
    for problem in listing.problems:
        click.echo(f"problem: {problem}")


def _say_more(count: int, shown: int | None, noun: str) -> None:
    if shown is not None and count > shown:
        click.echo(f"and {count - shown:,} more {noun}s; --all shows them")


@store.command(
    "verify",
    epilog=examples(
        "smartgo store verify ~/store",
        "smartgo store verify /var/lib/smartgo/store --config /etc/smartgo/broker.conf --json",
    ),
)
@click.argument("directory", metavar="DIRECTORY")
@CONFIG
@SET
@OUTPUT
@JSON
def verify(directory: str, path: str | None, flags: Mapping[str, str], output: str, as_json: bool) -> None:
    """Read all of the store in DIRECTORY and check it: every record's size, place and CRC, that every record has its
    unit in a queue and every unit its record, that index entries lead to their messages, the checkpoints, the tables.

    The exit status is 1 if something is damaged, and 0 if the store is sound or the next start of a broker repairs it.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        settings = directory_settings(env, root, path, flags)
        say_in_use(env, root)
        summary = (await checked(env, root, settings)).summary
        print_check(summary, "json" if as_json else output)
        if summary.damaged:
            raise CommandError(f"{root} is damaged; see smartgo store repair --dry-run", FAILED)

    do(work)


@store.command(
    "retention",
    epilog=examples(
        "smartgo store retention ~/store --dry-run",
        "smartgo store retention ~/store --dry-run --set fileReservedTime=24",
    ),
)
@click.argument("directory", metavar="DIRECTORY")
@click.option("--dry-run", is_flag=True, help="Required: a broker alone removes files.")
@CONFIG
@SET
@OUTPUT
def retention(directory: str, dry_run: bool, path: str | None, flags: Mapping[str, str], output: str) -> None:
    """Show which log files of the store in DIRECTORY a broker with these settings would remove if it was asked to now,
    and why. Nothing is removed: that is what a broker does by itself, or by "smartgo cluster tidy".
    """
    if not dry_run:
        raise click.UsageError("--dry-run is required: a broker alone removes files (smartgo cluster tidy)")

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        reading = Reading(env, root, directory_settings(env, root, path, flags))
        store = await reading.open()
        plan = await reading.run(lambda: plan_retention(store, env.clock))
        row = tidy_row(root, _report_of(plan), env.clock.wall_ms())
        if output == TEXT:
            print_tidy([row])
        else:
            print_value(output, plain(row))

    do(work)


def _report_of(plan: RetentionPlan) -> RetentionReport:
    """Return a plan as brokers report theirs."""
    files = [
        ExpiringFile(os.path.basename(one.file.path), one.file.size, one.file.modified_ms, one.reason.value, one.words)
        for one in plan.removals
    ]
    return RetentionReport(files, plan.kept)


for _command in (dump, hexdump, repair, export, diff):
    store.add_command(_command)
