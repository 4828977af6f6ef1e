"""Every figure of a message store that can be set; the defaults are those of RocketMQ 4.9 where it has the setting."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.schema.delay import DEFAULT_LEVELS, DelayLevels
from smartgo.schema.index import Geometry
from smartgo.store.retention import RetentionRules

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30

LOG_FILE_SIZE: Final = _GIB
QUEUE_FILE_SIZE: Final = 6_000_000


class StoreSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    The settings of one L{MessageStore<smartgo.store.messagestore.MessageStore>}. Sizes are bytes, times seconds.

    @ivar log_file_size: length of a CommitLog file; C{None} takes what the files there have, else 1 GiB.
    @ivar queue_file_size: length of a ConsumeQueue file, rounded up to a multiple of 20; C{None} likewise, else 6 MB.
    @ivar commitlog_directory: where the CommitLog lies; C{None} is C{commitlog} below the root.
    @ivar max_message_size: the longest body; also the bodies of one batch together (reliability L3, L6).
    @ivar max_batch_count: the most messages of one batch.
    @ivar sync_flush: a send waits for the flush that covers it (SYNC_FLUSH).
    @ivar dispatch_after_flush: readers see what is flushed only (D6); C{None}: as C{sync_flush}.
    @ivar flush_interval: from the first unflushed byte to the flush, without C{sync_flush}.
    @ivar flush_bytes: unflushed bytes that start a flush at once.
    @ivar sync_flush_timeout: after that long a waiting send is told FLUSH_DISK_TIMEOUT.
    @ivar checkpoint_interval: shortest time between two checkpoints.
    @ivar checkpoint_bytes: log bytes since the last checkpoint that start one before that.
    @ivar retry_interval: between two attempts to get disk space.
    @ivar touch_ahead: how far ahead of the writer pages are made ready, in bytes; C{touch_limit}: how far at most, once
        the writer has overtaken them (S4: at most 64 MiB).
    @ivar open_mappings: queue and log files mapped at once, at most (L19); a small descriptor limit lowers it.
    @ivar memory_ratio: share of physical memory; messages further from the log's end count as "on disk".
    @ivar memory_size: bytes of one read in memory, at most, C{memory_count} messages; C{disk_size} and C{disk_count}
        the same on disk (L17).
    @ivar disk_full_ratio: share of the file system in use from which on nothing is stored (L20).
    @ivar disk_free_minimum: free space below which nothing is stored (L20).
    @ivar retention: when old files are removed; C{None}: never.
    @ivar delay_levels: the table behind the units of SCHEDULE_TOPIC.
    @ivar index: messages can be searched by key.
    @ivar index_geometry: slots and entries of an index file; files of another size are made anew.
    @ivar timers: messages of the timer topic are delivered from here; not on a slave.
    @ivar timers_in_memory: waiting messages that are loaded at once; at most twice as many are in memory.
    @ivar scrub_rate: bytes per second at which all of the log is checked once a week; 0: only when asked for.
    @ivar replica: this store is a slave's: it takes bytes of its master's log and no messages; reads outside a queue
        keep the offset asked for.
    """

    log_file_size: int | None = None
    queue_file_size: int | None = None
    commitlog_directory: str | None = None
    max_message_size: int = 4 * _MIB
    max_batch_count: int = 4096
    sync_flush: bool = False
    dispatch_after_flush: bool | None = None
    flush_interval: float = 0.5
    flush_bytes: int = 16 * _MIB
    sync_flush_timeout: float = 5.0
    checkpoint_interval: float = 1.0
    checkpoint_bytes: int = 32 * _MIB
    retry_interval: float = 5.0
    touch_ahead: int = 16 * _MIB
    touch_limit: int = 64 * _MIB
    open_mappings: int = 4096
    memory_ratio: float = 0.40
    memory_size: int = 256 * _KIB
    memory_count: int = 32
    disk_size: int = 64 * _KIB
    disk_count: int = 8
    disk_full_ratio: float = 0.90
    disk_free_minimum: int = _GIB
    retention: RetentionRules | None = None
    delay_levels: DelayLevels = DelayLevels.parse(DEFAULT_LEVELS)
    index: bool = False
    index_geometry: Geometry = Geometry()
    timers: bool = False
    timers_in_memory: int = 65_536
    scrub_rate: int = 0
    replica: bool = False

    @property
    def dispatches_after_flush(self) -> bool:
        """Tell whether readers see only records that a power loss cannot take back (reliability D6)."""
        return self.sync_flush if self.dispatch_after_flush is None else self.dispatch_after_flush
