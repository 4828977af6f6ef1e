"""The rows of C{smartgo cluster ls}: brokers that are registered, and those that are missing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from smartgo.cli.support.membermemory import MemberMemoryAnswer, MissingMember
from smartgo.cli.support.output import moment, span
from smartgo.cli.support.session import ClusterSession
from smartgo.client.administration.brokers import places_of
from smartgo.client.internal.route import MASTER
from smartgo.errors import CallFailed
from smartgo.health.judgements import JUDGEMENTS
from smartgo.schema import refusalkind
from smartgo.schema.runtimeclock import wall_clock_ms


class BrokerListRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    One broker process.

    @ivar id: 0 for the master, above 0 for its slaves.
    @ivar version: as the broker reports it; this and all following fields are C{None} if the broker does not answer.
    @ivar product: the version of smartgo that it runs; C{None} for one of RocketMQ.
    @ivar put_per_second: messages stored recently; C{get_per_second} delivered.
    @ivar disk: how full the disk of the CommitLog is, 0 to 1.
    @ivar kept_seconds: the age of its oldest message.
    @ivar refusal: why its store takes no messages; C{None} where it takes them.
    @ivar contenders: addresses of others that claim to be the master of its name.
    @ivar clock_offset: seconds by which its wall clock is ahead of ours, negative where it is behind.
    @ivar state: C{up}, C{down} if it does not answer, or C{missing} if it was registered and is no longer.
    @ivar last_seen_ms: when a missing one was registered for the last time, wall clock; C{None} if that is not known.
    @ivar unreachable_messages: messages that cannot be reached while all of its broker is missing, in so many
        C{unreachable_queues}; C{None} for nothing, or unknown.
    """

    cluster: str
    broker: str
    id: int
    address: str
    version: str | None = None
    product: str | None = None
    put_per_second: float | None = None
    get_per_second: float | None = None
    put_today: int | None = None
    get_today: int | None = None
    disk: float | None = None
    kept_seconds: float | None = None
    refusal: str | None = None
    clock_offset: float | None = None
    contenders: list[str] = []
    runs: str | None = None
    failure: str | None = None
    state: str = "up"
    last_seen_ms: int | None = None
    unreachable_messages: int | None = None
    unreachable_queues: int | None = None


def number(table: dict[str, str], *names: str) -> float | None:
    """Return the number that the first usable one of these values begins with; C{None} if there is none."""
    for name in names:
        words = table.get(name, "").split()
        try:
            return float(words[0])
        except (IndexError, ValueError):
            continue
    return None


def difference(table: dict[str, str], end: str, begin: str) -> int | None:
    """Return the difference of two counts; C{None} if one is missing."""
    high, low = number(table, end), number(table, begin)
    return None if high is None or low is None else int(high - low)


async def broker_rows(session: ClusterSession) -> list[BrokerListRow]:
    """Return all brokers with their runtime information; one that does not answer has the error instead."""
    now = session.env.clock.wall_ms()
    rows = []
    info = await session.admin.brokers.cluster()
    for place in places_of(info):
        contenders = (info.contenders or {}).get(place.name, []) if place.id == MASTER else []
        row = BrokerListRow(
            cluster=place.cluster, broker=place.name, id=place.id, address=place.address, contenders=contenders
        )
        try:
            table = await session.admin.brokers.runtime(place.address)
        except CallFailed as error:
            rows.append(msgspec.structs.replace(row, failure=str(error), state="down"))
            continue
        oldest = number(table, "earliestMessageTimeStamp")
        rows.append(
            msgspec.structs.replace(
                row,
                version=table.get("brokerVersionDesc"),
                product=table.get("smartgoVersion"),
                put_per_second=number(table, "putTps"),
                get_per_second=number(table, "getTransferredTps", "getTransferedTps"),
                put_today=difference(table, "msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
                get_today=difference(table, "msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
                disk=number(table, "commitLogDiskRatio"),
                kept_seconds=(now - oldest) / 1000 if oldest is not None and oldest > 0 else None,
                refusal=table.get(refusalkind.WORDS),
                clock_offset=_clock_offset(table, session.env.clock.wall_ms()),
                runs=table.get("runtime"),
            )
        )
    return rows


def missing_rows(rows: list[BrokerListRow], memory: MemberMemoryAnswer) -> list[BrokerListRow]:
    """
    Return the brokers that are missing: those that the REST API remembers.

    Where no REST API tells, masters of slaves that are registered are called missing, too; where one tells, such a
    master was taken out of service.

    @param rows: those that are registered.
    """
    found = [
        BrokerListRow(
            cluster=one.cluster,
            broker=one.broker,
            id=one.id,
            address=one.address,
            failure=_missing(one),
            state="missing",
            last_seen_ms=one.last_seen_ms,
            unreachable_messages=one.messages,
            unreachable_queues=one.queues,
        )
        for one in memory.missing or ()
        if (one.broker, one.id) not in {(row.broker, row.id) for row in rows}
    ]
    known = {(row.broker, row.id) for row in [*rows, *found]}
    for row in rows if memory.missing is None else ():
        if (row.broker, MASTER) not in known:
            known.add((row.broker, MASTER))
            words = "missing: only slaves are registered"
            found.append(
                BrokerListRow(
                    cluster=row.cluster, broker=row.broker, id=MASTER, address="", failure=words, state="missing"
                )
            )
    return found


def _missing(member: MissingMember) -> str:
    if member.left == "stopped":
        return f"missing: {member.departure}{member.loss}"
    return f"missing, last seen {moment(member.last_seen_ms)}{member.loss}"


def version_of(row: BrokerListRow) -> str | None:
    """
    Return the version of smartgo that a broker runs, with that of RocketMQ whose protocol it speaks.

    @return: of a RocketMQ broker its own; C{None} for unknown.
    """
    return row.version if row.product is None else f"smartgo {row.product} ({row.version})"


def state_of(row: BrokerListRow) -> str:
    """Return the state of a broker: C{up}, or what is wrong with it."""
    if row.state == "missing":
        return row.failure or "missing"
    if row.failure is not None:
        return f"no answer: {row.failure}"
    words = []
    if row.refusal is not None:
        words.append(f"takes no messages: {row.refusal}")
    if row.contenders:
        words.append(f"second master of its name: {', '.join(row.contenders)}")
    if row.clock_offset is not None and JUDGEMENTS["clock-differs"].judge(abs(row.clock_offset)) is not None:
        order = "ahead of" if row.clock_offset > 0 else "behind"
        words.append(f"clock {span(abs(row.clock_offset))} {order} ours")
    return "; ".join(words) or "up"


def _clock_offset(table: Mapping[str, str], now_ms: int) -> float | None:
    theirs_ms = wall_clock_ms(table)
    return None if theirs_ms is None else round((theirs_ms - now_ms) / 1000, 3)
