"""The kernel's figures about a process and about this machine, from /proc."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

import msgspec

from .errors import BenchmarkError

_TICKS = os.sysconf("SC_CLK_TCK")


class Cpu(msgspec.Struct, frozen=True):
    """CPU seconds of a process."""

    total: float
    """All its threads, those that have ended too."""
    main: float
    """Its main thread alone."""

    def since(self, earlier: Cpu) -> Cpu:
        """Return what was used between two readings."""
        return Cpu(self.total - earlier.total, self.main - earlier.main)


class Memory(msgspec.Struct, frozen=True):
    """Memory of a process, in bytes."""

    resident: int
    """RSS: all pages in memory, those of mapped store files too."""
    anonymous: int
    """Pages no file stands behind: what the process itself costs."""
    peak: int
    """The highest RSS so far."""


def cpu_seconds(stat: str) -> float:
    """Return the CPU time of a whole process, all its threads ever, from the text of its C{/proc/PID/stat}."""
    after_name = stat[stat.rindex(")") + 2 :].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS


def machine_cpu_seconds(stat: str) -> float:
    """Return how long all processors together were busy since the start, from the text of C{/proc/stat}."""
    user, nice, system, _idle, _waiting, irq, soft_irq, *_ = map(int, stat.partition("\n")[0].split()[1:])
    return (user + nice + system + irq + soft_irq) / _TICKS


def memory(status: str) -> Memory:
    """
    Read the text of a C{/proc/PID/status}.

    @raise ValueError: it has no line of resident memory (a kernel thread, or a dead process).
    """
    sizes: dict[str, int] = {}
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if value.endswith(" kB"):
            sizes[name] = int(value.split()[0]) * 1024
    if "RssAnon" not in sizes:
        raise ValueError("no memory in this status")
    return Memory(sizes["VmRSS"], sizes["RssAnon"], sizes["VmHWM"])


def read_cpu(pid: int) -> float:
    """
    Return the CPU seconds the process has used until now.

    @raise BenchmarkError: it is gone.
    """
    return cpu_seconds(_of(pid, "stat"))


def read_threads(pid: int) -> Cpu:
    """
    Return the CPU seconds the process has used until now, the main thread's apart.

    @raise BenchmarkError: it is gone.
    """
    return Cpu(read_cpu(pid), cpu_seconds(_of(pid, f"task/{pid}/stat")))


def read_memory(pid: int) -> Memory:
    """
    Return what memory the process has now.

    @raise BenchmarkError: it is gone.
    """
    try:
        return memory(_of(pid, "status"))
    except ValueError:
        raise BenchmarkError(f"process {pid} has ended") from None


def resident_outside(smaps: str, folder: Path) -> int:
    """Return the bytes in memory that belong to no file below a folder, from the text of a C{/proc/PID/smaps}."""
    total, counts = 0, True
    for line in smaps.splitlines():
        fields = line.split(maxsplit=5)
        if not fields[0].endswith(":"):  # the head of a mapping: addresses, rights, offset, device, inode, path
            counts = len(fields) < 6 or not Path(fields[5].removesuffix(" (deleted)")).is_relative_to(folder)
        elif fields[0] == "Rss:" and counts:
            total += int(fields[1]) * 1024
    return total


def read_resident_outside(pid: int, folder: Path) -> int:
    """
    Return the memory of a process without the files below a folder that it has mapped, in bytes.

    @raise BenchmarkError: it is gone.
    """
    return resident_outside(_of(pid, "smaps"), folder.resolve())


def busy(*pids: int) -> tuple[float, float]:
    """Return the CPU seconds of the whole machine, and of the processes given, this one and its ended children."""
    return read_machine_cpu(), own_cpu() + sum(read_cpu(pid) for pid in pids)


def foreign_cores(before: tuple[float, float], after: tuple[float, float], seconds: float) -> float:
    """Return how many processors other programs kept busy between two readings of L{busy}."""
    return max(0.0, (after[0] - before[0] - (after[1] - before[1])) / seconds)


def read_machine_cpu() -> float:
    """Return how many seconds the processors of this machine have been busy, all together."""
    return machine_cpu_seconds(Path("/proc/stat").read_text())


def own_cpu() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def machine(store: Path) -> Mapping[str, object]:
    """Return the facts without which the figures mean nothing: processor, memory, kernel, Python, load, file system."""
    processors = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    total = next((line.split()[1] for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), "0")
    return {
        "processor": processors[0] if processors else platform.machine(),
        "processors": os.cpu_count(),
        "memory_bytes": int(total) * 1024,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": os.getloadavg(),
        "store_file_system": file_system(store, _lines("/proc/self/mounts")),
    }


def file_system(path: Path, mounts: list[str]) -> str:
    """Return the kind of file system C{path} lies on, by the lines of C{/proc/self/mounts}."""
    best = ("", "unknown")
    resolved = path.resolve()
    for line in mounts:
        fields = line.split()
        where = fields[1].replace("\\040", " ")
        if len(where) >= len(best[0]) and resolved.is_relative_to(where):
            best = (where, fields[2])
    return best[1]


def _of(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text()
    except OSError:
        raise BenchmarkError(f"process {pid} has ended") from None


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
