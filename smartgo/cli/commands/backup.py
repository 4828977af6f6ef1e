"""C{smartgo cluster backup}: have a broker make a copy of its store while it runs."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

import click

from smartgo.cli.support.output import OUTPUT, TEXT, counted, moment, print_members
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import FAILED, CommandError
from smartgo.cli.support.session import ClusterOptions, ClusterSession, cluster_options, pause
from smartgo.cli.support.texts import examples
from smartgo.schema.bodies import BackupReport
from smartgo.schema.sizes import size_text

_POLL: Final = 0.5  # seconds
_RUNNING: Final = "running"
_CANCELLED: Final = "cancelled"
_END: Final = {"done": "it was complete before", "failed": "it failed before"}


_SIZE: Final = re.compile("([0-9]{1,12})([kKmMgG]?)(i?[bB])?")
_SIZES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_AGE: Final = re.compile("([0-9]{1,6})([smhd])")
_AGES: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def read_size(context: click.Context, option: click.Parameter, text: str) -> int:
    """Parse a size such as 50M, in bytes. @raise click.BadParameter: it is none."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size; write a number of bytes, or a size such as 500k, 50M or 1G")
    return int(found[1]) * _SIZES[found[2].lower()]


def read_age(context: click.Context, option: click.Parameter, text: str) -> int:
    """Parse an age such as 30d, in seconds; 0 for none. @raise click.BadParameter: it is none."""
    found = _AGE.fullmatch(text)
    if found is None and text != "0":
        raise click.BadParameter(f"{text!r} is no age; write such as 12h or 30d")
    return int(found[1]) * _AGES[found[2]] if found is not None else 0


@click.command(
    "backup",
    epilog=examples(
        "smartgo cluster backup broker-a",
        "smartgo cluster backup broker-a before-upgrade",
        "smartgo cluster backup broker-a --rate 50M --keep 7 --keep-age 30d",
        "smartgo cluster backup broker-a --show",
        "smartgo cluster backup broker-a --cancel",
    ),
)
@click.argument("broker")
@click.argument("name", required=False)
@click.option(
    "--rate",
    callback=read_size,
    default="0",
    metavar="SIZE",
    help="Copy at most SIZE a second, such as 50M.",
)
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="When it is complete, remove complete backups of this store that are not among the newest N. "
    "0 keeps all, unless --keep-age is given.",
)
@click.option(
    "--keep-age",
    callback=read_age,
    default="0",
    metavar="TIME",
    help="Keep backups that are younger, such as 30d, too; without --keep, remove all that are older.",
)
@click.option("--cancel", is_flag=True, help="End the backup that runs, and remove what there is of it.")
@click.option("--show", is_flag=True, help="Show how the last backup went, and begin none.")
@OUTPUT
@cluster_options
def backup(
    cluster: ClusterOptions,
    broker: str,
    name: str | None,
    rate: int,
    keep: int,
    keep_age: int,
    cancel: bool,
    show: bool,
    output: str,
) -> None:
    """Have BROKER copy its store, while it goes on working, to the directory backups/NAME beside the store's directory
    on its own disk. NAME is the time by default. Full log files become hard links, which takes little time and room.

    Every message that was acknowledged before the backup began is in it. Copy it to another machine: a hard link does
    not survive the disk. To restore it, start a broker on it.
    """

    async def work(session: ClusterSession) -> None:
        admin = session.admin.brokers
        if show:
            _print(await admin.backup(broker), output)
            return
        if cancel:
            report = await admin.backup(broker)
            if report.state != _RUNNING:
                raise CommandError("no backup is running", FAILED)
            await admin.cancel_backup(broker)
            while report.state == _RUNNING:
                await pause(session.env.clock, _POLL)
                report = await admin.backup(broker)
            _print(report, output)
            if report.state != _CANCELLED:
                raise CommandError(f"backup {report.name} was not cancelled: {_END.get(report.state, '')}", FAILED)
            return
        now_ms = session.env.clock.wall_ms()
        title = name or f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}"
        report = await admin.backup(broker, title, rate, keep, keep_age)
        begun = report.name
        with ProgressLine(session.env.clock, "bytes") as progress:
            while report.state == _RUNNING and report.name == begun:
                progress.to(report.done, report.size or None)
                await pause(session.env.clock, _POLL)
                report = await admin.backup(broker)
        if report.name != begun:
            raise CommandError(f"another backup, {report.name}, was begun after {begun}", FAILED)
        if report.state == _CANCELLED:
            raise CommandError(f"backup {begun} was cancelled; its directory was removed", FAILED)
        if report.state != "done":
            raise CommandError(f"backup {begun} failed: {report.error}", FAILED)
        _print(report, output)

    cluster.do(work)


def _print(report: BackupReport, output: str) -> None:
    if output == TEXT and not report.name:
        click.echo("No backup was made since the broker started.")
        return
    print_members(
        output,
        report,
        {
            "backup": report.name,
            "directory": f"{report.directory} (removed)" if report.state == _CANCELLED else report.directory,
            "state": report.state,
            "begun": moment(report.begun),
            "ended": moment(report.ended),
            "files": f"{report.files:,}, of them {counted(report.linked, 'hard link')}",
            "progress": f"{size_text(report.done)} of {size_text(report.size)}" if report.state == _RUNNING else None,
            "copied": size_text(report.copied),
            "log up to": report.end,
            "removed": ", ".join(report.removed) or None,
            "error": report.error or None,
        },
    )
