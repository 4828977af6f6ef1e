"""A small comparison for the tests: what a run of two rounds may have found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from benchmarks.compare.results import Comparison, Pace, Sample
from benchmarks.compare.rows import Quantity
from benchmarks.firsttouch import FirstTouch


def sample(row: str, target: str, number: int, foreign: float = 0.0, **figures: float) -> Sample:
    """Return one round with the given figures."""
    return Sample(row, target, number, {cast(Quantity, name): figure for name, figure in figures.items()}, 0, foreign)


def comparison() -> Comparison:
    """Return two rounds of a producer on three brokers, one of them without its second round, and their starts."""
    names = ("core", "pure", "rocketmq 4.9.7")
    targets: list[Mapping[str, Any]] = [{"name": name, "core": "compiled", "commit": "abc"} for name in names]
    machine = {"processor": "Fast", "processors": 2, "memory_bytes": 8 << 30, "kernel": "6.1-vm", "python": "3.11.2"}
    made = Comparison("2026-11-23T12:00:00+00:00", machine, targets, "rocketmq 4.9.7", Pace(rounds=2))
    made.first_touch = FirstTouch(2.5, 0.25)
    made.samples = [
        sample("start", "core", 1, ready_s=0.5),
        sample("start", "rocketmq 4.9.7", 1, ready_s=4.0),
        sample("producer-16", "core", 1, rate=50.0, cpu_us=4.0, main_us=3.0, outside_store_mb=70.0),
        sample("producer-16", "rocketmq 4.9.7", 1, rate=20.0, cpu_us=20.0, main_us=0.0, outside_store_mb=500.0),
        # the second round went the other way round
        sample("producer-16", "rocketmq 4.9.7", 2, rate=10.0, cpu_us=40.0, main_us=0.0, outside_store_mb=500.0),
        sample("producer-16", "pure", 2, rate=10.0, cpu_us=30.0, main_us=29.0, outside_store_mb=70.0),
        sample("producer-16", "core", 2, rate=26.0, cpu_us=12.0, main_us=5.0, outside_store_mb=70.0),
    ]
    return made
