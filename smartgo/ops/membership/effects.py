"""Sentences about a broker process that is missing: how it left, what works without it, and what does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from smartgo.client.internal.route import MASTER
from smartgo.ops.membership.members import BrokerMember, MemberStatus, Unreachable
from smartgo.schema.moments import utc_text

NAMED: Final = 8
"""Masters that a sentence names; of more it gives the number."""


def departure(member: BrokerMember) -> str:
    """
    Return how a process left; empty where nobody knows.

    >>> departure(BrokerMember("c", "broker-a", 0, "a:1", 0, 0, "stopped", 1_500))
    'It was stopped in order at 1970-01-01 00:00:01 UTC.'
    """
    if member.left == "stopped" and member.left_ms is not None:
        return f"It was stopped in order at {utc_text(member.left_ms)}."
    if member.left == "vanished":
        return "It was not stopped in order: it died, or it cannot reach its registries."
    return ""


def effect(status: MemberStatus, statuses: Sequence[MemberStatus]) -> str:
    """
    Return what works without a process that is missing, and what does not.

    @param statuses: all processes of the cluster.
    """
    member = status.member
    up = [one.member for one in statuses if one.state == "up" and one.member.cluster == member.cluster]
    others = [one for one in up if one.name == member.name]
    if any(one.id == MASTER for one in others):
        slaves = [str(one.id) for one in others if one.id != MASTER]
        if not slaves:
            return "Its master answers: sends and reads go on, and new messages are stored only there."
        return f"Its master and {_slaves(slaves)} answer: sends and reads go on."
    if others:
        slaves_up = _slaves([str(one.id) for one in others])
        found = f"Its messages can be read at {slaves_up}; nothing can be stored."
        if not status.routed:
            found = (
                f"The registries do not know the topics of {slaves_up}: nobody finds its messages, and nothing can be"
                " stored."
            )
    else:
        found = _lost(status.unreachable)
    masters = sorted({one.name for one in up if one.id == MASTER})
    if not masters:
        return f"{found} No master answers: every send fails."
    more = f" and {len(masters) - NAMED:,} more" if len(masters) > NAMED else ""
    return f"{found} Masters that answer: {', '.join(masters[:NAMED])}{more}."


def detail(status: MemberStatus, statuses: Sequence[MemberStatus]) -> str:
    """Return how a process that is missing left, and what works without it."""
    return f"{departure(status.member)} {effect(status, statuses)}".strip()


def _slaves(ids: Sequence[str]) -> str:
    return f"slave {ids[0]}" if len(ids) == 1 else f"slaves {', '.join(ids)}"


def _lost(unreachable: Unreachable | None) -> str:
    if unreachable is None or unreachable.queues is None:
        return f"What it stored is not known, and cannot be reached{_timed(unreachable)}."
    queues = f"{unreachable.queues:,} queue{'' if unreachable.queues == 1 else 's'}"
    if unreachable.messages is None:
        return f"{queues} cannot be reached{_timed(unreachable)}, and what it stored is not known."
    messages = f"{unreachable.messages:,} message{'' if unreachable.messages == 1 else 's'}"
    return f"{messages} and {queues} cannot be reached{_timed(unreachable)}."


def _timed(unreachable: Unreachable | None) -> str:
    """Return the timed messages that cannot be reached, as the end of a sentence; empty for none."""
    count = None if unreachable is None else unreachable.timed
    if not count:
        return ""
    return f", nor {count:,} timed message{' that waits' if count == 1 else 's that wait'} for delivery"
