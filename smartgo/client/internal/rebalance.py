"""
Strategies that assign the queues of a topic to the members of a group.

Every member of a group runs the same strategy over the same sorted lists and takes its own share; nobody coordinates.
The shares must therefore be those of Java's client to the last queue, as groups may be mixed.

Source: C{client/consumer/rebalance/AllocateMessageQueue*.java}, C{common/consistenthash/ConsistentHashRouter.java}.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from smartgo.errors import SettingError
from smartgo.schema.bodies import MessageQueue

VIRTUAL_NODES: Final = 10


class AllocateStrategy(Protocol):
    """
    A strategy that shares the queues of a topic among the members of a group.

    @ivar name: what Java calls it; members of a group that use different strategies get wrong shares.
    """

    @property
    def name(self) -> str:
        """The name of the strategy."""

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """
        Return the queues of C{client_id}; the same input gives the same output, whoever asks.

        @param queues: all queues of the topic, sorted as L{sorted_queues} does.
        @param client_ids: all members, sorted as L{sorted_ids} does; without C{client_id} nothing is allocated.
        """


def sorted_ids(client_ids: Iterable[str]) -> list[str]:
    """Return client ids in the order of Java's strings: by UTF-16 code units; each once."""
    return sorted(set(client_ids), key=_java_order)


def sorted_queues(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Return queues in the order of Java's C{MessageQueue}: by topic, broker and id; each once."""
    return sorted(set(queues), key=lambda one: (_java_order(one.topic), _java_order(one.broker_name), one.queue_id))


def _java_order(text: str) -> bytes:
    """Return a key that sorts as Java's strings do."""
    return text.encode("utf-16-be", "surrogatepass")


class AllocateAveragely:
    """Each member gets neighbouring queues, the first members one more; this is the default."""

    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the member's slice of the queues."""
        if client_id not in client_ids:
            return []
        index = client_ids.index(client_id)
        size, rest = divmod(len(queues), len(client_ids))
        if len(queues) <= len(client_ids):
            return list(queues[index : index + 1])
        begin = index * size + min(index, rest)
        return list(queues[begin : begin + size + (index < rest)])


class AllocateByCircle:
    """Each member in turn gets the next queue (round robin)."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the member's queues: every n-th one for n members."""
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class AllocateByConfig:
    """The application names the queues of each member; queues that do not exist are ignored."""

    name = "CONFIG"

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        """
        @param queues: the queues that this member reads, of any of its topics.
        """
        self._queues = list(queues)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the given queues of this topic, whatever other members there are."""
        topics = {one.topic for one in queues}
        return [one for one in self._queues if one.topic in topics]


class AllocateByMachineRoom:
    """
    Only queues of brokers whose names begin with a machine room of a given set, as in C{room@broker}, are allocated.

    Each member gets neighbouring queues, the first members one of the rest. Queues of other brokers are read by nobody.
    """

    name = "MACHINE_ROOM"

    def __init__(self, rooms: Iterable[str]) -> None:
        """
        @param rooms: the machine rooms; the same for all members.
        """
        self._rooms = frozenset(rooms)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the member's slice of the queues in the rooms, and one of those that are left over."""
        if client_id not in client_ids:
            return []
        found = [one for one in queues if _room_in_name(one.broker_name) in self._rooms]
        index = client_ids.index(client_id)
        size, rest = divmod(len(found), len(client_ids))
        mine = found[index * size : (index + 1) * size]
        if index < rest:
            mine.append(found[size * len(client_ids) + index])
        return mine


def _room_in_name(broker_name: str) -> str | None:
    """Return the machine room in a broker's name; C{None} if it is not of the form C{room@broker}."""
    parts = broker_name.rstrip("@").split("@")  # Java's split leaves out what is empty at the end
    return parts[0] if len(parts) == 2 else None


class AllocateMachineRoomNearby:
    """
    Queues go to members in the machine room of their broker; those of a room without members are shared by all.

    @ivar name: C{MACHINE_ROOM_NEARBY-} and the name of the strategy within a room.
    """

    def __init__(
        self,
        inner: AllocateStrategy,
        broker_room: Callable[[MessageQueue], str],
        client_room: Callable[[str], str],
    ) -> None:
        """
        @param inner: shares the queues of a room among its members.
        @param broker_room: returns the machine room of a queue's broker.
        @param client_room: returns the machine room of a member, by its client id; all members need the same two
            functions. No room is empty.
        """
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"
        self._inner = inner
        self._broker_room = broker_room
        self._client_room = client_room

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """
        Return the member's share of its own room's queues, and of those of each room without members.

        @raise SettingError: a queue or a member has no room.
        """
        if client_id not in client_ids:
            return []
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            rooms.setdefault(_room(self._broker_room(queue), queue.broker_name), []).append(queue)
        members: dict[str, list[str]] = {}
        for one in client_ids:
            members.setdefault(_room(self._client_room(one), one), []).append(one)
        own = self._client_room(client_id)
        mine: list[MessageQueue] = []
        if own in rooms:
            mine += self._inner.allocate(group, client_id, rooms[own], members[own])
        for room in sorted_ids(rooms):
            if room not in members:
                mine += self._inner.allocate(group, client_id, rooms[room], client_ids)
        return mine


def _room(room: str, of: str) -> str:
    """@raise SettingError: the room is empty."""
    if not room:
        raise SettingError(f"the machine room of {of} is empty")
    return room


class AllocateConsistentHash:
    """
    Members stand on a ring at several places each; a queue goes to the next member clockwise. When one joins or
    leaves, only queues next to its places move.
    """

    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        """
        @param virtual_nodes: places of each member, one at least; the same for all members.
        """
        if virtual_nodes < 1:
            raise ValueError(f"{virtual_nodes} virtual nodes are too few")
        self._virtual_nodes = virtual_nodes

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues whose next member on the ring is this one."""
        if client_id not in client_ids:
            return []
        ring: dict[int, str] = {}
        for one in client_ids:
            for replica in range(self._virtual_nodes):
                ring[_ring_place(f"{one}-{replica}")] = one
        places = sorted(ring)

        def owner(queue: MessageQueue) -> str:
            place = _ring_place(
                f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
            )
            return ring[places[bisect_left(places, place) % len(places)]]

        return [queue for queue in queues if owner(queue) == client_id]


def _ring_place(text: str) -> int:
    """The first four bytes of the text's MD5, which is a place here and no protection."""
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


STRATEGIES: Final[Mapping[str, AllocateStrategy]] = {
    one.name: one for one in (AllocateAveragely(), AllocateByCircle(), AllocateConsistentHash())
}
"""The strategies that need no parameter, by name."""
