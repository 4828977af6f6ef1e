"""A limit on how often something may happen, by whom it is asked for (reliability L18)."""

from __future__ import annotations

from typing import Final

from smartgo.env.interfaces import IClock

_FEW: Final = 1024  # entries that are not worth a sweep


class TokenBucket:
    """At most C{rate} events a second for each key on average, with bursts of C{burst}."""

    def __init__(self, clock: IClock, rate: int, burst: int | None = None) -> None:
        """@param burst: events that may come at once; C{None}: one second's worth."""
        self._clock = clock
        self._rate = float(rate)
        self._burst = self._rate if burst is None else float(max(burst, rate))
        self._left: dict[str, tuple[float, float]] = {}
        self._sweep_at = _FEW  # entries; after a sweep it is twice those left, so that sweeps cost little an event

    @property
    def burst(self) -> int:
        """How many events may come at once."""
        return int(self._burst)

    def take(self, key: str, count: int = 1) -> bool:
        """Count events, or refuse them all."""
        now = self._clock.seconds()
        left, seen = self._left.get(key, (self._burst, now))
        left = min(self._burst, left + (now - seen) * self._rate)
        if left < count:
            return False
        if len(self._left) >= self._sweep_at and key not in self._left:
            self._sweep(now)
        self._left[key] = (left - count, now)
        return True

    def _sweep(self, now: float) -> None:
        """Forget who may do as much as one who was never here."""
        full, rate = self._burst, self._rate
        self._left = {one: entry for one, entry in self._left.items() if entry[0] + (now - entry[1]) * rate < full}
        self._sweep_at = max(_FEW, 2 * len(self._left))
