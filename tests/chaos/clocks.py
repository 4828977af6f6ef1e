"""
Faults of the wall clock, by C{libfaketime}: processes of a run read a clock that is set while they run.

The clock of each process is in a file that it reads each time. The monotonic clock stays the machine's, as it does
where an administrator sets the time. That a broker saw the fault is proved by the log: a client, whose clock is right,
writes its own time into each message, and the broker the time at which it was stored.
"""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from smartgo.schema.recordscan import scan
from tests.interop.peers import Node

_LIBRARIES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")
_CLOSE = 2000  # ms by which a message's two times may differ where both clocks are right


def library() -> str | None:
    """Return the path of the library for programs with threads; C{None} where it is not installed."""
    found = [path for folder in _LIBRARIES for path in glob.glob(f"{folder}/libfaketimeMT.so.1")]
    return found[0] if found else None


def unavailable() -> str | None:
    """Return why no clock can be set here; C{None} where it can."""
    return None if library() else "libfaketime is not installed"


class WallClock:
    """The wall clock of some processes; right until it is set."""

    def __init__(self, path: str) -> None:
        """@param path: of the file that they read."""
        self._path = path
        self.set(0)

    def set(self, seconds: float) -> None:
        """Let the clock differ from the right one by so many seconds from now on."""
        aside = f"{self._path}.new"
        Path(aside).write_text(f"{seconds:+g}\n")
        os.replace(aside, self._path)

    def give(self, node: Node) -> None:
        """Let a node that is not started yet have this clock. File times stay right: only new ones would be wrong."""
        environment: Mapping[str, str] = {
            "LD_PRELOAD": library() or "",
            "FAKETIME_TIMESTAMP_FILE": self._path,
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        node.plan = replace(node.plan, environment={**node.plan.environment, **environment})


class ClockSet:
    """The clock is set forward or back, and right again at the end."""

    def __init__(self, clock: WallClock, seconds: float, broker: Node) -> None:
        """@param broker: whose log proves that the clock was wrong."""
        self.name = "clock set"
        self.target = f"{seconds:+g} s"
        self._clock = clock
        self._seconds = seconds
        self._broker = broker

    def begin(self) -> None:
        self._clock.set(self._seconds)

    def end(self) -> int:
        self._clock.set(0)
        return stored_off(self._broker, self._seconds)


class ClockJumps:
    """The clock is set forward and back again and again, and right at the end."""

    def __init__(self, clock: WallClock, seconds: float, every: float, broker: Node) -> None:
        """@param every: seconds between two jumps."""
        self.name = "clock jumps"
        self.target = f"±{seconds:g} s every {every:g} s"
        self._clock = clock
        self._seconds = seconds
        self._every = every
        self._broker = broker
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._jump, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        self._clock.set(0)
        return min(stored_off(self._broker, self._seconds), stored_off(self._broker, -self._seconds))

    def _jump(self) -> None:
        seconds = self._seconds
        while True:
            self._clock.set(seconds)
            if self._ended.wait(self._every):
                return
            seconds = -seconds


def stored_off(broker: Node, seconds: float) -> int:
    """Return how many messages of a log were stored by a clock that was wrong by so many seconds."""
    return sum(abs(stored - born - 1000 * seconds) < _CLOSE for _, _, stored, born in stored_times(broker))


def stored_times(broker: Node) -> Iterator[tuple[tuple[str, int], int, int, int]]:
    """Yield queue, queue offset, store time and birth time (ms) of all messages of a log, which may be written to."""
    folder = Path(broker.plan.store, "commitlog")
    for path in sorted(path for path in folder.iterdir() if path.name.isdigit()):
        for record in scan(path.read_bytes(), 0, int(path.name)):
            yield (record.topic, record.queue_id), record.queue_offset, record.stored_ms, record.born_ms
