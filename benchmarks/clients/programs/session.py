"""The conversation with the benchmark: a line of C{ready}, then an order a line in, and a line of JSON out for each."""

from __future__ import annotations

import json
import sys

from .meter import Meter, Order


def ready() -> None:
    """Say that orders are taken."""
    print("ready", flush=True)


def next_order() -> Order | None:
    """Wait for the next order; return C{None} when there will be no more."""
    line = sys.stdin.readline()
    return Order.of(line) if line.strip() else None


def answer(meter: Meter) -> None:
    """Say what a load has shown."""
    print(json.dumps(meter.answer()), flush=True)


def failed(error: BaseException) -> None:
    """Say that a load could not be carried out."""
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
