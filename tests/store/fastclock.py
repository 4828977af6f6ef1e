"""A real environment whose clock and file times run faster, and a small disk, for runs that play days in minutes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from smartgo.env.real import RealEnvironment

MIB = 1 << 20


class FastCall:
    """A delayed call whose times are virtual."""

    def __init__(self, call: Any, factor: float) -> None:
        self._call = call
        self._factor = factor
        self.cancel = call.cancel
        self.active = call.active

    def getTime(self) -> float:
        """Virtual time at which it is due."""
        return float(self._call.getTime() * self._factor)

    def reset(self, seconds: float) -> None:
        """Let it be due so many virtual seconds from now."""
        self._call.reset(seconds / self._factor)


class FastClock:
    """A clock that runs faster than the real one."""

    def __init__(self, clock: Any, factor: float) -> None:
        self._clock = clock
        self.factor = factor
        self._began = clock.seconds()
        self.begin_ms = clock.wall_ms()

    def seconds(self) -> float:
        """Virtual monotonic time."""
        return float(self._clock.seconds() * self.factor)

    def callLater(self, delay: float, function: Any, *args: Any, **named: Any) -> FastCall:
        """Call after a virtual delay."""
        return FastCall(self._clock.callLater(delay / self.factor, function, *args, **named), self.factor)

    @property
    def passed(self) -> float:
        """Virtual seconds since the beginning."""
        return float((self._clock.seconds() - self._began) * self.factor)

    def wall_ms(self) -> int:
        """Virtual wall clock."""
        return int(self.begin_ms + self.passed * 1000)

    def utc_offset(self) -> float:
        """At Greenwich."""
        return 0.0


class FastFiles:
    """The real files, with virtual times of modification."""

    def __init__(self, files: Any, clock: FastClock) -> None:
        self._files = files
        self._time = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def modified_ms(self, path: str) -> int:
        """When a file was modified, by the virtual clock."""
        began = self._time.begin_ms
        return int(began + (self._files.modified_ms(path) - began) * self._time.factor)


class FastEnvironment:
    """The real environment in a hurry."""

    def __init__(self, real: RealEnvironment, factor: float) -> None:
        """@param factor: virtual seconds in a real one."""
        self.real = real
        self.clock = FastClock(real.clock, factor)
        self.files = FastFiles(real.files, self.clock)
        self.network, self.threads, self.random, self.host = real.network, real.threads, real.random, real.host
        self.buggify = real.buggify


def say(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def process_figures(pid: int | str = "self") -> tuple[int, int, int]:
    """Return anonymous memory in KiB, open descriptors, and mappings of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        memory = next(int(line.split()[1]) for line in file if line.startswith("RssAnon"))
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        mappings = sum(1 for _ in file)
    return memory, len(os.listdir(f"/proc/{pid}/fd")), mappings


def are_flat(rows: list[tuple[int, float, int, int, int]]) -> bool:
    """
    Return whether memory, descriptors and mappings of the sixth and seventh day stay within those of the third and
    fourth, and a tenth.

    @param rows: (hour, use of the disk, memory, descriptors, mappings) of each hour of a week.
    """
    early = [row for row in rows if 48 <= row[0] < 96]
    late = [row for row in rows if row[0] >= 120]
    return all(max(row[column] for row in late) <= max(row[column] for row in early) * 1.1 + 20 for column in (2, 3, 4))


@contextmanager
def small_disk(mib: int) -> Iterator[str]:
    """Mount an ext4 file system in a file of so many MiB, which needs root; yield its directory."""
    with tempfile.TemporaryDirectory() as place:
        image, root = os.path.join(place, "image"), os.path.join(place, "disk")
        os.mkdir(root)
        with open(image, "wb") as file:
            file.truncate(mib * MIB)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        subprocess.run(["mount", "-o", "loop", image, root], check=True)
        try:
            yield root
        finally:
            subprocess.run(["umount", "-l", root], check=False)
