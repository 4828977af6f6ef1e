"""The streams of random numbers of a seed, one for each purpose."""

from __future__ import annotations

import hashlib
import random


class Streams:
    """
    Random numbers of one seed, split by purpose, so that a new draw in one place shifts no draw in another.

    @ivar seed: the seed.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, random.Random] = {}

    def of(self, name: str) -> random.Random:
        """Return the stream of a purpose: the same object each time, the same numbers in every process."""
        found = self._streams.get(name)
        if found is None:
            digest = hashlib.sha256(f"{self.seed} {name}".encode()).digest()
            found = self._streams[name] = random.Random(int.from_bytes(digest[:16], "big"))
        return found
