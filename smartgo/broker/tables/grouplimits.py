"""Limits on the number of consumer groups: in all, and created from one address (reliability L18)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from smartgo.broker.settings.current import CurrentSettings
from smartgo.broker.tables.shares import source_of
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.remoting.interfaces import IPeer
from smartgo.remoting.origin import is_local

_BURST: Final = 100
"""New groups that one address may use at once: those of a large application."""
_ADMINISTRATORS_BURST: Final = 1000
_KEYS: Final = 65_536  # addresses that are remembered
_RESERVE: Final = 10  # administrators elsewhere leave a tenth of the room for groups that come about by their use


class GroupRoom:
    """
    The limits on the groups of one broker, in all and by address.

    An address may bring about as many groups by their mere use as are still free, half of all at most; they count
    until they are deleted or the broker is started again.
    """

    def __init__(self, clock: IClock, settings: CurrentSettings) -> None:
        self._limit = settings.limits.max_groups
        per_second = settings.limits.max_groups_per_second  # of one address; those of this machine are not counted
        self._clock = clock
        self._uses = TokenBuckets(per_second, max(_BURST, per_second), _KEYS)
        self._administrators = TokenBuckets(per_second, max(_ADMINISTRATORS_BURST, per_second), _KEYS)
        self._sources: dict[str, str] = {}  # group -> the address that brought it about
        self._by_source: dict[str, int] = {}

    def admit_use(self, group: str, count: int, peer: IPeer | None) -> None:
        """
        Admit a group that its first use creates.

        @param count: how many groups there are.
        @param peer: who uses it; C{None}: the broker itself.
        @raise RequestRefused: too many groups, or too many of this address, or too many at once.
        """
        if count >= self._limit:
            raise RequestRefused(f"group[{group}] is not created: there are {self._limit} groups already")
        if peer is None:
            return
        source = source_of(peer.address)
        had = self._by_source.get(source, 0)
        if had >= self._limit - count:
            raise RequestRefused(f"group[{group}] is not created: {had} groups were already created from your address")
        if not is_local(peer) and not self._uses.take(source, self._clock.seconds()):
            raise RequestRefused(f"group[{group}] is not created: too many new groups from your address, try again")
        self._sources[group] = source
        self._by_source[source] = had + 1

    def _admits(self, administrator: IPeer, count: int) -> bool:
        """Tell whether an address may create C{count} groups now, all or none."""
        rate = self._administrators
        return count <= rate.burst and rate.take(source_of(administrator.address), self._clock.seconds(), count)

    def admit(self, groups: Collection[str], count: int, peer: IPeer | None) -> None:
        """
        Admit new groups of an administrator, all or none.

        @param count: how many groups there are.
        @param peer: who asks; C{None}: the broker itself.
        @raise RequestRefused: too many groups, or too many at once from this address.
        """
        if not groups:
            return
        first = next(iter(groups))
        local = peer is None or is_local(peer)
        limit = self._limit if local else self._limit - self._limit // _RESERVE
        if count + len(groups) > limit:
            raise RequestRefused(f"group[{first}] is not created: there would be more than {limit} groups (maxGroups)")
        if peer is not None and not local and not self._admits(peer, len(groups)):
            raise RequestRefused(
                f"group[{first}] is not created: one address may create {self._administrators.burst} groups at once,"
                " and then some a second; try again"
            )

    def release(self, group: str) -> None:
        """Count a group no longer for the address that brought it about."""
        source = self._sources.pop(group, None)
        if source is not None:
            left = self._by_source.pop(source) - 1
            if left:
                self._by_source[source] = left

    def clear(self) -> None:
        """Forget which addresses created which groups."""
        self._sources.clear()
        self._by_source.clear()
