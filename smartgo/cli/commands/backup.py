"""C{smartgo cluster backup}: have a broker make a copy of its store while it runs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import click

from smartgo.cli.support.output import OUTPUT, TEXT, counted, moment, print_members, size
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import FAILED, CommandError
from smartgo.cli.support.session import ClusterOptions, ClusterSession, cluster_options, pause
from smartgo.cli.support.texts import examples
from smartgo.schema.bodies import BackupReport

_POLL: Final = 0.5  # seconds
_RUNNING: Final = "running"


@click.command(
    "backup",
    epilog=examples(
        "smartgo cluster backup broker-a",
        "smartgo cluster backup broker-a before-upgrade",
        "smartgo cluster backup broker-a --show",
    ),
)
@click.argument("broker")
@click.argument("name", required=False)
@click.option("--show", is_flag=True, help="Show how the last backup went, and begin none.")
@OUTPUT
@cluster_options
def backup(cluster: ClusterOptions, broker: str, name: str | None, show: bool, output: str) -> None:
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
        now_ms = session.env.clock.wall_ms()
        report = await admin.backup(broker, name or f"{datetime.fromtimestamp(now_ms / 1000, UTC):%Y%m%dT%H%M%SZ}")
        begun = report.name
        with ProgressLine(session.env.clock, "files") as progress:
            while report.state == _RUNNING and report.name == begun:
                progress.to(report.files)
                await pause(session.env.clock, _POLL)
                report = await admin.backup(broker)
        if report.name != begun:
            raise CommandError(f"another backup, {report.name}, was begun after {begun}", FAILED)
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
            "directory": report.directory,
            "state": report.state,
            "begun": moment(report.begun),
            "ended": moment(report.ended),
            "files": f"{report.files:,}, of them {counted(report.linked, 'hard link')}",
            "copied": size(report.copied),
            "log up to": report.end,
            "error": report.error or None,
        },
    )
