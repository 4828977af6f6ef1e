"""Resources about the process itself: health, readiness, figures, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from smartgo.env.interfaces import IClock
from smartgo.health.readiness import PartState
from smartgo.ops.interfaces import ILocalNode
from smartgo.ops.problems import Problem
from smartgo.ops.web.routes import READ, Raw, RouteCall, route

_FRESH: Final = 1.0  # seconds
_REST: Final = 10  # times as long as metrics took, they are shown again


class Health(msgspec.Struct, rename="camel"):
    """Liveness of the process."""

    status: str


class Readiness(msgspec.Struct, rename="camel"):
    """Readiness of the process; C{checks} are shown only with the scope read."""

    ready: bool
    checks: list[PartState]


class StatusApi:
    """Health, readiness, figures."""

    def __init__(self, node: ILocalNode | None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node

    @route("GET", "/health", scope=None, answer=Health, remote=False, tag="process")
    def health(self, call: RouteCall[None, None, None]) -> Health:
        """Tell that the process is up and its reactor runs."""
        return Health("up")

    @route(
        "GET",
        "/ready",
        scope=None,
        answer=Readiness,
        remote=False,
        tag="process",
        refuses={503: "The process is not ready."},
    )
    def ready(self, call: RouteCall[None, None, None]) -> Readiness:
        """Tell whether the process is ready to serve; 503 if it is not."""
        checks = [] if self._node is None else list(self._node.checks())
        bad = [one.name for one in checks if not one.well]
        if bad:
            raise Problem(503, f"not ready: {', '.join(bad)}", "not-ready", {"Retry-After": "5"})
        shown = checks if call.principal.may(READ) else []
        return Readiness(True, shown)

    @route("GET", "/process", scope=READ, answer=dict[str, float], remote=False, tag="process")
    def figures(self, call: RouteCall[None, None, None]) -> dict[str, float]:
        """Show internal figures of this process: reactor stalls, unflushed bytes, and others."""
        return {} if self._node is None else dict(self._node.figures())


class MetricsApi:
    """Metrics for Prometheus."""

    def __init__(self, clock: IClock, registry: Callable[[], CollectorRegistry]) -> None:
        self._clock = clock
        self._registry = registry
        self._shown = b""
        self._stale = 0.0

    @route("GET", "/metrics", scope=READ, answer=Raw, media="text/plain", remote=False, tag="process")
    def metrics(self, call: RouteCall[None, None, None]) -> Raw:
        """
        Return the metrics in the text format of Prometheus; the same as C{/metrics}.

        The answer is reused for a second, or longer if it took long to make, so that many readers do not load the
        broker.
        """
        began = self._clock.seconds()
        if began >= self._stale:
            self._shown = generate_latest(self._registry())
            now = self._clock.seconds()
            self._stale = now + max(_FRESH, _REST * (now - began))
        return Raw(self._shown, CONTENT_TYPE_LATEST)
