"""
Admission of links by one port: how many in all, and how many from one address (reliability L8, L22).

Sans-IO: a port asks before it makes a link, and tells of each link that it made and that is gone.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from smartgo.net.endpoints import address_block
from smartgo.net.limits import Limits
from smartgo.net.session import ISession
from smartgo.schema.address import is_loopback


class Admitted(Protocol):
    """A link, as the admission sees it."""

    @property
    def session(self) -> ISession:
        """The session that gives its bytes a meaning."""

    def abort(self) -> None:
        """End it at once."""


class Admission(Protocol):
    """The links that one port lets in."""

    def admit(self, ip: str) -> bool:
        """Return whether one more link from this IP address is let in; may end another for it."""

    def add(self, link: Admitted, ip: str) -> None:
        """Count a link that was let in."""

    def discard(self, link: Admitted) -> None:
        """Remove a link that is gone; harmless if it is not there."""


class RefusingAdmission:
    """Refuse what is beyond the limits; loopback addresses have no limit of their own (L8)."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._links: dict[Admitted, str] = {}
        self._by_ip: dict[str, int] = {}

    def admit(self, ip: str) -> bool:
        """Return whether one more link from this IP address is let in."""
        limits = self._limits
        return len(self._links) < limits.connections and (
            self._by_ip.get(ip, 0) < limits.per_address or is_loopback(ip)
        )

    def add(self, link: Admitted, ip: str) -> None:
        """Count a link that was let in."""
        self._links[link] = ip
        self._by_ip[ip] = self._by_ip.get(ip, 0) + 1

    def discard(self, link: Admitted) -> None:
        """Remove a link that is gone; harmless if it is not there."""
        ip = self._links.pop(link, None)
        if ip is None:
            return
        left = self._by_ip[ip] - 1
        if left:
            self._by_ip[ip] = left
        else:
            del self._by_ip[ip]


class EvictingAdmission:
    """
    Let a new link in at the cost of one that does nothing: for peers that are not authenticated when they connect.

    A peer that opens connections and leaves them idle loses the oldest of them to the next connection, so that it keeps
    nobody out. A link is refused only where all links that could give way are busy. The links of one block of addresses
    (of IPv6: 64 bits) are counted together.
    """

    def __init__(self, limits: Limits, exempt: Collection[str] = ()) -> None:
        """
        @param exempt: addresses that may have as many links as there may be in all, such as trusted proxies.
        """
        self._limits = limits
        self._exempt = exempt
        self._by_block: dict[str, dict[Admitted, None]] = {}  # the link that was silent for longest first
        self._blocks: dict[Admitted, str] = {}

    def __len__(self) -> int:
        return len(self._blocks)

    def admit(self, ip: str) -> bool:
        """Return whether one more link from this IP address is let in; may end one that is not busy for it."""
        own = self._by_block.get(address_block(ip), {})
        share = self._limits.connections if ip in self._exempt else self._limits.per_address
        if len(own) >= share:
            return self._evict(own)
        return len(self) < self._limits.connections or self._evict_any()

    def add(self, link: Admitted, ip: str) -> None:
        """Count a link that was let in."""
        block = address_block(ip)
        self._by_block.setdefault(block, {})[link] = None
        self._blocks[link] = block

    def used(self, link: Admitted) -> None:
        """Note that a link was used: it is now the last to be ended for others."""
        block = self._blocks.get(link)
        if block is not None:
            own = self._by_block[block]
            del own[link]
            own[link] = None

    def discard(self, link: Admitted) -> None:
        """Remove a link that is gone; harmless if it is not there."""
        block = self._blocks.pop(link, None)
        if block is not None:
            own = self._by_block[block]
            del own[link]
            if not own:
                del self._by_block[block]

    def _evict_any(self) -> bool:
        """End a link of the block that has most of them; of another where all of its links are busy."""
        by_number = sorted(self._by_block.values(), key=len, reverse=True)
        return any(self._evict(own) for own in by_number)

    def _evict(self, own: dict[Admitted, None]) -> bool:
        waiting = [one for one in own if not one.session.busy()]
        if not waiting:
            return False
        silent = next((one for one in waiting if not one.session.pending), waiting[0])
        self.discard(silent)
        silent.abort()
        return True
