"""
The connected consumers, by group: who is there, and what the group subscribes to.

Rules: docs/spec/broker#clients. There is one subscription table for each group, not for each member, as in RocketMQ:
where members list different topics, the last heartbeat wins; what a member listed stays when it leaves, until the
group is empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from smartgo.broker.tables.producers import MEMBERS, ClientMember
from smartgo.broker.tables.shares import Shares, source_of
from smartgo.env.interfaces import IClock
from smartgo.errors import RequestRefused
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.bodies import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.consumers import NotifyConsumerIdsChangedRequest

SUBSCRIPTIONS_SIZE: Final = 128 << 20
"""Bytes that all subscriptions may take, about."""

_SUBSCRIPTION: Final = 1000  # bytes of one without tags, about
_TAG: Final = 200  # bytes of one tag, in a set with its hash in another, about


class ConsumerGroup:
    """
    One group that has members.

    @ivar members: connection -> L{ClientMember}, in the order they joined.
    @ivar subscriptions: topic -> L{SubscriptionData}; read it, do not change it.
    @ivar consume_type: of the last heartbeat, as are the next two.
    """

    __slots__ = (
        "consume_from_where", "consume_type", "members", "message_model", "name", "source", "subscriptions", "weighed"
    )  # fmt: skip

    def __init__(self, data: ConsumerData, source: str) -> None:
        """@param source: the address whose share of the table it takes."""
        self.source = source
        self.weighed: tuple[str, int] = source, 0  # whose share its subscriptions take, and how many bytes
        self.name = data.group_name
        self.members: dict[IPeer, ClientMember] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.consume_type: ConsumeType = data.consume_type
        self.message_model: MessageModel = data.message_model
        self.consume_from_where: ConsumeFromWhere = data.consume_from_where

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Return the group's subscription to a topic; C{None}: it has none."""
        return self.subscriptions.get(topic)

    def client_ids(self) -> list[str]:
        """The client ids, each once, in the order they joined."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))

    def peer_of(self, client_id: str) -> IPeer | None:
        """A connection of this client; C{None}: it is not in the group."""
        for peer, member in self.members.items():
            if member.client_id == client_id:
                return peer
        return None

    def update(self, data: ConsumerData, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Store the subscriptions of a heartbeat; true where a topic was added or removed."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from_where = data.consume_from_where
        changed = False
        table = self.subscriptions
        listed = set()
        for one in subscriptions:
            listed.add(one.topic)
            old = table.get(one.topic)
            if old is None:
                changed = True
                table[one.topic] = one
            elif one.sub_version > old.sub_version:
                table[one.topic] = one
        for topic in [topic for topic in table if topic not in listed]:
            del table[topic]
            changed = True
        return changed


def _size(subscription: SubscriptionData) -> int:
    """Return how many bytes a subscription takes, about."""
    tags = subscription.tags_set
    count = max(len(tags), len(subscription.code_set))
    return _SUBSCRIPTION + len(subscription.sub_string or "") + sum(map(len, tags)) + _TAG * count


class ConsumerTable:
    """
    Consumer groups that have members. Every change of a group's members or topics is told to all its connections
    (40, one-way), so that they share out the queues anew.

    @ivar get: C{get(group)} returns the L{ConsumerGroup} or C{None}; a dict lookup, for the hot path.
    @ivar changes: how often a group came or went, or what it subscribes to or its model became another.
    """

    def __init__(
        self,
        clock: IClock,
        may_notify: Callable[[str], bool] = lambda group: True,
        limit: int = 20_000,
        subscriptions_limit: int = SUBSCRIPTIONS_SIZE,
    ) -> None:
        """
        @param may_notify: whether changes of a group are told to its members.
        @param limit: how many groups there may be at a time; addresses share them.
        @param subscriptions_limit: how many bytes their subscriptions may take, about; addresses share them too.
        """
        self._clock = clock
        self._may_notify = may_notify
        self._shares = Shares(lambda: limit)
        self._member_shares = Shares(lambda: limit * MEMBERS)
        self._sizes = Shares(lambda: subscriptions_limit)
        self._groups: dict[str, ConsumerGroup] = {}
        self._memberships: dict[IPeer, set[str]] = {}
        self.changes = 0
        self.get: Callable[[str], ConsumerGroup | None] = self._groups.get

    def __len__(self) -> int:
        return len(self._groups)

    def groups(self) -> list[str]:
        """The groups that have a member, sorted."""
        return sorted(self._groups)

    def groups_of(self, peer: IPeer) -> frozenset[str]:
        """The groups that C{peer} is a member of."""
        return frozenset(self._memberships.get(peer, ()))

    def subscribers(self, topic: str) -> list[str]:
        """The groups that subscribe to a topic, sorted."""
        return sorted(name for name, group in self._groups.items() if topic in group.subscriptions)

    def subscribes(self, group: str, topic: str) -> bool:
        """Tell whether a group that has members subscribes to a topic."""
        known = self._groups.get(group)
        return known is not None and topic in known.subscriptions

    def register(
        self,
        data: ConsumerData,
        subscriptions: Iterable[SubscriptionData],
        peer: IPeer,
        client_id: str,
        language: int,
        version: int,
    ) -> bool:
        """
        Store one group of a heartbeat; true where it changed the group, whose members were then told.

        @param subscriptions: those of C{data}, made sound.
        @raise RequestRefused: there are too many groups, members or subscriptions, in all or of this address.
        """
        name = data.group_name
        source = source_of(peer.address)
        subscriptions = list(subscriptions)
        group = self._groups.get(name)
        created = group is None
        joined = group is None or peer not in group.members
        if joined and not self._member_shares.take(source):
            raise RequestRefused("there are too many members of consumer groups already")
        try:
            if group is None:
                group = self._add(data, source, subscriptions)
            else:
                self._weigh(group, source, subscriptions)
        except RequestRefused:
            if joined:
                self._member_shares.give_back(source)
            raise
        group.members[peer] = ClientMember(
            peer, client_id, language, version, self._clock.seconds(), self._clock.wall_ms()
        )
        self._memberships.setdefault(peer, set()).add(name)
        before = None if created else (group.message_model, dict(group.subscriptions))
        changed = group.update(data, subscriptions) or joined
        if before != (group.message_model, group.subscriptions):
            self.changes += 1
        if changed:
            self._tell(group)
        return changed

    def _add(self, data: ConsumerData, source: str, subscriptions: list[SubscriptionData]) -> ConsumerGroup:
        if not self._shares.take(source):
            raise RequestRefused(f"there are too many consumer groups with members already, {len(self)} in all")
        group = ConsumerGroup(data, source)
        try:
            self._weigh(group, source, subscriptions)
        except RequestRefused:
            self._shares.give_back(source)
            raise
        self._groups[group.name] = group
        return group

    def _weigh(self, group: ConsumerGroup, source: str, subscriptions: list[SubscriptionData]) -> None:
        """Take the share for a group's subscriptions, and return the share for its former ones."""
        size = sum(map(_size, subscriptions))
        if not self._sizes.change(*group.weighed, source, size):
            raise RequestRefused("the subscriptions of consumer groups take too much memory already")
        group.weighed = source, size

    def unregister(self, name: str, peer: IPeer) -> None:
        """Remove C{peer} from a group and tell the others; a group without members is removed."""
        group = self._groups.get(name)
        if group is None or group.members.pop(peer, None) is None:
            return
        self._member_shares.give_back(source_of(peer.address))
        groups = self._memberships[peer]
        groups.discard(name)
        if not groups:
            del self._memberships[peer]
        if group.members:
            self._tell(group)
        else:
            del self._groups[name]
            self.changes += 1
            self._shares.give_back(group.source)
            self._sizes.change(*group.weighed, "", 0)

    def disconnected(self, peer: IPeer) -> None:
        """Remove C{peer} from all its groups."""
        for name in tuple(self._memberships.get(peer, ())):
            self.unregister(name, peer)

    def expire(self, before: float) -> list[tuple[str, IPeer]]:
        """Remove the members whose last heartbeat came before C{before} (monotonic seconds), and return them."""
        late = [
            (name, peer)
            for name, group in self._groups.items()
            for peer, member in group.members.items()
            if member.seen < before
        ]
        for name, peer in late:
            self.unregister(name, peer)
        return late

    def _tell(self, group: ConsumerGroup) -> None:
        if self._may_notify(group.name):
            header = NotifyConsumerIdsChangedRequest(consumer_group=group.name)
            for peer in group.members:
                peer.tell(Command.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, one_way=True))
