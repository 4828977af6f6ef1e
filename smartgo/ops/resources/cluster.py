"""Resources about the cluster as a whole, its brokers and its registries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal

import msgspec

from smartgo.client.administration.asking import named
from smartgo.client.administration.brokers import subject_of
from smartgo.client.administration.groups import is_built_in
from smartgo.client.administration.topics import TopicKind
from smartgo.client.client import Client
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.membership.members import Unreachable
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView, Source, each
from smartgo.ops.resources.brokerrows import BROKER_SORTS, BrokerRow, BrokerView, broker_rows, broker_view
from smartgo.ops.resources.kv import NameValue
from smartgo.ops.resources.names import BrokerPath, ProcessQuery
from smartgo.ops.security.audit import hidden
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import Missing, Partial
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import ClusterInfo
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command

_NO_BROKER: Final = {404: "There is no such broker."}


class RegistryRow(msgspec.Struct, rename="camel"):
    """
    One registry.

    @ivar milliseconds: how long its answer took.
    @ivar brokers: broker processes that it knows.
    @ivar last_seen_ms: when it answered for the last time, wall clock; null if it did not since the start.
    """

    address: str
    up: bool
    milliseconds: float | None = None
    brokers: int | None = None
    error: str | None = None
    last_seen_ms: int | None = None


class ClusterRow(msgspec.Struct, rename="camel"):
    """One cluster and the names of its brokers."""

    name: str
    brokers: list[str]


class ClusterTotals(Partial, rename="camel"):
    """
    Totals of the cluster; rates are messages per second over 10 s.

    @ivar topics: topics at all brokers that answered; null if none did. C{groups} likewise.
    @ivar application_topics: of the topics those of applications, without retry, dead letter and system topics;
        C{application_groups}: of the groups those that brokers do not have for themselves.
    @ivar brokers: broker processes, those that are missing too; C{brokers_down}: those that are missing or do not
        answer, C{brokers_missing}: only those that were there and are no longer registered.
    @ivar unreachable: what cannot be reached as brokers are missing; null while no broker is. A topic at two of them
        counts twice.
    @ivar missing: brokers that did not answer: their rates and messages are not counted.
    @ivar uncounted: the broker processes, slaves as C{NAME#ID}, whose rates, messages of today and log are not in the
        sums, as they are missing or do not answer.
    """

    clusters: list[ClusterRow]
    registries: list[str]
    brokers: int
    brokers_down: int
    topics: int | None
    groups: int | None
    put_tps: float
    get_tps: float
    put_today: int
    get_today: int
    log_bytes: int
    brokers_missing: int
    unreachable: Unreachable | None
    application_topics: int | None
    application_groups: int | None
    uncounted: list[str] = []


class Writable(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Permission of producers to use a broker."""

    writable: bool


class Affected(msgspec.Struct, rename="camel"):
    """Number of affected topics."""

    topics: int


class Clean(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    Files or queues to clean up.

    C{queues}: queue entries whose messages were removed; C{topics}: queues of deleted topics; C{log}: expired log
    files.
    """

    what: Literal["queues", "topics", "log"]


class ExpiringFileRow(msgspec.Struct, rename="camel"):
    """
    One log file that would be removed.

    @ivar modified: when it was last changed, in milliseconds since the epoch.
    @ivar reason: C{expired}, C{disk} or C{size}; C{why} the same with its numbers.
    """

    name: str
    size: int
    modified: int
    reason: str
    why: str


class RetentionView(msgspec.Struct, rename="camel"):
    """
    The log files that a cleanup of the log would remove now, the oldest first.

    @ivar kept: why the next file stays.
    @ivar removed_files: log files removed since the broker started; C{removed_bytes} their size.
    """

    files: list[ExpiringFileRow]
    kept: str
    removed_files: int
    removed_bytes: int


class ClusterApi:
    """The cluster, its brokers and its registries."""

    def __init__(self, clock: IClock, client: Client, view: ClusterView) -> None:
        self._clock = clock
        self._client = client
        self._view = view

    @route("GET", "/cluster", scope=READ, answer=ClusterTotals)
    async def totals(self, call: RouteCall[None, None, None]) -> ClusterTotals:
        """Show totals of the cluster."""
        view = self._view.partial(call.missing)
        rows = await broker_rows(self._view, view)
        clusters: dict[str, set[str]] = {}
        for one in rows:
            clusters.setdefault(one.cluster, set()).add(one.name)
        return ClusterTotals(
            [ClusterRow(name, sorted(brokers)) for name, brokers in sorted(clusters.items())],
            list(self._client.registries),
            len(rows),
            sum(not one.up for one in rows),
            await _count(view.topics) if rows else 0,
            await _count(view.groups) if rows else 0,
            sum(one.put_tps or 0.0 for one in rows),
            sum(one.get_tps or 0.0 for one in rows),
            sum(one.put_today or 0 for one in rows),
            sum(one.get_today or 0 for one in rows),
            sum(one.log_bytes or 0 for one in rows if one.id == 0),
            sum(one.state == "missing" for one in rows),
            self._unreachable(),
            await _count(view.topics, lambda one: one.kind == TopicKind.NORMAL) if rows else 0,
            await _count(view.groups, lambda one: not is_built_in(one.name)) if rows else 0,
            [subject_of(one.name, one.id) for one in rows if not one.up],
        )

    def _unreachable(self) -> Unreachable | None:
        lost = self._view.membership.table.lost().values()
        if not lost:
            return None
        counted = [one.counted_ms for one in lost if one.counted_ms is not None]
        return Unreachable(
            _sum_known(one.topics for one in lost),
            _sum_known(one.queues for one in lost),
            _sum_known(one.messages for one in lost),
            min(counted, default=None),
            sum(timed) if (timed := [one.timed for one in lost if one.timed is not None]) else None,
        )

    # -- brokers -----------------------------------------------------------------------------------------------

    @route("GET", "/brokers", scope=READ, query=ListQuery, answer=Page[BrokerRow])
    async def brokers(self, call: RouteCall[None, ListQuery, None]) -> Page[BrokerRow]:
        """List broker processes; sorted by name, cluster, address, putTps, getTps, diskRatio or logBytes."""
        rows = await broker_rows(self._view, self._view.partial(call.missing))
        return page_of(rows, call.query, BROKER_SORTS, lambda one: one.name, "cluster")

    @route("GET", "/brokers/{name}", scope=READ, path_type=BrokerPath, answer=BrokerView, refuses=_NO_BROKER)
    async def broker(self, call: RouteCall[BrokerPath, None, None]) -> BrokerView:
        """
        Show a broker: its master with its runtime information, and its slaves.

        A broker whose master is missing is shown with the master's row, however many slaves answer.
        """
        view = self._view.partial(Missing())
        rows = [one for one in await broker_rows(self._view, view) if one.name == call.path.name]
        if not rows:
            raise Problem(404, f"there is no broker {call.path.name}", "broker-not-found")
        told = (await self._view.runtimes.get()).get(rows[0].address, "")
        table, name = self._view.membership.table, call.path.name
        return broker_view(rows, told if rows[0].up else "", table.content(name), table.timed_at(name))

    @route(
        "GET",
        "/brokers/{name}/config",
        scope=ADMIN,
        path_type=BrokerPath,
        query=ListQuery,
        answer=Page[NameValue],
        refuses=_NO_BROKER,
    )
    async def broker_config(self, call: RouteCall[BrokerPath, ListQuery, None]) -> Page[NameValue]:
        """
        List the settings that a broker reports; C{GET /config} shows where each setting of this process comes from.
        """
        place = await self._view.broker(call.path.name)
        try:
            told = await self._view.partial(call.missing).admin.brokers.settings(place.address)
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None
        rows = [NameValue(name, hidden(name, value)) for name, value in told.items()]
        return page_of(rows, call.query, {"name": lambda one: one.name}, lambda one: one.name, "name")

    @route(
        "PUT",
        "/brokers/{name}/writable",
        scope=ADMIN,
        path_type=BrokerPath,
        body=Writable,
        answer=Affected,
        refuses=_NO_BROKER,
    )
    async def writable(self, call: RouteCall[BrokerPath, None, Writable]) -> Affected:
        """
        Stop producers from using a broker, or let them use it again.

        Registries stop routing producers to it. This lasts until the broker registers changed topics.
        """
        place = await self._view.broker(call.path.name)
        order = self._view.admin.brokers.restore_write if call.body.writable else self._view.admin.brokers.wipe_write
        return Affected(await order(place.name))

    @route("POST", "/brokers/{name}/clean", scope=ADMIN, path_type=BrokerPath, body=Clean, refuses=_NO_BROKER)
    async def clean(self, call: RouteCall[BrokerPath, None, Clean]) -> None:
        """Start a cleanup at a broker now."""
        place = await self._view.broker(call.path.name)
        brokers = self._view.admin.brokers
        orders = {"queues": brokers.clean_queues, "topics": brokers.clean_topics, "log": brokers.clean_log}
        await orders[call.body.what](place.address)

    @route(
        "GET",
        "/brokers/{name}/retention",
        scope=READ,
        path_type=BrokerPath,
        query=ProcessQuery,
        answer=RetentionView,
        refuses=_NO_BROKER,
    )
    async def retention(self, call: RouteCall[BrokerPath, ProcessQuery, None]) -> RetentionView:
        """Show which log files a cleanup of the log would remove now, and why."""
        place = await self._view.process(call.path.name, call.query.id)
        try:
            told = await self._view.partial(call.missing).admin.brokers.retention(place.address)
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None
        files = [ExpiringFileRow(one.name, one.size, one.modified, one.reason, one.why) for one in told.files]
        return RetentionView(files, told.kept, told.removed_files, told.removed_bytes)

    # -- registries --------------------------------------------------------------------------------------------

    @route("GET", "/registries", scope=READ, answer=list[RegistryRow])
    async def registries(self, call: RouteCall[None, None, None]) -> list[RegistryRow]:
        """List the registries and whether they answer."""
        return await each(self._client.registries, self._registry)

    async def _registry(self, address: str) -> RegistryRow:
        begun = self._clock.seconds()
        try:
            answer = await self._client.ask(address, Command.request(RequestCode.GET_BROKER_CLUSTER_INFO))
            info = ClusterInfo.decode(answer.body)
        except CallFailed as error:
            self._view.membership.observe_registries({address: False})
            seen = self._view.membership.registry(address).last_seen_ms
            return RegistryRow(address, False, error=str(error), last_seen_ms=seen)
        took = round((self._clock.seconds() - begun) * 1000, 3)
        self._view.membership.observe_registries({address: True})
        known = sum(len(one.broker_addrs) for one in info.broker_addr_table.values())
        return RegistryRow(address, True, took, known, None, self._view.membership.registry(address).last_seen_ms)


def _sum_known(counts: Iterable[int | None]) -> int | None:
    """Return the sum of some counts; C{None} if one of them is not known."""
    found = list(counts)
    return None if None in found else sum(one or 0 for one in found)


async def _count(source: Source[dict[str, Any]], counts: Callable[[Any], bool] = lambda entry: True) -> int | None:
    """Return the number of entries that count; C{None} if no broker answers."""
    try:
        return sum(map(counts, (await source.get()).values()))
    except CallFailed:
        return None
