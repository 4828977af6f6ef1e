"""The rows of broker processes: those that are registered, and those that are missing."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from smartgo.ops.membership.effects import effect
from smartgo.ops.membership.members import (
    BrokerContent,
    BrokerState,
    Departure,
    MemberStatus,
    ProcessState,
    Unreachable,
)
from smartgo.ops.reading.replicas import FollowingRow, SlaveRow, following_of, slaves_of
from smartgo.ops.reading.view import ClusterView, PartialView
from smartgo.schema import refusalkind

_MISSING: Final = "it is missing: it is no longer registered"
_STOPPED: Final = "it is missing: it was stopped in order"


class BrokerRow(msgspec.Struct, rename="camel"):
    """
    One broker process.

    @ivar id: 0 the master, others its slaves.
    @ivar up: whether it answers; if not, the following members are null.
    @ivar put_tps: messages stored per second, over 10 s; C{get_tps} messages delivered.
    @ivar put_today: messages stored since midnight, or since its start if that was later; C{get_today} messages
        delivered.
    @ivar disk_ratio: share in use of the disk that holds its log, 0 to 1.
    @ivar log_bytes: size of all messages that it stores.
    @ivar boot_ms: when it started; C{earliest_ms} when its oldest message was stored, wall clock.
    @ivar role: C{ASYNC_MASTER}, C{SYNC_MASTER} or C{SLAVE}; null where it does not report it (RocketMQ).
    @ivar slaves: the slaves that follow it.
    @ivar following: its replication state; null for a master.
    @ivar error: why it does not answer.
    @ivar state: C{up}; C{down}: it is registered and does not answer; C{missing}: it was there and is no longer
        registered.
    @ivar broker_state: of its master and slaves together: C{up}: all answer; C{slave-missing}: a slave does not;
        C{no-master}: only slaves do, and it stores nothing; C{missing}: none does.
    @ivar first_seen_ms: when it was registered for the first time, wall clock; C{last_seen_ms}: when it was last
        registered, answered, or unregistered.
    @ivar unreachable: what cannot be reached while all of its broker is missing; else null.
    @ivar product: the version of smartgo that it runs; null if it does not report it (RocketMQ). C{version} is that of
        the protocol.
    @ivar refusal: why its store takes no messages; null where it takes them.
    @ivar clock_offset: seconds by which its wall clock is ahead of that of the process that answers, negative where it
        is behind; null for unknown.
    @ivar contenders: addresses of other brokers that claim to be the master of its name, and take no messages.
    @ivar left: how it left if it is missing: C{stopped} in order; C{vanished}: it died, or cannot reach the registries;
        null where nobody knows. C{left_ms}: when it was stopped, wall clock.
    @ivar effect: if it is missing, what works without it and what does not, in sentences; else null.
    @ivar routed: false where its broker has no master and the registries do not know the topics of its slaves, so that
        nobody finds their messages.
    """

    cluster: str
    name: str
    id: int
    address: str
    up: bool
    version: str | None = None
    put_tps: float | None = None
    get_tps: float | None = None
    put_today: int | None = None
    get_today: int | None = None
    disk_ratio: float | None = None
    log_bytes: int | None = None
    boot_ms: int | None = None
    earliest_ms: int | None = None
    role: str | None = None
    slaves: list[SlaveRow] = []
    following: FollowingRow | None = None
    error: str | None = None
    state: ProcessState = "up"
    broker_state: BrokerState = "up"
    first_seen_ms: int | None = None
    last_seen_ms: int | None = None
    unreachable: Unreachable | None = None
    product: str | None = None
    refusal: str | None = None
    clock_offset: float | None = None
    contenders: list[str] = []
    left: Departure | None = None
    left_ms: int | None = None
    effect: str | None = None
    routed: bool = True


class BrokerView(BrokerRow):
    """
    One broker with its runtime information.

    @ivar members: its master and its slaves, those that are missing too.
    @ivar content: the topics of applications that it has, their queues and messages, as they were counted last; null:
        never.
    """

    runtime: dict[str, str] = {}
    members: list[BrokerRow] = []
    content: Unreachable | None = None


async def broker_rows(cluster: ClusterView, view: PartialView) -> list[BrokerRow]:
    """Return all broker processes, by cluster, name and id."""
    runtimes = await view.runtimes.get()
    rows = {
        (one.name, one.id): _broker_row(one, runtimes.get(one.address, "it was not asked"))
        for one in await view.brokers.get()
    }
    for row in rows.values():
        row.contenders = cluster.contenders.get(row.name, []) if row.id == 0 else []
        row.clock_offset = cluster.clock_offset(row.address) if row.up else None
    statuses = cluster.membership.statuses()
    for status in statuses:
        key = status.member.name, status.member.id
        if status.state == "missing" and key not in rows:
            rows[key] = _missing_row(status)
        if key in rows:
            _add_state(rows[key], status)
            rows[key].effect = effect(status, statuses) if status.state == "missing" else None
    return sorted(rows.values(), key=lambda one: (one.cluster, one.name, one.id))


def _missing_row(status: MemberStatus) -> BrokerRow:
    member = status.member
    error = _STOPPED if member.left == "stopped" else _MISSING
    return BrokerRow(member.cluster, member.name, member.id, member.address, False, error=error)


def _add_state(row: BrokerRow, status: MemberStatus) -> None:
    row.state = status.state
    row.broker_state = status.broker_state
    row.first_seen_ms, row.last_seen_ms = status.member.first_seen_ms, status.member.last_seen_ms
    row.unreachable = status.unreachable
    row.left, row.left_ms = status.member.left, status.member.left_ms
    row.routed = status.routed


def broker_view(
    rows: list[BrokerRow], runtime: dict[str, str] | str, content: BrokerContent | None, timed: int | None
) -> BrokerView:
    """
    Return a broker with its runtime information.

    @param rows: its processes by id, at least one; the first is the one that is shown.
    @param runtime: what that one told, or why it did not.
    @param content: what the broker has; C{timed}: how many timed messages wait there.
    """
    counted = None
    if content is not None:
        counted = Unreachable(content.count, content.queues, content.messages, content.counted_ms, timed)
    fields = {name: getattr(rows[0], name) for name in rows[0].__struct_fields__}
    return BrokerView(**fields, runtime=runtime if isinstance(runtime, dict) else {}, members=rows, content=counted)


def _broker_row(place: Any, told: dict[str, str] | str) -> BrokerRow:
    if isinstance(told, str):
        return BrokerRow(place.cluster, place.name, place.id, place.address, False, error=told)
    first, end = _whole(told, "commitLogMinOffset"), _whole(told, "commitLogMaxOffset")
    return BrokerRow(
        place.cluster,
        place.name,
        place.id,
        place.address,
        True,
        told.get("brokerVersionDesc"),
        _first(told, "putTps"),
        _first(told, "getTransferredTps") or _first(told, "getTransferedTps"),
        _since(told, "msgPutTotal"),
        _since(told, "msgGetTotal"),
        _first(told, "commitLogDiskRatio"),
        None if first is None or end is None else end - first,
        _whole(told, "bootTimestamp"),
        _time(_whole(told, "earliestMessageTimeStamp")),
        told.get("brokerRole"),
        slaves_of(told),
        following_of(told),
        product=told.get("smartgoVersion"),
        refusal=told.get(refusalkind.WORDS),
    )


def _first(told: dict[str, str], name: str) -> float | None:
    """Return the first of the decimal numbers of a figure."""
    try:
        return float(told.get(name, "").split(" ")[0])
    except ValueError:
        return None


def _whole(told: dict[str, str], name: str) -> int | None:
    try:
        return int(told.get(name, ""))
    except ValueError:
        return None


def _since(told: dict[str, str], name: str) -> int | None:
    now, morning = _whole(told, f"{name}TodayNow"), _whole(told, f"{name}TodayMorning")
    return None if now is None or morning is None else now - morning


def _time(ms: int | None) -> int | None:
    return ms if ms is not None and ms > 0 else None


BROKER_SORTS: Final = {
    "cluster": lambda one: (one.cluster, one.name, one.id),
    "name": lambda one: (one.name, one.id),
    "address": lambda one: one.address,
    "putTps": lambda one: one.put_tps or 0.0,
    "getTps": lambda one: one.get_tps or 0.0,
    "diskRatio": lambda one: one.disk_ratio or 0.0,
    "logBytes": lambda one: one.log_bytes or 0,
}
