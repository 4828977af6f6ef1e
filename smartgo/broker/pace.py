"""A limit on how often something may happen, by whom it is asked for (reliability L18)."""

from __future__ import annotations

from smartgo.env.interfaces import IClock


class Pace:
    """At most C{rate} events a second for each key, with bursts of one second's worth."""

    def __init__(self, clock: IClock, rate: int) -> None:
        self._clock = clock
        self._rate = float(rate)
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, key: str) -> bool:
        """Count one event, or refuse it."""
        now = self._clock.seconds()
        left, seen = self._left.get(key, (self._rate, now))
        left = min(self._rate, left + (now - seen) * self._rate)
        if left < 1.0:
            return False
        if len(self._left) >= 1024 and key not in self._left:
            # After a second of silence an entry says no more than a missing one.
            self._left = {one: entry for one, entry in self._left.items() if now - entry[1] < 1.0}
        self._left[key] = (left - 1.0, now)
        return True
