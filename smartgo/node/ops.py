"""The REST API as part of a process: what it may know of it, and how it is assembled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from prometheus_client import CollectorRegistry
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.auth.connections import AccessControl
from smartgo.broker.broker import Broker
from smartgo.broker.figures.storestate import state_of
from smartgo.broker.interfaces import IBroker
from smartgo.broker.settings.changes import Change, Who
from smartgo.broker.settings.live import LiveSettings, Planned
from smartgo.config.catalog import Setting, settings_of, show
from smartgo.config.loading import Configuration
from smartgo.config.reference import default_of
from smartgo.config.settings import TABLES
from smartgo.config.sources import Origin
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import NoPermission, ServiceNotAvailable, SettingError
from smartgo.health.readiness import PartState, part_state, store_state
from smartgo.net.sweeper import Sweeper
from smartgo.node.accesscontrol import own_key
from smartgo.node.process import client_tls, server_tls
from smartgo.node.registryserver import Registry, own_address
from smartgo.node.stalls import StallWatch
from smartgo.ops.alerts.alertmetrics import AlertMetrics
from smartgo.ops.alerts.noticemetrics import DeadLetterMetrics, NoticeMetrics
from smartgo.ops.figures.accessmetrics import AccessMetrics
from smartgo.ops.figures.membershipmetrics import MembershipMetrics
from smartgo.ops.figures.metrics import Stalls, metrics_of
from smartgo.ops.interfaces import (
    AskedSettings,
    ChangedSetting,
    ClosedConnection,
    ILocalNode,
    IntegrityReport,
    RecoveryReport,
    SettingChange,
    SettingValue,
)
from smartgo.ops.resources.stores import integrity_of
from smartgo.ops.service import Ops, OpsNetwork
from smartgo.remoting.interfaces import IPeer


@implementer(ILocalNode)
class LocalNode:
    """A process with a registry, a broker, or both."""

    def __init__(
        self, configuration: Configuration, services: Sequence[Registry | Broker], stalls: StallWatch | None = None
    ) -> None:
        """@param stalls: counts when the reactor stood still; C{None} where nobody does."""
        self._configuration = configuration
        self._services = tuple(services)
        self._stalls = stalls
        self._broker = next((one for one in services if isinstance(one, Broker)), None)
        self._failed: dict[object, str] = {}
        self._started: set[object] = set()
        for service in services:
            watch: Deferred[object] = service.ready  # type: ignore[assignment]
            watch.addCallbacks(self._ready, self._not_ready, errbackArgs=(service,))

    def _ready(self, service: object) -> object:
        self._started.add(service)
        return service

    def _not_ready(self, failure: Failure, service: object) -> Failure:
        self._failed[service] = "it could not start"
        return failure

    def settings(self) -> Iterable[SettingValue]:
        """Every setting of the tables that this process has read."""
        configuration = self._in_force
        for table in TABLES:
            values = dict(show(table, getattr(configuration, table)))
            for setting in settings_of(table):
                origin = configuration.origins.get((table, setting.name))
                if origin is not None:
                    yield self._described(setting, values[setting.name], origin)

    @property
    def _in_force(self) -> Configuration:
        return self._configuration if self._broker is None else self._broker.settings.configuration

    def _described(self, setting: Setting, value: str, origin: Origin) -> SettingValue:
        broker = self._broker if self._broker in self._started else None
        changeable = broker is not None and setting.name in broker.settings.changeable
        kind = setting.kind
        default = default_of(setting).strip("`")
        return SettingValue(
            setting.table, setting.name, value, default, origin.source, origin.detail, setting.about, kind.allowed,
            list(kind.choices), changeable,
        )  # fmt: skip

    # -- changing them -----------------------------------------------------------------------------------------

    @property
    def _live(self) -> LiveSettings:
        if self._broker is None:
            raise NoPermission("no setting of a registry can be changed while it runs")
        if self._broker not in self._started:
            # What was kept is read during the start: a change before that would be lost, or lose what was kept.
            raise ServiceNotAvailable("the broker has not started: its settings can be changed once it has")
        return self._broker.settings

    def plan(self, changes: Mapping[str, str], keep: bool) -> list[ChangedSetting]:
        """Return the effect that changes of the broker's settings would have."""
        return [self._changed(one) for one in self._live.plan(changes.items(), keep)]

    def change(self, changes: Mapping[str, str], who: str, address: str, keep: bool) -> Deferred[list[ChangedSetting]]:
        """Change settings of the broker."""
        before = {one.name: one for one in self.plan(changes, keep)}
        done = self._live.change(changes.items(), Who(who, address), keep)
        return done.addCallback(lambda _: [self._now(one) for one in before.values()])

    def history(self) -> list[SettingChange]:
        """Return the changes of the broker's settings, newest first."""
        if self._broker is None:
            return []
        history = self._broker.settings.history
        undone = {one.undoes: one.id for one in history if one.undoes is not None}
        return [
            SettingChange(
                one.id, one.at_ms, one.who, one.address, one.table, one.name, one.before, one.after,
                one.kept_before != one.kept_after, one.undoes, undone.get(one.id),
                self._broker.settings.undoable(one),
            )
            for one in reversed(history)
        ]  # fmt: skip

    def plan_undo(self, id: int) -> list[ChangedSetting]:
        """Return the effect that undoing a change would have."""
        return [self._changed(self._live.plan_undo(self._change(id)))]

    def undo(self, id: int, who: str, address: str) -> Deferred[list[ChangedSetting]]:
        """Undo a change of the broker's settings."""
        planned = self.plan_undo(id)
        done = self._live.undo(self._change(id), Who(who, address))
        return done.addCallback(lambda _: [self._now(one) for one in planned])

    def _change(self, id: int) -> Change:
        for one in self._live.history:
            if one.id == id:
                return one
        raise LookupError(id)

    def _changed(self, planned: Planned) -> ChangedSetting:
        described = self._described(planned.setting, planned.after, planned.origin)
        return ChangedSetting(**msgspec.structs.asdict(described), before=planned.before)

    def _now(self, planned: ChangedSetting) -> ChangedSetting:
        """Return a planned change with the value in force now."""
        origin = self._in_force.origins[planned.table, planned.name]
        return msgspec.structs.replace(planned, origin=origin.source, place=origin.detail)

    def hear(self, take: Callable[[AskedSettings], object]) -> None:
        """Tell of what is asked for over remoting."""
        if self._broker is not None:
            self._broker.settings.requested.add(
                lambda asked: take(AskedSettings(asked.who.address, asked.changes, asked.before, asked.error))
            )

    def close_client(self, client_id: str, reason: str) -> list[ClosedConnection]:
        """Close the connections of a client of the broker."""
        broker = None if self._broker is None else self._broker.opened
        if broker is None:
            return []
        found: dict[IPeer, ClosedConnection] = {}
        name = broker.settings.configuration.broker.broker_name
        for group in broker.producers.groups():
            for member in broker.producers.members(group):
                if member.client_id == client_id:
                    _closing(found, name, member.peer).producer_groups.append(group)
        for group in broker.consumers.groups():
            consumers = broker.consumers.get(group)
            for member in () if consumers is None else consumers.members.values():
                if member.client_id == client_id:
                    _closing(found, name, member.peer).consumer_groups.append(group)
        for peer in found:
            peer.close(reason)
        return list(found.values())

    def broker_process(self) -> tuple[str, int] | None:
        """Return name and id of the broker in this process."""
        if self._broker is None:
            return None
        identity = self._in_force.broker
        return identity.broker_name, identity.broker_id

    def checks(self) -> Iterable[PartState]:
        """Return the state of each part of the process: has it started, and does the store accept messages."""
        for service in self._services:
            name = "registry" if isinstance(service, Registry) else "broker"
            started = service in self._started
            yield part_state(name, started, self._failed.get(service))
            if isinstance(service, Broker) and service.opened is not None and started:
                refusal = service.opened.store.refusal
                yield store_state(None if refusal is None else refusal.words)

    def recovery(self) -> RecoveryReport | None:
        """Return how far the recovery of the broker's store is."""
        now = None if self._broker is None else self._broker.recovered_so_far
        return None if now is None else RecoveryReport(now.read_bytes, now.total_bytes, now.percent, now.seconds_left)

    def figures(self) -> Mapping[str, float]:
        """Return the figures of the process that no request of the remoting protocol gives."""
        found: dict[str, float] = {}
        if self._stalls is not None:
            found["reactorStalls"] = self._stalls.count
            found["reactorLongestStallSeconds"] = round(self._stalls.longest, 6)
        controls = [one.access for one in self._services if one.access is not None]
        if controls:
            found["accessFilesRefused"] = float(any(one.problem for one in controls))
        for service in self._services:
            if not isinstance(service, Broker):
                continue
            if service.opened is not None and service in self._started:
                found.update(_figures_of(service.opened))
            else:
                found["brokerStarts"] = float(service not in self._failed)
                recovery = self.recovery()
                if recovery is not None:
                    found["recoveryReadBytes"] = recovery.read_bytes
                    found["recoveryTotalBytes"] = recovery.total_bytes
                    found["recoveryPercent"] = recovery.percent
                    found["recoverySecondsLeft"] = -1 if recovery.seconds_left is None else recovery.seconds_left
        return found

    def integrity(self) -> IntegrityReport | None:
        """Return what is damaged in the broker's log."""
        broker = self._broker
        if broker is None or broker.opened is None or broker not in self._started:
            return None
        return integrity_of(state_of(broker.opened))

    def scrub(self, running: bool) -> IntegrityReport | None:
        """Begin a scrub of the broker's log, or end it."""
        broker = self._broker
        if broker is not None and broker.opened is not None and broker in self._started:
            scrub = broker.opened.store.scrub
            if running and not scrub.running:
                scrub.start()
            elif scrub.running and not running:
                scrub.stop()
        return self.integrity()


def _closing(found: dict[IPeer, ClosedConnection], broker: str, peer: IPeer) -> ClosedConnection:
    """Return the row of a connection that is to be closed, added to C{found} if it is new."""
    return found.setdefault(peer, ClosedConnection(broker, peer.address, [], []))


def _figures_of(broker: IBroker) -> dict[str, float]:
    """Return the figures of a broker that serves."""
    limits = broker.settings.configuration.limits
    first, end = broker.store.log_bounds()
    return {
        "logFirstOffset": first,
        "logEndOffset": end,
        "logUnflushedBytes": end - broker.store.flushed,
        "brokerStarts": 0.0,
        "storeRefuses": float(broker.store.refusal is not None),
        "putFailures": broker.stats.put_failures,
        "indexBehindBytes": broker.store.index_behind,
        "oldestTransactionSeconds": _oldest_transaction(broker),
        "damagedRegions": len(broker.store.damage),
        "damagedBytes": broker.store.damage.size,
        "scrubSecondsLeft": round(broker.store.scrub.seconds_left, 1),
        "heldPulls": broker.long_polls.count,
        "heldPullsLimit": limits.max_held_pulls,
        "connections": broker.connections,
        "connectionsTurnedAway": broker.connection_counts.turned_away,
        "registriesWithoutUs": broker.registries_without_us,
    }


def _oldest_transaction(broker: IBroker) -> float:
    """Return the age in seconds of the oldest of what was undecided at the last round of check-backs; 0 for none."""
    oldest_ms = None if broker.transactions is None else broker.transactions.oldest_ms
    return 0.0 if oldest_ms is None else max(0.0, (broker.env.clock.wall_ms() - oldest_ms) / 1000)


def assemble(
    env: IEnvironment,
    configuration: Configuration,
    place: tuple[str, int],
    services: Sequence[Registry | Broker],
    sweeper: Sweeper,
    stalls: StallWatch | None = None,
    access: AccessControl | None = None,
) -> Ops:
    """
    Return the API of a process.

    @param place: where to serve.
    @param services: the registry and the broker of this process, as far as there are any.
    @param sweeper: timers and memory budget of connections, shared with these services.
    @param access: the access control of the process; C{None}: that of the services, if any has it.
    @raise SettingError: a setting that cannot be followed.
    """
    node = LocalNode(configuration, services, stalls) if services else None
    registries = registries_of(configuration, services)
    key = next((one.access_key for one in services if one.access_key is not None), None) or own_key(env, configuration)
    access = access or next((one.access for one in services if one.access is not None), None)
    tls = server_tls(env, configuration.tls, (b"http/1.1",))
    shown = _metrics(env, services, sweeper, stalls)
    network = OpsNetwork(place, registries, tls, client_tls(env, configuration.tls), key, access)
    ops = Ops(env, configuration.ops, network, sweeper, node, lambda: shown)
    shown.register(NoticeMetrics(ops.notifier.queues))
    shown.register(DeadLetterMetrics(lambda: ops.alerts.dead))
    shown.register(MembershipMetrics(ops.membership))
    shown.register(AlertMetrics(ops.alerts.table))
    if access is not None:
        shown.register(AccessMetrics(access))
    return ops


def _metrics(
    env: IEnvironment, services: Sequence[Registry | Broker], sweeper: Sweeper, stalls: StallWatch | None
) -> CollectorRegistry:
    """Return the metrics of a process for Prometheus."""
    return metrics_of(
        env,
        next((one for one in services if isinstance(one, Broker)), None),
        next((one.routes for one in services if isinstance(one, Registry)), None),
        None if stalls is None else lambda: Stalls(stalls.count, stalls.longest),
        sweeper.budget,
        sweeper.slow,
    )


def registries_of(configuration: Configuration, services: Sequence[Registry | Broker]) -> tuple[str, ...]:
    """
    Return the registries to ask: this process's own first, then those that its broker registers with.

    @raise SettingError: there is none.
    """
    return registries_named(configuration, any(isinstance(one, Registry) for one in services))


def registries_named(configuration: Configuration, with_own: bool) -> tuple[str, ...]:
    """
    Return the registries that a configuration names.

    @param with_own: whether the process has a registry of its own, which comes first.
    @raise SettingError: there is none.
    """
    found = list(configuration.broker.namesrv_addr)
    if with_own:
        own = own_address(configuration.registry)
        found = [own, *(one for one in found if one != own)]
    if not found:
        raise SettingError("the REST API needs a registry: name it by --registry or namesrvAddr, or set opsListen=off")
    return tuple(found)
