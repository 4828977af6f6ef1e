"""Resources about the cluster as a whole, its brokers and its registries."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from smartgo.client.administration.asking import named
from smartgo.client.client import Client
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.reading.replicas import FollowingRow, SlaveRow, following_of, slaves_of
from smartgo.ops.reading.view import ClusterView, PartialView, Source, each
from smartgo.ops.resources.kv import NameValue
from smartgo.ops.resources.names import BrokerPath, ProcessQuery
from smartgo.ops.security.audit import hidden
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import Partial
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import ClusterInfo
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command

_NO_BROKER: Final = {404: "There is no such broker."}


class BrokerRow(msgspec.Struct, rename="camel"):
    """
    One broker process.

    @ivar id: 0 the master, others its slaves.
    @ivar up: whether it answers; if not, the following members are null.
    @ivar put_tps: messages stored per second, over 10 s; C{get_tps} messages delivered.
    @ivar put_today: messages stored since midnight; C{get_today} messages delivered.
    @ivar disk_ratio: share in use of the disk that holds its log, 0 to 1.
    @ivar log_bytes: size of all messages that it stores.
    @ivar boot_ms: when it started; C{earliest_ms} when its oldest message was stored, wall clock.
    @ivar role: C{ASYNC_MASTER}, C{SYNC_MASTER} or C{SLAVE}; null where it does not report it (RocketMQ).
    @ivar slaves: the slaves that follow it.
    @ivar following: its replication state; null for a master.
    @ivar error: why it does not answer.
    """

    cluster: str
    name: str
    id: int
    address: str
    up: bool
    version: str | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    put_today: int | None = None
    get_today: int | None = None
    disk_ratio: float | None = None
    log_bytes: int | None = None
    boot_ms: int | None = None
    earliest_ms: int | None = None
    role: str | None = None
    slaves: list[SlaveRow] = []
    following: FollowingRow | None = None
    error: str | None = None


class BrokerView(BrokerRow):
    """One broker with its runtime information."""

    runtime: dict[str, str] = {}


class RegistryRow(msgspec.Struct, rename="camel"):
    """
    One registry.

    @ivar milliseconds: how long its answer took.
    @ivar brokers: broker processes that it knows.
    """

    address: str
    up: bool
    milliseconds: float | None = None
    brokers: int | None = None
    error: str | None = None


class ClusterRow(msgspec.Struct, rename="camel"):
    """One cluster and the names of its brokers."""

    name: str
    brokers: list[str]


class ClusterTotals(Partial, rename="camel"):
    """
    Totals of the cluster; rates are messages per second over 10 s.

    @ivar topics: topics at all brokers that answered; null if none did. C{groups} likewise.
    @ivar missing: brokers that did not answer: they are not counted.
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
        info = await view.admin.brokers.cluster()
        rows = await _rows(view)
        return ClusterTotals(
            [ClusterRow(name, sorted(brokers)) for name, brokers in sorted(info.cluster_addr_table.items())],
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
        )

    # -- brokers -----------------------------------------------------------------------------------------------

    @route("GET", "/brokers", scope=READ, query=ListQuery, answer=Page[BrokerRow])
    async def brokers(self, call: RouteCall[None, ListQuery, None]) -> Page[BrokerRow]:
        """List broker processes; sorted by name, cluster, address, putTps, getTps, diskRatio or logBytes."""
        return page_of(
            await _rows(self._view.partial(call.missing)), call.query, _BROKER_SORTS, lambda one: one.name, "cluster"
        )

    @route("GET", "/brokers/{name}", scope=READ, path_type=BrokerPath, answer=BrokerView, refuses=_NO_BROKER)
    async def broker(self, call: RouteCall[BrokerPath, None, None]) -> BrokerView:
        """Show a broker's master with its runtime information."""
        place = await self._view.broker(call.path.name)
        told = (await self._view.runtimes.get()).get(place.address, "it was not asked")
        row = _broker_row(place, told)
        fields = {name: getattr(row, name) for name in row.__struct_fields__}
        return BrokerView(**fields, runtime=told if isinstance(told, dict) else {})

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
            return RegistryRow(address, False, error=str(error))
        took = round((self._clock.seconds() - begun) * 1000, 3)
        return RegistryRow(address, True, took, sum(len(one.broker_addrs) for one in info.broker_addr_table.values()))


async def _rows(view: PartialView) -> list[BrokerRow]:
    runtimes = await view.runtimes.get()
    return [_broker_row(one, runtimes.get(one.address, "it was not asked")) for one in await view.brokers.get()]


async def _count(source: Source[dict[str, Any]]) -> int | None:
    """Return the number of entries; C{None} if no broker answers."""
    try:
        return len(await source.get())
    except CallFailed:
        return None


def _broker_row(place: Any, told: dict[str, str] | str) -> BrokerRow:
    if isinstance(told, str):
        return BrokerRow(place.cluster, place.name, place.id, place.address, False, error=told)
    first, end = _whole(told, "commitLogMinOffset"), _whole(told, "commitLogMaxOffset")
    return BrokerRow(
        place.cluster,
        place.name,
        place.id,
        place.address,
        True,
        told.get("brokerVersionDesc"),
        _first(told, "putTps"),
        _first(told, "getTransferredTps") or _first(told, "getTransferedTps"),
        _since(told, "msgPutTotal"),
        _since(told, "msgGetTotal"),
        _first(told, "commitLogDiskRatio"),
        None if first is None or end is None else end - first,
        _whole(told, "bootTimestamp"),
        _time(_whole(told, "earliestMessageTimeStamp")),
        told.get("brokerRole"),
        slaves_of(told),
        following_of(told),
    )


def _first(told: dict[str, str], name: str) -> float | None:
    """Return the first of the decimal numbers of a figure."""
    try:
        return float(told.get(name, "").split(" ")[0])
    except ValueError:
        return None


def _whole(told: dict[str, str], name: str) -> int | None:
    try:
        return int(told.get(name, ""))
    except ValueError:
        return None


def _since(told: dict[str, str], name: str) -> int | None:
    now, morning = _whole(told, f"{name}TodayNow"), _whole(told, f"{name}TodayMorning")
    return None if now is None or morning is None else now - morning


def _time(ms: int | None) -> int | None:
    return ms if ms is not None and ms > 0 else None


_BROKER_SORTS: Final = {
    "cluster": lambda one: (one.cluster, one.name, one.id),
    "name": lambda one: (one.name, one.id),
    "address": lambda one: one.address,
    "putTps": lambda one: one.put_tps or 0.0,
    "getTps": lambda one: one.get_tps or 0.0,
    "diskRatio": lambda one: one.disk_ratio or 0.0,
    "logBytes": lambda one: one.log_bytes or 0,
}
