"""The rows of the comparison: loads, programs and starts; and the ratios to the real broker that are the goals."""

from __future__ import annotations

from typing import Literal

import msgspec

from ..generator import Load
from ..scenarios import LOADS, Scenario

Quantity = Literal[
    "rate",
    "cpu_us",
    "main_us",
    "client_us",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "resident_mb",
    "outside_store_mb",
    "anonymous_mb",
    "ready_s",
]

UNITS: dict[Quantity, str] = {
    "rate": "messages/s",
    "cpu_us": "CPU a message",
    "main_us": "CPU a message, main thread",
    "client_us": "CPU of the client a message",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "p999_ms": "p99.9",
    "resident_mb": "resident memory",
    "outside_store_mb": "resident memory without mapped store files",
    "anonymous_mb": "anonymous memory",
    "ready_s": "seconds until ready",
}

Kind = Literal["start", "load", "producer", "batch", "consumer"]


class Row(msgspec.Struct, frozen=True):
    """A thing to measure: the start of a broker, a load of our generator, or one of Apache's programs."""

    name: str
    about: str
    kind: Kind
    scenario: Scenario | None = None
    """The load of the generator, where the row is one."""
    threads: int = 0
    """Threads of Apache's program, where the row is one."""
    flush_disk_type: str = "ASYNC_FLUSH"


PACED = Scenario(
    "paced-1k",
    "1 KiB, 64 connections, 5,000 messages a second in all",
    Load("send", ("Bench-paced-1k",), 8, 64, 1, 1024, rate=5000),
)
BATCH = 16
"""Messages in a request of Apache's BatchProducer."""


def _load(name: str, flush_disk_type: str = "ASYNC_FLUSH", prefix: str = "") -> Row:
    scenario = next(each for each in (*LOADS, PACED) if each.name == name)
    about = f"{scenario.about}; SYNC_FLUSH" if prefix else scenario.about
    return Row(f"{prefix}{name}", about, "load", scenario, flush_disk_type=flush_disk_type)


ROWS = (
    Row("start", "from the start of the process on an empty store until a heart-beat is answered", "start"),
    _load("send-1k"),
    _load("send-1k-binary"),
    _load("send-128"),
    _load("send-1k-64x1"),
    _load("batch-128"),
    _load("pull-1k"),
    _load("paced-1k"),
    _load("send-1k-64x1", "SYNC_FLUSH", "sync-"),
    Row("producer-1", "Apache's Producer, 1 thread, 1 KiB", "producer", threads=1),
    Row("producer-16", "Apache's Producer, 16 threads, 1 KiB", "producer", threads=16),
    Row("producer-64", "Apache's Producer, 64 threads, 1 KiB", "producer", threads=64),
    Row("batch-producer", f"Apache's BatchProducer, 16 threads, {BATCH} messages of 1 KiB", "batch", threads=16),
    Row("consumer", "Apache's Consumer, 20 threads, through a backlog of 1 KiB", "consumer", threads=20),
)
NAMES = tuple(row.name for row in ROWS)


class RatioGoal(msgspec.Struct, frozen=True):
    """A bound for the median of the ratios to the real broker, round by round, of one quantity in one row."""

    row: str
    quantity: Quantity
    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, ratio: float) -> bool:
        """Tell whether a ratio keeps within the bounds; a bound itself does."""
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)

    @property
    def words(self) -> str:
        """The bound in signs, such as C{≥ 2.5}."""
        return f"≥ {self.at_least:g}" if self.at_least is not None else f"≤ {self.at_most:g}"


GOALS = (
    RatioGoal("producer-16", "rate", at_least=2.5),
    RatioGoal("producer-16", "cpu_us", at_most=0.2),
    RatioGoal("producer-64", "rate", at_least=2.5),
    RatioGoal("producer-64", "cpu_us", at_most=0.2),
    RatioGoal("producer-1", "rate", at_least=1.3),
    RatioGoal("producer-1", "cpu_us", at_most=0.4),
    RatioGoal("batch-producer", "rate", at_least=1.5),
    RatioGoal("batch-producer", "cpu_us", at_most=0.6),
    RatioGoal("consumer", "rate", at_least=1.3),
    RatioGoal("consumer", "cpu_us", at_most=0.4),
    RatioGoal("sync-send-1k-64x1", "rate", at_least=1.0),
    RatioGoal("send-1k-64x1", "p99_ms", at_most=1.0),
    RatioGoal("paced-1k", "p99_ms", at_most=1.0),
    RatioGoal("producer-64", "outside_store_mb", at_most=0.17),
    RatioGoal("start", "ready_s", at_most=0.25),
)
"""The goals of smartgo with its compiled core."""
