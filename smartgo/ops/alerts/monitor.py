"""Measure the cluster for the alert rules: brokers after each sample, groups and registries periodically."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from smartgo.client.administration.brokers import subject_of
from smartgo.client.administration.topics import TopicKind
from smartgo.client.client import Client
from smartgo.client.internal.route import MASTER
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import CallFailed
from smartgo.health.snapshot import BrokerSnapshot, ClusterSnapshot, GroupSnapshot
from smartgo.ops.alerts.growth import led_to
from smartgo.ops.alerts.removals import removals
from smartgo.ops.alerts.table import AlertEvent, AlertTable, Summary, read_saved
from smartgo.ops.figures.history import History
from smartgo.ops.figures.sampler import BrokerFigures
from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.problems import not_kept
from smartgo.ops.reading.deadletterreader import count_open
from smartgo.ops.reading.survey import GroupSurvey
from smartgo.ops.reading.view import ClusterView, each
from smartgo.ops.web.partial import Missing
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.topics import DLQ_PREFIX
from smartgo.tablefile import TableFile

SLOW: Final = 30.0
"""Seconds between two looks at groups and dead letters; more where such a look takes long."""
REST: Final = 50
"""Times as long as such a look took, nothing is asked."""
REGISTRIES: Final = 5.0
"""Seconds between two questions to each registry."""

_PAST: Final = 6 * 3600
_PAST_AT_LEAST: Final = 3600
_DAY: Final = 86_400
_POINTS: Final = 72
_FORESEEN: Final = 60.0  # seconds between two looks at where disks are going
_LOSSES: Final = "group-lost-messages"
_AT_ONCE: Final = 4

T = TypeVar("T")


class AlertMonitor:
    """
    Measures the cluster, updates the table of alerts, logs what fires, notifies listeners.

    @ivar table: the alerts.
    @ivar dead: open dead letters by group, as they were counted last; C{None} for unknown.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        client: Client,
        view: ClusterView,
        survey: GroupSurvey,
        history: History,
        file: TableFile,
        node: ILocalNode | None,
    ) -> None:
        """
        @param history: the sampler's.
        @param file: where alerts are kept.
        @param node: the process around the API; C{None} where it fronts a cluster from outside.
        """
        self._env = env
        self._client = client
        self._view = view
        self._survey = survey
        self._history = history
        self._file = file
        self._node = node
        self._slow_due = 0.0
        self._slow: Deferred[None] | None = None
        self._foreseen: dict[str, float | None] = {}
        self._foreseen_due = 0.0
        self._registries_due = 0.0
        self._registries: Deferred[None] | None = None
        self._idle: dict[str, float] = {}  # since when groups acknowledge nothing, by the monotonic clock
        self._remote: dict[str, Mapping[str, float] | None] = {}  # figures of other brokers' processes
        self._listeners: list[Callable[[Summary], object]] = []
        self._watchers: list[Callable[[], object]] = []
        self._told: Summary | None = None
        self._stopped = False
        self._changing = DeferredLock()
        self.table = AlertTable(own=self._own_names)
        self.dead: Mapping[str, int | None] = {}

    # -- its life ----------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the saved alerts; blocking. @raise BrokenTable: it cannot be read."""
        found = self._file.load(read_saved)
        if found is not None:
            self.table.restore(found)

    async def stop(self) -> None:
        """Stop measuring; fires once the file of alerts is written."""
        self._stopped = True
        for asked in (self._slow, self._registries):
            if asked is not None:
                asked.cancel()
        await self._file.settled()

    def listen(self, hear: Callable[[Summary], object]) -> None:
        """Notify a listener of the number of alerts: now, and on every change."""
        self._listeners.append(hear)
        now = self.summary()
        if self._told is None:
            self._told = now
        hear(now)

    def watch(self, looked: Callable[[], object]) -> None:
        """Have C{looked} called after each time that the rules were applied."""
        self._watchers.append(looked)

    def leave(self, hear: Callable[[Summary], object]) -> None:
        """Stop notifying this listener."""
        self._listeners.remove(hear)

    def summary(self) -> Summary:
        """The number of alerts by state."""
        return self.table.summary(self._env.clock.wall_ms())

    def _own_names(self) -> list[str]:
        """Return the subject of alerts about the broker in this process; nothing where there is none."""
        own = None if self._node is None else self._node.broker_process()
        return [] if own is None else [subject_of(*own)]

    # -- looking -----------------------------------------------------------------------------------------------

    def look(self, brokers: Sequence[BrokerFigures] | None) -> None:
        """
        Apply the rules to the latest samples, and start the slow measurements when they are due.

        @param brokers: their latest samples; C{None} if they could not be measured.
        """
        if self._stopped:
            return
        now = self._env.clock.seconds()
        process = None if self._node is None else dict(self._node.figures())
        if brokers is None:
            self._remote = dict.fromkeys(self._remote)
            self._take(ClusterSnapshot(process=process, remote=self._remote))
        else:
            self._foresee(brokers, now)
            self._take(self._snapshot(brokers, process))
        if now >= self._registries_due and self._registries is None:
            self._registries_due = now + REGISTRIES
            self._registries = Deferred.fromCoroutine(self._look_at_registries())
            self._registries.addErrback(self._failed).addCallback(self._looked_at_registries)
        if now >= self._slow_due and self._slow is None:
            self._slow = Deferred.fromCoroutine(self._look_further())
            self._slow.addErrback(self._failed).addCallback(self._looked_further, now)

    def _snapshot(self, brokers: Sequence[BrokerFigures], process: Mapping[str, float] | None) -> ClusterSnapshot:
        membership = self._view.membership
        observed = membership.table.observed
        silent = {one.name for one in brokers if one.id == MASTER and one.state == "down"}  # broker-down tells that
        masterless = set(membership.table.masterless()) - silent
        registered = {
            subject_of(one.name, one.id): BrokerSnapshot(
                one.up,
                one.disk_ratio,
                self._foreseen.get(one.address),
                one.ha_state,
                one.ha_behind,
                one.clock_offset,
            )
            for one in brokers
            if one.state != "missing"
        }
        own = None if self._node is None else self._node.broker_process()
        self._remote = {
            subject_of(one.name, one.id): one.counts if one.up else None
            for one in brokers
            if one.state != "missing" and (one.name, one.id) != own
        }
        return ClusterSnapshot(
            brokers=registered,
            gone=membership.missing_seconds() if observed else None,
            masterless={one.name: float(one.name in masterless) for one in brokers} if observed else None,
            contended={one.name: float(len(one.contenders)) for one in brokers if one.id == MASTER},
            process=process,
            remote=self._remote,
            details={
                **{("broker-gone", subject): words for subject, words in membership.details().items()},
                **_refusals(brokers, own),
            },
        )

    def _foresee(self, brokers: Sequence[BrokerFigures], now: float) -> None:
        if now < self._foreseen_due:
            return
        self._foreseen_due = now + _FORESEEN
        end = self._env.clock.wall_ms()
        self._foreseen = {one.address: self._tomorrow(one.address, end) for one in brokers}

    def _tomorrow(self, address: str, end_ms: int) -> float | None:
        """Return the share of a broker's disk in use in a day, by the trend of the last hours."""
        series = f"broker:{address}"
        past = self._history.points(series, end_ms - _PAST * 1000, end_ms, _POINTS)
        if not past.at_ms or past.at_ms[-1] - past.at_ms[0] < _PAST_AT_LEAST * 1000:
            return None
        at = [(one - end_ms) / 1000 for one in past.at_ms]
        return led_to(at, past.values[self._history.figures(series).index("diskRatio")], _DAY)

    # -- looking further ---------------------------------------------------------------------------------------

    async def _look_at_registries(self) -> None:
        answers = await each(self._client.registries, self._answers)
        found = dict(zip(self._client.registries, answers, strict=True))
        self._view.membership.observe_registries(found)
        self._take(ClusterSnapshot(registries=found))

    def _looked_at_registries(self, _: object) -> None:
        self._registries = None

    async def _look_further(self) -> None:
        groups = await _or_nothing(self._groups())
        dead = await _or_nothing(self._dead())
        details = await _or_nothing(self._losses(groups or {})) or {}
        self._take(ClusterSnapshot(groups=groups, dead=dead, details=details))

    async def _losses(self, groups: Mapping[str, GroupSnapshot | None]) -> dict[tuple[str, str], str]:
        """Return what was removed before groups read it, by rule and group."""
        losers = [name for name, one in groups.items() if one is not None and one.removed_unread]
        window_ms = round(self.table.default(_LOSSES).window * 1000)
        words = await removals(self._view, self._env.clock.wall_ms() - window_ms) if losers else ""
        return {(_LOSSES, name): words for name in losers} if words else {}

    def _failed(self, failure: Any) -> None:
        if not self._stopped:
            self._log.failure("measuring groups and registries for alerts failed", failure)

    def _looked_further(self, _: object, began: float) -> None:
        self._slow = None
        now = self._env.clock.seconds()
        self._slow_due = now + max(SLOW, REST * (now - began))

    async def _answers(self, address: str) -> bool:
        try:
            await self._client.ask(address, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
        except CallFailed:
            return False
        return True

    async def _groups(self) -> dict[str, GroupSnapshot | None]:
        entries = await self._view.groups.get()
        found: dict[str, GroupSnapshot | None] = dict.fromkeys(entries)
        for name, one in (await self._survey.all.get()).items():
            entry, progress = entries.get(name), one.progress
            if entry is not None and progress is not None:
                enabled = all(config.consume_enable for config in entry.configs.values())
                lag_seconds = None if progress.lag_ms is None else progress.lag_ms / 1000
                found[name] = self._idle_since(
                    name,
                    GroupSnapshot(
                        progress.lag, lag_seconds, progress.consume_tps, one.members, enabled, progress.removed_unread
                    ),
                )
        for gone in self._idle.keys() - entries.keys():
            del self._idle[gone]
        return found

    def _idle_since(self, name: str, group: GroupSnapshot) -> GroupSnapshot:
        """Return the state of a group with the seconds for which it has acknowledged nothing."""
        if not group.idle:
            self._idle.pop(name, None)
            return group
        now = self._env.clock.seconds()
        return group._replace(idle_seconds=now - self._idle.setdefault(name, now))

    async def _dead(self) -> dict[str, int | None]:
        """Open dead letters by group; C{None} if brokers do not report them."""
        topics = await self._view.topics.get()
        dead = [one for one in topics.values() if one.kind == TopicKind.DEAD]
        view = self._view.partial(Missing(), None)
        counts = await each(dead, lambda entry: count_open(view, entry), _AT_ONCE)
        found = {one.name.removeprefix(DLQ_PREFIX): count for one, count in zip(dead, counts, strict=True)}
        if self._view.membership.table.gone():  # their dead letters are not counted, and nobody has seen to them
            found = {**dict.fromkeys(self.dead), **found}
        self.dead = found
        return found

    # -- telling -----------------------------------------------------------------------------------------------

    def _take(self, look: ClusterSnapshot) -> None:
        events = self.table.observe(look, self._env.clock.wall_ms(), self._env.clock.seconds())
        for event in events:
            self._say(event)
        if events:
            self.save()
        self.tell()
        for looked in self._watchers:
            looked()

    def _say(self, event: AlertEvent) -> None:
        alert, rule = event.alert, self.table.default(event.alert.rule)
        name = f"{alert.rule} {alert.subject}".rstrip()  # an alert about the process itself has no subject
        if event.state == "resolved":
            self._log.info("alert {name} is resolved", name=name, rule=alert.rule, subject=alert.subject)
        else:
            words = rule.value_text(alert.value)
            if alert.cause:
                self._log.info(
                    "alert {name} follows from {cause}",
                    name=name,
                    cause=f"{alert.cause} {alert.subject}",
                    rule=alert.rule,
                    subject=alert.subject,
                )
                return
            self._log.warn(
                "alert {name}{words}: {about}",
                name=name,
                words=f", {words}" if words else "",
                rule=alert.rule,
                subject=alert.subject,
                value=alert.value,
                about=f"{alert.detail} {rule.about}".lstrip(),
            )

    def tell(self) -> None:
        """Notify listeners if the number of alerts changed."""
        now = self.summary()
        if now != self._told:
            self._told = now
            for hear in list(self._listeners):
                hear(now)

    def change(self, make: Callable[[AlertTable], T]) -> Deferred[T]:
        """
        Change rules or silences, in memory and in the file or in neither; one change after another.

        @param make: does it in memory; what it raises comes out of the Deferred.
        @return: fires with what that returns, once it is kept.
        @raise Problem: 507, it could not be written, and nothing was changed.
        """
        return self._changing.run(lambda: Deferred.fromCoroutine(self._change(make)))

    async def _change(self, make: Callable[[AlertTable], T]) -> T:
        before = self.table.operator_settings
        made = make(self.table)
        try:
            await self._file.save(self.table.saved())
        except OSError as error:
            self.table.take(before)
            self.save()  # a look may have asked for a save meanwhile, of what is not wanted any more
            raise not_kept(error, self._file.path) from None
        finally:
            self.tell()
        return made

    def save(self) -> Deferred[None]:
        """Save the alerts; fires when they are written, or when the failure is logged."""
        return self._file.save(self.table.saved()).addErrback(self._unsaved)

    def _unsaved(self, failure: Any) -> None:
        failure.trap(OSError)
        self._log.warn("{path} was not written: {error}", path=self._file.path, error=failure.getErrorMessage())


def _refusals(brokers: Iterable[BrokerFigures], own: tuple[str, int] | None) -> dict[tuple[str, str], str]:
    """Return why stores take no messages, by rule and subject. @param own: name and id of this process's broker."""
    return {
        ("store-refuses", "" if (one.name, one.id) == own else subject_of(one.name, one.id)): (
            f"{one.refusal[0].upper()}{one.refusal[1:]}."
        )
        for one in brokers
        if one.refusal
    }


async def _or_nothing(asked: Coroutine[Deferred[Any], Any, T]) -> T | None:
    """Return what is found; C{None} if brokers do not report it."""
    try:
        return await asked
    except CallFailed:
        return None
