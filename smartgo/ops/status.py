"""Resources about the process itself: whether it is well, its settings, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from smartgo.env.interfaces import IClock
from smartgo.ops.interfaces import ILocalNode, PartState, SettingValue
from smartgo.ops.lists import ListQuery, Page, page_of
from smartgo.ops.problems import Problem
from smartgo.ops.routes import ADMIN, READ, Call, Raw, route

_FRESH: Final = 1.0  # seconds
_REST: Final = 10  # times as long as metrics took, they are shown again

SettingName = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9.]+$")]
SettingText = Annotated[str, Meta(max_length=1024)]


class Health(msgspec.Struct, rename="camel"):
    """Whether the process is there."""

    status: str


class Readiness(msgspec.Struct, rename="camel"):
    """Whether the process serves; C{checks} are for those alone who may read."""

    ready: bool
    checks: list[PartState]


ChangesChanges = Annotated[dict[SettingName, SettingText], Meta(min_length=1, max_length=32)]


class Changes(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """Settings to change: values as in a file, by name."""

    changes: ChangesChanges


SettingsTable = Annotated[str, Meta(max_length=32, description="Those of one table alone.")]
SettingsChanged = Annotated[bool | None, Meta(description="Those alone that somebody set, or that nobody did.")]


class SettingsQuery(ListQuery, kw_only=True):
    """Which settings."""

    table: SettingsTable = ""
    changed: SettingsChanged = None


class StatusApi:
    """Health, readiness, settings."""

    def __init__(self, node: ILocalNode | None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node

    @route("GET", "/health", scope=None, answer=Health, remote=False, tag="process")
    def health(self, call: Call[None, None, None]) -> Health:
        """Say that the process is there and its reactor turns."""
        return Health("up")

    @route(
        "GET",
        "/ready",
        scope=None,
        answer=Readiness,
        remote=False,
        tag="process",
        refuses={503: "It does not serve, or not yet."},
    )
    def ready(self, call: Call[None, None, None]) -> Readiness:
        """Say whether the process serves: 503 where it does not."""
        checks = [] if self._node is None else list(self._node.checks())
        bad = [one.name for one in checks if not one.well]
        if bad:
            raise Problem(503, f"not ready: {', '.join(bad)}", "not-ready", {"Retry-After": "5"})
        shown = checks if call.principal.may(READ) else []
        return Readiness(True, shown)

    @route("GET", "/config", scope=ADMIN, query=SettingsQuery, answer=Page[SettingValue], remote=False, tag="process")
    def settings(self, call: Call[None, SettingsQuery, None]) -> Page[SettingValue]:
        """List the settings of this process with where each comes from; sorted by name, table or origin."""
        rows = [] if self._node is None else list(self._node.settings())
        query = call.query
        if query.table:
            rows = [one for one in rows if one.table == query.table]
        if query.changed is not None:
            rows = [one for one in rows if (one.origin != "default") == query.changed]
        sorts = {"name": lambda one: one.name, "table": lambda one: one.table, "origin": lambda one: one.origin}
        return page_of(rows, query, sorts, lambda one: f"{one.table}.{one.name}", "table")

    @route(
        "PATCH",
        "/config",
        scope=ADMIN,
        body=Changes,
        answer=list[SettingValue],
        remote=False,
        tag="process",
        refuses={
            403: "One cannot be changed while the process runs, or the scope is missing.",
            409: "This API fronts a cluster from outside, and has no broker of its own.",
        },
    )
    def change(self, call: Call[None, None, Changes]) -> list[SettingValue]:
        """
        Change settings of this process, all or none; answers what they are now.

        Those that are C{changeable} alone: never an address, a path, a name, or what decides who may do what. They
        hold until the process is started again. The audit log has what they were before.
        """
        if self._node is None:
            raise Problem(409, "there is no broker in this process", "not-local")
        changes = call.body.changes
        call.noted["before"] = {one.name: one.value for one in self._node.settings() if one.name in changes}
        self._node.change(changes, call.principal.name)
        return [one for one in self._node.settings() if one.name in changes]

    @route("GET", "/process", scope=READ, answer=dict[str, float], remote=False, tag="process")
    def figures(self, call: Call[None, None, None]) -> dict[str, float]:
        """Say figures of this process: reactor stalls, bytes that wait for the disk, and others."""
        return {} if self._node is None else dict(self._node.figures())


class MetricsApi:
    """What Prometheus reads."""

    def __init__(self, clock: IClock, registry: Callable[[], CollectorRegistry]) -> None:
        self._clock = clock
        self._registry = registry
        self._shown = b""
        self._stale = 0.0

    @route("GET", "/metrics", scope=READ, answer=Raw, media="text/plain", remote=False, tag="process")
    def metrics(self, call: Call[None, None, None]) -> Raw:
        """
        Give the metrics in the text form of Prometheus; C{/metrics} gives the same.

        They are shown again for a second, or longer if they took long: many who ask do not keep the broker busy.
        """
        began = self._clock.seconds()
        if began >= self._stale:
            self._shown = generate_latest(self._registry())
            now = self._clock.seconds()
            self._stale = now + max(_FRESH, _REST * (now - began))
        return Raw(self._shown, CONTENT_TYPE_LATEST)
