"""Run one simulation: from a seed to a verdict."""

from __future__ import annotations

import gc
from collections.abc import Collection
from typing import Final, NamedTuple, cast

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from smartgo.errors import ServiceNotAvailable
from tests.sim.cluster import Cluster
from tests.sim.kernel import Kernel
from tests.sim.profile import Profile
from tests.sim.seeds import Streams
from tests.sim.trace import Trace

SETTLED: Final = 60.0
"""Virtual seconds after the last fault within which all must be well again (reliability T3)."""


class Outcome(NamedTuple):
    """The outcome of one simulation."""

    seed: int
    verdict: str
    """C{valid}, C{invalid} or C{unknown}."""
    violations: tuple[str, ...]
    """What was violated, a rule and its details each."""
    trace_hash: str
    profile: Profile
    hits: dict[str, int]
    """How often each rare path was taken, by its name in C{env.buggify}."""
    virtual_seconds: float
    trace: tuple[str, ...] = ()
    """The lines of the trace, if they were asked for."""


class Bugs:
    """
    What the product logs as a bug of its own: an error that no fault of a disk explains.

    @ivar found: the tracebacks, in order.
    """

    def __init__(self) -> None:
        self.found: list[str] = []

    def __call__(self, event: LogEvent) -> None:
        """Remember an event, if it tells of a bug."""
        failure = event.get("log_failure")
        if str(event.get("log_namespace", "")).startswith("twisted.logger"):
            return  # an observer failed, such as a test runner's
        if isinstance(failure, Failure) and failure.check(OSError, ServiceNotAvailable) is None:
            self.found.append(failure.getTraceback()[-1500:])


class Simulation:
    """
    One seed's simulation.

    @ivar kernel: time.
    @ivar cluster: the servers.
    """

    def __init__(self, seed: int, minutes: float, without: Collection[int] = (), keep_trace: bool = False) -> None:
        """
        @param minutes: virtual time under faults.
        @param without: numbers of the faults that are left out.
        """
        self.seed = seed
        self.minutes = minutes
        self.without = frozenset(without)
        self.streams = Streams(seed)
        self.trace = Trace(keep_trace)
        self.kernel = Kernel(self.trace)
        self.profile = Profile.draw(self.streams)
        self.violations: list[str] = []
        self.bugs = Bugs()
        self.kernel.trace("profile", self.profile)
        self.cluster = Cluster(self.kernel, self.streams, self.profile)

    def run(self) -> Outcome:
        """Run it: first under faults, then without, until all is well again."""
        observer = cast("ILogObserver", self.bugs)
        globalLogPublisher.addObserver(observer)
        gc.disable()  # what dead processes leave behind must not be collected, and run, in the middle
        try:
            self.cluster.start()
            self.kernel.run(self.minutes * 60)
            self.kernel.run(SETTLED)
            self._check_settled()
        finally:
            globalLogPublisher.removeObserver(observer)
            gc.enable()
        self.violations += [f"bug: {text}" for text in self.bugs.found]
        self.violations += [f"bug: {failure.getTraceback()[-1500:]}" for failure in self.kernel.bugs]
        return Outcome(
            self.seed,
            "invalid" if self.violations else "valid",
            tuple(self.violations),
            self.trace.digest,
            self.profile,
            dict(sorted(self.cluster.world.buggify.hits.items())),
            self.kernel.now,
            tuple(self.trace.lines),
        )

    def _check_settled(self) -> None:
        """Check that all servers serve, and that slaves have what their masters have."""
        for node in self.cluster.nodes:
            if not node.ready:
                self.violations.append(f"liveness: {node.name} does not serve; {node.deaths}")
        for node in self.cluster.brokers.values():
            if not node.is_master and node.opened is not None:
                now = node.opened.replication.now()
                if now.behind or now.state is None or now.state.value != "following":
                    self.violations.append(f"liveness: {node.name} has not caught up: {now}")


def run(seed: int, minutes: float = 10, without: Collection[int] = (), keep_trace: bool = False) -> Outcome:
    """
    Run the simulation of a seed.

    @param minutes: virtual time under faults, before the phase without.
    @param without: numbers of the faults that are left out.
    @param keep_trace: return the lines of the trace too.
    """
    return Simulation(seed, minutes, without, keep_trace).run()
