"""A small comparison of clients for the tests: what a run of two rounds may have found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from benchmarks.clients.results import ClientCosts, Pace, Sample, Subject
from benchmarks.clients.rows import Quantity

TWISTED = Subject("twisted", "smartgo")
JAVA = Subject("java", "smartgo")
THEIRS = Subject("twisted", "rocketmq 4.9.7")
JAVA_THEIRS = Subject("java", "rocketmq 4.9.7")
AIOKAFKA = Subject("aiokafka", "kafka 3.9.1")


def sample(subject: Subject, number: int, row: str = "pipelined-1k", foreign: float = 0.0, **figures: float) -> Sample:
    """Return one round with the given figures."""
    return Sample(row, subject, number, {cast(Quantity, name): figure for name, figure in figures.items()}, foreign)


def client_costs() -> ClientCosts:
    """Return two rounds of a row by five clients on brokers, and one round of another row by two."""
    machine = {"processor": "Fast", "processors": 2, "memory_bytes": 8 << 30, "kernel": "6.1-vm", "python": "3.11.2"}
    clients: list[Mapping[str, Any]] = [
        {"name": name, "version": f"{name} 1"} for name in ("twisted", "java", "aiokafka")
    ]
    brokers: list[Mapping[str, Any]] = [{"name": name} for name in ("smartgo", "rocketmq 4.9.7", "kafka 3.9.1")]
    made = ClientCosts("2026-11-23T12:00:00+00:00", machine, clients, brokers, "java", Pace(rounds=2))
    made.samples = [
        sample(TWISTED, 1, cpu_us=80.0, rate=10.0, resident_mb=60.0),
        sample(JAVA, 1, cpu_us=40.0, rate=20.0, resident_mb=240.0),
        sample(THEIRS, 1, cpu_us=60.0, rate=10.0),
        sample(JAVA_THEIRS, 1, cpu_us=20.0, rate=20.0),
        sample(AIOKAFKA, 1, cpu_us=160.0, rate=10.0),
        # the second round went the other way round
        sample(AIOKAFKA, 2, cpu_us=100.0, rate=10.0),
        sample(JAVA_THEIRS, 2, cpu_us=20.0, rate=20.0),
        sample(THEIRS, 2, cpu_us=20.0, rate=10.0),
        sample(JAVA, 2, cpu_us=50.0, rate=20.0, resident_mb=240.0),
        sample(TWISTED, 2, cpu_us=50.0, rate=10.0, resident_mb=60.0),
        sample(TWISTED, 1, "one-by-one-1k", cpu_us=100.0, rate=1.0, p50_ms=0.3, p99_ms=0.6),
        sample(JAVA, 1, "one-by-one-1k", cpu_us=100.0, rate=1.0, p50_ms=0.2, p99_ms=0.6),
    ]
    return made
