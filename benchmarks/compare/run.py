"""Run the rows: each on brokers with empty stores, round by round in turn, so that what disturbs one disturbs all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from .. import firsttouch, proc, runner
from ..apache import Apache
from ..apache import Pace as ApachePace
from ..errors import BenchmarkError
from ..generator import Outcome
from ..jars import RocketMQ
from ..runner import Say
from ..targets import Started
from .results import Pace, Sample
from .rows import BATCH, Quantity, Row

_MB = 1e6
_WARM = 2.0
_WARM_JVM = 15.0
_T = TypeVar("_T")

WARMED_BYTES = 1 << 30
"""Memory that is touched and given back before each round: as much as a broker fills in the longest of them."""


class Rounds:
    """Runs rows on brokers that are up."""

    def __init__(
        self, rocketmq: RocketMQ, binary: Path, work: Path, targets: Sequence[Started], pace: Pace, say: Say
    ) -> None:
        """
        @param binary: the load generator.
        @param work: folder for what Apache's programs print and log.
        """
        self._binary = binary
        self._targets = list(targets)
        self._pace = pace
        self._say = say
        programs = ApachePace(pace.rounds, pace.seconds, pace.warm_up, pace.backlog)
        self._apache = Apache(rocketmq, binary, work, targets, programs, say)
        self._loads = runner.Pace(pace.rounds, pace.load_seconds)
        self.failures: list[str] = []

    def run(self, rows: Iterable[Row]) -> Iterator[Sample]:
        """
        Yield samples as they come.

        A broker that fails in a row has no more samples in it; L{failures} tells why.
        """
        for row in rows:
            able = [target for target in self._targets if self._attempt(row, target, self._prepare)]
            for number in range(1, self._pace.rounds + 1):
                # the first in a round is the last in the next
                for target in able[:: 1 if number % 2 else -1]:
                    self._say(f"{row.name}: {target.name}, round {number} of {self._pace.rounds}")
                    found = self._attempt(row, target, self._measure)
                    if found is None:
                        able = [one for one in able if one is not target]
                    else:
                        figures, failed, foreign = found
                        yield Sample(row.name, target.name, number, figures, failed, foreign)

    def _attempt(self, row: Row, target: Started, step: Callable[[Row, Started], _T]) -> _T | None:
        try:
            return step(row, target)
        except (BenchmarkError, OSError) as error:
            self.failures.append(f"{row.name} on {target.name} broke off: {error}")
            return None

    def _prepare(self, row: Row, target: Started) -> bool:
        """Give the broker an empty store, the row's topics and backlog, and load until it is warm."""
        if row.kind == "start":
            return True
        self._say(f"{row.name}: {target.name} starts on an empty store and gets warm")
        target.renew(row.flush_disk_type)
        first = self._pace.first_warm_up
        seconds = (_WARM_JVM if target.warm_up > 1 else _WARM) if first is None else first
        if row.scenario is not None:
            runner.prepare(self._binary, target, row.scenario)
            if seconds > 0:
                runner.drive(self._binary, target, row.scenario.load, 0.0, seconds)
        elif row.kind == "consumer":
            self._apache.prepare_consumers(target, seconds)
        else:
            self._apache.prepare_producers(target, seconds)
        return True

    def _measure(self, row: Row, target: Started) -> tuple[dict[Quantity, float], int, float]:
        """Take one round; return its figures, the failed messages, and the processors that others kept busy."""
        if row.kind == "start":
            return {"ready_s": self._start(target)}, 0, 0.0
        firsttouch.warm(WARMED_BYTES)
        figures: dict[Quantity, float]
        if row.scenario is not None:
            found = runner.measure(self._binary, target, row.scenario.load, self._loads)
            figures, failed, foreign = of_outcome(found.outcome), found.outcome.failures, found.foreign_cores
        else:
            if row.kind == "consumer":
                run = self._apache.consume(target, row.threads)
            else:
                run = self._apache.produce(target, row.threads, BATCH if row.kind == "batch" else 1)
            failed, foreign = run.failed, run.foreign_cores
            figures = {
                "rate": run.rate if row.kind == "consumer" else run.counted_rate,
                "cpu_us": run.cpu_us,
                "main_us": run.main_us,
                "client_us": run.client_us,
            }
        return {**figures, **_weigh(target)}, failed, foreign

    def _start(self, target: Started) -> float:
        """Start a second broker of a kind, and end it; return the seconds until it answered."""
        found = runner.starts(target, 1, self._say)
        if found is None:
            raise BenchmarkError(f"{target.name} cannot be started twice")
        return found.seconds[0]


def of_outcome(outcome: Outcome) -> dict[Quantity, float]:
    """
    Return the figures of a load of the generator.

    @raise BenchmarkError: no message succeeded.
    """
    if not outcome.messages:
        raise BenchmarkError(f"no message succeeded: {outcome.codes}")
    return {
        "rate": outcome.rate,
        "cpu_us": outcome.server_cpu_us,
        "main_us": outcome.server_main_us,
        "client_us": outcome.generator_cpu_us,
        "p50_ms": outcome.latency_us.p50 / 1e3,
        "p99_ms": outcome.latency_us.p99 / 1e3,
        "p999_ms": outcome.latency_us.p999 / 1e3,
    }


def _weigh(target: Started) -> dict[Quantity, float]:
    memory = proc.read_memory(target.pid)
    return {
        "resident_mb": memory.resident / _MB,
        "outside_store_mb": proc.read_resident_outside(target.pid, target.store) / _MB,
        "anonymous_mb": memory.anonymous / _MB,
    }
