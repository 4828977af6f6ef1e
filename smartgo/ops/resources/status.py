"""Resources about the process itself: whether it is well, its settings, its metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from smartgo.env.interfaces import IClock
from smartgo.health.readiness import PartState
from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.web.problems import Problem
from smartgo.ops.web.routes import READ, Raw, RouteCall, route

_FRESH: Final = 1.0  # seconds
_REST: Final = 10  # times as long as metrics took, they are shown again


class Health(msgspec.Struct, rename="camel"):
    """Whether the process is there."""

    status: str


class Readiness(msgspec.Struct, rename="camel"):
    """Whether the process serves; C{checks} are for those alone who may read."""

    ready: bool
    checks: list[PartState]


class StatusApi:
    """Health, readiness, figures."""

    def __init__(self, node: ILocalNode | None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node

    @route("GET", "/health", scope=None, answer=Health, remote=False, tag="process")
    def health(self, call: RouteCall[None, None, None]) -> Health:
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
    def ready(self, call: RouteCall[None, None, None]) -> Readiness:
        """Say whether the process serves: 503 where it does not."""
        checks = [] if self._node is None else list(self._node.checks())
        bad = [one.name for one in checks if not one.well]
        if bad:
            raise Problem(503, f"not ready: {', '.join(bad)}", "not-ready", {"Retry-After": "5"})
        shown = checks if call.principal.may(READ) else []
        return Readiness(True, shown)

    @route("GET", "/process", scope=READ, answer=dict[str, float], remote=False, tag="process")
    def figures(self, call: RouteCall[None, None, None]) -> dict[str, float]:
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
    def metrics(self, call: RouteCall[None, None, None]) -> Raw:
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
