"""
The table of the cluster's members: which broker processes and registries were there, which are there now, and which
topics each broker had. Sans I/O, without a clock.

A broker process is known by its broker's name and its id (0 the master, others its slaves). One that is no longer
registered stays in the table as I{missing} until L{MembershipTable.forget} takes it out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.client.internal.route import MASTER
from smartgo.ops.membership.grouplags import GroupLags
from smartgo.ops.membership.members import (
    BrokerContent,
    BrokerMember,
    MemberStatus,
    ProcessState,
    SavedMembership,
    TopicContent,
    Unreachable,
    state_of_broker,
)

MEMBERS: Final = 1000
"""Broker processes that are remembered; of more, those that are missing for the longest time are forgotten."""
TOPICS: Final = 1000
"""Topics of one broker that are remembered one by one, those with the most messages; the totals count all."""

NOBODY: Final[Mapping[str, Mapping[int, int]]] = MappingProxyType({})


def _departed(member: BrokerMember, just_now: bool, stopped: Mapping[str, Mapping[int, int]], now_ms: int) -> bool:
    """Note how a process left; return whether that is news. @param just_now: whether it was there a moment ago."""
    at_ms = stopped.get(member.name, {}).get(member.id)
    before = member.left, member.left_ms
    if at_ms is not None:
        member.left, member.left_ms = "stopped", at_ms
        member.last_seen_ms = max(member.last_seen_ms, min(at_ms, now_ms))  # the registry's clock may be ahead
    elif just_now:
        member.left, member.left_ms = "vanished", None
    return before != (member.left, member.left_ms)


class MembershipTable:
    """
    The members that are remembered, and their states as of the last observation.

    @ivar lags: what waits for groups at each broker, as it was counted last.
    @ivar registries_silent: whether no registry answered the last time: who came or left since then is not known.
    """

    def __init__(self) -> None:
        self._members: dict[tuple[str, int], BrokerMember] = {}
        self._registered: set[tuple[str, int]] | None = None  # None before the first observation
        self._silent: set[str] = set()  # addresses that did not answer when they were last asked
        self._unrouted: set[str] = set()
        self.registries_silent = False
        self._contents: dict[str, BrokerContent] = {}
        self._timed: dict[str, int] = {}  # timed messages that wait, by broker
        self.lags = GroupLags()

    # -- observing ---------------------------------------------------------------------------------------------

    def observe(
        self, places: Iterable[BrokerPlace], now_ms: int, stopped: Mapping[str, Mapping[int, int]] = NOBODY
    ) -> bool:
        """
        Take the broker processes that the registries have.

        @param now_ms: wall clock.
        @param stopped: those that unregistered, by name and id, and when that was, wall clock.
        @return: whether another process is there than before, or one is no longer there.
        """
        before = self._registered
        registered = set()
        changed = False
        for one in places:
            key = one.name, one.id
            registered.add(key)
            known = self._members.get(key)
            if known is None:
                self._members[key] = BrokerMember(one.cluster, one.name, one.id, one.address, now_ms, now_ms)
                changed = True
                continue
            changed |= (known.cluster, known.address) != (one.cluster, one.address)
            known.cluster, known.address, known.last_seen_ms = one.cluster, one.address, now_ms
            known.left = known.left_ms = None
        for key in self._members.keys() - registered:
            changed |= _departed(self._members[key], before is not None and key in before, stopped, now_ms)
        self._registered = registered
        self.registries_silent = False
        self._bound()
        return changed or registered != before

    def unobserved(self) -> None:
        """Take that no registry answers: who is registered stays as it was observed last."""
        self.registries_silent = True

    def routed(self, unrouted: Collection[str]) -> None:
        """Take the names of brokers without a master of which the registries know slaves and no topics."""
        self._unrouted = set(unrouted)

    def answered(self, answers: Mapping[str, bool], now_ms: int) -> None:
        """
        Take by address whether each registered process answers; others count as answering.

        @param now_ms: wall clock.
        """
        self._silent = {address for address, well in answers.items() if not well}
        for key, member in self._members.items():
            if answers.get(member.address) and (self._registered is None or key in self._registered):
                member.last_seen_ms = max(member.last_seen_ms, now_ms)

    def counted(self, name: str, topics: Mapping[str, TopicContent], normal: Iterable[str], now_ms: int) -> None:
        """
        Take what a broker has.

        @param topics: its topics by name, without the brokers' own.
        @param normal: those of them that applications made.
        """
        of_applications = [topics[one] for one in normal]
        largest = sorted(topics, key=lambda topic: (-(topics[topic].messages or 0), topic))[:TOPICS]
        self._contents[name] = BrokerContent(
            {topic: topics[topic] for topic in sorted(largest)},
            len(of_applications),
            sum(one.queues for one in of_applications),
            sum(one.messages or 0 for one in of_applications),
            now_ms,
        )

    def timed(self, counts: Mapping[str, int]) -> None:
        """Take how many timed messages wait at brokers, by name."""
        self._timed.update(counts)

    def _bound(self) -> None:
        over = len(self._members) - MEMBERS
        if over > 0:
            missing = sorted(self.missing(), key=lambda one: one.last_seen_ms)
            for one in missing[:over]:
                self._remove(one)

    def _remove(self, member: BrokerMember) -> None:
        del self._members[member.name, member.id]
        if not any(name == member.name for name, _ in self._members):
            self._contents.pop(member.name, None)
            self._timed.pop(member.name, None)
            self.lags.forget(member.name)

    # -- states ------------------------------------------------------------------------------------------------

    @property
    def observed(self) -> bool:
        """Tell whether the registries were asked since the start; before that no process is called missing."""
        return self._registered is not None

    def missing(self) -> list[BrokerMember]:
        """Return the processes that are missing, by name and id."""
        if self._registered is None:
            return []
        return [self._members[key] for key in sorted(self._members.keys() - self._registered)]

    def places(self) -> list[BrokerPlace]:
        """Return the processes that are not missing, as the registries had them last; before that all."""
        return sorted(
            BrokerPlace(one.cluster, one.name, one.id, one.address)
            for key, one in self._members.items()
            if self._registered is None or key in self._registered
        )

    def _state(self, member: BrokerMember) -> ProcessState:
        if self._registered is not None and (member.name, member.id) not in self._registered:
            return "missing"
        return "down" if member.address in self._silent else "up"

    def statuses(self) -> list[MemberStatus]:
        """Return all processes with their states, by name and id."""
        states: dict[str, dict[int, ProcessState]] = {}
        for key in sorted(self._members):
            states.setdefault(key[0], {})[key[1]] = self._state(self._members[key])
        found = []
        for name, processes in states.items():
            of_broker = state_of_broker(processes)
            lost = self._lost(name) if of_broker == "missing" else None
            for number, state in processes.items():
                found.append(
                    MemberStatus(self._members[name, number], state, of_broker, lost, name not in self._unrouted)
                )
        return found

    def lost(self) -> dict[str, Unreachable]:
        """Return by name the brokers of which no process answers, with what cannot be reached."""
        return {one.member.name: one.unreachable for one in self.statuses() if one.unreachable is not None}

    def gone(self) -> dict[str, int]:
        """Return by name the brokers of which no process is registered, and when one last was, wall clock."""
        last: dict[str, int] = {}
        for one in self.missing():
            last[one.name] = max(last.get(one.name, 0), one.last_seen_ms)
        return {name: at for name, at in last.items() if not self._has_registered(name)}

    def masterless(self) -> list[str]:
        """
        Return the names of brokers of which slaves are registered, and no master.

        While no registry answers, a master that does not answer counts as not registered, if a slave answers.
        """
        found = {name for name, _ in self._registered or () if (name, MASTER) not in (self._registered or ())}
        if self.registries_silent:
            found |= {
                one.member.name for one in self.statuses() if one.state == "down" and one.broker_state == "no-master"
            }
        return sorted(found)

    def _has_registered(self, name: str) -> bool:
        return any(one == name for one, _ in self._registered or ())

    def _lost(self, name: str) -> Unreachable:
        content, timed = self._contents.get(name), self._timed.get(name)
        if content is None:
            return Unreachable(None, None, None, None, timed)
        return Unreachable(
            content.count or None, content.queues or None, content.messages or None, content.counted_ms, timed
        )

    def content(self, name: str) -> BrokerContent | None:
        """Return what a broker had when it was last asked; C{None} if it never was."""
        return self._contents.get(name)

    def timed_at(self, name: str) -> int | None:
        """Return how many timed messages waited at a broker when it last told; C{None} if it never did."""
        return self._timed.get(name)

    def topics_lost(self) -> dict[str, dict[str, TopicContent]]:
        """Return what cannot be reached by topic, then by broker; unknown numbers where its broker's is unknown."""
        found: dict[str, dict[str, TopicContent]] = {}
        for name, lost in self.lost().items():
            content = self._contents.get(name)
            for topic, one in content.topics.items() if content is not None else ():
                known = one if lost.messages is not None else TopicContent(one.queues, None)
                found.setdefault(topic, {})[name] = known
        return found

    # -- taking out of service ---------------------------------------------------------------------------------

    def members_of(self, name: str, id: int | None = None) -> list[BrokerMember]:
        """Return the processes of a broker, by id. @param id: only that one."""
        return [self._members[key] for key in sorted(self._members) if key[0] == name and id in (None, key[1])]

    def forget(self, members: Iterable[BrokerMember]) -> None:
        """Take processes out of the table; one that registers again is a new member."""
        for one in members:
            self._remove(one)

    def put_back(self, members: Iterable[BrokerMember], before: SavedMembership) -> None:
        """
        Take processes back in that could not be forgotten; what was observed meanwhile stays.

        @param before: the table that had them.
        """
        for one in members:
            self._members.setdefault((one.name, one.id), one)
            if one.name in before.contents:
                self._contents.setdefault(one.name, before.contents[one.name])
            if one.name in before.timed:
                self._timed.setdefault(one.name, before.timed[one.name])
            if one.name in before.lags:
                self.lags.put_back(one.name, before.lags[one.name])

    # -- keeping it --------------------------------------------------------------------------------------------

    def saved(self) -> SavedMembership:
        """Return what to save."""
        members = [self._members[key] for key in sorted(self._members)]
        return SavedMembership(members, dict(self._contents), self.lags.saved(), dict(self._timed))

    def restore(self, saved: SavedMembership) -> None:
        """Load what was saved."""
        self._members = {(one.name, one.id): one for one in saved.members}
        self._contents = {name: one for name, one in saved.contents.items() if self.members_of(name)}
        self._timed = {name: count for name, count in saved.timed.items() if self.members_of(name)}
        self.lags.restore({name: one for name, one in saved.lags.items() if self.members_of(name)})
