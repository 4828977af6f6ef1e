"""Run one simulation: from a seed to a verdict."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Collection
from typing import IO, Final, NamedTuple, cast

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from smartgo.errors import ServiceNotAvailable
from tests.chaos.checker import check
from tests.chaos.history import Recorder, Stuck
from tests.chaos.judgement import Verdict
from tests.sim.cluster import Cluster
from tests.sim.kernel import Kernel
from tests.sim.nemesis import Fault, Nemesis, plan
from tests.sim.profile import Profile
from tests.sim.seeds import Streams
from tests.sim.trace import Trace
from tests.sim.workload import SETTLED, Workload

_STARTED: Final = 20.0  # virtual seconds in which slaves follow, where nothing fails yet
_NEVER: Final = 600.0  # virtual seconds after which what a run waits for does not come any more


class Outcome(NamedTuple):
    """The outcome of one simulation."""

    seed: int
    verdict: str
    """C{valid}, C{invalid} or C{unknown}."""
    violations: tuple[str, ...]
    """What was violated, a rule and its details each; then why nothing can be said, where that is so."""
    trace_hash: str
    profile: Profile
    hits: dict[str, int]
    """How often each rare path was taken, by its name in C{env.buggify}."""
    virtual_seconds: float
    faults: tuple[Fault, ...] = ()
    """The faults that were planned."""
    happened: dict[str, int] = {}
    """How often each kind of fault happened."""
    counts: dict[str, int] = {}
    """What the checker counted."""
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


class TracedLines:
    """A file that writes each line into the trace: the history belongs to what a seed must repeat."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def write(self, line: bytes) -> int:
        """Trace a line."""
        self._kernel.trace_text(line.decode().rstrip())
        return len(line)

    def close(self) -> None:
        """Nothing to do."""


class Simulation:
    """
    One seed's simulation.

    @ivar kernel: time.
    @ivar cluster: the servers.
    @ivar workload: the clients.
    @ivar nemesis: the faults.
    @ivar recorder: the history, which the checker judges.
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
        self.recorder = Recorder(cast("IO[bytes]", TracedLines(self.kernel)), lambda: self.kernel.now)
        self.workload = Workload(self.cluster, self.streams, self.recorder)
        faults = plan(self.profile, self.streams, [node.name for node in self.cluster.nodes], minutes * 60)
        self.nemesis = Nemesis(self.cluster, faults, self.recorder, self.workload.storm)

    def run(self) -> Outcome:
        """Run it: first under faults, then without, until all is well again."""
        observer = cast("ILogObserver", self.bugs)
        globalLogPublisher.addObserver(observer)
        broken: list[str] = []
        collects = gc.isenabled()
        gc.disable()  # what dead processes leave behind must not be collected, and run, in the middle
        try:
            self.cluster.start()
            self._let_slaves_follow()
            self._await(self.workload.start(), "the clients' start")
            self.nemesis.start(self.without)
            self.kernel.run(max(0.0, self.minutes * 60 - self.kernel.now))
            self.nemesis.stop()
            self.kernel.later(SETTLED, self._check_settled)
            self._await(self.workload.settle(), "the end of the clients")
            self._check_settled()
            self._await(self.workload.final_read(), "the final read")
        except Exception:
            broken.append(traceback.format_exc()[-1500:])
        finally:
            globalLogPublisher.removeObserver(observer)
            if collects:
                gc.enable()
        bugs = [failure.getTraceback()[-1500:] for failure in (*self.kernel.bugs, *self.workload.broken)]
        self.violations += [f"bug: {text}" for text in (*broken, *self.bugs.found, *bugs)]
        judgement = check(self.recorder.events)
        self.violations += [f"{anomaly.kind.value}: {anomaly.text}" for anomaly in judgement.anomalies]
        return Outcome(
            self.seed,
            Verdict.INVALID.value if self.violations else judgement.verdict.value,
            (*self.violations, *(f"unknown: {why}" for why in judgement.unknown)),
            self.trace.digest,
            self.profile,
            dict(sorted(self.cluster.world.rare_paths.hits.items())),
            self.kernel.now,
            tuple(self.nemesis.faults),
            dict(sorted(self.nemesis.happened.items())),
            dict(sorted(judgement.counts.items())),
            tuple(self.trace.lines),
        )

    def _let_slaves_follow(self) -> None:
        """Let time pass until slaves follow: one that comes when a log file is full begins with the next (RocketMQ)."""
        slaves = [node for node in self.cluster.brokers.values() if not node.is_master]
        end = self.kernel.now + _STARTED
        while self.kernel.now < end and not all(node.follows for node in slaves):
            self.kernel.run(0.1)

    def _await(self, waiting: Deferred[None], what: str) -> None:
        """Let time pass until something is done; record that it never is."""
        if not self.kernel.wait(waiting, _NEVER):
            self.recorder.add(Stuck(text=f"{what} is not done after {_NEVER:g} s"))

    def _check_settled(self) -> None:
        """Check that all servers serve, and that slaves have what their masters have."""
        for node in self.cluster.nodes:
            if not node.ready:
                self.recorder.add(Stuck(text=f"{node.name} does not serve; {node.deaths}"))
        for node in self.cluster.brokers.values():
            if not node.is_master and node.opened is not None:
                now = node.opened.replication.now()
                if now.behind or not node.follows:
                    self.recorder.add(Stuck(text=f"{node.name} has not caught up: {now}"))


def run(seed: int, minutes: float = 10, without: Collection[int] = (), keep_trace: bool = False) -> Outcome:
    """
    Run the simulation of a seed.

    @param minutes: virtual time under faults, before the phase without.
    @param without: numbers of the faults that are left out.
    @param keep_trace: return the lines of the trace too.
    """
    return Simulation(seed, minutes, without, keep_trace).run()
