"""A client's program while it runs: orders in, answers out."""

from __future__ import annotations

import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from ..errors import BenchmarkError
from .programs.meter import Order
from .subjects import Client, arguments

_READY_TIMEOUT = 60.0
_END_TIMEOUT = 20.0
_PATIENCE = 60.0
"""Seconds for a load beside its warm-up and window, such as those until a consumer has joined its group."""


class Answer(msgspec.Struct, frozen=True):
    """
    The figures of a load, as its program says them.

    @ivar total: all messages; C{messages}: those of the window.
    @ivar seconds: the length of the window; C{cpu_s}: CPU seconds of the process in it.
    @ivar p50_ms: latencies, where one message was in flight.
    @ivar error: why the load was not carried out.
    """

    total: int = 0
    messages: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    error: str | None = None


class Program:
    """A client in a process of its own."""

    def __init__(self, client: Client, address: str, log: Path, environment: dict[str, str]) -> None:
        """
        Start it.

        @param address: of the registry, or of Kafka's broker.
        @param log: takes its standard error.
        @raise BenchmarkError: it does not get ready.
        """
        self.client = client
        self._log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [*client.command, *arguments(client, address)]
        with log.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=output,
                    text=True,
                    env={**environment, **client.environment},
                    cwd=log.parent,
                )
            except OSError as error:
                raise BenchmarkError(f"cannot start {command[0]}: {error}") from None
        try:
            line = self._line(_READY_TIMEOUT)
        except BenchmarkError:
            self.stop()
            raise
        if line != "ready":
            self.stop()
            raise BenchmarkError(f"{client.name} said {line!r} in place of ready")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def run(self, order: Order) -> Answer:
        """
        Have the program carry out a load.

        @raise BenchmarkError: it could not, ended, or said nothing for long.
        """
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(order.line() + "\n")
            stdin.flush()
        except OSError:
            raise BenchmarkError(f"{self.client.name} has ended:{self._last_words()}") from None
        line = self._line(order.warm_up + order.seconds + _PATIENCE)
        try:
            answer = msgspec.json.decode(line, type=Answer)
        except msgspec.DecodeError:
            raise BenchmarkError(f"{self.client.name} said {line!r}, which is no answer") from None
        if answer.error is not None:
            raise BenchmarkError(f"{self.client.name}: {answer.error}")
        return answer

    def stop(self) -> None:
        """End it: by the end of its orders, then by SIGTERM, then by SIGKILL."""
        process = self._process
        pipes: list[IO[str] | None] = [process.stdin, process.stdout]
        if process.stdin is not None and not process.stdin.closed:
            try:
                process.stdin.close()
            except OSError:
                pass  # it has ended before it read everything
        for end in (lambda: None, process.terminate, process.kill):
            end()
            try:
                process.wait(_END_TIMEOUT)
                break
            except subprocess.TimeoutExpired:
                continue
        for pipe in pipes:
            if pipe is not None and not pipe.closed:
                pipe.close()

    def _line(self, timeout: float) -> str:
        """Return the next line of the program. It writes whole lines, one at a time."""
        stdout = self._process.stdout
        assert stdout is not None
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise BenchmarkError(f"{self.client.name} said nothing for {timeout:.0f} s:{self._last_words()}")
        line = stdout.readline()
        if not line:
            raise BenchmarkError(f"{self.client.name} has ended:{self._last_words()}")
        return line.strip()

    def _last_words(self, count: int = 12) -> str:
        lines: Sequence[str] = self._log.read_text(errors="replace").splitlines()
        return "\n".join(["", *(f"    {line}" for line in lines[-count:])]) if lines else " (it said nothing)"
