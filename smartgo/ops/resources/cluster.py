"""Resources about the cluster: brokers, registries, clients, and the values that registries keep."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.client.administration.asking import named
from smartgo.client.client import Client
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.interfaces import ClosedConnection, ILocalNode
from smartgo.ops.reading.replicas import FollowingRow, SlaveRow, following_of, slaves_of
from smartgo.ops.reading.view import ClusterView, PartialView, Source, each
from smartgo.ops.resources.names import BrokerPath, ClientPath, KvPath, NamespacePath
from smartgo.ops.security.audit import hidden
from smartgo.ops.security.principals import is_secret
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import Partial
from smartgo.ops.web.problems import Problem
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import ClusterInfo
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command

_NO_BROKER: Final = {404: "There is no such broker."}
_NO_VALUE: Final = {404: "There is no such value."}


class BrokerRow(msgspec.Struct, rename="camel"):
    """
    One broker process.

    @ivar id: 0 the master, others its slaves.
    @ivar up: whether it answers; what follows is null where it does not.
    @ivar put_tps: messages stored a second, over 10 s; C{get_tps} handed out.
    @ivar put_today: messages stored since midnight; C{get_today} handed out.
    @ivar disk_ratio: of the disk of its log, 0 to 1.
    @ivar log_bytes: of all messages it keeps.
    @ivar boot_ms: when it started; C{earliest_ms} when its oldest message was stored, wall clock.
    @ivar role: C{ASYNC_MASTER}, C{SYNC_MASTER} or C{SLAVE}; null where it does not tell (RocketMQ).
    @ivar slaves: who follows it.
    @ivar following: how it stands to its master; null for a master.
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
    """One broker with all that it tells about itself."""

    runtime: dict[str, str] = {}


class NameValue(msgspec.Struct, rename="camel"):
    """One value by its name."""

    name: str
    value: str


class RegistryRow(msgspec.Struct, rename="camel"):
    """
    One registry.

    @ivar milliseconds: that its answer took.
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
    Everything in a few numbers; rates are messages a second over 10 s.

    @ivar topics: at all brokers that answer; null where none does, as C{groups}.
    @ivar missing: brokers that did not tell: nothing of them is counted.
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


class ClientRow(msgspec.Struct, rename="camel"):
    """
    One client in one group.

    @ivar last_beat_ms: a producer's last heartbeat, wall clock; null where brokers do not tell.
    """

    client_id: str
    role: Literal["producer", "consumer"]
    group: str
    address: str
    language: str
    version: int
    brokers: list[str]
    last_beat_ms: int | None


ClientsRole = Annotated[Literal["producer", "consumer"] | None, Meta(description="Those of one role alone.")]
ClientsGroup = Annotated[str, Meta(max_length=255, description="Those of one group alone.")]


class ClientsQuery(ListQuery, kw_only=True):
    """Which clients; C{q} is looked for in id, group and address."""

    role: ClientsRole = None
    group: ClientsGroup = ""


class Writable(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Whether producers are sent to a broker."""

    writable: bool


class Affected(msgspec.Struct, rename="camel"):
    """How many topics that touched."""

    topics: int


class Clean(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    What to remove.

    From queues what points at messages that are gone; queues of topics that are gone; log files that are old enough.
    """

    what: Literal["queues", "topics", "log"]


KvValue = Annotated[str, Meta(max_length=32_768)]


CloseReason = Annotated[
    str, Meta(max_length=300, pattern="^[^\\x00-\\x1f\\x7f]*$", description="Why, for the audit log and the broker's.")
]


class CloseQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Why a client's connections are closed."""

    reason: CloseReason = ""


class ClosedClient(msgspec.Struct, rename="camel"):
    """
    What was closed.

    @ivar elsewhere: the names of the brokers to which the client is connected still: those of other processes.
    """

    connections: list[ClosedConnection]
    elsewhere: list[str]


class KvBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A value."""

    value: KvValue


class ClusterApi:
    """The cluster."""

    def __init__(self, clock: IClock, client: Client, view: ClusterView, node: ILocalNode | None = None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node
        self._clock = clock
        self._client = client
        self._view = view

    @route("GET", "/cluster", scope=READ, answer=ClusterTotals)
    async def totals(self, call: RouteCall[None, None, None]) -> ClusterTotals:
        """Show the cluster in a few numbers."""
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
        """Show a broker: its master, with all that it tells about itself."""
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
        """List the settings of a broker, as it tells them; C{GET /config} says where ours come from."""
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
        Take a broker out of use for producers, or bring it back.

        Registries stop sending producers there; it lasts until the broker registers changed topics.
        """
        place = await self._view.broker(call.path.name)
        order = self._view.admin.brokers.restore_write if call.body.writable else self._view.admin.brokers.wipe_write
        return Affected(await order(place.name))

    @route("POST", "/brokers/{name}/clean", scope=ADMIN, path_type=BrokerPath, body=Clean, refuses=_NO_BROKER)
    async def clean(self, call: RouteCall[BrokerPath, None, Clean]) -> None:
        """Have a broker tidy up now."""
        place = await self._view.broker(call.path.name)
        brokers = self._view.admin.brokers
        orders = {"queues": brokers.clean_queues, "topics": brokers.clean_topics, "log": brokers.clean_log}
        await orders[call.body.what](place.address)

    # -- registries --------------------------------------------------------------------------------------------

    @route("GET", "/registries", scope=READ, answer=list[RegistryRow])
    async def registries(self, call: RouteCall[None, None, None]) -> list[RegistryRow]:
        """List registries, and whether they answer."""
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

    # -- clients -----------------------------------------------------------------------------------------------

    @route("GET", "/clients", scope=READ, query=ClientsQuery, answer=Page[ClientRow])
    async def clients(self, call: RouteCall[None, ClientsQuery, None]) -> Page[ClientRow]:
        """List connected clients, one row a group; sorted by clientId, group, role, address or language."""
        query = call.query
        rows = [
            _client_row(one)
            for one in await self._view.members.get(call.missing)
            if query.role in (None, one.role) and query.group in ("", one.group)
        ]
        return page_of(rows, query, _CLIENT_SORTS, lambda one: f"{one.client_id} {one.group} {one.address}", "clientId")

    @route(
        "GET",
        "/clients/{id}",
        scope=READ,
        path_type=ClientPath,
        answer=Page[ClientRow],
        refuses={404: "There is no such client connected."},
    )
    async def client(self, call: RouteCall[ClientPath, None, None]) -> Page[ClientRow]:
        """Show the groups of a client; C{GET /groups/{name}/clients/{client}} asks it about itself."""
        members = await self._view.members.get(call.missing)
        rows = [_client_row(one) for one in members if one.client_id == call.path.id]
        if not rows:
            raise call.missing.absent(f"connected client {call.path.id}", "client-not-found")
        return Page(rows, len(rows))

    @route(
        "DELETE",
        "/clients/{id}",
        scope=ADMIN,
        path_type=ClientPath,
        query=CloseQuery,
        answer=ClosedClient,
        refuses={
            404: "There is no such client connected.",
            409: "It is connected to brokers of other processes alone: ask the API of each.",
        },
    )
    async def close(self, call: RouteCall[ClientPath, CloseQuery, None]) -> ClosedClient:
        """
        Close the connections of a client to the broker of this process.

        No request of the remoting protocol has a broker do that, so that each process can close its own alone;
        C{elsewhere} names the brokers to which the client is connected besides. The client is told nothing: to it the
        connection broke. Clients of RocketMQ, and ours, connect again by themselves, with the next request or
        heartbeat; what they had sent and got no answer to they send again.
        """
        client, reason = call.path.id, call.query.reason.strip()
        self._view.members.forget()
        brokers = {name for one in await self._view.members.get() if one.client_id == client for name in one.brokers}
        said = f"{call.principal.name} closed client {client}" + (f": {reason}" if reason else "")
        closed = [] if self._node is None else self._node.close_client(client, said)
        elsewhere = sorted(brokers - {one.broker for one in closed})
        call.noted["closed"] = [one.address for one in closed]
        if not closed and not elsewhere:
            raise Problem(404, f"no client {client} is connected", "client-not-found")
        if not closed:
            where = f"client {client} is connected to {', '.join(elsewhere)}, not to a broker of this process"
            raise Problem(409, where, "not-local")
        self._view.members.forget()
        return ClosedClient(closed, elsewhere)

    # -- values of registries ----------------------------------------------------------------------------------

    @route("GET", "/kv/{namespace}", scope=READ, path_type=NamespacePath, query=ListQuery, answer=Page[NameValue])
    async def values(self, call: RouteCall[NamespacePath, ListQuery, None]) -> Page[NameValue]:
        """
        List the values of a namespace; none where there is no such namespace.

        Those whose name, or whose namespace's, looks like a secret's are `***` for all but admins.
        """
        found = await self._view.admin.registries.values(call.path.namespace)
        rows = [NameValue(name, self._shown(call, name, value)) for name, value in found.items()]
        return page_of(rows, call.query, {"name": lambda one: one.name}, lambda one: one.name, "name")

    @route("GET", "/kv/{namespace}/{key}", scope=READ, path_type=KvPath, answer=NameValue, refuses=_NO_VALUE)
    async def value(self, call: RouteCall[KvPath, None, None]) -> NameValue:
        """Show one value; C{***} as in the list."""
        return NameValue(call.path.key, self._shown(call, call.path.key, await self._value(call.path)))

    def _shown(self, call: RouteCall[Any, Any, Any], key: str, value: str) -> str:
        secret = is_secret(call.path.namespace) or is_secret(key)
        return "***" if value and secret and not call.principal.may(ADMIN) else value

    async def _value(self, path: KvPath) -> str:
        found = await self._view.admin.registries.value(path.namespace, path.key)
        if found is None:
            raise Problem(404, f"there is no value {path.key} in {path.namespace}", "value-not-found")
        return found

    @route("PUT", "/kv/{namespace}/{key}", scope=ADMIN, path_type=KvPath, body=KvBody, answer=NameValue)
    async def put(self, call: RouteCall[KvPath, None, KvBody]) -> NameValue:
        """Keep a value at all registries."""
        path = call.path
        call.noted["before"] = await self._view.admin.registries.value(path.namespace, path.key)
        await self._view.admin.registries.put(path.namespace, path.key, call.body.value)
        return NameValue(path.key, call.body.value)

    @route("DELETE", "/kv/{namespace}/{key}", scope=ADMIN, path_type=KvPath, refuses=_NO_VALUE)
    async def delete(self, call: RouteCall[KvPath, None, None]) -> None:
        """Remove a value from all registries."""
        call.noted["before"] = await self._value(call.path)
        await self._view.admin.registries.delete(call.path.namespace, call.path.key)


async def _rows(view: PartialView) -> list[BrokerRow]:
    runtimes = await view.runtimes.get()
    return [_broker_row(one, runtimes.get(one.address, "it was not asked")) for one in await view.brokers.get()]


async def _count(source: Source[dict[str, Any]]) -> int | None:
    """How many there are; C{None} where no broker tells."""
    try:
        return len(await source.get())
    except CallFailed:
        return None


def _client_row(one: Any) -> ClientRow:
    return ClientRow(
        one.client_id, one.role, one.group, one.address, one.language, one.version, [*one.brokers], one.last_beat_ms
    )


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
    """The first of the decimal numbers of a figure."""
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
_CLIENT_SORTS: Final = {
    "clientId": lambda one: one.client_id,
    "group": lambda one: one.group,
    "role": lambda one: one.role,
    "address": lambda one: one.address,
    "language": lambda one: one.language,
}
