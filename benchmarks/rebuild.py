"""
The time until a broker serves again: after its queues and its index were lost, and after a kill.

Both brokers get the same directory in turn. It is written by smartgo's store, without a broker:

 - C{rebuild}: a log of 1 GiB in records of 1 KiB with a tag, a key and a unique key, and neither C{consumequeue/} nor
   C{index/}
 - C{kill}: a log of 256 MiB as a kill left it, whose last 64 MiB came after the last checkpoint

A broker is ready when it answers a heart-beat and has every message in its queues; then it is asked for the newest
message by its key until it finds it, as smartgo goes on with the index while it serves.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich.table import Table
from twisted.internet.defer import Deferred

from smartgo.schema.message import NewMessage
from smartgo.store.opening import open_store
from smartgo.store.openstore import OpenStore
from smartgo.store.settings import StoreSettings

from . import proc
from .control import Control
from .errors import BenchmarkError
from .runner import Say
from .spread import Spread, ratios
from .targets import Started, Target
from .timers import HOST, Machine

TOPIC = "BenchRebuild"
QUEUES = 8
RECORD = 1024
REBUILD_BYTES = 1 << 30
KILL_BYTES = 192 << 20
BEHIND_BYTES = 64 << 20
"""What the log has behind its last checkpoint when the process is killed."""
SETTINGS = StoreSettings(index=True, disk_free_minimum=1 << 20)
GOALS = {"rebuild": 35.0, "kill": 5.0}
"""Seconds until ready (docs/spec/reliability#S11)."""
CASES = tuple(GOALS)

_PROPERTIES = b"UNIQ_KEY\1%032X\2WAIT\1true\2TAGS\1TagA\2KEYS\1key-%08d"
_QUERY_MESSAGE = 12
_RUN = 1000
_TIMEOUT = 600.0


class Start(msgspec.Struct, frozen=True):
    """One start of one broker; seconds from its process's start."""

    case: str
    target: str
    ready: float
    indexed: float
    """Until the newest message was found by its key."""
    cpu: float
    """CPU seconds of the process until then."""


def count_of(case: str) -> int:
    """Return how many records a case has."""
    return (REBUILD_BYTES if case == "rebuild" else KILL_BYTES + BEHIND_BYTES) // RECORD


def write_store(root: Path, case: str) -> None:
    """Write the store of a case; the process that does is then to end without closing it (C{os._exit})."""
    count = count_of(case)
    first = count if case == "rebuild" else KILL_BYTES // RECORD
    settings = SETTINGS
    store = _open(root, settings)
    _append(store, range(first))
    _wait(store.close())
    if first < count:
        settings = msgspec.structs.replace(settings, checkpoint_interval=1e9, checkpoint_bytes=1 << 60)
        _append(_open(root, settings), range(first, count))
    elif case == "rebuild":
        for name in ("consumequeue", "index"):
            shutil.rmtree(root / name, ignore_errors=True)


def _open(root: Path, settings: StoreSettings) -> OpenStore:
    machine: Any = Machine(1.0)
    opened = _wait(open_store(machine, str(root), settings))
    assert isinstance(opened, OpenStore)
    return opened


def _wait(deferred: Deferred[Any]) -> Any:
    """Return the result of what is done in this thread."""
    results: list[Any] = []
    deferred.addBoth(results.append)
    return results[0]


def _append(store: OpenStore, numbers: range) -> None:
    body = bytes(RECORD - 91 - len(TOPIC) - len(_PROPERTIES % (0, 0)))  # 91: the fields of fixed size
    for number in numbers:
        properties = _PROPERTIES % (number, number)
        message = NewMessage(TOPIC, number % QUEUES, body, properties, born_ms=1, store_host=HOST)
        appended = store.append((message,))
        if appended.end - appended.offset != RECORD:
            raise BenchmarkError("the records are not as long as they should be")
        if number % _RUN == _RUN - 1:
            store.end_run()
    store.end_run()


def run(targets: Sequence[Target], cases: Sequence[str], rounds: int, folder: Path, say: Say) -> list[Start]:
    """
    Start each broker on each case's directory in turn.

    @param folder: an existing folder for the directories.
    @raise BenchmarkError: a broker does not come up, or has not every message.
    """
    starts = []
    for case in cases:
        made = folder / f"made-{case}"
        say(f"{case}: writing the store")
        writer = "import os; from pathlib import Path; from benchmarks.rebuild import write_store; "
        writer += f"write_store(Path({str(made)!r}), {case!r}); os._exit(0)"
        subprocess.run([sys.executable, "-c", writer], check=True, cwd=Path(__file__).parent.parent)
        for number in range(rounds):
            turn = number % len(targets)
            for target in (*targets[turn:], *targets[:turn]):
                if not isinstance(target, Started):
                    raise BenchmarkError(f"{target.name}: only a broker that is started here can be measured")
                say(f"{case}: {target.name}, round {number + 1}")
                with _lent(made, target.work / "store", case):
                    starts.append(_measure(case, target))
        shutil.rmtree(made)
    return starts


@contextmanager
def _lent(made: Path, store: Path, case: str) -> Iterator[None]:
    """Let a broker have the directory: the same one without queues and index, or a copy of what a kill left."""
    store.parent.mkdir(parents=True, exist_ok=True)
    if case == "kill":
        subprocess.run(["cp", "-a", "--sparse=always", str(made), str(store)], check=True)
    else:
        os.rename(made, store)
    os.sync()
    try:
        yield
    finally:
        if case == "kill":
            shutil.rmtree(store)
        else:
            os.rename(store, made)
            for name in ("consumequeue", "index"):
                shutil.rmtree(made / name, ignore_errors=True)


def _measure(case: str, target: Started) -> Start:
    target.start_registry()
    began = time.monotonic()
    try:
        ready = target.start_broker(_TIMEOUT)
        count = count_of(case)
        with Control(target.address, 60.0) as control:
            control.create_topic(TOPIC, QUEUES)
            stored = control.stored(TOPIC, QUEUES)
            if stored != count:
                raise BenchmarkError(f"{target.name} has {stored} of {count} messages")
            key = f"key-{count - 1:08d}"
            query = {"topic": TOPIC, "key": key, "maxNum": 1, "beginTimestamp": 0, "endTimestamp": 1 << 62}
            while control.ask(_QUERY_MESSAGE, query).code:
                if time.monotonic() > began + _TIMEOUT:
                    raise BenchmarkError(f"{target.name} does not find the newest message by its key")
                time.sleep(0.02)
        indexed = time.monotonic() - began
        return Start(case, target.name, ready, indexed, proc.read_cpu(target.pid))
    finally:
        target.stop()


def missed(starts: Sequence[Start]) -> list[Start]:
    """Return the starts that took longer than the goal."""
    return [start for start in starts if start.ready > GOALS[start.case]]


def table(starts: Sequence[Start]) -> Table:
    """Return the figures as a table: medians, least and most, records a second, and ratios to the last broker."""
    made = Table("case", "broker", "ready s", "records/s", "indexed s", "CPU s", "ready by the last", "goal s")
    for case in dict.fromkeys(start.case for start in starts):
        names = list(dict.fromkeys(start.target for start in starts if start.case == case))
        of = {name: [each for each in starts if (each.case, each.target) == (case, name)] for name in names}
        for name in names:
            ready = Spread.of(each.ready for each in of[name])
            indexed = Spread.of(each.indexed for each in of[name])
            cpu = Spread.of(each.cpu for each in of[name])
            ratio = ratios((each.ready for each in of[name]), (each.ready for each in of[names[-1]]))
            made.add_row(
                case,
                name,
                f"{ready.median:.2f} ({ready.minimum:.2f} to {ready.maximum:.2f})",
                f"{count_of(case) / ready.median:,.0f}" if case == "rebuild" else "",
                f"{indexed.median:.2f}",
                f"{cpu.median:.2f}",
                "" if ratio is None or name == names[-1] else f"{ratio.median:.2f}",
                f"{GOALS[case]:.0f}",
            )
    return made
