"""Token buckets by key: how often something may happen, and how often at once. Sans-IO: the time is given."""

from __future__ import annotations

from collections.abc import Hashable


class TokenBuckets:
    """
    At most C{rate} tokens a second for each key, and C{burst} at once (reliability L18).

    @ivar burst: how many tokens a key has at most.
    """

    def __init__(self, rate: float, burst: float, keys: int = 4096) -> None:
        """
        @param keys: how many keys are remembered; of more, those that were used longest ago begin anew.
        """
        self._rate = rate
        self.burst = burst
        self._keys = keys
        self._full_after = burst / rate if rate else float("inf")  # seconds after which a bucket is full for certain
        self._left: dict[Hashable, tuple[float, float]] = {}  # in the order of their last use

    def take(self, key: Hashable, now: float, tokens: float = 1.0) -> bool:
        """
        Take tokens, or refuse.

        @param now: seconds of any clock; one that goes back adds nothing.
        @param tokens: more than C{burst} count as C{burst}.
        """
        left, seen = self._left.pop(key, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - seen) * self._rate)
        taken = min(tokens, self.burst)
        allowed = left >= taken and self.burst > 0
        if not allowed:
            taken = 0.0
        else:
            self._make_room(now)
        self._left[key] = (left - taken, now)
        return allowed

    def wait(self, key: Hashable, now: float) -> float:
        """Return how many seconds it takes until there is a token for a key; 0 if there is one now."""
        left, seen = self._left.get(key, (self.burst, now))
        left = min(self.burst, left + max(0.0, now - seen) * self._rate)
        return 0.0 if left >= 1 else (1 - left) / self._rate

    def _make_room(self, now: float) -> None:
        """Forget the keys whose buckets are full again, and one more where there are too many."""
        buckets = self._left
        while buckets:
            oldest = next(iter(buckets))
            if now - buckets[oldest][1] < self._full_after and len(buckets) < self._keys:
                return
            del buckets[oldest]
