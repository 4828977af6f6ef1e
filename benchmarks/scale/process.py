"""The resources of a broker's process that the kernel limits, and the times of its starts."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

import msgspec

from .. import proc
from ..errors import BenchmarkError
from ..targets import Ours, Started

_TIMEOUT = 900.0
How = Literal["first", "killed", "clean", "clean, cold"]


class Held(msgspec.Struct, frozen=True):
    """Memory in bytes, and counts, of one process."""

    anonymous: int
    resident: int
    descriptors: int
    mappings: int


class Start(msgspec.Struct, frozen=True):
    """One start of a broker, from its process's start until a heart-beat was answered."""

    how: How
    """What ended the broker before: a kill, a clean stop, or one after which the page cache was dropped."""
    ready_s: float
    cpu_s: float
    """CPU seconds of the process until then."""
    held: Held
    stop_s: float = 0.0
    """Seconds that the stop before took."""


class Sized(Ours):
    """smartgo with limits that fit the size under test."""

    settings: tuple[str, ...] = ()
    """C{name=value}, each as for C{--set}."""

    def broker_command(self, settings: Path) -> list[str]:
        """Return the broker's command, with the limits."""
        return [*super().broker_command(settings), *(f"--set={each}" for each in self.settings)]


def held(pid: int) -> Held:
    """
    Return what a process holds now.

    @raise BenchmarkError: it is gone.
    """
    memory = proc.read_memory(pid)
    try:
        with Path(f"/proc/{pid}/maps").open() as maps:
            mappings = sum(1 for _ in maps)
        return Held(memory.anonymous, memory.resident, len(os.listdir(f"/proc/{pid}/fd")), mappings)
    except OSError:
        raise BenchmarkError(f"process {pid} has ended") from None


def start(target: Started, how: How, stop_s: float = 0.0) -> Start:
    """
    Start the broker on the store that is there.

    @raise BenchmarkError: it does not come up.
    """
    ready = target.start_broker(_TIMEOUT)
    return Start(how, ready, proc.read_cpu(target.pid), held(target.pid), stop_s)


def stop(target: Started) -> float:
    """Stop the broker cleanly; return the seconds that took."""
    began = time.monotonic()
    target.stop_broker()
    return time.monotonic() - began
