"""The resource of the clients that are connected to brokers."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.ops.interfaces import ClosedConnection, ILocalNode
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import ClientPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route


class ClientRow(msgspec.Struct, rename="camel"):
    """
    One client in one group.

    @ivar last_beat_ms: a producer's last heartbeat, wall clock; null if brokers do not report it.
    """

    client_id: str
    role: Literal["producer", "consumer"]
    group: str
    address: str
    language: str
    version: int
    brokers: list[str]
    last_beat_ms: int | None


ClientsRole = Annotated[Literal["producer", "consumer"] | None, Meta(description="Only those of one role.")]
ClientsGroup = Annotated[str, Meta(max_length=255, description="Only those of one group.")]
ClientsBroker = Annotated[str, Meta(max_length=127, description="Only those that are connected to one broker.")]


class ClientsQuery(ListQuery, kw_only=True):
    """Filters of clients; C{q} is searched in id, group and address."""

    role: ClientsRole = None
    group: ClientsGroup = ""
    broker: ClientsBroker = ""


CloseReason = Annotated[
    str,
    Meta(
        max_length=300,
        pattern="^[^\\x00-\\x1f\\x7f]*$",
        description="The reason, for the audit log and the broker's log.",
    ),
]


class CloseQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Reason for closing a client's connections."""

    reason: CloseReason = ""


class ClosedClient(msgspec.Struct, rename="camel"):
    """
    The connections that were closed.

    @ivar elsewhere: brokers of other processes to which the client is still connected.
    """

    connections: list[ClosedConnection]
    elsewhere: list[str]


class ClientsApi:
    """Connected clients."""

    def __init__(self, view: ClusterView, node: ILocalNode | None = None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._view = view
        self._node = node

    @route("GET", "/clients", scope=READ, query=ClientsQuery, answer=Page[ClientRow])
    async def clients(self, call: RouteCall[None, ClientsQuery, None]) -> Page[ClientRow]:
        """List connected clients, one row per group; sorted by clientId, group, role, address or language."""
        query = call.query
        rows = [
            _client_row(one)
            for one in await self._view.members.get(call.missing)
            if query.role in (None, one.role)
            and query.group in ("", one.group)
            and (not query.broker or query.broker in one.brokers)
        ]
        return page_of(rows, query, _CLIENT_SORTS, lambda one: f"{one.client_id} {one.group} {one.address}", "clientId")

    @route(
        "GET",
        "/clients/{id}",
        scope=READ,
        path_type=ClientPath,
        answer=Page[ClientRow],
        refuses={404: "No such client is connected."},
    )
    async def client(self, call: RouteCall[ClientPath, None, None]) -> Page[ClientRow]:
        """Show the groups of a client; C{GET /groups/{name}/clients/{client}} asks the client for its state."""
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
            404: "No such client is connected.",
            409: "The client is connected only to brokers of other processes: use the API of each.",
        },
    )
    async def close(self, call: RouteCall[ClientPath, CloseQuery, None]) -> ClosedClient:
        """
        Close the connections of a client to the broker of this process.

        The remoting protocol has no request for this, so each process can close only its own connections; C{elsewhere}
        names the other brokers to which the client is connected. The client is not notified: it sees a broken
        connection. RocketMQ's clients and ours reconnect with their next request or heartbeat and repeat unanswered
        requests.
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


def _client_row(one: Any) -> ClientRow:
    return ClientRow(
        one.client_id, one.role, one.group, one.address, one.language, one.version, [*one.brokers], one.last_beat_ms
    )


_CLIENT_SORTS: Final = {
    "clientId": lambda one: one.client_id,
    "group": lambda one: one.group,
    "role": lambda one: one.role,
    "address": lambda one: one.address,
    "language": lambda one: one.language,
}
