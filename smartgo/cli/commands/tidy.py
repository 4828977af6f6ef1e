"""C{smartgo cluster tidy}: show which log files retention would remove, and have brokers remove them."""

from __future__ import annotations

import click
import msgspec

from smartgo.cli.support.output import OUTPUT, TEXT, counted, print_rows, span
from smartgo.cli.support.session import DRY_RUN, YES, ClusterSession, confirm
from smartgo.cli.support.texts import examples
from smartgo.cli.support.wholechanges import ChangingOptions, changing_options
from smartgo.schema.bodies import RetentionReport
from smartgo.schema.sizes import size_text


class TidyFile(msgspec.Struct, frozen=True, kw_only=True):
    """
    One log file that would be removed.

    @ivar age_seconds: since its last change.
    @ivar reason: C{expired}, C{disk} or C{size}; C{why} the same in words.
    """

    file: str
    bytes: int
    age_seconds: float
    reason: str
    why: str


class TidyRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    The log files of one broker that would be removed, the oldest first.

    @ivar kept: why the next file stays.
    """

    broker: str
    files: list[TidyFile]
    kept: str


@click.command(
    "tidy",
    epilog=examples("smartgo cluster tidy --dry-run", "smartgo cluster tidy broker-a", "smartgo cluster tidy -y"),
)
@click.argument("brokers", nargs=-1, metavar="[BROKER]...")
@DRY_RUN
@YES
@OUTPUT
@changing_options
def tidy(cluster: ChangingOptions, brokers: tuple[str, ...], dry_run: bool, yes: bool, output: str) -> None:
    """Have BROKERs, or all of them, remove expired log files now, not at the hour deleteWhen.

    It shows first which files would go and why; with --dry-run it ends there. A BROKER is a name, which means its
    master, or an address. Brokers of RocketMQ cannot say which files would go: use "smartgo cluster clean log".
    """

    async def work(session: ClusterSession) -> None:
        admin = session.admin.brokers
        names = brokers or tuple(sorted((await admin.cluster()).broker_addr_table))
        rows = [tidy_row(name, await admin.retention(name), session.env.clock.wall_ms()) for name in names]
        if output == TEXT:
            print_tidy(rows)
        else:
            print_rows(output, rows, {})
        asked = [row.broker for row in rows if row.files]
        if dry_run or not asked:
            return
        count = sum(len(row.files) for row in rows)
        confirm(f"{counted(count, 'log file')} of {', '.join(asked)} will be removed for good.", yes)
        for name in asked:
            await admin.clean_log(name)
            click.echo(f"{name} was asked to remove expired log files", err=True)

    cluster.do(work, brokers)


def tidy_row(broker: str, report: RetentionReport, now_ms: int) -> TidyRow:
    """Return what a broker reports as a row."""
    files = [
        TidyFile(
            file=one.name,
            bytes=one.size,
            age_seconds=max(0, now_ms - one.modified) / 1000,
            reason=one.reason,
            why=one.why,
        )
        for one in report.files
    ]
    return TidyRow(broker=broker, files=files, kept=report.kept)


def print_tidy(rows: list[TidyRow]) -> None:
    """Print for people which files would go, and why the next ones stay."""
    print_rows(
        TEXT,
        [(row.broker, file) for row in rows for file in row.files],
        {
            "broker": lambda row: row[0],
            "file": lambda row: row[1].file,
            "size": lambda row: size_text(row[1].bytes),
            "last change": lambda row: span(row[1].age_seconds),
            "why": lambda row: row[1].why,
        },
        "No file would be removed.",
    )
    for row in rows:
        click.echo(f"{row.broker}: the next file stays because {row.kept}")
