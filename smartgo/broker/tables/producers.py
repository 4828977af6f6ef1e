"""
The connected producers, by group. Rules: docs/spec/broker#clients.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from smartgo.broker.tables.shares import Shares, source_of
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused
from smartgo.remoting.interfaces import IPeer

MEMBERS: Final = 10
"""Times as many as groups: how many members all groups may have."""


class ClientMember(NamedTuple):
    """A member of a group: one connection, as its last heartbeat described it."""

    peer: IPeer
    client_id: str
    language: int
    version: int
    seen: float
    """When the heartbeat came, in seconds of the monotonic clock."""
    seen_ms: int
    """The same on the wall clock, for display."""


class ProducerTable:
    """
    Producer groups and their members; a member is a connection, whatever its client id.

    A client id leads to its latest connection: what a reply (326) is pushed to.
    """

    def __init__(self, clock: IClock, limit: int = 20_000) -> None:
        """@param limit: how many groups there may be at a time; addresses share them."""
        self._clock = clock
        self._shares = Shares(lambda: limit)
        self._member_shares = Shares(lambda: limit * MEMBERS)
        self._sources: dict[str, str] = {}  # group -> the address whose share it takes
        self._groups: dict[str, dict[IPeer, ClientMember]] = {}
        self._memberships: dict[IPeer, set[str]] = {}
        self._by_id: dict[str, IPeer] = {}
        self._turn = 0

    def __len__(self) -> int:
        return len(self._groups)

    def groups(self) -> list[str]:
        """The groups that have a member, sorted."""
        return sorted(self._groups)

    def members(self, group: str) -> list[ClientMember]:
        """The members of a group in the order they joined; empty where there is no such group."""
        return list(self._groups.get(group, {}).values())

    def peer_of(self, client_id: str) -> IPeer | None:
        """The connection of a client that produces, by its client id."""
        return self._by_id.get(client_id)

    def pick(self, group: str) -> IPeer | None:
        """Return an open connection of a group, another each time; C{None}: the group has none."""
        members = [peer for peer in self._groups.get(group, {}) if peer.open]
        if not members:
            return None
        self._turn += 1
        return members[self._turn % len(members)]

    def register(self, group: str, peer: IPeer, client_id: str, language: int, version: int) -> None:
        """
        Note that C{peer} is a member of C{group}, as of now.

        @raise RequestRefused: there are too many groups or members, in all or of this address.
        """
        source = source_of(peer.address)
        members = self._groups.get(group, {})
        old = members.get(peer)
        if old is None and not self._member_shares.take(source):
            raise RequestRefused("there are too many members of producer groups already")
        if not members:
            if not self._shares.take(source):
                self._member_shares.give_back(source)
                raise RequestRefused(f"there are too many producer groups with members already, {len(self)} in all")
            self._groups[group] = members
            self._sources[group] = source
        members[peer] = ClientMember(peer, client_id, language, version, self._clock.seconds(), self._clock.wall_ms())
        self._memberships.setdefault(peer, set()).add(group)
        self._by_id[client_id] = peer
        if old is not None and old.client_id != client_id:
            self._release_id(peer, old.client_id)

    def unregister(self, group: str, peer: IPeer) -> None:
        """Remove C{peer} from C{group}; a group without members is removed."""
        members = self._groups.get(group, {})
        member = members.pop(peer, None)
        if member is None:
            return
        self._left(group, members, peer)
        groups = self._memberships[peer]
        groups.discard(group)
        if not groups:
            del self._memberships[peer]
        self._release_id(peer, member.client_id)

    def disconnected(self, peer: IPeer) -> None:
        """Remove C{peer} from all its groups."""
        for group in self._memberships.pop(peer, ()):
            members = self._groups[group]
            member = members.pop(peer)
            self._left(group, members, peer)
            self._release_id(peer, member.client_id)

    def _left(self, group: str, members: dict[IPeer, ClientMember], peer: IPeer) -> None:
        """Release the share of a member that has left, and of its group where it was the last."""
        self._member_shares.give_back(source_of(peer.address))
        if not members:
            del self._groups[group]
            self._shares.give_back(self._sources.pop(group))

    def groups_of(self, peer: IPeer) -> frozenset[str]:
        """The groups that C{peer} is a member of."""
        return frozenset(self._memberships.get(peer, ()))

    def expire(self, before: float) -> list[tuple[str, IPeer]]:
        """Remove the members whose last heartbeat came before C{before} (monotonic seconds), and return them."""
        late = [
            (group, peer)
            for group, members in self._groups.items()
            for peer, member in members.items()
            if member.seen < before
        ]
        for group, peer in late:
            self.unregister(group, peer)
        return late

    def _release_id(self, peer: IPeer, client_id: str) -> None:
        """Forget where a client id leads, unless it leads elsewhere or C{peer} still goes by it in another group."""
        if self._by_id.get(client_id) is peer:
            groups = self._memberships.get(peer, ())
            if not any(self._groups[group][peer].client_id == client_id for group in groups):
                del self._by_id[client_id]
