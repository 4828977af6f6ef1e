"""C{smartgo store repair}: set apart what is damaged in a store directory, and make anew what is derived."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from typing import Final

import click
import msgspec

from smartgo.cli.support.output import OUTPUT, TEXT, plain, print_table, print_value
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.running import FAILED, CommandError
from smartgo.cli.support.session import DRY_RUN, YES, confirm, do, pause
from smartgo.cli.support.storefiles import (
    CONFIG,
    SET,
    checked,
    directory_settings,
    disk_errors,
    in_thread,
    print_check,
    say_in_use,
)
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.findings import StoreCheckResult
from smartgo.store.offline.repair import StoreRepair
from smartgo.store.offline.repairplan import RepairPlan
from smartgo.store.opening import open_store
from smartgo.store.settings import StoreSettings

_POLL: Final = 0.05  # seconds


class RepairResult(msgspec.Struct):
    """
    The result of a repair.

    @ivar after: the check after it; C{None} for a dry run, or where nothing was to be done.
    """

    store: str
    dry_run: bool
    steps: list[dict[str, str]]
    after: StoreCheckResult | None = None


@click.command(
    epilog=examples(
        "smartgo store repair ~/store --dry-run",
        "smartgo store repair ~/store --yes",
        "smartgo store repair ~/store --from /mnt/slave/store",
    )
)
@click.argument("directory", metavar="DIRECTORY")
@click.option(
    "--from",
    "donor",
    metavar="DIRECTORY",
    help="A directory of the same log, such as a slave's or a backup: what is damaged is taken from there.",
)
@CONFIG
@SET
@DRY_RUN
@YES
@OUTPUT
def repair(
    directory: str,
    donor: str | None,
    path: str | None,
    flags: Mapping[str, str],
    dry_run: bool,
    yes: bool,
    output: str,
) -> None:
    """Repair the store in DIRECTORY. Damaged parts of the log are moved to quarantine/, and readers pass over their
    place; all other messages stay where they are. Queues and index files that are wrong are made anew from the log, and
    tables that cannot be read are replaced by their previous content. Whatever is replaced is kept in quarantine/.

    No broker may run on the store. The exit status is 1 if something is left that cannot be repaired.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        settings = directory_settings(env, root, path, flags)
        other = None if donor is None else os.path.abspath(donor)
        if dry_run:
            say_in_use(env, root)
            result = RepairResult(root, True, _steps(await _planned(env, _repair_of(env, root, settings, other))))
            _print(result, output)
            return
        result, left = await _repair(env, root, settings, other, yes)
        _print(result, output)
        if left or (result.after is not None and result.after.damaged):
            raise CommandError(f"{root} could not be repaired completely", FAILED)

    do(work)


def _repair_of(env: IEnvironment, root: str, settings: StoreSettings, donor: str | None) -> StoreRepair:
    with disk_errors():
        OfflineStore(env.files, root, settings)  # which says so where there is no store, before a file is made
        return StoreRepair(env.files, root, settings, donor)


async def _planned(env: IEnvironment, repair: StoreRepair) -> RepairPlan:
    """Return the plan of a repair, and show the progress."""
    with ProgressLine(env.clock, "log") as progress:
        repair.follow(lambda what, done, total: progress.to(done, total, what))
        with disk_errors():
            return await in_thread(env, repair, repair.plan)


async def _repair(
    env: IEnvironment, root: str, settings: StoreSettings, donor: str | None, yes: bool
) -> tuple[RepairResult, bool]:
    """Repair a store; return the result, and whether something is left. @raise StoreHeld: a broker uses it."""
    repair = _repair_of(env, root, settings, donor)
    lock = env.files.lock_directory(root)
    try:
        plan = await _planned(env, repair)
        result = RepairResult(root, False, _steps(plan))
        left = any(step.kind == "left" for step in plan.steps)
        if plan.is_empty:
            return result, left
        rebuilding = _rebuild_settings(env, root, settings)
        for step in () if yes else plan.steps:
            click.echo(f"{step.kind}: {step.where}: {step.what}", err=True)
        confirm(f"{root} will be repaired; what is replaced is kept in {root}/quarantine.", yes)
        with disk_errors():
            await in_thread(env, repair, lambda: repair.apply(plan, env.clock))
    finally:
        lock.release()
    if not left:
        await _rebuild(env, root, rebuilding)
    result.after = (await checked(env, root, settings)).summary
    return result, left


def _rebuild_settings(env: IEnvironment, root: str, settings: StoreSettings) -> StoreSettings:
    """Return settings with which the store can be opened: sizes as its files have them, and no file is removed."""
    store = OfflineStore(env.files, root, settings)
    geometries = [geometry for path in store.index_files if (geometry := store.geometry_of(path)) is not None]
    found: StoreSettings = msgspec.structs.replace(
        settings,
        log_file_size=store.log_file_size,
        queue_file_size=store.queue_file_size,
        index_geometry=geometries[-1] if geometries else settings.index_geometry,
        retention=None,
    )
    return found


async def _rebuild(env: IEnvironment, root: str, settings: StoreSettings) -> None:
    """Open the store as a broker does, which makes queues and index anew, and close it."""
    cancelled = False
    try:
        with ProgressLine(env.clock, "queues") as progress:
            progress.to(0)
            store = await open_store(env, root, settings, lambda: cancelled)
            try:
                total = store.index_behind
                while store.index_behind and store.refusal is None:
                    progress.to(total - store.index_behind, total, "index")
                    await pause(env.clock, _POLL)
            finally:
                await store.close()
    finally:
        cancelled = True


def _steps(plan: RepairPlan) -> list[dict[str, str]]:
    return [plain(step) for step in plan.steps]


def _print(result: RepairResult, output: str) -> None:
    if output != TEXT:
        print_value(output, plain(result))
        return
    if not result.steps:
        click.echo("There is nothing to repair.")
        return
    print_table(
        result.steps,
        {"what": lambda row: row["kind"], "where": lambda row: row["where"], "repair": lambda row: row["what"]},
    )
    if result.dry_run:
        click.echo("Nothing was changed.")
    if result.after is not None:
        click.echo()
        print_check(result.after, TEXT)
