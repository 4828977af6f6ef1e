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


class Peaks:
    """
    The most memory that no file stands behind, in bytes, of processes of a tree.

    @ivar anonymous: of any one Python worker.
    @ivar workers: of all Python workers together.
    @ivar java: of all Java processes together.
    @ivar root: of the first process.
    """

    def __init__(self) -> None:
        self.anonymous = self.workers = self.java = self.root = 0

    def look(self, root: int) -> None:
        """Take note of what a tree has now."""
        workers, java = [0], 0
        for pid in members(root):
            try:
                size = read_memory(pid).anonymous
            except BenchmarkError:
                continue
            command = _command(pid)
            if b"pyspark.daemon" in command:
                workers.append(size)
            elif command.split(b"\0")[0].endswith(b"java"):
                java += size
            elif pid == root:
                self.root = max(self.root, size)
        self.anonymous = max(self.anonymous, *workers)
        self.workers = max(self.workers, sum(workers))
        self.java = max(self.java, java)


@contextmanager
def peaks_below(root: int, every: float = 0.3) -> Iterator[Peaks]:
    """Watch a process and those below it while something runs."""
    peaks, stop = Peaks(), threading.Event()

    def watch() -> None:
        while not stop.wait(every):
            peaks.look(root)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
