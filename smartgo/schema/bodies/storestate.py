"""The answer to smartgo's own requests for the state of a broker's store (30004), and for a scrub of it (30005)."""

from __future__ import annotations

from msgspec import field

from smartgo.schema.bodies.shape import Body, Double, always
from smartgo.schema.headerfields import Int64


class DamagedRange(Body):
    """
    One damaged region of the log; nothing in it is delivered.

    @ivar offset: physical offset of its first byte; C{length} in bytes.
    @ivar reason: the check that failed.
    @ivar topic: what the damaged record says of itself; empty where that cannot be read, and then C{queueId} and
        C{queueOffset} are -1.
    @ivar found: when it was found, in milliseconds since the epoch.
    @ivar saved: file in C{quarantine/} with a copy of the bytes; empty where there is none.
    """

    offset: Int64 = always(0)
    length: Int64 = always(0)
    reason: str = always("")
    topic: str = always("")
    queue_id: Int64 = always(-1)
    queue_offset: Int64 = always(-1)
    found: Int64 = always(0)
    saved: str = always("")


class ScrubProgress(Body):
    """
    Progress of the scrub, and the result of the last complete one. Times are milliseconds since the epoch, 0 for none.

    @ivar checked: bytes of C{total} that the present scrub has to check; both 0 where none runs.
    @ivar seconds_left: how long it will still take.
    @ivar rate: bytes per second that a scrub reads; C{next}: when the next one begins by itself.
    @ivar records: how many messages it found right; C{damaged}: how many damaged regions it found.
    """

    running: bool = always(False)
    checked: Int64 = always(0)
    total: Int64 = always(0)
    seconds_left: Double = always(0.0)
    rate: Int64 = always(0)
    next: Int64 = always(0)
    records: Int64 = always(0)
    damaged: Int64 = always(0)
    begun: Int64 = always(0)
    last_ended: Int64 = always(0)
    last_bytes: Int64 = always(0)
    last_records: Int64 = always(0)
    last_damaged: Int64 = always(0)


class TimerProgress(Body):
    """
    The timed messages of a broker.

    @ivar ready: whether it is known what waits.
    @ivar waiting: messages that wait for their time and are not recalled.
    @ivar next: when the next one is due, in milliseconds since the epoch, 0 for none; not before it, and not after
        C{next_latest}, which is the same where the time is known.
    @ivar delivered: messages delivered since the start; C{recalled} those that were recalled.
    @ivar mean_late: mean of how late they were delivered, in milliseconds; C{most_late} the highest.
    @ivar max_delay: how far ahead a delivery time may lie, in seconds.
    """

    ready: bool = always(False)
    waiting: Int64 = always(0)
    next: Int64 = always(0)
    next_latest: Int64 = always(0)
    delivered: Int64 = always(0)
    recalled: Int64 = always(0)
    mean_late: Double = always(0.0)
    most_late: Int64 = always(0)
    max_delay: Int64 = always(0)


class StoreState(Body):
    """
    The state of a broker's store. Times are milliseconds since the epoch, 0 for none; sizes are bytes.

    @ivar begin: physical offset of the log's first byte; C{end} behind its last; C{flushed}: what is durable.
    @ivar earliest: when its oldest message was stored.
    @ivar log_files: files of the log; C{log_size} their size, C{log_limit} its limit (maxLogTotalSize), 0 for none.
    @ivar disk_total: of the disk that holds the log; C{disk_free} of it is free.
    @ivar used_ratio: use of the disk above which expired files go at any hour; C{forcible_ratio} files of any age;
        C{full_ratio} from which on the store takes no messages; C{free_minimum}: free bytes below which it takes none.
    @ivar retention: whether files are removed at all; C{reserved}: how many seconds a file is kept.
    @ivar hours: hours of the day at which expired files go.
    @ivar refusal: why the store takes no messages; C{obstacle}: why the file that was to go cannot.
    @ivar removed_files: log files removed since the start; C{removed_bytes} their size.
    @ivar last_removed: when the last one was removed; C{last_file} its name, C{last_why} the reason.
    @ivar regions: how many damaged regions the log has, of C{damaged_bytes}; C{found} of them were found since the
        start; C{repaired} were put right since the start.
    @ivar newest: the last damaged regions in the log, at most 100.
    @ivar timers: C{null} where the broker delivers no timed messages, such as a slave.
    """

    begin: Int64 = always(0)
    end: Int64 = always(0)
    flushed: Int64 = always(0)
    earliest: Int64 = always(0)
    log_files: Int64 = always(0)
    log_size: Int64 = always(0)
    log_limit: Int64 = always(0)
    disk_total: Int64 = always(0)
    disk_free: Int64 = always(0)
    used_ratio: Double = always(0.0)
    forcible_ratio: Double = always(0.0)
    full_ratio: Double = always(0.0)
    free_minimum: Int64 = always(0)
    retention: bool = always(False)
    reserved: Double = always(0.0)
    hours: list[Int64] = always([])
    refusal: str = always("")
    obstacle: str = always("")
    removed_files: Int64 = always(0)
    removed_bytes: Int64 = always(0)
    last_removed: Int64 = always(0)
    last_file: str = always("")
    last_why: str = always("")
    regions: Int64 = always(0)
    damaged_bytes: Int64 = always(0)
    found: Int64 = always(0)
    repaired: Int64 = always(0)
    newest: list[DamagedRange] = always([])
    scrub: ScrubProgress = field(default_factory=ScrubProgress)
    timers: TimerProgress | None = None
