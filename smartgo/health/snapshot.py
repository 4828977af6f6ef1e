"""The state of a cluster as plain values: what judgements judge."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class BrokerSnapshot(NamedTuple):
    """
    The state of one broker process.

    @ivar up: whether it answers.
    @ivar disk_ratio: share of its disk in use.
    @ivar disk_tomorrow: the same in a day, by the trend of the last hours; C{None} where the trend is unknown.
    @ivar state: a slave's replication state; C{None} for a master.
    @ivar behind: bytes of its master's log that a slave lacks; C{None} for unknown.
    @ivar clock_offset: seconds by which its wall clock is ahead of ours, negative where it is behind; C{None} for
        unknown.
    """

    up: bool
    disk_ratio: float
    disk_tomorrow: float | None = None
    state: str | None = None
    behind: int | None = None
    clock_offset: float | None = None


class GroupSnapshot(NamedTuple):
    """
    The state of one consumer group.

    @ivar lag: messages that wait for it.
    @ivar lag_seconds: age of the oldest message that waits for it; 0 if none waits; C{None} if unknown.
    @ivar consume_tps: messages per second that it acknowledged in the last minute, those left out that it refused.
    @ivar members: consumers that are connected; C{None} where no broker answered.
    @ivar enabled: whether its settings let it consume.
    @ivar removed_unread: messages that retention removed before it read them; a broker forgets the count a week after
        it last grew.
    @ivar idle_seconds: for how long messages have waited and consumers were connected, but none was acknowledged.
    """

    lag: int
    lag_seconds: float | None
    consume_tps: float
    members: int | None
    enabled: bool
    removed_unread: int = 0
    idle_seconds: float = 0.0

    @property
    def idle(self) -> bool:
        """Tell whether messages wait and consumers are connected, but none was acknowledged in the last minute."""
        return self.lag > 0 and bool(self.members) and self.consume_tps == 0


class ClusterSnapshot(NamedTuple):
    """
    The state of a cluster at one time. A part that was not measured is C{None}: judgements about it change nothing.

    @ivar brokers: those that are registered, by name, slaves by C{name#id}.
    @ivar gone: seconds since a broker process that is missing was registered for the last time, by the same names.
    @ivar contended: for each broker how many others claim to be the master of its name, by name.
    @ivar masterless: 1 for each broker of which only slaves are registered, 0 for others, by name.
    @ivar registries: whether each answers, by address.
    @ivar groups: by name; C{None} for a group that could not be measured.
    @ivar dead: open dead letters (neither resent nor acknowledged), by group; C{None} as with groups.
    @ivar process: figures of the process that judges; a judgement needs only its own figures.
    @ivar remote: the same of the processes of other brokers, as far as these report them, by the brokers' names;
        C{None} for one that could not be asked.
    @ivar details: what is known of single subjects that break a rule, in sentences; by the rule's name and the subject.
    """

    brokers: Mapping[str, BrokerSnapshot] | None = None
    gone: Mapping[str, float] | None = None
    masterless: Mapping[str, float] | None = None
    contended: Mapping[str, float] | None = None
    registries: Mapping[str, bool] | None = None
    groups: Mapping[str, GroupSnapshot | None] | None = None
    dead: Mapping[str, int | None] | None = None
    process: Mapping[str, float] | None = None
    remote: Mapping[str, Mapping[str, float] | None] | None = None
    details: Mapping[tuple[str, str], str] = MappingProxyType({})


Values = Mapping[str, float | None]
"""Measured values by subject; C{None} for a subject that could not be measured."""
