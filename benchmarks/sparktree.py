"""A tree of processes: its CPU time and the memory of some of its members, from /proc."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import BenchmarkError
from .proc import read_memory

_TICKS = os.sysconf("SC_CLK_TCK")


def members(root: int) -> list[int]:
    """Return a process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu(root: int) -> float:
    """Return the CPU seconds of a tree, those of members that ended included."""
    total = 0
    for pid in members(root):
        total += sum(map(int, _fields(pid)[11:15]))
    return total / _TICKS


def _fields(pid: int) -> list[str]:
    """Return the fields of a process's stat from its state on; nothing if it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ["Z", "0", *["0"] * 20]
    return text[text.rindex(")") + 2 :].split()


class Peak:
    """
    The most memory that no file stands behind, of any one process.

    @ivar anonymous: bytes.
    """

    def __init__(self) -> None:
        self.anonymous = 0


@contextmanager
def peak_of_workers(root: int, every: float = 0.3) -> Iterator[Peak]:
    """Watch the Python workers below a process while something runs."""
    peak, stop = Peak(), threading.Event()

    def watch() -> None:
        while not stop.wait(every):
            for pid in members(root)[1:]:
                if _is_worker(pid):
                    try:
                        peak.anonymous = max(peak.anonymous, read_memory(pid).anonymous)
                    except BenchmarkError:
                        pass

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        stop.set()
        thread.join()


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
