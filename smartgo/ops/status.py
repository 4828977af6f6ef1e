"""Resources about the process itself: whether it is well, its settings, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.lists import ListQuery, Page, page_of
from smartgo.ops.problems import Problem
from smartgo.ops.routes import ADMIN, READ, Call, Raw, route


class Health(msgspec.Struct, rename="camel"):
    """Whether the process is there."""

    status: str


class CheckView(msgspec.Struct, rename="camel"):
    """One thing that must be well."""

    name: str
    well: bool
    detail: str


class Readiness(msgspec.Struct, rename="camel"):
    """Whether the process serves; C{checks} are for those alone who may read."""

    ready: bool
    checks: list[CheckView]


class SettingView(msgspec.Struct, rename="camel"):
    """
    One setting of the process that serves this API.

    @ivar value: as in a file; secrets are C{***}.
    @ivar origin: C{default}, C{environment}, C{file} or C{flag}; C{place} is the variable, file or flag.
    @ivar allowed: what may be there.
    """

    table: str
    name: str
    value: str
    default: str
    origin: str
    place: str
    about: str
    allowed: str


class SettingsQuery(ListQuery, kw_only=True):
    """Which settings."""

    table: Annotated[str, Meta(max_length=32, description="Those of one table alone.")] = ""
    changed: Annotated[bool | None, Meta(description="Those alone that somebody set, or that nobody did.")] = None


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
        return Readiness(True, [CheckView(*one) for one in shown])

    @route("GET", "/config", scope=ADMIN, query=SettingsQuery, answer=Page[SettingView], remote=False, tag="process")
    def settings(self, call: Call[None, SettingsQuery, None]) -> Page[SettingView]:
        """List the settings of this process with where each comes from; sorted by name, table or origin."""
        rows = [] if self._node is None else [SettingView(*one) for one in self._node.settings()]
        query = call.query
        if query.table:
            rows = [one for one in rows if one.table == query.table]
        if query.changed is not None:
            rows = [one for one in rows if (one.origin != "default") == query.changed]
        sorts = {"name": lambda one: one.name, "table": lambda one: one.table, "origin": lambda one: one.origin}
        return page_of(rows, query, sorts, lambda one: f"{one.table}.{one.name}", "table")

    @route("GET", "/process", scope=READ, answer=dict[str, float], remote=False, tag="process")
    def figures(self, call: Call[None, None, None]) -> dict[str, float]:
        """Say figures of this process: reactor stalls, bytes that wait for the disk, and others."""
        return {} if self._node is None else dict(self._node.figures())


class MetricsApi:
    """What Prometheus reads."""

    def __init__(self, registry: Callable[[], CollectorRegistry]) -> None:
        self._registry = registry

    @route("GET", "/metrics", scope=READ, answer=Raw, media="text/plain", remote=False, tag="process")
    def metrics(self, call: Call[None, None, None]) -> Raw:
        """Give the metrics in the text form of Prometheus; C{/metrics} gives the same."""
        return Raw(generate_latest(self._registry()), CONTENT_TYPE_LATEST)
