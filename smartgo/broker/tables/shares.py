"""Limits on tables that clients fill, shared fairly by the addresses that the clients have (reliability L16, L18)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_V6_GROUPS: Final = 8  # of 16 bits each
_V6_NETWORK: Final = 4  # groups: whoever has one IPv6 address usually has the whole /64


def source_of(address: str) -> str:
    """
    Return whose share a client uses: its IPv4 address, or the /64 network of its IPv6 address.

    Every long poll asks, so an IPv6 address is not read, but only cut: the system writes each in one way.

    @param address: C{host:port}, as of C{IPeer.address}.

    >>> source_of("192.0.2.7:40001"), source_of("[2001:db8::1]:40001"), source_of("[2001:db8::2]:7")
    ('192.0.2.7', '2001:db8:0:0::/64', '2001:db8:0:0::/64')
    """
    host = address.rpartition(":")[0]
    if host[:1] != "[":
        return host
    before, _, after = host[1:-1].partition("::")
    groups = before.split(":") if before else []
    if len(groups) < _V6_NETWORK:
        last = after.split(":") if after else []
        zeros = _V6_GROUPS - len(groups) - len(last) - ("." in after)  # an IPv4 address at the end stands for two
        groups += ["0"] * zeros + last
    return ":".join(groups[:_V6_NETWORK]) + "::/64"


class Shares:
    """
    One limit on entries, shared by many sources.

    Everybody may have as many entries as are still free. So one address gets half of the table at most, two get a third
    each, and whoever comes next finds room: the dynamic threshold by which switches share a buffer among their ports.

    @ivar total: entries that are there.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        """@param limit: how many entries there may be in all; asked each time, so that it may change."""
        self._limit = limit
        self.total = 0
        self._taken: dict[str, int] = {}

    def of(self, source: str) -> int:
        """Return the number of entries of one source."""
        return self._taken.get(source, 0)

    def room(self, source: str) -> int:
        """Return the number of entries that one source may add now."""
        return max(0, (self._limit() - self.total - self.of(source) + 1) // 2)

    def take(self, source: str, count: int = 1, own: int = 0) -> bool:
        """
        Add entries, all or none.

        @param own: how many of C{source}'s entries are of one connection: it may have as many as C{source} may add.
        """
        taken = self._taken.get(source, 0)
        free = self._limit() - self.total
        if taken + 2 * count > free + 1 or own + count > free - taken:
            return False
        self._taken[source] = taken + count
        self.total += count
        return True

    def give_back(self, source: str, count: int = 1) -> None:
        """Remove entries that were taken."""
        left = self._taken[source] - count
        self.total -= count
        if left:
            self._taken[source] = left
        else:
            del self._taken[source]

    def change(self, old_source: str, old_count: int, source: str, count: int) -> bool:
        """Replace entries that were taken by others; false where there is no room for these: nothing changed then."""
        if old_count:
            self.give_back(old_source, old_count)
        if not count or self.take(source, count):
            return True
        if old_count:
            self._taken[old_source] = self._taken.get(old_source, 0) + old_count
            self.total += old_count
        return False
