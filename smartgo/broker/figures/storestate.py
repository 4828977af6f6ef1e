"""The state of a broker's store as administrators are told it (30004)."""

from __future__ import annotations

import posixpath
from typing import Final

from smartgo.broker.interfaces import IBroker
from smartgo.schema.bodies import DamagedRange, ScrubProgress, StoreState, TimerProgress
from smartgo.schema.regions import Region
from smartgo.store.retention import RetentionRules
from smartgo.store.scrub import Scrub

_REGIONS: Final = 100  # damaged regions that are listed, at most


def state_of(broker: IBroker) -> StoreState:
    """Return the state of a broker's store."""
    store = broker.store
    begin, end = store.log_bounds()
    total, free = broker.runtime_info.disk_usage()
    cleaner = store.cleaner
    rules = cleaner.rules or RetentionRules()
    removed = cleaner.removed
    damage = store.damage
    sizes = store.log_file_sizes
    return StoreState(
        begin=begin,
        end=end,
        flushed=store.flushed,
        earliest=max(0, broker.runtime_info.earliest_ms),
        log_files=len(sizes),
        log_size=sum(sizes),
        log_limit=rules.log_size or 0,
        disk_total=total,
        disk_free=free,
        used_ratio=rules.used_ratio,
        forcible_ratio=rules.forcible_ratio,
        full_ratio=rules.full_ratio,
        free_minimum=rules.free_minimum,
        retention=cleaner.rules is not None,
        reserved=rules.reserved,
        hours=list(rules.hours),
        refusal="" if store.refusal is None else store.refusal.words,
        obstacle=cleaner.obstacle or "",
        removed_files=removed.log_files,
        removed_bytes=removed.log_bytes,
        last_removed=removed.last_ms,
        last_file="" if removed.last is None else posixpath.basename(removed.last.file.path),
        last_why="" if removed.last is None else removed.last.words,
        regions=len(damage),
        damaged_bytes=damage.size,
        found=damage.found,
        repaired=damage.repaired,
        newest=[_range(region) for region in damage.regions[-_REGIONS:]],
        scrub=_scrub(store.scrub),
        timers=_timers(broker),
    )


def _range(region: Region) -> DamagedRange:
    return DamagedRange(
        region.offset,
        region.length,
        region.reason,
        region.topic,
        region.queue_id,
        region.queue_offset,
        region.found_ms,
        region.saved,
    )


def _scrub(scrub: Scrub) -> ScrubProgress:
    state = scrub.state
    return ScrubProgress(
        running=scrub.running,
        checked=state.position - state.begin if scrub.running else 0,
        total=state.end - state.begin if scrub.running else 0,
        seconds_left=round(scrub.seconds_left, 1),
        rate=round(scrub.bytes_per_second),
        next=scrub.next_ms,
        records=state.records,
        damaged=state.damaged,
        begun=state.begun_ms,
        last_ended=state.ended_ms,
        last_bytes=state.last_bytes,
        last_records=state.last_records,
        last_damaged=state.last_damaged,
    )


def _timers(broker: IBroker) -> TimerProgress | None:
    timed, timers = broker.timed, broker.store.timers
    if timed is None or timers is None:
        return None
    lateness = timed.lateness
    delivered = lateness.count
    next_ms, latest_ms = timers.next_between_ms or (0, 0)
    return TimerProgress(
        ready=timers.ready,
        waiting=timed.waiting or 0,
        next=next_ms,
        next_latest=latest_ms,
        delivered=delivered,
        recalled=timed.recalled,
        mean_late=round(lateness.total_ms / delivered, 1) if delivered else 0.0,
        most_late=lateness.highest_ms,
        max_delay=round(broker.settings.current.store.timer_max_delay_sec),
    )
