"""The store's settings that a configuration stands for, and sentences about durability and sizes for operators."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.config.settings import StoreConfig
from smartgo.schema.delay import DelayLevels
from smartgo.schema.index import Geometry
from smartgo.store.retention import RetentionRules
from smartgo.store.settings import StoreSettings

SYNC: Final = "SYNC_FLUSH"

RETENTION: Final = (
    "cleanFileForciblyEnable",
    "cleanResourceInterval",
    "deleteCommitLogFilesInterval",
    "deleteConsumeQueueFilesInterval",
    "deleteWhen",
    "destroyMapedFileIntervalForcibly",
    "diskMaxUsedSpaceRatio",
    "diskSpaceCleanForciblyRatio",
    "fileReservedTime",
    "maxLogTotalSize",
)
"""The settings that L{retention_rules} reads and that can be changed while the store is open."""

_SLAVE_LESS: Final = 0.10  # RocketMQ's BrokerStartup takes 10 percent off for a slave
_LEAST_RATIO: Final = 0.01


def store_settings(config: StoreConfig) -> StoreSettings:
    """Return the store's part of a configuration in the store's own terms."""
    return StoreSettings(
        log_file_size=config.mapped_file_size_commit_log,
        queue_file_size=config.mapped_file_size_consume_queue,
        commitlog_directory=config.store_path_commit_log or None,
        max_message_size=config.max_message_size,
        sync_flush=config.flush_disk_type == SYNC,
        dispatch_after_flush=config.dispatch_after_flush,
        flush_interval=config.flush_interval_commit_log,
        sync_flush_timeout=config.sync_flush_timeout,
        memory_ratio=config.access_message_in_memory_max_ratio / 100,
        memory_size=config.max_transfer_bytes_on_message_in_memory,
        memory_count=config.max_transfer_count_on_message_in_memory,
        disk_size=config.max_transfer_bytes_on_message_in_disk,
        disk_count=config.max_transfer_count_on_message_in_disk,
        disk_full_ratio=config.disk_space_warning_level_ratio / 100,
        disk_free_minimum=config.disk_free_minimum,
        retention=retention_rules(config),
        delay_levels=DelayLevels.parse(config.message_delay_level),
        index=config.message_index_enable,
        timers=config.timer_wheel_enable,
        scrub_rate=config.scrub_rate,
        index_geometry=Geometry(config.max_hash_slot_num, config.max_index_num),
    )


def retention_rules(config: StoreConfig) -> RetentionRules:
    """Return what a configuration says of the removal of old files."""
    return RetentionRules(
        reserved=config.file_reserved_time,
        hours=config.delete_when,
        used_ratio=config.disk_max_used_space_ratio / 100,
        forcible=config.clean_file_forcibly_enable,
        forcible_ratio=config.disk_space_clean_forcibly_ratio / 100,
        full_ratio=config.disk_space_warning_level_ratio / 100,
        free_minimum=config.disk_free_minimum,
        log_size=config.max_log_total_size,
        interval=config.clean_resource_interval,
        file_pause=config.delete_commit_log_files_interval,
        queue_file_pause=config.delete_consume_queue_files_interval,
        longest_hold=config.destroy_maped_file_interval_forcibly,
    )


def as_slave(settings: StoreSettings, ack_mode: str) -> StoreSettings:
    """
    Return a store's settings for a slave: it takes what its master sends, and less of it counts as in memory.

    @param ack_mode: what it confirms; where that is C{flush} it flushes after each run, or its master would wait.
    """
    return msgspec.structs.replace(
        settings,
        replica=True,
        sync_flush=settings.sync_flush or ack_mode == "flush",
        dispatch_after_flush=settings.dispatches_after_flush,
        memory_ratio=max(_LEAST_RATIO, settings.memory_ratio - _SLAVE_LESS),
    )


def durability(store: StoreConfig, role: str, ack_mode: str = "append", one_disk: bool = False) -> str:
    """
    Return in one line what an acknowledged message survives (reliability D1).

    @param ack_mode: what a slave confirms: C{append} or C{flush}.
    @param one_disk: the slaves, if there are any, are on the same disk.
    """
    if role == "SLAVE":
        kept = "on its disk" if ack_mode == "flush" else "in its memory or on its disk"
        return f"{store.flush_disk_type}, SLAVE: takes no messages; confirms to its master what it has {kept}"
    if store.flush_disk_type == SYNC:
        loss = "an acknowledged message is on the disk: it survives the process and a power failure"
    else:
        loss = (
            "an acknowledged message survives the process; a power failure loses at most the last 1.0 s or 16 MiB, "
            "whichever is less"
        )
    if one_disk:
        copies = "all data are on one disk, and its loss loses all messages"
    elif role == "SYNC_MASTER":
        copies = (
            "a slave has it too, so that it survives the loss of this disk, unless the answer is SLAVE_NOT_AVAILABLE or"
            " FLUSH_SLAVE_TIMEOUT"
        )
    else:
        copies = "the loss of this disk loses what no slave has received yet"
    return f"{store.flush_disk_type}, {role}: {loss}; {copies}"


def size_text(size: int) -> str:
    """Write a size as RocketMQ does in its runtime information: C{1.50 GiB}."""
    value = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.2f} {unit}" if unit != "B" else f"{size} B"
        value /= 1024
    return f"{value:.2f} TiB"
