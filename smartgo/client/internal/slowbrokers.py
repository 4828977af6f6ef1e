"""
The brokers that a producer leaves out for a while, because they were slow or failed.

Rules: docs/spec/client#slow. Source, in version 4.9.8: C{client/latency/MQFaultStrategy.java},
C{LatencyFaultToleranceImpl.java}.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

LATENCIES: Final = (0.05, 0.1, 0.55, 1.0, 2.0, 3.0, 15.0)
"""Seconds that an answer took, at least; C{PENALTIES} are the seconds for which its broker is left out then."""
PENALTIES: Final = (0.0, 0.0, 30.0, 60.0, 120.0, 180.0, 600.0)
FAILURE: Final = 30.0
"""Seconds as which a failed attempt counts."""


def penalty(latency: float) -> float:
    """
    Return the seconds for which a broker is left out.

        >>> penalty(0.054), penalty(0.55), penalty(30.0)
        (0.0, 30.0, 600.0)
    """
    at = bisect_right(LATENCIES, latency)
    return PENALTIES[at - 1] if at else 0.0


class SlowBrokers:
    """The times until which brokers are left out."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def answered(self, broker_name: str, latency: float, now: float) -> None:
        """Take note of an answer. @param latency: seconds that it took; C{now}: the clock, in seconds."""
        self._note(broker_name, penalty(latency), now)

    def failed(self, broker_name: str, now: float) -> None:
        """Take note of a failed attempt. @param now: the clock, in seconds."""
        self._note(broker_name, penalty(FAILURE), now)

    def _note(self, broker_name: str, seconds: float, now: float) -> None:
        if seconds:
            self._until[broker_name] = now + seconds
        else:
            self._until.pop(broker_name, None)

    def avoids(self, broker_name: str, now: float) -> bool:
        """Tell whether a broker is left out. @param now: the clock, in seconds."""
        until = self._until.get(broker_name)
        return until is not None and now < until
