"""Masters that claim a broker name which another living master holds, as long as they claim it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from smartgo.remoting.interfaces import IPeer

FRESH: Final = 90.0
"""Seconds after which a claim that was not repeated is forgotten; brokers repeat theirs every 30 s."""
LIMIT: Final = 100
"""Contenders that are remembered, the latest."""


class _RefusedMaster(NamedTuple):
    peer: IPeer
    at: float


class Contenders:
    """The masters whose registration was refused because another one has their name."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        """@param seconds: the monotonic clock."""
        self._seconds = seconds
        self._claims: dict[tuple[str, str], _RefusedMaster] = {}

    def refused(self, name: str, address: str, peer: IPeer) -> None:
        """Note that a master was refused. @param peer: the connection over which it asked."""
        self._claims.pop((name, address), None)
        self._claims[name, address] = _RefusedMaster(peer, self._seconds())
        while len(self._claims) > LIMIT:
            del self._claims[next(iter(self._claims))]

    def admitted(self, name: str, address: str) -> None:
        """Note that a master has its name now."""
        self._claims.pop((name, address), None)

    def addresses(self) -> dict[str, list[str]]:
        """Return the addresses of those that still claim a name, by name; both sorted."""
        now = self._seconds()
        self._claims = {
            key: claim for key, claim in self._claims.items() if claim.peer.open and now - claim.at <= FRESH
        }
        found: dict[str, list[str]] = {}
        for name, address in sorted(self._claims):
            found.setdefault(name, []).append(address)
        return found
