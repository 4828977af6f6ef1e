"""
The table of judgements: what is measured, from which value on it is a problem, what that means and what to do.

A threshold stands here and nowhere else. Alerts (L{smartgo.ops.alerts}) fire when a subject stays over its threshold
for a time; the console's overview judges disks and late groups by those alert rules, as C{/alerts/rules} has them;
C{smartgo doctor} judges a single measurement; readiness asks for those that keep a process from serving;
C{docs/grafana/alerts.yml} has the same thresholds for Prometheus, and a test compares them.
Only the colours of the console's disk bars (C{Meter} in its C{app/parts.js}) have steps of their own, 75 % and 90 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from smartgo.health.measures import (
    STOPPED,
    Measure,
    alone,
    down,
    lateness,
    of_brokers,
    of_groups,
    of_process,
    of_slaves,
)
from smartgo.health.measures import registries_down as registries
from smartgo.schema.refusalkind import RefusalKind

Severity = Literal["critical", "warning", "note"]
Subject = Literal["broker", "group", "registry", "process", "machine"]
Unit = Literal["state", "count", "bytes", "seconds", "ratio"]

_MIB: Final = 1 << 20
_UNITS: Final[Mapping[str, str]] = {"bytes": " bytes", "seconds": " s"}
NOUNS: Final[Mapping[str, str]] = {
    "master-contended": "other process",
    "log-damaged": "region",
    "put-failures": "send",
    "reactor-stalls": "stall",
    "connections-turned-away": "connection",
    "registration-refused": "registry",
    "group-behind": "message",
    "group-stopped": "message",
    "group-empty": "message",
    "group-disabled": "message",
    "group-lost-messages": "message",
    "dead-letters": "dead letter",
    "open-files": "file",
}
"""What the values of a judgement with the unit C{count} count, in the singular."""


def value_text(unit: Unit, value: float) -> str:
    """Return a measured value as text; C{""} for a state, which is only yes or no."""
    if unit == "state":
        return ""
    if unit == "ratio":
        return f"{value:.1%}"
    return f"{value:,.0f}{_UNITS.get(unit, '')}"


class Judgement(NamedTuple):
    """One row of the table."""

    name: str
    severity: Severity
    threshold: float
    """A value above it is a problem; below it where C{below} says so."""
    unit: Unit
    subject: Subject
    sentence: str
    """What to say of one subject, after its name; C{{value}} and C{{reason}} are filled in by who measured."""
    meaning: str
    """What it means, in sentences of their own."""
    advice: str
    """What to do."""
    measure: Measure | None = None
    """Finds the values in a snapshot; C{None} where only C{smartgo doctor} measures."""
    lasting: float = 0.0
    """Seconds that it must last before an alert fires."""
    window: float = 0.0
    """Seconds: the measure is a counter, and its growth in this time is judged. 0: the measure itself."""
    prometheus: str = ""
    """The rule of C{docs/grafana/alerts.yml} with the same threshold, severity and times."""
    early: float | None = None
    """A diagnosis warns from this value on: somebody who asks wants to know before an alert fires."""
    grave: float | None = None
    """A diagnosis calls it critical from this value on."""
    momentary: Severity | None = None
    """The severity of a single measurement, where that may be wrong a minute later; C{None}: as C{severity}."""
    cause: str = ""
    """The judgement whose alert about the same subject is the cause of this one's, which then calls nobody."""
    below: bool = False
    """Whether values below the threshold are the problem."""

    @property
    def about(self) -> str:
        """Return what it means and what to do."""
        return f"{self.meaning} {self.advice}".rstrip()

    def judge(self, value: float) -> Severity | None:
        """Return how bad one measured value is, C{None} where it is fine."""
        if self.grave is not None and value >= self.grave:
            return "critical"
        if self.early is not None and value >= self.early:
            return "warning"
        if value < self.threshold if self.below else value > self.threshold:
            return self.momentary or self.severity
        return None


_ALERTS: Final = (
    Judgement(
        "broker-down", "critical", 0, "state", "broker",
        "does not answer",
        "The broker is registered and does not answer.", "Check that its process runs, and read its log.",
        down, lasting=60, prometheus="SmartgoDown",
    ),
    Judgement(
        "broker-gone", "critical", 0, "seconds", "broker",
        "is missing: it was last seen {value} ago{reason}",
        "The broker is missing: it was registered and is no longer.",
        "Start it again, or read its log. If it is not to return: smartgo cluster forget NAME.",
        lambda snapshot: snapshot.gone, prometheus="SmartgoBrokerMissing",
    ),
    Judgement(
        "master-missing", "critical", 0, "state", "broker",
        "has no master: it stores nothing{reason}",
        "A broker name has slaves and no master: nothing can be stored there.",
        "Start the master, or read its log.",
        lambda snapshot: snapshot.masterless, prometheus="SmartgoBrokerWithoutMaster", cause="broker-gone",
    ),
    Judgement(
        "master-contended", "critical", 0, "count", "broker",
        "has a second master of its name{reason}: that one takes no messages",
        "Another broker claims to be the master of this name: the registries refuse it, and it takes no messages.",
        "Stop it, give it a name of its own (brokerName), or let it follow as a slave.",
        lambda snapshot: snapshot.contended,
    ),
    Judgement(
        "store-refuses", "critical", 0, "state", "process",
        "takes no messages now: {reason}",
        "This broker takes no messages: the disk is full, a flush failed, or another broker is the master of its name.",
        "Its log gives the reason, as does smartgo doctor.",
        of_process("storeRefuses"), lasting=15, prometheus="SmartgoStoreRefuses",
    ),
    Judgement(
        "recovery-long", "warning", 0, "state", "process",
        "starts",
        "This broker was not shut down cleanly and has been reading its log for a long time. It serves nobody yet.",
        "Its log shows how far it is.",
        of_process("brokerStarts"), lasting=600, prometheus="SmartgoRecoveryTakesLong",
    ),
    Judgement(
        "disk-full", "warning", 0.85, "ratio", "broker",
        "the disk is {value} full",
        "The disk of the broker's log is nearly full.", "Make room: at 90 % the broker refuses sends.",
        of_brokers(lambda one: one.disk_ratio), lasting=300, prometheus="SmartgoDiskFillsUp", early=0.75, grave=0.88,
    ),
    Judgement(
        "disk-full-tomorrow", "warning", 0.9, "ratio", "broker",
        "the disk will be {value} full in a day",
        "At the rate of the last six hours the disk of the broker's log is full within a day.",
        "Make room, or shorten the retention of messages.",
        of_brokers(lambda one: one.disk_tomorrow), lasting=1800, prometheus="SmartgoDiskFullInADay",
    ),
    Judgement(
        "flush-behind", "warning", 64 * _MIB, "bytes", "process",
        "{value} are not flushed yet",
        "The disk is slower than the producers: a power failure would lose the messages that are not flushed yet.",
        "Use a faster disk, or send less.",
        of_process("logUnflushedBytes"), lasting=60, prometheus="SmartgoFlushBehind",
    ),
    Judgement(
        "index-behind", "warning", 256 * _MIB, "bytes", "process",
        "{value} of the log are not indexed yet",
        "The index is slower than the producers: the newest messages are not found by key yet.",
        "It catches up when the load gets lower.",
        of_process("indexBehindBytes"), lasting=300, prometheus="SmartgoIndexBehind",
    ),
    Judgement(
        "transactions-old", "warning", 600, "seconds", "process",
        "the oldest undecided transaction is {value} old",
        "A transaction has been undecided for a long time: its producer does not answer check-backs, or none of its"
        " group is connected. Its message is given up in the end, and then nobody gets it.",
        "Find it by smartgo tx ls, and start a producer of its group that answers.",
        of_process("oldestTransactionSeconds"), lasting=120, prometheus="SmartgoTransactionsOld",
    ),
    Judgement(
        "log-damaged", "warning", 0, "count", "process",
        "damaged regions in its log: {value}",
        "Messages in this broker's log are damaged: a disk or memory is faulty. They are not delivered.",
        "Check the disk, and get the messages from a slave or a backup: docs/disaster.rst has the steps.",
        of_process("damagedRegions"), prometheus="SmartgoLogDamaged", grave=1,
    ),
    Judgement(
        "put-failures", "critical", 0, "count", "process",
        "refused {value} sends",
        "The store of this broker refused sends in the last five minutes.", "Its log gives the reason.",
        of_process("putFailures"), lasting=120, window=300, prometheus="SmartgoPutFailures", cause="store-refuses",
    ),
    Judgement(
        "reactor-stalls", "warning", 5, "count", "process",
        "its reactor was blocked {value} times",
        "The reactor of this process was blocked repeatedly, each time for at least a quarter of a second.",
        "The log of the process shows the code that blocked it (start dev as smartgo --verbose dev).",
        of_process("reactorStalls"), window=600, prometheus="SmartgoReactorStalls",
    ),
    Judgement(
        "connections-turned-away", "warning", 0, "count", "process",
        "refused {value} connections",
        "This process refuses connections: it has as many as its limits allow, or no file descriptors are left.",
        "Close connections, or raise the limits.",
        of_process("connectionsTurnedAway"), lasting=60, window=300, prometheus="SmartgoConnectionsTurnedAway",
    ),
    Judgement(
        "held-pulls", "warning", 0.8, "ratio", "process",
        "{value} of the allowed long polls are in use",
        "Nearly as many long polls wait as maxHeldPulls allows. Above that limit a pull is answered once a second,"
        " which costs more.",
        "Raise maxHeldPulls.",
        of_process("heldPulls", "heldPullsLimit"), lasting=300,
    ),
    Judgement(
        "registration-refused", "warning", 0, "count", "process",
        "{value} registries refuse its registration",
        "Registries refuse this broker's registration: clients that ask them do not find its topics.",
        "The broker's log gives the reason.",
        of_process("registriesWithoutUs"), lasting=60,
    ),
    Judgement(
        "access-files-refused", "warning", 0, "state", "process",
        "refused its access control files: the rules from before stay in force",
        "The access control files of this process were changed and cannot be used: the rules from before stay in force,"
        " and no change of an account or a permission counts.",
        "Its log names the file and the reason.",
        of_process("accessFilesRefused"), lasting=30, prometheus="SmartgoAccessFilesRefused",
    ),
    Judgement(
        "replica-diverged", "critical", 0, "state", "broker",
        "its log differs from its master's, and nothing is copied{reason}",
        "The slave's log differs from its master's. Nothing is copied until somebody decides which of the two is"
        " right.",
        "Decide that, then empty the other one's store: docs/replication.rst has the steps.",
        of_slaves(lambda one: float(one.state == "DIVERGED")), prometheus="SmartgoReplicaDiverged",
    ),
    Judgement(
        "replica-alone", "critical", 0, "state", "broker",
        "follows no master ({value}), so new messages are stored only once{reason}",
        "The slave follows no master: what the master stores now exists only once.",
        "Check that the master is up and registered under the same name, that its haAllow admits this slave, and that"
        " both have the same haAccessKey.",
        alone, lasting=120, prometheus="SmartgoReplicaAlone",
        momentary="warning",
    ),
    Judgement(
        "replica-behind", "warning", 256 * _MIB, "bytes", "broker",
        "is {value} behind its master",
        "This part of the log exists only at the master: it would be lost with the master.",
        "If the lag does not shrink, the slave's disk or the network between the two is too slow.",
        of_slaves(lambda one: one.behind), lasting=300, prometheus="SmartgoReplicaBehind",
    ),
    Judgement(
        "clock-differs", "warning", 5.0, "seconds", "broker",
        "its clock is {value} {reason} ours",
        "The clocks of machines differ.",
        "Synchronize all machines with one time server: search by time, delays and retention depend on clocks.",
        of_brokers(lambda one: None if one.clock_offset is None else abs(one.clock_offset)), lasting=30,
    ),
    Judgement(
        "registry-down", "critical", 0, "state", "registry",
        "does not answer",
        "The registry does not answer.", "Check that its process runs.",
        registries, prometheus="SmartgoRegistryMissing",
    ),
    Judgement(
        "group-late", "warning", 600, "seconds", "group",
        "is {value} behind",
        "The group is late: the oldest message that waits for it was stored that long ago. Its consumers acknowledge"
        " messages, or none is connected.",
        "Add consumers, or make them faster.",
        of_groups(lateness), lasting=300, prometheus="SmartgoConsumerLate", cause="group-empty",
    ),
    Judgement(
        "group-behind", "warning", 1_000_000, "count", "group",
        "{value} waiting",
        "Very many messages wait for the group.", "Add consumers, or make them faster.",
        of_groups(lambda one: one.lag), lasting=300, cause="group-empty",
    ),
    Judgement(
        "group-stopped", "warning", 0, "count", "group",
        "{value} waiting, and its consumers acknowledge none",
        "Messages wait for the group and consumers are connected, but they acknowledge none. What they refuse, or hold"
        " until it is given back after their time-out, does not count.",
        "Check what the consumers do: their logs, and whether their subscriptions agree.",
        of_groups(lambda one: one.lag if one.idle else 0.0),
        lasting=STOPPED, prometheus="SmartgoConsumerStopped",
    ),
    Judgement(
        "group-empty", "warning", 0, "count", "group",
        "{value} waiting, no consumer connected",
        "Messages wait for the group, and no consumer is connected.",
        "Start its consumers. If the group is no longer needed: smartgo group rm NAME.",
        of_groups(lambda one: one.lag if one.members == 0 else 0.0), lasting=300,
    ),
    Judgement(
        "group-disabled", "warning", 0, "count", "group",
        "{value} waiting, and consuming is disabled",
        "Messages wait for the group, and its settings do not let it consume.",
        "Let it consume again: smartgo group set NAME --consume.",
        of_groups(lambda one: 0.0 if one.enabled else one.lag), lasting=300,
    ),
    Judgement(
        "group-lost-messages", "critical", 0, "count", "group",
        "{value} messages were removed before this group read them",
        "Old messages were removed before this group read them: it is too slow for the retention time or the disk.",
        "Add consumers, or keep messages longer (fileReservedTime, a larger disk): smartgo cluster tidy --dry-run.",
        of_groups(lambda one: one.removed_unread), window=3600, prometheus="SmartgoGroupLostMessages",
        momentary="warning",
    ),
    Judgement(
        "dead-letters", "warning", 0, "count", "group",
        "{value} neither resent nor acknowledged",
        "Messages of the group became dead letters: it failed to consume them too often, and nobody has seen to them.",
        "Read them (smartgo dlq show NAME --open), mend the cause, then resend them (smartgo dlq resend NAME --all) or"
        " acknowledge them (smartgo dlq ack NAME --all).",
        lambda snapshot: snapshot.dead, prometheus="SmartgoDeadLetters",
    ),
)  # fmt: skip

_DIAGNOSIS: Final = (
    Judgement(
        "sync-master-alone", "warning", 0, "state", "broker",
        "is a SYNC_MASTER without a slave: messages are stored only once, and producers are told so"
        " (SLAVE_NOT_AVAILABLE)",
        "A master that waits for its slaves has none.",
        "Start its slave. If it runs, its log says why it does not follow.",
    ),
    Judgement(
        "dispatch-behind", "warning", 64 * _MIB, "bytes", "broker",
        "{value} are stored but cannot be consumed yet",
        "The consume queues are behind the log.",
        "The broker's disk or processor is too slow for its load; read its log.",
    ),
    Judgement(
        "send-slow", "warning", 0.1, "seconds", "broker",
        "one send in a hundred takes {value} or more",
        "Sends are slow.",
        "With SYNC_FLUSH the disk decides: measure it on that machine by smartgo doctor --store DIR.",
    ),
    Judgement(
        "disk-slow", "warning", 0.02, "seconds", "machine",
        "nine in ten durable writes took at most {value}",
        "Durable writes are slow, and under SYNC_FLUSH every send waits for one.",
        "Use a faster disk, or one that nothing else uses.",
        grave=0.1,
    ),
    Judgement(
        "open-files", "note", 10_000, "count", "machine",
        "a process started from here may open {value} files",
        "A broker with thousands of queues needs more file descriptors.",
        "Raise the limit for a broker with thousands of queues: ulimit -n 100000, or LimitNOFILE of systemd.",
        below=True,
    ),
)  # fmt: skip

JUDGEMENTS: Final[Mapping[str, Judgement]] = {one.name: one for one in (*_ALERTS, *_DIAGNOSIS)}
"""By name, in the order in which they are shown; what alerts judge comes first."""


def refusal_advice(kind: str | None) -> str:
    """
    Return what to do about a store that refuses messages.

    @param kind: the value of a L{RefusalKind}, as the broker tells it; others and C{None} are known to other versions.
    """
    if kind == RefusalKind.FAILED.value:
        return (
            "Check its disk and its log, then restart it: until then it takes nothing. smartgo check DIRECTORY reads"
            " the store."
        )
    if kind in (RefusalKind.NO_ROOM.value, RefusalKind.DISK_FULL.value):
        return "Make room on its disk: it then takes messages again by itself."
    if kind == RefusalKind.NOT_MASTER.value:
        return (
            "Does another master run under its name? Do its registries answer? It takes messages again by itself once"
            " they admit it."
        )
    return "Read its log."
