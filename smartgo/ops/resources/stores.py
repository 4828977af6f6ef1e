"""Resources of brokers' stores: log, disk, retention, damage, the scrub, timed messages; to begin and end a scrub."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.client.administration.asking import named
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.errors import CallFailed
from smartgo.ops.interfaces import DamagedRegion, IntegrityReport, ScrubReport
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.integrity import ScrubOrder
from smartgo.ops.resources.names import BrokerPath, ProcessQuery
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import DamagedRange, StoreState, TimerProgress

_REFUSES: Final = {404: "There is no such broker."}


class LogView(msgspec.Struct, rename="camel"):
    """
    The log. Offsets are physical; sizes are bytes.

    @ivar begin: of its first byte; C{end} behind its last; C{flushed}: what is durable.
    @ivar earliest_ms: when its oldest message was stored, wall clock; 0 where there is none, or it is not known yet.
    @ivar bytes: size of its C{files} files; C{limit} the setting C{maxLogTotalSize}, 0 for none.
    """

    begin: int
    end: int
    flushed: int
    earliest_ms: int
    files: int
    bytes: int
    limit: int


class DiskView(msgspec.Struct, rename="camel"):
    """
    The disk that holds the log. Sizes are bytes; ratios are shares in use, 0 to 1.

    @ivar used_ratio: above it expired log files go at any hour; C{forcible_ratio}: files of any age.
    @ivar full_ratio: from it on the store takes no messages; C{free_minimum}: free bytes below which it takes none.
    """

    total: int
    free: int
    used_ratio: float
    forcible_ratio: float
    full_ratio: float
    free_minimum: int


class RetentionState(msgspec.Struct, rename="camel"):
    """
    Retention; C{GET /brokers/{name}/retention} shows what would be removed next.

    @ivar enabled: whether log files are removed at all.
    @ivar reserved_seconds: how long a log file is kept; C{hours}: hours of the day at which older ones go.
    @ivar obstacle: why the file that was to go cannot; null where none is hindered.
    @ivar removed_files: log files removed since the broker started; C{removed_bytes} their size.
    @ivar last_ms: when the last one was removed, wall clock, 0 for never; C{last_file} its name, C{last_why} why.
    """

    enabled: bool
    reserved_seconds: float
    hours: list[int]
    obstacle: str | None
    removed_files: int
    removed_bytes: int
    last_ms: int
    last_file: str
    last_why: str


class TimersView(msgspec.Struct, rename="camel"):
    """
    Timed messages.

    @ivar ready: whether the broker knows what waits; it reads that at its start.
    @ivar waiting: messages that wait for their time and are not recalled; null until the broker knows that.
    @ivar next_ms: when the next one is due, wall clock, 0 for none: not before it, and not after C{next_latest_ms},
        which is the same where the time is known to the millisecond.
    @ivar delivered: messages delivered since the broker started; C{recalled}: those that were recalled.
    @ivar mean_late_ms: mean of how late they were delivered; C{most_late_ms} the highest.
    @ivar max_delay_seconds: how far ahead a delivery time may lie.
    """

    ready: bool
    waiting: int | None
    next_ms: int
    next_latest_ms: int
    delivered: int
    recalled: int
    mean_late_ms: float
    most_late_ms: int
    max_delay_seconds: int


class StoreView(msgspec.Struct, rename="camel"):
    """
    The store of one broker process.

    @ivar id: 0 the master, others its slaves.
    @ivar refusal: why it takes no messages; null while it does.
    @ivar timers: null where it delivers no timed messages, such as on a slave.
    """

    broker: str
    id: int
    address: str
    refusal: str | None
    log: LogView
    disk: DiskView
    retention: RetentionState
    integrity: IntegrityReport
    timers: TimersView | None


class StoresApi:
    """Stores of brokers."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route(
        "GET",
        "/brokers/{name}/store",
        scope=READ,
        path_type=BrokerPath,
        query=ProcessQuery,
        answer=StoreView,
        refuses=_REFUSES,
    )
    async def store(self, call: RouteCall[BrokerPath, ProcessQuery, None]) -> StoreView:
        """
        Show the store of a broker: its log and disk, retention, damage, the scrub, timed messages.

        Brokers of RocketMQ do not tell it.
        """
        place = await self._view.process(call.path.name, call.query.id)
        try:
            return _view(place, await self._view.partial(call.missing).admin.brokers.store_state(place.address))
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None

    @route(
        "POST",
        "/brokers/{name}/scrub",
        scope=ADMIN,
        path_type=BrokerPath,
        query=ProcessQuery,
        body=ScrubOrder,
        answer=StoreView,
        refuses=_REFUSES,
    )
    async def scrub_log(self, call: RouteCall[BrokerPath, ProcessQuery, ScrubOrder]) -> StoreView:
        """Begin a scrub of a broker's log, or end it; does nothing where that is so already."""
        place = await self._view.process(call.path.name, call.query.id)
        try:
            return _view(place, await self._view.admin.brokers.scrub(place.address, call.body.running))
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None


def _view(place: BrokerPlace, told: StoreState) -> StoreView:
    return StoreView(
        place.name,
        place.id,
        place.address,
        told.refusal or None,
        LogView(told.begin, told.end, told.flushed, told.earliest, told.log_files, told.log_size, told.log_limit),
        DiskView(
            told.disk_total,
            told.disk_free,
            told.used_ratio,
            told.forcible_ratio,
            told.full_ratio,
            told.free_minimum,
        ),
        RetentionState(
            told.retention,
            told.reserved,
            told.hours,
            told.obstacle or None,
            told.removed_files,
            told.removed_bytes,
            told.last_removed,
            told.last_file,
            told.last_why,
        ),
        integrity_of(told),
        None if told.timers is None else _timers(told.timers),
    )


def integrity_of(told: StoreState) -> IntegrityReport:
    """Return the known damage of a store's log, and the state of its scrub."""
    scrub = told.scrub
    return IntegrityReport(
        told.regions,
        told.damaged_bytes,
        told.found,
        [_region(one) for one in told.newest],
        ScrubReport(
            scrub.running,
            scrub.checked,
            scrub.total,
            scrub.seconds_left,
            scrub.records,
            scrub.damaged,
            scrub.begun,
            scrub.last_ended,
            scrub.last_bytes,
            scrub.last_records,
            scrub.last_damaged,
            scrub.rate,
            scrub.next,
        ),
        told.repaired,
    )


def _region(one: DamagedRange) -> DamagedRegion:
    return DamagedRegion(
        one.offset, one.length, one.reason, one.topic, one.queue_id, one.queue_offset, one.found, one.saved
    )


def _timers(told: TimerProgress) -> TimersView:
    return TimersView(
        told.ready,
        told.waiting if told.ready else None,
        told.next,
        told.next_latest,
        told.delivered,
        told.recalled,
        told.mean_late,
        told.most_late,
        told.max_delay,
    )
