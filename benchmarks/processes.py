"""Start and end the programs a benchmark compares; ports and folders for them."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .errors import BenchmarkError


class Child:
    """One program started by us, its output in a file; it is ended by its pid alone."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """
        Start the process.

        @param log: takes its standard output and error.
        @param environment: added to ours.
        @raise BenchmarkError: it cannot be started.
        """
        self.command = list(command)
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(environment or {})},
                    cwd=folder,
                )
            except OSError as error:
                raise BenchmarkError(f"cannot start {self.command[0]}: {error}") from None
        self.pid = self._process.pid
        self.killed = False

    @property
    def alive(self) -> bool:
        """Tell whether the process still runs."""
        return self._process.poll() is None

    def last_lines(self, count: int = 12) -> str:
        """Return the end of what it said, for an error message."""
        lines = self.log.read_text(errors="replace").splitlines()
        return "\n".join(["", *(f"    {line}" for line in lines[-count:])]) if lines else " (it said nothing)"

    def stop(self, patience: float = 30.0) -> None:
        """End it by SIGTERM, after C{patience} seconds by SIGKILL; return when it is gone."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self.killed = True
                self._process.kill()
        self._process.wait()

    def kill(self) -> None:
        """End it by SIGKILL at once; return when it is gone."""
        self.killed = True
        self._process.kill()
        self._process.wait()

    def wait(self, timeout: float) -> int:
        """
        Wait for its own end and return its exit status.

        @raise BenchmarkError: it still runs after C{timeout} seconds; it is ended.
        """
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.stop()
            raise BenchmarkError(f"{self.command[0]} did not end in {timeout:.0f} s") from None


class Ports:
    """Hands out blocks of ports that nobody listens on now, from C{base} up."""

    SPAN = 10

    def __init__(self, base: int) -> None:
        self._next = base

    def block(self) -> int:
        """
        Return the first of L{SPAN} free ports in a row on 127.0.0.1.

        @raise BenchmarkError: there is no such row up to the end of the port range.
        """
        while self._next + self.SPAN < 65536:
            first = self._next
            self._next += self.SPAN
            if all(_free(port) for port in range(first, first + self.SPAN)):
                return first
        raise BenchmarkError("no free ports")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def wait_for_port(port: int, child: Child, timeout: float) -> None:
    """
    Wait until the child accepts connections on a port of 127.0.0.1.

    @raise BenchmarkError: it ended, or did not in time.
    """
    deadline = time.monotonic() + timeout
    while child.alive:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            if time.monotonic() > deadline:
                raise BenchmarkError(
                    f"{child.command[0]} does not listen on port {port}:{child.last_lines()}"
                ) from None
            time.sleep(0.01)
        else:
            return
    raise BenchmarkError(f"{child.command[0]} ended before it listened on port {port}:{child.last_lines()}")
