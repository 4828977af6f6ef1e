"""
Admission of connections to the API: limits in all and per address; above them idle ones are closed (reliability L22).

Peers are not authenticated when they connect. A peer that opens connections and leaves them idle loses the oldest of
them to the next connection, so that it keeps nobody out.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from smartgo.ops.security.requestguard import counted


class HttpLimits(NamedTuple):
    """The limits on connections and requests."""

    connections: int = 512
    per_address: int = 128
    """Of one address, or of one IPv6 network of 64 bits; proxies that are trusted may have all."""
    requests: int = 64
    """That are served at once."""
    proxies: Collection[str] = ()


class CountedConnection(Protocol):
    """A connection that the table counts."""

    @property
    def is_served(self) -> bool:
        """Tell whether a request of this connection is being served."""

    @property
    def has_begun(self) -> bool:
        """Tell whether part of a request has arrived."""

    def abort(self) -> None:
        """Close the connection at once."""


class ConnectionTable:
    """The connections there are, the one that was silent for longest first. Called on the reactor thread."""

    def __init__(self, limits: HttpLimits) -> None:
        self._limits = limits
        self._by_address: dict[str, dict[CountedConnection, None]] = {}
        self._addresses: dict[CountedConnection, str] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def admit(self, connection: CountedConnection, address: str) -> bool:
        """
        Take a new connection in; one that asks for nothing is ended for it where there are too many.

        @param address: of its other end.
        @return: false, and the connection is to be closed: there are too many, and all are served.
        """
        key = counted(address)
        own = self._by_address.get(key, {})
        share = self._limits.connections if address in self._limits.proxies else self._limits.per_address
        if len(own) >= share:
            if not self._evict(own):
                return False
        elif len(self) >= self._limits.connections and not self._evict_any():
            return False
        self._by_address.setdefault(key, {})[connection] = None
        self._addresses[connection] = key
        return True

    def used(self, connection: CountedConnection) -> None:
        """Note a request on a connection: it is now the last to be closed for others."""
        key = self._addresses.get(connection)
        if key is not None:
            own = self._by_address[key]
            del own[connection]
            own[connection] = None

    def discard(self, connection: CountedConnection) -> None:
        """Remove a connection that has ended; harmless if it is not there."""
        key = self._addresses.pop(connection, None)
        if key is not None:
            own = self._by_address[key]
            del own[connection]
            if not own:
                del self._by_address[key]

    def _evict_any(self) -> bool:
        """End a connection of the address that has most of them; of another where all of its are served."""
        by_number = sorted(self._by_address.values(), key=len, reverse=True)
        return any(self._evict(own) for own in by_number)

    def _evict(self, own: dict[CountedConnection, None]) -> bool:
        waiting = [one for one in own if not one.is_served]
        if not waiting:
            return False
        silent = next((one for one in waiting if not one.has_begun), waiting[0])
        self.discard(silent)
        silent.abort()
        return True
