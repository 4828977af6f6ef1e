"""The wall clock of a broker, as its runtime information (28) tells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

WALL_CLOCK: Final = "wallClockMs"
"""The row of the runtime information with the broker's wall clock in milliseconds; RocketMQ's brokers have none."""

_RUNTIME: Final = re.compile(r"\[ (\d+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")


def wall_clock_ms(table: Mapping[str, str]) -> float | None:
    """
    Return the wall clock of a broker when it answered; C{None} where it does not tell.

    RocketMQ's brokers tell when they started and for how many whole seconds they have run.

    >>> wall_clock_ms({"wallClockMs": "1700000000000"})
    1700000000000.0
    >>> wall_clock_ms({"bootTimestamp": "1700000000000", "runtime": "[ 0 days, 1 hours, 0 minutes, 2 seconds ]"})
    1700003602500.0
    """
    try:
        if WALL_CLOCK in table:
            return float(table[WALL_CLOCK])
        boot = float(table["bootTimestamp"])
    except (KeyError, ValueError):
        return None
    ran = _RUNTIME.search(table.get("runtime", ""))
    if ran is None:
        return None
    days, hours, minutes, seconds = map(int, ran.groups())
    return boot + 1000 * (days * 86400 + hours * 3600 + minutes * 60 + seconds + 0.5)
