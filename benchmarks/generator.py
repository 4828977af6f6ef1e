"""Run the load generator and read what it says."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from .errors import BenchmarkError, LoadBrokeOff

Mode = Literal["send", "batch", "pull", "idle"]


class Load(msgspec.Struct, frozen=True):
    """The load for a broker: the options of the generator, as its C{--help} explains them."""

    mode: Mode
    topics: tuple[str, ...] = ("BenchLoad",)
    queues: int = 8
    connections: int = 16
    outstanding: int = 32
    size: int = 1024
    """Bytes of body of each message."""
    batch: int = 1
    """Messages in a batch, or at most in a pull."""
    binary: bool = False
    rate: int = 0
    """Messages a second at most; 0 for as fast as they are answered."""
    bare: bool = False
    """The messages of a batch have no properties: no tag, and no key for the index."""
    spread: int = 0
    """The number of topics, named C{TOPIC-0} and so on; 0 for the topics as they are named."""
    begin: int = 0
    """Offset in each queue at which pulls begin."""


class Latency(msgspec.Struct, frozen=True):
    """Microseconds from handing a request to the socket until its answer was read."""

    p50: float
    p99: float
    p999: float
    max: float


class Outcome(msgspec.Struct, frozen=True):
    """One line of the generator. Counts are of the measured window, C{total_} ones and codes of the whole run."""

    mode: Mode
    seconds: float
    messages: int
    answers: int
    failures: int
    total_messages: int
    total_failures: int
    body_bytes: int
    generator_cpu_us: float
    generator_cpu_s: float
    latency_us: Latency
    codes: dict[str, int]
    remarks: dict[str, str]
    error: str | None
    server_user_s: float = 0.0
    server_system_s: float = 0.0
    server_cpu_us: float = 0.0
    server_main_us: float = 0.0
    """The part of C{server_cpu_us} that the main thread spent."""

    @property
    def rate(self) -> float:
        """The number of messages a second."""
        return self.messages / self.seconds if self.seconds else 0.0

    @property
    def bad_codes(self) -> Mapping[str, int]:
        """Return the count of each response code other than success, warm-up included."""
        return {code: times for code, times in self.codes.items() if code != "0"}


def command(
    binary: Path,
    load: Load,
    address: str,
    pid: int | None,
    *,
    warm_up: float = 0.0,
    seconds: float = 0.0,
    count: int | None = None,
) -> list[str]:
    """Return the command line; C{count} messages instead of seconds where it is given."""
    host, _, port = address.rpartition(":")
    line = [str(binary), "--mode", load.mode, "--host", host, "--port", port, "--topics", ",".join(load.topics)]
    numbers = {
        "queues": load.queues,
        "connections": load.connections,
        "outstanding": load.outstanding,
        "size": load.size,
        "batch": load.batch,
        **({"rate": load.rate} if load.rate else {}),
        **({"from": load.begin} if load.begin else {}),
        **({"spread": load.spread} if load.spread else {}),
        **({"pid": pid} if pid is not None else {}),
        **({"count": count} if count is not None else {"warm-up": warm_up, "seconds": seconds}),
    }
    for name, value in numbers.items():
        line += [f"--{name}", str(value)]
    return line + ["--binary"] * load.binary + ["--bare"] * load.bare


def read(output: str) -> Outcome:
    """
    Parse the line that the generator prints.

    @raise BenchmarkError: it is not one.
    """
    try:
        return msgspec.json.decode(output, type=Outcome)
    except msgspec.DecodeError as error:
        raise BenchmarkError(f"the load generator said something unreadable: {output[:200]!r} ({error})") from None


def run(line: Sequence[str], timeout: float) -> Outcome:
    """
    Run the command and wait.

    @param timeout: seconds after which it is ended.
    @raise LoadBrokeOff: the generator could not do its run; nothing it measured is worth reading.
    """
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise LoadBrokeOff(f"the load generator did not end in {timeout:.0f} s: {' '.join(line)}") from None
    if done.returncode == 0:
        return read(done.stdout)
    reason = read(done.stdout).error if done.stdout else done.stderr.strip()
    raise LoadBrokeOff(f"{reason} ({' '.join(line[1:])})")
