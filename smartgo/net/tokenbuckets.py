"""Token buckets by key: how often something may happen, and how often at once. Sans-IO: the time is given."""

from __future__ import annotations

from collections.abc import Hashable


class TokenBuckets:
    """At most C{rate} tokens a second for each key, and C{burst} at once."""

    def __init__(self, rate: float, burst: float, keys: int = 4096) -> None:
        """
        @param keys: how many keys are remembered; of more, those that were used longest ago begin anew.
        """
        self._rate = rate
        self._burst = burst
        self._keys = keys
        self._left: dict[Hashable, tuple[float, float]] = {}  # in the order of their last use

    def take(self, key: Hashable, now: float, tokens: float = 1.0) -> bool:
        """
        Take tokens, or refuse.

        @param now: seconds of any clock; one that goes back adds nothing.
        @param tokens: more than C{burst} count as C{burst}.
        """
        left, seen = self._left.pop(key, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - seen) * self._rate)
        taken = min(tokens, self._burst)
        allowed = left >= taken
        if not allowed:
            taken = 0.0
        elif len(self._left) >= self._keys:
            del self._left[next(iter(self._left))]
        self._left[key] = (left - taken, now)
        return allowed
