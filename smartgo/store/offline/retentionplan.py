"""The plan of retention for a store directory, by the decisions that a broker takes."""

from __future__ import annotations

from smartgo.env.interfaces import IClock
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.retention import DiskSpace, LogFile, RetentionMoment, RetentionPlan, RetentionRules, decide


def plan_retention(store: OfflineStore, clock: IClock) -> RetentionPlan:
    """Return which log files a broker with the store's settings would remove now if it was asked to, and why."""
    files = [file for run in store.runs for file in run.files]
    now_ms = clock.wall_ms()
    total, free = store.files.usage(store.log_directory)
    newest = files[-1].base if files else 0
    moment = RetentionMoment(
        now_ms=now_ms,
        hour=int((now_ms / 1000 + clock.utc_offset()) // 3600 % 24),
        disk=DiskSpace(total, free, store.log_file_size),
        keep_from=newest if store.own is None else store.own.position,
        asked=True,
    )
    listed = [LogFile(file.path, file.base, file.size, store.files.modified_ms(file.path)) for file in files]
    return decide(listed, moment, store.settings.retention or RetentionRules())
