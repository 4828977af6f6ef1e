"""
Run twistd with a profiler inside: C{python -m benchmarks.sampled sample|cprofile OUTPUT TWISTD-ARGUMENTS...}.

SIGUSR2 begins the profile and a second one ends it, so that only what is asked about is in it; OUTPUT is written when
the process ends. Sampling looks at the main thread's stack after each tick of the process's CPU time (a millisecond is
asked for, the kernel gives its own tick, often 4 ms): it costs less than one per cent, and a C function counts for the
Python line that called it. cProfile counts every call exactly and makes Python functions look dearer than they are.
"""

from __future__ import annotations

import cProfile
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Protocol

INTERVAL = 0.001
"""CPU seconds between two samples, as asked for."""


class IProfiler(Protocol):
    """A profiler that can be switched on and off, and that writes its result to a file."""

    def enable(self) -> None:
        """Begin to sample."""

    def disable(self) -> None:
        """Stop sampling."""

    def dump_stats(self, file: str) -> None:
        """Write the result to a file."""


class Sampler:
    """Counts where the main thread is, time after time."""

    def __init__(self) -> None:
        self.samples = 0
        self._own: Counter[tuple[str, str, int]] = Counter()
        self._below: Counter[tuple[str, str, int]] = Counter()
        self._lines: Counter[tuple[str, int]] = Counter()

    def enable(self) -> None:
        """Begin to sample."""
        signal.signal(signal.SIGPROF, self.sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)

    def disable(self) -> None:
        """Stop sampling."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def sample(self, number: int, frame: FrameType | None) -> None:
        """Take one sample: a signal handler."""
        if frame is None:
            return
        self.samples += 1
        self._own[_name(frame)] += 1
        self._lines[frame.f_code.co_filename, frame.f_lineno or 0] += 1
        seen = set()
        here: FrameType | None = frame
        while here is not None:
            seen.add(_name(here))
            here = here.f_back
        self._below.update(seen)

    def dump_stats(self, file: str) -> None:
        """Write the counts as JSON: all samples, then by function and by line."""
        functions = [[*key, self._own[key], count] for key, count in self._below.items()]
        lines = [[*key, count] for key, count in self._lines.items()]
        Path(file).write_text(json.dumps({"samples": self.samples, "functions": functions, "lines": lines}))


def _name(frame: FrameType) -> tuple[str, str, int]:
    code = frame.f_code
    return code.co_filename, code.co_qualname, code.co_firstlineno


def main() -> None:
    """Put the profiler on SIGUSR2 and become twistd."""
    method, output = sys.argv[1:3]
    sys.argv[1:3] = []
    profiler: IProfiler = Sampler() if method == "sample" else cProfile.Profile()
    running = False

    def toggle(number: int, frame: FrameType | None) -> None:
        nonlocal running
        running = not running
        if running:
            profiler.enable()
        else:
            profiler.disable()

    signal.signal(signal.SIGUSR2, toggle)
    from twisted.scripts.twistd import run

    try:
        run()
    finally:
        profiler.disable()
        profiler.dump_stats(output)


if __name__ == "__main__":
    main()
