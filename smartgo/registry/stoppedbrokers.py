"""Brokers that unregistered themselves, as those do that are stopped in order, until they register again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

LIMIT: Final = 1000
"""Brokers that are remembered, the latest."""


class StoppedBrokers:
    """The brokers that unregistered, by name and id. One that died, or whose connection broke, is not among them."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        """@param wall_ms: the wall clock, in ms."""
        self._wall_ms = wall_ms
        self._times: dict[tuple[str, int], int] = {}

    def unregistered(self, name: str, broker_id: int) -> None:
        """Note that a broker has unregistered."""
        self._times.pop((name, broker_id), None)
        self._times[name, broker_id] = self._wall_ms()
        while len(self._times) > LIMIT:
            del self._times[next(iter(self._times))]

    def registered(self, name: str, broker_id: int) -> None:
        """Note that a broker is there."""
        self._times.pop((name, broker_id), None)

    def times(self) -> dict[str, dict[int, int]]:
        """Return by name and id when each unregistered, in ms of the wall clock."""
        found: dict[str, dict[int, int]] = {}
        for name, broker_id in sorted(self._times):
            found.setdefault(name, {})[broker_id] = self._times[name, broker_id]
        return found
