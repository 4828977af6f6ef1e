"""
Faults of the disk by injected system calls: C{strace} makes calls of a running process fail, or come late.

The process runs on while C{strace} attaches and detaches. What was injected is counted in its output, with the moment
of each call: that proves that the fault happened (reliability T15).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from tests.interop.peers import Node
from tests.interop.process import Process

FLUSHES: Final = ("fdatasync", "fsync", "msync", "sync_file_range")
"""Calls by which a process makes a file durable: ours uses the first two, a JVM the third as well."""
WRITES: Final = ("fallocate", "ftruncate", "pwrite64")
"""Calls by which our store gets blocks for its files and writes over them; other bytes are written through mappings."""
READS: Final = ("pread64",)
"""The call by which our store reads what this process did not write."""
ATTACH_LIMIT: Final = 20.0  # seconds

_LINE: Final = re.compile(r"^\d+ +(\d+\.\d+) (?:<\.\.\. )?(\w+)")


def unavailable() -> str | None:
    """Return why no system call can be injected here; C{None} where it can."""
    return None if shutil.which("strace") else "strace is not installed"


class InjectedCall(NamedTuple):
    """
    A call that was made to fail, or that was delayed.

    @ivar at: when C{strace} saw it, in seconds of the monotonic clock.
    @ivar line: as C{strace} wrote it, with the path of the file.
    """

    at: float
    call: str
    line: str


class Injected:
    """
    System calls of a process fail, or take longer.

    @ivar calls: what was injected, in order; complete after L{end}.
    """

    def __init__(self, node: Node, name: str, calls: Sequence[str], how: str, paths: Sequence[str] = ()) -> None:
        """
        @param calls: names of system calls, such as L{FLUSHES}.
        @param how: as C{strace -e inject} takes it: C{error=EIO}, C{error=EIO:when=1}, C{delay_enter=2s}.
        @param paths: the files that are hit; empty for all.
        """
        self.name = name
        self.target = f"{','.join(calls)} of {node.kind}: {how}"
        self.calls: list[InjectedCall] = []
        self._node = node
        self._inject = f"inject={','.join(calls)}:{how}"
        self._trace = f"trace={','.join(calls)}"
        self._paths = [word for path in paths for word in ("-P", path)]
        self._file = os.path.join(node.plan.home, f"strace-{time.monotonic_ns()}.txt")

    def begin(self) -> None:
        """
        Attach to all threads of the process, which may end of the first call that is injected.

        @raise AssertionError: they were not traced in time.
        """
        words = ["strace", "-f", "-q", "-ttt", "-y", "-o", self._file, "-p", str(self._node.pid)]
        command = [*words, *self._paths, "-e", self._trace, "-e", self._inject, "-e", "signal=none"]
        self._process = Process("strace", command, self._node.plan.home)
        deadline = time.monotonic() + ATTACH_LIMIT
        while not self._attached():
            ended = self._process.returncode is not None
            if not self._node.running and self.seen():
                return
            assert not ended, f"strace ended: {self._process.tail}"
            assert time.monotonic() < deadline, "strace did not attach to all threads"
            threading.Event().wait(0.02)

    def end(self) -> int:
        """Detach, and return how many calls were injected."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait_ended(ATTACH_LIMIT)
        self.calls = self.seen()
        return len(self.calls)

    def seen(self) -> list[InjectedCall]:
        """Return what was injected so far, as far as C{strace} has written it."""
        offset = time.time() - time.monotonic()
        found = []
        for line in Path(self._file).read_text(errors="replace").splitlines():
            match = _LINE.match(line)
            if match and ("(INJECTED)" in line or "(DELAYED)" in line):
                found.append(InjectedCall(float(match.group(1)) - offset, match.group(2), line))
        return found

    def _attached(self) -> bool:
        try:
            tasks = list(Path(f"/proc/{self._node.pid}/task").iterdir())
            tracers = [re.search(r"TracerPid:\s*(\d+)", (task / "status").read_text()) for task in tasks]
        except OSError:  # a thread ended meanwhile, or all
            return False
        return bool(tracers) and all(one is not None and one.group(1) != "0" for one in tracers)
