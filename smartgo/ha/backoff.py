"""Waiting times between attempts to connect."""

from __future__ import annotations

from typing import Final

from smartgo.env.interfaces import IRandom

SOON: Final = 5.0
"""The longest pause after what may be over at once, in seconds: a RocketMQ slave waits as long."""
LATE: Final = 25.0
"""That after a refusal, in seconds; with what an attempt takes, a slave that is let in at last follows within 35 s."""

_FIRST: Final = 1.0  # seconds
_JITTER: Final = 0.25  # of a pause, at most, so that slaves do not come back all at once


class Backoff:
    """Pauses that double from 1 s on, and a little more by chance (reliability H4, F16)."""

    def __init__(self, random: IRandom) -> None:
        self._random = random
        self._next = _FIRST

    def pause(self, longest: float = SOON) -> float:
        """Return the next one, in seconds, C{longest} at most."""
        pause = min(self._next, longest / (1 + _JITTER))
        self._next = min(2 * self._next, LATE)
        return pause * (1 + _JITTER * self._random.fraction())

    def reset(self) -> None:
        """Begin with the shortest pause next time: all is well."""
        self._next = _FIRST
