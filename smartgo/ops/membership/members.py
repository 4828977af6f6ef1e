"""The members of a cluster and what each of them had, as records: what is remembered, shown and saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from smartgo.client.administration.brokers import subject_of
from smartgo.client.internal.route import MASTER
from smartgo.errors import BadBody
from smartgo.ops.membership.grouplags import BrokerLags

ProcessState = Literal["up", "down", "missing"]
"""
State of one broker process: C{up} answers; C{down} is registered and does not answer; C{missing} was there, and is no
longer registered.
"""

BrokerState = Literal["up", "slave-missing", "no-master", "missing"]
"""
State of a broker, which is a master and its slaves: C{up}: all of them answer; C{slave-missing}: the master answers and
a slave does not; C{no-master}: only slaves answer, so that it stores nothing; C{missing}: none answers, so that its
messages cannot be reached.
"""

Departure = Literal["stopped", "vanished"]
"""
How a process left: C{stopped} in order, so that it unregistered itself; C{vanished}: it died, or cannot reach the
registries.
"""


class BrokerMember(msgspec.Struct, rename="camel"):
    """
    One broker process that is there, or was.

    @ivar id: 0 the master, others its slaves.
    @ivar address: the last one that it registered.
    @ivar first_seen_ms: when it was registered for the first time that is known.
    @ivar last_seen_ms: when it was last registered, answered, or unregistered.
    @ivar left: how it left; C{None} while it is registered, and where nobody knows.
    @ivar left_ms: when it unregistered, by the registry's wall clock; C{None} if it did not.
    """

    cluster: str
    name: str
    id: int
    address: str
    first_seen_ms: int
    last_seen_ms: int
    left: Departure | None = None
    left_ms: int | None = None

    @property
    def subject(self) -> str:
        """Return its name in alerts: that of its broker, for slaves with C{#} and the id."""
        return subject_of(self.name, self.id)


class TopicContent(msgspec.Struct, rename="camel"):
    """The queues and the stored messages of one topic at one broker; C{None} for an unknown number."""

    queues: int
    messages: int | None


class BrokerContent(msgspec.Struct, rename="camel"):
    """
    The topics of a broker, as they were counted for the last time.

    @ivar topics: by name, without the brokers' own; at most L{TOPICS<smartgo.ops.membership.table.TOPICS>}.
    @ivar count: how many topics of applications it has; C{queues} and C{messages} are those of these topics.
    @ivar counted_ms: when that was, wall clock.
    """

    topics: dict[str, TopicContent]
    count: int
    queues: int
    messages: int
    counted_ms: int


class Unreachable(msgspec.Struct, rename="camel"):
    """
    The topics, queues and messages that cannot be reached while a broker is missing.

    A number is null where it is not known: it was never counted, or there was nothing at the last count, and what the
    broker took since then is not known.

    @ivar topics: topics of applications that are at least in part there; C{queues} and C{messages} are theirs.
    @ivar counted_ms: when that was counted for the last time, wall clock; null: never.
    @ivar timed: timed messages that waited there for their time; they are not among the messages. Null: not known.
    """

    topics: int | None
    queues: int | None
    messages: int | None
    counted_ms: int | None
    timed: int | None = None


class MemberStatus(NamedTuple):
    """
    One broker process, and its state.

    @ivar broker_state: the state of the broker that it belongs to.
    @ivar unreachable: what cannot be reached; C{None} unless the broker is missing.
    @ivar routed: false where the broker has no master and the registries do not know the topics of its slaves.
    """

    member: BrokerMember
    state: ProcessState
    broker_state: BrokerState
    unreachable: Unreachable | None
    routed: bool = True


class SavedMembership(msgspec.Struct, rename="camel"):
    """The members that survive a restart."""

    members: list[BrokerMember]
    contents: dict[str, BrokerContent]
    lags: dict[str, BrokerLags] = {}
    timed: dict[str, int] = {}


def state_of_broker(processes: Mapping[int, ProcessState]) -> BrokerState:
    """
    Return the state of a broker by the states of its processes.

    >>> state_of_broker({0: "missing", 1: "up"})
    'no-master'
    """
    up = [one for one, state in processes.items() if state == "up"]
    if not up:
        return "missing"
    if MASTER not in up:
        return "no-master"
    return "up" if len(up) == len(processes) else "slave-missing"


def read_saved(data: bytes) -> SavedMembership:
    """
    Read what L{MembershipTable.saved<smartgo.ops.membership.table.MembershipTable.saved>} gave.

    @raise BadBody: it is something else.
    """
    try:
        return msgspec.json.decode(data, type=SavedMembership)
    except msgspec.MsgspecError as error:
        raise BadBody(f"this is not a file of members: {error}") from None
