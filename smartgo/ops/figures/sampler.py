"""
Sample the brokers: every second while somebody listens, else every ten seconds; for charts always every ten.

Rates are made of totals that brokers tell of themselves, so that one request a broker is enough, and nothing that was
counted between two looks is lost. Charts have their own totals: what somebody listens to does not change their step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from twisted.logger import Logger

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadBody, CallFailed
from smartgo.ops.figures.history import History, decoded, encoded_part, joined
from smartgo.ops.figures.processcounts import counts_of, number_of
from smartgo.ops.figures.samplingschedule import SamplingSchedule
from smartgo.ops.membership.members import BrokerState, ProcessState
from smartgo.ops.reading.progress import Progress, ProgressReader
from smartgo.ops.reading.replicas import following_of
from smartgo.ops.reading.view import ClusterView, each
from smartgo.ops.web.partial import Missing
from smartgo.schema import refusalkind
from smartgo.schema.timers import TIMERS_WAIT

LISTENED: Final = 1.0
"""Seconds between two looks while somebody listens."""
UNHEARD: Final = 10.0
"""Seconds between two looks otherwise."""
SOON: Final = 2.0
"""Seconds between two looks, where the one who is told of them waits for something."""
RECORDED: Final = 10.0
"""Seconds between two samples of a chart."""
GROUPS: Final = 5.0
"""Seconds between two looks at the groups that somebody listens to."""
SAVED: Final = 300.0
"""Seconds between two writings of the history, of a small one."""
SAVED_BYTES: Final = 65536
"""Bytes a second that are written on average, of a large one."""

LANE: Final = "tables"

_SAVED_AT_ONCE: Final = 20  # series

FIGURES: Final = ("putTps", "getTps", "putBytes", "getBytes", "diskRatio", "logBytes")

_TOTALS: Final = (
    ("putTps", "msgPutTotalTodayNow"),
    ("getTps", "msgGetTotalTodayNow"),
    ("putBytes", "putMessageSizeTotal"),
    ("getBytes", "getMessageSizeTotal"),
)


class BrokerFigures(msgspec.Struct, rename="camel"):
    """
    The latest sample of one broker.

    @ivar state: C{up}, C{down} if it does not answer, C{missing} if it was there and is no longer registered.
    @ivar broker_state: C{up}, C{slave-missing}, C{no-master} or C{missing}, of the master and its slaves together.
    @ivar put_tps: messages a second since the last look; C{get_tps}, and bytes, are the same.
    @ivar ha_state: how a slave stands to its master, as C{GET /brokers/{name}} says it; null for masters.
    @ivar ha_behind: bytes of its master's log that a slave lacks; null for unknown.
    @ivar refusal: why its store takes no messages; null where it takes them.
    @ivar clock_offset: seconds by which its wall clock is ahead of ours; null for unknown.
    @ivar contenders: addresses of others that claim to be the master of its name.
    @ivar timed: timed messages that wait there for their time; null for unknown.
    @ivar counts: figures of its process that alerts judge, named as in C{GET /process}.
    """

    cluster: str
    name: str
    id: int
    address: str
    up: bool
    put_tps: float = 0.0
    get_tps: float = 0.0
    put_bytes: float = 0.0
    get_bytes: float = 0.0
    disk_ratio: float = 0.0
    log_bytes: float = 0.0
    ha_state: str | None = None
    ha_behind: int | None = None
    state: ProcessState = "up"
    broker_state: BrokerState = "up"
    refusal: str | None = None
    clock_offset: float | None = None
    contenders: list[str] = []
    timed: int | None = None
    counts: dict[str, float] = {}


class ClusterFigures(msgspec.Struct, rename="camel"):
    """The latest samples of all brokers; wall clock in ms."""

    at_ms: int
    put_tps: float
    get_tps: float
    put_bytes: float
    get_bytes: float
    brokers: list[BrokerFigures]


class TopicFigures(msgspec.Struct, rename="camel"):
    """Messages per second stored in a topic in the last minute."""

    name: str
    put_tps: float


class GroupFigures(msgspec.Struct, rename="camel"):
    """The lag of one group."""

    name: str
    progress: Progress


class FigureListener:
    """
    A listener that receives samples as they are taken.

    @ivar topics: of these; C{groups} of these too.
    """

    def __init__(self, hear: Callable[[str, Any], object], topics: Iterable[str], groups: Iterable[str]) -> None:
        """@param hear: is given the kind of figures, and them."""
        self.hear = hear
        self.topics = tuple(topics)
        self.groups = tuple(groups)


class FigureSampler:
    """Takes samples, keeps their history, notifies listeners."""

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        view: ClusterView,
        progress: ProgressReader,
        history: History,
        path: str,
        looked: Callable[[Sequence[BrokerFigures] | None], bool] = lambda brokers: False,
    ) -> None:
        """
        @param path: the file of the history.
        @param looked: is told after each look what brokers do, C{None} where that could not be asked; returns whether
            the next look is wanted soon.
        """
        self._env = env
        self._view = view
        self._progress = progress
        self._path = path
        self._looked = looked
        self._wanted_soon = False
        self._rows: list[BrokerFigures] | None = None
        self.history = history
        self._listeners: list[FigureListener] = []
        self._schedule = SamplingSchedule(env.clock, "the cluster", self._look, self._pause)
        self._last: _Totals = {}
        self._recorded: _Totals = {}
        self._record_due = 0.0
        self._groups_due = 0.0
        self._save_due = 0.0

    # -- its life ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """
        Read the history; blocking, for a thread, before anybody uses it. One that cannot be read is begun anew: it is a
        comfort, and no record.
        """
        if not self._env.files.exists(self._path):
            return
        try:
            self.history.restore(decoded(self._env.files.read(self._path)))
        except (BadBody, OSError) as error:
            self._log.warn(
                "the history {path} cannot be read and starts empty: {error}", path=self._path, error=str(error)
            )

    def start(self) -> None:
        """Start sampling."""
        self._save_due = self._env.clock.seconds() + SAVED
        self._schedule.start(LISTENED)

    async def stop(self) -> None:
        """Stop sampling and save the history."""
        self._schedule.stop()
        await self._save()

    def listen(self, listener: FigureListener) -> None:
        """Send samples to a listener from now on."""
        self._listeners.append(listener)
        if listener.groups:
            self._groups_due = 0.0
        self._schedule.hurry()

    def leave(self, listener: FigureListener) -> None:
        """Stop sending samples to this listener."""
        self._listeners.remove(listener)

    def _pause(self, took: float) -> float:
        if self._listeners:
            return max(0.0, LISTENED - took)
        if self._wanted_soon:
            return max(0.0, SOON - took)
        recorded = self._record_due + LISTENED / 2 - self._env.clock.seconds()  # so that points keep their distance
        return recorded if SOON < recorded < UNHEARD - took else max(0.0, UNHEARD - took)

    # -- looking -----------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Take a sample, and tell whoever wants to know each look, also one that failed."""
        self._rows = None
        try:
            await self._round()
        finally:
            if not self._schedule.stopped:
                self._wanted_soon = self._looked(self._rows)

    async def _round(self) -> None:
        now = self._env.clock.seconds()
        await self._brokers()
        await self._topics()
        if now >= self._groups_due:
            self._groups_due = now + GROUPS
            await self._groups()
        if now >= self._save_due:
            self._save_due = now + SAVED
            await self._save()

    async def _brokers(self) -> None:
        self._view.runtimes.forget()
        told = await self._view.runtimes.get()
        places = await self._view.brokers.get()
        now, at_ms = self._env.clock.seconds(), self._env.clock.wall_ms()
        rows = [_row(place, told.get(place.address, ""), now, self._last) for place in places]
        _forget_all_but(self._last, places)
        if now >= self._record_due:
            self._record_due = now + RECORDED - LISTENED / 2
            self._record(places, told, now, at_ms)
        self._rows = rows = self._with_missing(rows)
        sums = _sums(rows)
        self._tell("cluster", ClusterFigures(at_ms, sums[0], sums[1], sums[2], sums[3], rows))

    def _record(
        self, places: Sequence[BrokerPlace], told: Mapping[str, Mapping[str, str] | str], now: float, at_ms: int
    ) -> None:
        """Add a point to the charts; the first sample of a broker has no rates yet, and makes no point."""
        known = set(self._recorded)
        rows = [_row(place, told.get(place.address, ""), now, self._recorded) for place in places]
        _forget_all_but(self._recorded, places)
        rows = [row for row in rows if row.up and row.address in known]
        for row in rows:
            self.history.add(f"broker:{row.address}", at_ms, FIGURES, _values(row))
        if rows or known:
            self.history.add("cluster", at_ms, FIGURES, _sums(rows))

    def _with_missing(self, rows: list[BrokerFigures]) -> list[BrokerFigures]:
        """Return the rows with their states, and a row of zeroes for each process that is missing."""
        known = {(one.name, one.id): one for one in rows}
        found = list(rows)
        for status in self._view.membership.statuses():
            member = status.member
            row = known.get((member.name, member.id))
            if row is None:
                if status.state != "missing":
                    continue  # registered since the rows were made
                row = BrokerFigures(member.cluster, member.name, member.id, member.address, False)
                found.append(row)
            row.state = status.state
            row.broker_state = status.broker_state
            row.contenders = self._view.contenders.get(row.name, []) if row.id == 0 else []
            row.clock_offset = self._view.clock_offset(row.address) if row.up else None
        return sorted(found, key=lambda one: (one.cluster, one.name, one.id))

    async def _topics(self) -> None:
        wanted = sorted({topic for one in self._listeners for topic in one.topics})
        if not wanted:
            return
        brokers = self._view.partial(Missing()).admin.brokers
        counted = await each(wanted, lambda topic: brokers.counters("TOPIC_PUT_NUMS", topic))
        found = {
            topic: TopicFigures(topic, sum(one.stats_minute.tps for one in brokers.values()))
            for topic, brokers in zip(wanted, counted, strict=True)
        }
        for listener in list(self._listeners):
            rows = [found[topic] for topic in listener.topics if topic in found]
            if rows:
                listener.hear("topics", rows)

    async def _groups(self) -> None:
        found: dict[str, GroupFigures] = {}
        wanted = sorted({group for one in self._listeners for group in one.groups})
        known = await self._view.groups.get() if wanted else {}
        view = self._view.partial(Missing(), None)
        for group in wanted:
            if group not in known:
                continue
            try:
                found[group] = GroupFigures(group, await self._progress.progress(group, view))
            except CallFailed:
                continue
        for listener in list(self._listeners):
            rows = [found[group] for group in listener.groups if group in found]
            if rows:
                listener.hear("groups", rows)

    def _tell(self, kind: str, figures: Any) -> None:
        for listener in list(self._listeners):
            listener.hear(kind, figures)

    # -- keeping it --------------------------------------------------------------------------------------------

    async def _save(self) -> None:
        try:
            series: list[msgspec.Raw] = []
            for part in self.history.saved_parts(_SAVED_AT_ONCE):
                series += await self._env.threads.run(LANE, encoded_part, part)
            size = await self._env.threads.run(LANE, self._write, series)
            self._save_due = max(self._save_due, self._env.clock.seconds() + size / SAVED_BYTES)
        except OSError as error:
            self._log.warn("the history {path} was not written: {error}", path=self._path, error=str(error))

    def _write(self, series: list[msgspec.Raw]) -> int:
        """Write the history in a thread; return its size in bytes."""
        data = joined(series)
        self._env.files.replace(self._path, data, False)
        return len(data)


_Totals: TypeAlias = dict[str, tuple[float, dict[str, float]]]
"""The totals of each broker at the last look, by address, with when that was."""


def _row(place: BrokerPlace, told: Mapping[str, str] | str, now: float, last: _Totals) -> BrokerFigures:
    """Return the figures of a broker, with its rates since the last look, which this one replaces."""
    if isinstance(told, str):
        return BrokerFigures(place.cluster, place.name, place.id, place.address, False)
    totals = {figure: number_of(told, name) for figure, name in _TOTALS}
    before, old = last.get(place.address, (now, totals))
    last[place.address] = (now, totals)
    passed = now - before
    # A broker that was started anew counts from 0 again.
    rates = {figure: max(0.0, totals[figure] - old[figure]) / passed if passed > 0 else 0.0 for figure, _ in _TOTALS}
    following = following_of(told)
    log_bytes = number_of(told, "commitLogMaxOffset") - number_of(told, "commitLogMinOffset")
    return BrokerFigures(
        place.cluster,
        place.name,
        place.id,
        place.address,
        True,
        rates["putTps"],
        rates["getTps"],
        rates["putBytes"],
        rates["getBytes"],
        number_of(told, "commitLogDiskRatio"),
        log_bytes,
        None if following is None else following.state,
        None if following is None else following.behind,
        refusal=told.get(refusalkind.WORDS),
        timed=int(waiting) if (waiting := told.get(TIMERS_WAIT, "")).isdecimal() else None,
        counts=counts_of(told),
    )


def _forget_all_but(last: _Totals, places: Sequence[BrokerPlace]) -> None:
    for address in set(last) - {place.address for place in places}:
        del last[address]


def _sums(rows: Sequence[BrokerFigures]) -> list[float]:
    """The figures of all brokers together; of the disk's ratio the worst."""
    sums = [sum(values) for values in zip(*(_values(row) for row in rows), strict=True)] or [0.0] * len(FIGURES)
    sums[4] = max((row.disk_ratio for row in rows), default=0.0)
    return sums


def _values(row: BrokerFigures) -> tuple[float, ...]:
    return (row.put_tps, row.get_tps, row.put_bytes, row.get_bytes, row.disk_ratio, row.log_bytes)
