"""Masters whose connection to the registry has ended, and what is kept for them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from smartgo.registry.registration import MASTER, NameTaken, Registration

RESERVED: Final = 10.0
"""Seconds for which a master's name is kept for it when its connection has ended: time to connect again."""


class _Absent(NamedTuple):
    address: str
    source: str
    heard: float
    """When it registered last, in seconds of the clock."""
    ended: float
    """When its connection ended, likewise."""
    since_ms: int
    """Since when it was the master."""


class AbsentMasters:
    """The absent masters by broker name: of several, the one that had the name longest. Mutable, single-threaded."""

    def __init__(self, seconds: Callable[[], float], expiry: float) -> None:
        """
        @param seconds: the monotonic clock.
        @param expiry: seconds after it was heard of last for which one is remembered.
        """
        self._seconds = seconds
        self._expiry = expiry
        self._absent: dict[str, _Absent] = {}

    def __len__(self) -> int:
        return len(self._absent)

    def add(self, name: str, address: str, source: str, heard: float, since_ms: int) -> None:
        """Note that the connection of a master has ended."""
        known = self._absent.get(name)
        if known is None or since_ms <= known.since_ms or not self._counts(known):
            self._absent[name] = _Absent(address, source, heard, self._seconds(), since_ms)

    def back(self, name: str, address: str) -> None:
        """Note that a master has registered again; drop its entry if it was the absent one."""
        known = self._absent.get(name)
        if known is not None and known.address == address:
            del self._absent[name]

    def expire(self) -> None:
        """Remove the masters that have been absent for longer than the expiry time."""
        self._absent = {name: one for name, one in self._absent.items() if self._counts(one)}

    def check(self, one: Registration, since_ms: int | None) -> None:
        """
        Refuse a name that is still reserved for its absent master.

        @param since_ms: since when C{one} is known to have been the master.
        @raise NameTaken: another one asks for it too soon.
        """
        known = self._absent.get(one.name)
        if known is None or one.broker_id != MASTER or one.address == known.address:
            return
        left = known.ended + RESERVED - self._seconds()
        if left > 0 and (since_ms is None or since_ms >= known.since_ms):
            raise NameTaken(
                f"the connection of {known.address}, the master of broker {one.name}, has just ended; it has"
                f" {left:.0f} s to come back",
                known.address,
            )

    def since(self, one: Registration) -> int | None:
        """
        Return since when the absent one was the master, where it is this one; C{None} where nothing says so.

        RocketMQ's brokers show no lease. They go on as masters whatever a registry answers, so the last one to be a
        master there is the one that comes back from the same place.
        """
        known = self._absent.get(one.name)
        if known is None or one.leased or one.broker_id != MASTER or not self._counts(known):
            return None
        return known.since_ms if (one.address, one.source) == (known.address, known.source) else None

    def _counts(self, one: _Absent) -> bool:
        return self._seconds() - one.heard <= self._expiry
