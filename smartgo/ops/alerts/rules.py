"""
What counts as wrong: one table of rules over one look at the cluster. Sans I/O, and without a clock.

A rule measures subjects (brokers, groups, registries, the process), and is broken by those whose value is above its
threshold. C{docs/grafana/alerts.yml} has the same rules for Prometheus under the names given here, with the same
severity and time, where metrics tell enough; a test holds both together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

Severity = Literal["critical", "warning"]
Subject = Literal["broker", "group", "registry", "process"]
Unit = Literal["state", "count", "bytes", "seconds", "ratio"]

_MIB: Final = 1 << 20
_UNITS: Final[Mapping[str, str]] = {"bytes": " bytes", "seconds": " s"}
_FOLLOWED: Final = ("FOLLOWING", "CATCHING_UP")


class BrokerLook(NamedTuple):
    """
    What is known of a broker process.

    @ivar disk_tomorrow: C{None} where its past tells nothing.
    @ivar state: how a slave stands to its master; C{None} for a master. C{behind} is C{None} for unknown.
    """

    up: bool
    disk_ratio: float
    disk_tomorrow: float | None = None
    state: str | None = None
    behind: int | None = None


class GroupLook(NamedTuple):
    """What is known of a group; C{members} is C{None} where brokers do not tell."""

    lag: int
    lag_seconds: float
    consume_tps: float
    members: int | None
    enabled: bool


class Look(NamedTuple):
    """
    One look at the cluster. What was not looked at is C{None}: rules about it leave everything as it is.

    @ivar brokers: by name, slaves by C{name#id}.
    @ivar gone: seconds since a broker that is not registered any more was, by name.
    @ivar registries: whether each answers, by address.
    @ivar groups: by name; C{None} for one of which brokers do not tell just now.
    @ivar dead: dead letters that came since the first look, by group; C{None} as with groups.
    @ivar process: figures of this process; some rules are about those alone that are there.
    """

    brokers: Mapping[str, BrokerLook] | None = None
    gone: Mapping[str, float] | None = None
    registries: Mapping[str, bool] | None = None
    groups: Mapping[str, GroupLook | None] | None = None
    dead: Mapping[str, int | None] | None = None
    process: Mapping[str, float] | None = None


Values = Mapping[str, float | None]
"""By subject; C{None}: it could not be looked at, and stays as it is."""


class Rule(NamedTuple):
    """One rule."""

    name: str
    severity: Severity
    seconds: float
    """How long it must be broken before that is worth a word."""
    threshold: float
    """Broken above it."""
    unit: Unit
    kind: Subject
    """What it measures."""
    measure: Callable[[Look], Values | None]
    about: str
    """What it means, and what to do."""
    window: float = 0.0
    """Seconds: the measure only ever grows, and its growth in this time is what counts. 0: the measure itself."""
    prometheus: str = ""
    """The rule of C{alerts.yml} that says the same."""
    enabled: bool = True

    @property
    def adjustable(self) -> bool:
        """Whether another threshold makes sense."""
        return self.unit != "state"

    def words(self, value: float) -> str:
        """A measured value for people; C{""} where it is no more than yes or no."""
        if self.unit == "state":
            return ""
        if self.unit == "ratio":
            return f"{value:.1%}"
        return f"{value:,.0f}{_UNITS.get(self.unit, '')}"


def _down(look: Look) -> Values | None:
    return None if look.brokers is None else {name: float(not one.up) for name, one in look.brokers.items()}


def _brokers(value: Callable[[BrokerLook], float | None]) -> Callable[[Look], Values | None]:
    """Measure brokers that answer; where C{value} is C{None} there is nothing to be wrong."""

    def measure(look: Look) -> Values | None:
        if look.brokers is None:
            return None
        found = {name: value(one) if one.up else None for name, one in look.brokers.items()}
        return {name: one for name, one in found.items() if one is not None or not look.brokers[name].up}

    return measure


def _slaves(value: Callable[[BrokerLook], float | None]) -> Callable[[Look], Values | None]:
    return _brokers(lambda one: None if one.state is None else value(one))


def _groups(value: Callable[[GroupLook], float]) -> Callable[[Look], Values | None]:
    def measure(look: Look) -> Values | None:
        if look.groups is None:
            return None
        return {name: None if one is None else value(one) for name, one in look.groups.items()}

    return measure


def _process(figure: str, of: str = "") -> Callable[[Look], Values | None]:
    """Measure one figure of this process, or its share of another."""

    def measure(look: Look) -> Values | None:
        if look.process is None or figure not in look.process:
            return None
        value = look.process[figure]
        if of:
            value /= look.process.get(of) or 1.0
        return {"": value}

    return measure


RULES: Final[Mapping[str, Rule]] = {
    rule.name: rule
    for rule in (
        Rule(
            "broker-down", "critical", 60, 0, "state", "broker", _down,
            "The broker is registered and does not answer: look whether its process runs, and at its log.",
            prometheus="SmartgoDown",
        ),
        Rule(
            "broker-gone", "warning", 0, 60, "seconds", "broker", lambda look: look.gone,
            "The broker is not registered any more: it was stopped, or has lost its registries.",
            prometheus="SmartgoBrokerSilent",
        ),
        Rule(
            "store-refuses", "critical", 15, 0, "state", "process", _process("storeRefuses"),
            "This broker takes no messages: the disk is full, a flush failed, or another broker is the master of its"
            " name. The log and /ready give the reason.",
            prometheus="SmartgoStoreRefuses",
        ),
        Rule(
            "recovery-long", "warning", 600, 0, "state", "process", _process("brokerStarts"),
            "This broker has been reading its log for long: it was not stopped in order, and serves nobody yet.",
            prometheus="SmartgoRecoveryTakesLong",
        ),
        Rule(
            "disk-full", "warning", 300, 0.85, "ratio", "broker",
            _brokers(lambda one: one.disk_ratio),
            "The disk of the broker's log is nearly full: at 90 % sends are refused. Give it more room.",
            prometheus="SmartgoDiskFillsUp",
        ),
        Rule(
            "disk-full-tomorrow", "warning", 1800, 0.9, "ratio", "broker", _brokers(lambda one: one.disk_tomorrow),
            "At the pace of the last six hours the disk of the broker's log is full within a day.",
            prometheus="SmartgoDiskFullInADay",
        ),
        Rule(
            "flush-behind", "warning", 60, 64 * _MIB, "bytes", "process", _process("logUnflushedBytes"),
            "The disk is slower than the senders: a power failure would lose what waits.",
            prometheus="SmartgoFlushBehind",
        ),
        Rule(
            "index-behind", "warning", 300, 256 * _MIB, "bytes", "process", _process("indexBehindBytes"),
            "The index is slower than the senders: the newest messages are not found by key yet.",
            prometheus="SmartgoIndexBehind",
        ),
        Rule(
            "put-failures", "critical", 120, 0, "count", "process", _process("putFailures"),
            "The store of this broker refuses sends; the log says why.",
            window=300, prometheus="SmartgoPutFailures",
        ),
        Rule(
            "reactor-stalls", "warning", 0, 5, "count", "process", _process("reactorStalls"),
            "The reactor of this process stands still again and again for a quarter of a second; the log has the"
            " stack of each.",
            window=600, prometheus="SmartgoReactorStalls",
        ),
        Rule(
            "connections-turned-away", "warning", 60, 0, "count", "process", _process("connectionsTurnedAway"),
            "A limit of connections is reached, or there are no file descriptors left.",
            window=300, prometheus="SmartgoConnectionsTurnedAway",
        ),
        Rule(
            "held-pulls", "warning", 300, 0.8, "ratio", "process", _process("heldPulls", "heldPullsLimit"),
            "Nearly all places for pulls that wait are taken (maxHeldPulls): past that they are answered once a"
            " second, and cost more.",
        ),
        Rule(
            "registration-refused", "warning", 60, 0, "count", "process", _process("registriesWithoutUs"),
            "Registries do not take this broker's registration: clients that ask them do not find its topics.",
        ),
        Rule(
            "replica-diverged", "critical", 0, 0, "state", "broker",
            _slaves(lambda one: float(one.state == "DIVERGED")),
            "The slave's log is not its master's: nothing is copied until somebody decides which of the two is right.",
            prometheus="SmartgoReplicaDiverged",
        ),
        Rule(
            "replica-alone", "critical", 120, 0, "state", "broker",
            _slaves(lambda one: float(one.state not in _FOLLOWED)),
            "The slave follows no master: what the master takes now exists once. Its page says why.",
            prometheus="SmartgoReplicaAlone",
        ),
        Rule(
            "replica-behind", "warning", 300, 256 * _MIB, "bytes", "broker", _slaves(lambda one: one.behind),
            "So much of the log lies on the master alone: if it were lost now, so would that be.",
            prometheus="SmartgoReplicaBehind",
        ),
        Rule(
            "registry-down", "critical", 30, 0, "state", "registry",
            lambda look: None if look.registries is None else {
                address: float(not up) for address, up in look.registries.items()
            },
            "The registry does not answer: look whether its process runs.",
        ),
        Rule(
            "group-late", "warning", 300, 600, "seconds", "group", _groups(lambda one: one.lag_seconds),
            "The group is behind: the message that it consumed last was stored so long ago.",
            prometheus="SmartgoConsumerLate",
        ),
        Rule(
            "group-behind", "warning", 300, 1_000_000, "count", "group", _groups(lambda one: one.lag),
            "Very many messages wait for the group.",
        ),
        Rule(
            "group-stopped", "warning", 900, 0, "count", "group",
            _groups(lambda one: one.lag if one.consume_tps == 0 and one.members else 0.0),
            "Messages wait for the group, it has members, and none got any.",
            prometheus="SmartgoConsumerStopped",
        ),
        Rule(
            "group-empty", "warning", 300, 0, "count", "group",
            _groups(lambda one: one.lag if one.members == 0 else 0.0),
            "Messages wait for the group, and no member is connected.",
        ),
        Rule(
            "group-disabled", "warning", 300, 0, "count", "group",
            _groups(lambda one: 0.0 if one.enabled else one.lag),
            "Messages wait for the group, and it may not consume: its settings say so.",
        ),
        Rule(
            "dead-letters", "warning", 0, 0, "count", "group", lambda look: look.dead,
            "Messages of the group were put aside, as it failed to consume them too often.",
            window=600, prometheus="SmartgoDeadLetters",
        ),
    )
}  # fmt: skip
"""By name, in the order in which they are shown."""
