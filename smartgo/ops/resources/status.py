"""Resources about the process itself: health, readiness, figures, metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from smartgo.env.interfaces import IClock
from smartgo.health.readiness import PartState, members_state
from smartgo.ops.interfaces import ILocalNode, RecoveryReport
from smartgo.ops.membership.memory import MemberMemory
from smartgo.ops.problems import Problem, ProblemBody
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


class ReadinessProblem(ProblemBody, rename="camel"):
    """
    The answer of a process that is not ready.

    @ivar recovery: progress of the store's recovery; absent where none runs.
    """

    recovery: RecoveryReport | msgspec.UnsetType = msgspec.UNSET


class NotReady(Problem):
    """The process is not ready to serve."""

    def __init__(self, parts: list[str], recovery: RecoveryReport | None) -> None:
        """@param parts: what keeps it from serving, and for those who may know it, why."""
        super().__init__(503, f"not ready: {', '.join(parts)}", "not-ready", {"Retry-After": "5"})
        self._recovery = msgspec.UNSET if recovery is None else recovery

    def shown(self, title: str, detail: str, request_id: str) -> ProblemBody:
        """Return what the client is told, with the progress of the recovery."""
        return ReadinessProblem(
            title, self.status, detail, self.code, detail, request_id, "about:blank", self._recovery
        )


class StatusApi:
    """Health, readiness, figures."""

    def __init__(self, node: ILocalNode | None, membership: MemberMemory) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node
        self._membership = membership

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
        """
        Tell whether the process is ready to serve; 503 if it is not, with C{recovery} while the store recovers.

        With the scope read its C{detail} also says why.

        The checks C{brokers} and C{registries} name the members of the cluster that are missing. They do not make this
        process unready: it serves, and during an incident people need it.
        """
        checks = [] if self._node is None else list(self._node.checks())
        reads = call.principal.may(READ)
        bad = [f"{one.name} ({one.detail})" if reads else one.name for one in checks if not one.well]
        if bad:
            raise NotReady(bad, None if self._node is None else self._node.recovery())
        shown = [*checks, *self._members()] if reads else []
        return Readiness(True, shown)

    def _members(self) -> list[PartState]:
        """Return whether all members of the cluster are there."""
        statuses = self._membership.statuses()
        missing = [one.member.subject for one in statuses if one.state == "missing"]
        silent = [one.member.subject for one in statuses if one.state == "down"]
        registries = [one.address for one in self._membership.registries() if one.up is False]
        unknown = self._membership.table.registries_silent
        return [members_state("brokers", missing, silent, unknown), members_state("registries", registries, [])]

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
