"""Options, reading in a thread, progress and printing that the commands for a store directory share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final, Protocol, TypeVar

import click
import msgspec

from smartgo.broker.settings.storesettings import store_settings
from smartgo.cli.support.embedded import surroundings
from smartgo.cli.support.output import TEXT, counted, plain, print_members, print_table, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import STORE_FAILED, CommandError
from smartgo.cli.support.texts import moment_ms, read_pairs
from smartgo.config.loading import BROKER, load
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import SettingError, StoreError
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import REPAIR, StoreCheckResult
from smartgo.store.offline.rows import RecordFilter
from smartgo.store.offline.storecheck import StoreCheck
from smartgo.store.settings import StoreSettings

T = TypeVar("T")
_LANE: Final = "read"


def _time(context: click.Context, option: click.Parameter, text: str | None) -> int | None:
    return None if text is None else moment_ms(text, context, option, "ISO 8601")


CONFIG: Final = click.option(
    "-c",
    "--config",
    "path",
    metavar="FILE",
    help="The broker's configuration file: file settings, delay levels, the CommitLog directory.",
)
SET: Final = click.option(
    "--set",
    "flags",
    multiple=True,
    callback=read_pairs,
    metavar="NAME=VALUE",
    help="Set one of these settings; may be repeated.",
)


_FILTERS: Final = (
    click.option("--topic", metavar="TOPIC", help="Only this topic."),
    click.option("--queue", "queue_id", type=click.IntRange(0), metavar="ID", help="Only queues with this id."),
    click.option("--from-offset", "first", type=click.IntRange(0), metavar="N", help="From this queue offset on."),
    click.option("--to-offset", "last", type=click.IntRange(0), metavar="N", help="Up to this queue offset."),
    click.option("--from-physical", "begin", type=click.IntRange(0), metavar="N", help="From this physical offset on."),
    click.option("--until-physical", "end", type=click.IntRange(0), metavar="N", help="Before this physical offset."),
    click.option("--from", "from_ms", callback=_time, metavar="TIME", help="Stored at this time or later."),
    click.option("--until", "until_ms", callback=_time, metavar="TIME", help="Stored before this time."),
    click.option("--key", metavar="KEY", help="Only messages with this key, or this unique id."),
    click.option("--tag", metavar="TAG", help="Only messages with this tag."),
)
_NAMES: Final = ("topic", "queue_id", "first", "last", "begin", "end", "from_ms", "until_ms", "key", "tag")


def filter_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose records to a command; it gets a L{RecordFilter} as C{wanted}."""

    @wraps(function)
    def with_filter(**arguments: Any) -> None:
        given = {name: value for name in _NAMES if (value := arguments.pop(name)) is not None}
        function(wanted=RecordFilter(**given), **arguments)

    for option in reversed(_FILTERS):
        with_filter = option(with_filter)
    return with_filter


def say_in_use(env: IEnvironment, root: str) -> None:
    """Say on standard error that a broker uses the store, if one does: what it writes now may look unfinished."""
    holder = env.files.lock_holder(root)
    if holder is not None:
        who = f"process {holder}" if holder else "another process"
        click.echo(f"smartgo: {root} is in use by {who}; what it writes meanwhile may look unfinished", err=True)


class Cancellable(Protocol):
    """Work in a thread that can be told to stop."""

    cancelled: bool


class Reading:
    """
    Reading of one store directory in a thread.

    @ivar cancelled: the work was interrupted.
    """

    def __init__(self, env: IEnvironment, root: str, settings: StoreSettings) -> None:
        self._env = env
        self._root = root
        self._settings = settings
        self._store: OfflineStore | None = None
        self.cancelled = False

    @property
    def store(self) -> OfflineStore:
        """The store, after L{open}."""
        if self._store is None:
            raise ValueError("the store is not open")
        return self._store

    async def open(self) -> OfflineStore:
        """
        List the files of the store, and warn if a broker uses it.

        @raise StoreError: there is no store.
        """
        say_in_use(self._env, self._root)
        self._store = await self.run(lambda: OfflineStore(self._env.files, self._root, self._settings))
        return self._store

    async def run(self, function: Callable[[], T]) -> T:
        """Run blocking work in the thread of reading; an interrupt tells it to stop."""
        try:
            with disk_errors():
                result: T = await self._env.threads.run(_LANE, function)
        except BaseException:
            self.cancelled = True
            raise
        return result

    def check_cancelled(self) -> None:
        """End the thread's work after an interrupt. @raise StoreError: there was one."""
        if self.cancelled:
            raise StoreError("interrupted")


def directory_settings(env: IEnvironment, root: str, path: str | None, flags: Mapping[str, str]) -> StoreSettings:
    """
    Return the settings of the store in a directory, as a broker with this configuration would have them.

    @raise SettingError: the file or a setting cannot be read.
    """
    data = None
    if path is not None:
        try:
            data = env.files.read(path)
        except OSError as error:
            raise SettingError(f"{path}: {error.strerror or error}") from None
    loaded = load(surroundings(env), BROKER, path or "", data, {"storePathRootDir": root, **flags})
    replica = loaded.broker.broker_role == "SLAVE"
    return msgspec.structs.replace(store_settings(loaded.store), replica=replica)


@contextmanager
def disk_errors() -> Iterator[None]:
    """End the command with a sentence where the disk, or its rights, do not let it go on. @raise CommandError"""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{error.filename or 'the disk'}: {error.strerror or error}", STORE_FAILED) from None


async def in_thread(env: IEnvironment, work: Cancellable, function: Callable[[], T]) -> T:
    """Run blocking work in the thread of reading; after an interrupt it is told to stop, and waited for at the end."""
    try:
        result: T = await env.threads.run(_LANE, function)
    finally:
        work.cancelled = True
    return result


async def checked(env: IEnvironment, root: str, settings: StoreSettings) -> StoreCheck:
    """Check the store in a directory, and show the progress; return the check that was done."""
    with ProgressLine(env.clock, "log") as progress:
        check = StoreCheck(env.files, root, settings, lambda what, done, total: progress.to(done, total, what))
        with disk_errors():
            await in_thread(env, check, check.run)
    return check


def print_check(summary: StoreCheckResult, output: str) -> None:
    """Print the result of a check."""
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
            "tables": summary.tables,
        },
    )
    click.echo()
    if not summary.findings:
        click.echo(f"No problems found.\n{verdict(summary)}")
        return
    print_table(
        summary.findings,
        {"severity": lambda row: row.weight, "where": lambda row: row.where, "problem": lambda row: row.what},
    )
    if summary.more:
        click.echo(f"and {summary.more:,} more")
    click.echo(f"\n{verdict(summary)}")


def verdict(summary: StoreCheckResult) -> str:
    """Return the end of a check's report: whether the store is sound."""
    if summary.damaged:
        return "The store is damaged: smartgo store repair --dry-run shows what can be done."
    if any(one.weight == REPAIR for one in summary.findings):
        return "The store is sound: the next start of a broker repairs what is listed."
    if summary.clean:
        return "The store is sound."
    return (
        "The store is sound. It was not closed in order, as a copy of a running one is not: the next start recovers it."
    )
