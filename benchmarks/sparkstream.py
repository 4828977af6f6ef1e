"""
A stream behind a broker under load: is every message there once, and how old is it when it is?

The load generator sends at a fixed rate; a Spark query (L{benchmarks.sparkquery}) tails the broker's store into Parquet
files, is killed half-way, driver and JVM, and started again on its checkpoint. Then what lies in the files, as the
sink's own log lists them, is compared with what the broker acknowledged: each queue must be there from its first offset
to its last, each offset once.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import generator
from .checkouts import ROOT
from .control import Control
from .errors import BenchmarkError
from .generator import Load
from .lagplot import Lag
from .processes import Child
from .targets import Started

TOPIC = "SparkStream"
QUEUES = 8

_READY = 300.0
_CAUGHT_UP = 600.0
_QUIET = 2.0
_REVIVALS = 5
_TOO_SLOW = "failed to connect back"

_QUANTILES = (("median", 0.5), ("95 % within", 0.95), ("99 % within", 0.99), ("maximum", 1.0))

Say = Callable[[str], None]


class Outcome(msgspec.Struct):
    """
    The result of a run.

    @ivar sent: messages the broker acknowledged; C{rows} those in the files, C{missing} and C{twice} by queue offset.
    @ivar revived: how often the query was started again because Spark gave up waiting for a worker of its own.
    @ivar restarts: when the query was killed, and when it had caught up, in seconds since the load began.
    @ivar lags: of the micro-batches.
    """

    broker: str
    rate: int
    seconds: float
    sent: int
    rows: int
    missing: int
    twice: int
    revived: int
    restarts: list[tuple[float, float]]
    lags: list[Lag]

    @property
    def exact(self) -> bool:
        """Tell whether every message is there once, and nothing else."""
        return self.sent == self.rows and not (self.missing or self.twice)

    def quantile(self, part: float, restarts: bool = True) -> float:
        """
        Return the seconds within which the oldest messages of that part of the micro-batches were in the sink.

        @param restarts: count those, too, that were late as the query was away.
        """
        away = [] if restarts else self.restarts
        found = sorted(lag.oldest for lag in self.lags if not any(begin <= lag.at <= end for begin, end in away))
        if not found:
            return self.quantile(part)
        return found[min(len(found) - 1, int(part * len(found)))]


def told(outcome: Outcome) -> str:
    """Return the outcome as lines for a terminal."""
    counts = f"{outcome.sent:,} messages acknowledged, {outcome.rows:,} rows in the sink"
    lags = ", ".join(f"{name} {outcome.quantile(part, False):.2f} s" for name, part in _QUANTILES)
    lines = [
        f"{outcome.broker}: {counts}; {outcome.missing:,} missing, {outcome.twice:,} twice",
        f"{len(outcome.lags)} micro-batches; age of the oldest message when it lay in the sink: {lags}",
    ]
    lines += [
        f"killed after {begin:.0f} s; {end - begin:.1f} s later the stream had caught up"
        for begin, end in outcome.restarts
    ]
    if outcome.revived:
        lines.append(
            f"started again {outcome.revived} times more: a worker of Spark's was not there within ten seconds"
        )
    return "\n".join(lines)


class Query:
    """The query as a process group of its own."""

    def __init__(self, work: Path, store: Path, trigger: str) -> None:
        self.out = work / "sink"
        self._work = work
        self._command = [
            *(sys.executable, "-m", "benchmarks.sparkquery", str(store)),
            *("--out", str(self.out), "--checkpoint", str(work / "checkpoint"), "--trigger", trigger),
        ]
        self._child: Child | None = None
        self.revived = 0

    def start(self) -> None:
        """Start the query."""
        environment = {"PYTHONPATH": str(ROOT)}
        self._child = Child(self._command, self._work / "query.out", environment, self._work)

    def kill(self) -> None:
        """Kill driver and JVM at once."""
        assert self._child is not None
        os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait(10)

    def stop(self) -> None:
        """Stop the query."""
        if self._child is not None:
            self._child.stop()

    def check(self) -> None:
        """
        Check that the query runs; start it again if one of Spark's workers was not there within Spark's own ten
        seconds, as happens on a busy machine.

        @raise BenchmarkError: the query ended for another reason, or too often.
        """
        assert self._child is not None
        if self._child.alive:
            return
        said = self._child.last_lines(60)
        if _TOO_SLOW not in said or self.revived == _REVIVALS:
            raise BenchmarkError(f"the query ended:{said}")
        self.revived += 1
        self.start()


def run(target: Started, binary: Path, rate: int, seconds: float, trigger: str, say: Say) -> Outcome:
    """
    Run the benchmark.

    @param target: a broker that runs, on a store of its own.
    @raise BenchmarkError: something did not come up, or the sink did not catch up.
    """
    with Control(target.address) as control:
        control.create_topic(TOPIC, QUEUES)
    work = target.work / "spark"
    work.mkdir(parents=True)
    query = Query(work, target.work / "store", trigger)
    say("starting Spark")
    query.start()
    restarts = []
    try:
        _until(lambda: bool(_batches(query.out)), _READY, query, "the query's first micro-batch")
        load = Load("send", (TOPIC,), QUEUES, connections=4, outstanding=16, rate=rate)
        line = generator.command(binary, load, target.address, None, seconds=seconds)
        began = time.time()
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as sending:
            say(f"{rate} messages a second for {seconds:.0f} s")
            _sleep(began + seconds / 2, query)
            say("killing the query")
            query.kill()
            killed = time.time()
            time.sleep(_QUIET)
            query.start()
            output, _ = sending.communicate(timeout=seconds + 60)
        outcome = generator.read(output)
        if outcome.error is not None:
            raise BenchmarkError(f"the load generator: {outcome.error}")
        say("waiting for the sink")
        with Control(target.address) as control:
            ends = [
                int(control.demand(30, {"topic": TOPIC, "queueId": queue}).fields["offset"]) for queue in range(QUEUES)
            ]
        _until(lambda: _row_count(query.out) >= sum(ends), _CAUGHT_UP, query, "the last message in the sink")
    finally:
        query.stop()
    found, lags = _read(query.out, began)
    restarts.append((killed - began, _caught_up(lags, killed - began)))
    missing = sum(len(set(range(end)) - set(found.get(queue, []))) for queue, end in enumerate(ends))
    rows = sum(len(offsets) for offsets in found.values())
    twice = sum(len(offsets) - len(set(offsets)) for offsets in found.values())
    sent = outcome.total_messages
    return Outcome(target.name, rate, seconds, sent, rows, missing, twice, query.revived, restarts, lags)


def _until(done: Callable[[], bool], timeout: float, query: Query, what: str) -> None:
    deadline = time.monotonic() + timeout
    while not done():
        query.check()
        if time.monotonic() > deadline:
            raise BenchmarkError(f"waited {timeout:.0f} s for {what}")
        time.sleep(0.5)


def _sleep(until: float, query: Query) -> None:
    while (left := until - time.time()) > 0:
        query.check()
        time.sleep(min(left, 1.0))


# -- the sink ------------------------------------------------------------------------------------------------------


def _batches(out: Path) -> dict[int, Path]:
    """The entries of the sink's log, by micro-batch; every tenth sums up those before it."""
    found = {}
    folder = out / "_spark_metadata"
    for path in folder.iterdir() if folder.is_dir() else ():
        number, _, kind = path.name.partition(".")
        if number.isdigit() and kind in ("", "compact"):
            found[int(number)] = path
    return dict(sorted(found.items()))


def _files(out: Path) -> Iterator[tuple[float, list[Path]]]:
    """Each micro-batch: when it was committed (seconds since the epoch), and the files it added."""
    seen: set[str] = set()
    for path in _batches(out).values():
        lines = path.read_text().splitlines()[1:]
        added = [json.loads(line)["path"] for line in lines if line]
        fresh = [name for name in added if name not in seen]
        seen.update(fresh)
        yield path.stat().st_mtime, [Path(name.removeprefix("file://")) for name in fresh]


def _row_count(out: Path) -> int:
    return sum(pq.read_metadata(path).num_rows for _, paths in _files(out) for path in paths)


def _read(out: Path, began: float) -> tuple[dict[int, list[int]], list[Lag]]:
    """Return queue offsets by queue id, with repetitions, and the lags of the micro-batches."""
    found: dict[int, list[int]] = {}
    lags = []
    for committed, paths in _files(out):
        stored = []
        for path in paths:
            table: Any = pq.read_table(path, columns=["queue_id", "queue_offset", "store_timestamp"])
            for queue, offset in zip(table["queue_id"].to_pylist(), table["queue_offset"].to_pylist(), strict=True):
                found.setdefault(queue, []).append(offset)
            stored += pc.cast(pc.cast(table["store_timestamp"], "timestamp[ms]", safe=False), "int64").to_pylist()
        if stored:
            stored.sort()
            half, oldest = (committed - stored[at] / 1000 for at in (len(stored) // 2, 0))
            lags.append(Lag(committed - began, max(0.0, half), max(0.0, oldest), len(stored)))
    return found, lags


def _caught_up(lags: list[Lag], killed: float) -> float:
    """Return the time at which the lag was again no more than three times that before the query was killed."""
    before = sorted(lag.oldest for lag in lags if lag.at < killed)
    usual = before[len(before) // 2] if before else 0.0
    return next((lag.at for lag in lags if lag.at > killed and lag.oldest <= 3 * usual), lags[-1].at)
