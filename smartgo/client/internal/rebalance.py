"""
Strategies that assign the queues of a topic to the members of a group.

Every member of a group runs the same strategy over the same sorted lists and takes its own share; nobody coordinates.
The shares must therefore be those of Java's client to the last queue, as groups may be mixed.

Source: C{client/consumer/rebalance/AllocateMessageQueue*.java}, C{common/consistenthash/ConsistentHashRouter.java}.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from zope.interface import Attribute, Interface, implementer

from smartgo.schema.bodies import MessageQueue

VIRTUAL_NODES: Final = 10


class IAllocateStrategy(Interface):
    """A strategy that shares the queues of a topic among the members of a group."""

    name = Attribute("What Java calls it; members of a group that use different strategies get wrong shares.")

    def allocate(
        group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """
        Return the queues of C{client_id}; the same input gives the same output, whoever asks.

        @param queues: all queues of the topic, sorted.
        @param client_ids: all members, sorted as L{sorted_ids} does; without C{client_id} nothing is allocated.
        """


def sorted_ids(client_ids: Iterable[str]) -> list[str]:
    """Return client ids in the order of Java's strings: by UTF-16 code units; each once."""
    return sorted(set(client_ids), key=lambda one: one.encode("utf-16-be", "surrogatepass"))


@implementer(IAllocateStrategy)
class Averagely:
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


@implementer(IAllocateStrategy)
class AveragelyByCircle:
    """Each member in turn gets the next queue (round robin)."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the member's queues: every n-th one for n members."""
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


@implementer(IAllocateStrategy)
class ByConfig:
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


@implementer(IAllocateStrategy)
class ConsistentHash:
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


STRATEGIES: Final[Mapping[str, IAllocateStrategy]] = {
    one.name: one for one in (Averagely(), AveragelyByCircle(), ConsistentHash())
}
"""The strategies that need no parameter, by name."""
