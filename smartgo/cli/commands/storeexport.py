"""C{smartgo store export} and C{diff}: the records of a store directory in a file, or beside those of another one."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final

import click

from smartgo.cli.support.output import OUTPUT, TEXT, counted, plain, print_members, print_table, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import FAILED, CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.storefiles import CONFIG, SET, Reading, directory_settings, filter_options, in_thread
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment
from smartgo.schema.sizes import size_text
from smartgo.store.offline.diff import StoreComparison
from smartgo.store.offline.export import FORMATS, StoreExport
from smartgo.store.offline.rows import RecordFilter

_DIFFERENT: Final = FAILED


@click.command(
    epilog=examples(
        "smartgo store export ~/store jsonl --file all.jsonl",
        "smartgo store export ~/store parquet --file orders.parquet --topic Orders --decompress",
    )
)
@click.argument("directory", metavar="DIRECTORY")
@click.argument("form", metavar="jsonl|parquet", type=click.Choice(FORMATS))
@click.option("--file", "target", required=True, metavar="FILE", help="Output file; it must not exist.")
@click.option("--decompress", is_flag=True, help="Write bodies decompressed; by default they are as stored.")
@filter_options
@CONFIG
@SET
@OUTPUT
def export(
    directory: str,
    form: str,
    target: str,
    decompress: bool,
    wanted: RecordFilter,
    path: str | None,
    flags: Mapping[str, str],
    output: str,
) -> None:
    """Write the records of the store in DIRECTORY to a file, as JSON lines or as Parquet (which needs pyarrow: pip
    install "smartgo[export]"). Damaged parts of the log are left out and counted.

    The columns are those of the Spark table "messages". The number of records and the SHA-256 over offsets and bodies
    that it prints are the same for both formats.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        reading = Reading(env, root, directory_settings(env, root, path, flags))
        store = await reading.open()
        with ProgressLine(env.clock, "records") as progress:
            exporting = StoreExport(store, wanted, decompress, progress.to)
            try:
                summary = await in_thread(env, exporting, lambda: exporting.run(env.files, target, form))
            except OSError as error:
                raise CommandError(f"{target}: {error.strerror or error}") from None
        if output != TEXT:
            print_value(output, plain(summary))
            return
        click.echo(
            f"exported {counted(summary.records, 'record')} with {size_text(summary.body_bytes)} of bodies to {target}"
        )
        click.echo(f"sha256 {summary.sha256}")
        if summary.damaged:
            click.echo(f"left out: {counted(summary.damaged, 'damaged range')} of {size_text(summary.damaged_bytes)}")

    do(work)


@click.command(
    epilog=examples(
        "smartgo store diff /var/lib/smartgo/store /mnt/slave/store",
        "smartgo store diff ~/store ~/backup -o json",
    )
)
@click.argument("first", metavar="FIRST")
@click.argument("second", metavar="SECOND")
@CONFIG
@SET
@OUTPUT
def diff(first: str, second: str, path: str | None, flags: Mapping[str, str], output: str) -> None:
    """Compare the logs of two store directories record by record: a master's and its slave's, or a store's and its
    backup's, which hold the same records at the same physical offsets.

    That one log begins later, or ends earlier, is told and is no difference. The exit status is 1 if a record
    differs.
    """

    async def work(env: IEnvironment) -> None:
        roots = [os.path.abspath(one) for one in (first, second)]
        readings = [Reading(env, root, directory_settings(env, root, path, flags)) for root in roots]
        stores = [await reading.open() for reading in readings]
        with ProgressLine(env.clock, "records") as progress:
            comparison = StoreComparison(stores[0], stores[1], readings[0].check_cancelled, progress.to)
            result = await readings[0].run(comparison.run)
        if output != TEXT:
            print_value(output, plain(result))
        else:
            print_members(
                TEXT,
                result,
                {
                    "first": f"{result.first}, up to {result.first_end:,}",
                    "second": f"{result.second}, up to {result.second_end:,}",
                    "compared": f"physical offsets {result.begin:,} to {result.end:,}",
                    "equal": counted(result.equal, "record"),
                    "only in one, before": result.before,
                    "only in one, after": result.after,
                    "different": result.different,
                },
            )
            if result.differences:
                click.echo()
                print_table(
                    result.differences,
                    {
                        "physical offset": lambda row: row.physical_offset,
                        "what": lambda row: row.what,
                        "message": lambda row: f"{row.topic} {row.queue_id}:{row.queue_offset}" if row.topic else None,
                        "fields": lambda row: row.fields,
                    },
                )
            if result.more:
                click.echo(f"and {result.more:,} more")
        if result.different:
            raise CommandError(
                f"{counted(result.different, 'difference')} between {roots[0]} and {roots[1]}", _DIFFERENT
            )

    do(work)
