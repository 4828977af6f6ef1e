"""How long to wait before the next attempt."""

from __future__ import annotations

from typing import Final

from smartgo.env.interfaces import IRandom

_FIRST: Final = 1.0  # seconds
_LONGEST: Final = 25.0  # seconds; with what an attempt takes, a link that works again is in use within 35 s
_JITTER: Final = 0.25  # of a pause, at most, so that slaves do not come back all at once


class Backoff:
    """Pauses that double from 1 s to 25 s, and a little more by chance (reliability H4, F16)."""

    def __init__(self, random: IRandom) -> None:
        self._random = random
        self._next = _FIRST

    def pause(self) -> float:
        """Return the next one, in seconds."""
        pause = self._next
        self._next = min(2 * pause, _LONGEST / (1 + _JITTER))
        return pause * (1 + _JITTER * self._random.fraction())

    def reset(self) -> None:
        """All is well: begin with the shortest next time."""
        self._next = _FIRST
