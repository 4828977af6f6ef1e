"""One child process: its lines and its end as events that can be waited for."""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

_KEPT_LINES = 400
_alive: set[Process] = set()


class ProcessFailed(Exception):
    """A child ended, or did not do in time what it was waited for; the text holds its last lines."""


class Process:
    """
    A child process, started at once. All its output goes to a file and, unless C{on_line} takes it, to L{tail}.

    Callers wait on L{changed}; it is notified for every line and for the end.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        home: str,
        environment: Mapping[str, str] | None = None,
        on_line: Callable[[bytes], None] | None = None,
    ) -> None:
        """
        @param name: for messages and the log file's name.
        @param home: working directory; gets C{<name>.log}, appended to.
        @param environment: added to this process's own.
        @param on_line: takes each line of standard output, on the reader thread, under L{changed}. Standard error
            goes to the log file only. Without it both are read as lines.
        """
        os.makedirs(home, exist_ok=True)
        self.name = name
        self.changed = threading.Condition()
        self.returncode: int | None = None
        self.log = os.path.join(home, f"{name}.log")
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._on_line = on_line
        self._log = open(self.log, "ab", buffering=0)  # noqa: SIM115  closed by the reader thread
        self._child = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if on_line is None else self._log,
        )
        _alive.add(self)
        self._reader = threading.Thread(target=self._read, name=f"reader of {name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def tail(self) -> str:
        """The last lines seen, or the end of the log file where lines go elsewhere."""
        if self._on_line is None:
            return "\n".join(list(self._lines)[-60:])
        with open(self.log, "rb") as log:
            return log.read()[-4000:].decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Write to the child's standard input."""
        assert self._child.stdin is not None
        self._child.stdin.write(data)
        self._child.stdin.flush()

    def close_input(self) -> None:
        """Let the child see the end of its input."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()

    def wait_until(self, true: Callable[[], bool], timeout: float, what: str, recheck: float | None = None) -> None:
        """
        Wait for C{true}, asked again on every line and, with C{recheck}, at least every so many seconds.

        @raise ProcessFailed: the child ended first, or C{timeout} seconds went by.
        """
        deadline = time.monotonic() + timeout
        with self.changed:
            while not true():
                if self.returncode is not None:
                    raise ProcessFailed(f"{self.name} ended with {self.returncode} before {what}:\n{self.tail}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise ProcessFailed(f"{self.name}: {what} took more than {timeout} s:\n{self.tail}")
                self.changed.wait(left if recheck is None else min(left, recheck))

    def wait_ended(self, timeout: float) -> int:
        """
        Wait for the end and return the exit code, negative for a signal.

        @raise ProcessFailed: still running after C{timeout} seconds.
        """
        with self.changed:
            if not self.changed.wait_for(lambda: self.returncode is not None, timeout):
                raise ProcessFailed(f"{self.name} still runs after {timeout} s:\n{self.tail}")
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the child has ended."""
        with self.changed:
            if self.returncode is None:
                self._child.send_signal(number)

    def kill(self) -> None:
        """End the child by SIGKILL; returns when it is gone."""
        self.send_signal(signal.SIGKILL)
        self.wait_ended(30)

    def _read(self) -> None:
        stream = self._child.stdout
        assert stream is not None
        for line in stream:
            with self.changed:
                if self._on_line is None:
                    self._log.write(line)
                    self._lines.append(line.decode(errors="replace").rstrip())
                else:
                    self._on_line(line)
                self.changed.notify_all()
        code = self._child.wait()
        stream.close()
        self._log.close()
        _alive.discard(self)
        with self.changed:
            self.returncode = code
            self.changed.notify_all()


def wait_for_moment(moment: float) -> None:
    """Wait for a moment of the wall clock, in seconds since 1970: the one event that nothing announces."""
    while (left := moment - time.time()) > 0:
        threading.Event().wait(left)


@atexit.register
def _end_children() -> None:
    for child in list(_alive):
        with contextlib.suppress(ProcessFailed):
            child.kill()
