"""Why a message did, or did not, reach a group."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from smartgo.ops.content import MessageRow
from smartgo.ops.messages import WhichQuery
from smartgo.ops.names import GroupName

Outcome = Literal["well", "bad", "note", "unknown"]
Verdict = Literal[
    "consumed",
    "waiting",
    "filtered",
    "retrying",
    "dead",
    "skipped",
    "offline",
    "not-subscribed",
    "disabled",
    "no-permission",
    "no-message",
    "no-group",
    "unknown",
]


class ExplainQuery(WhichQuery, kw_only=True):
    """Which message and which group."""

    group: GroupName


class Check(msgspec.Struct, rename="camel"):
    """
    One thing that was looked at.

    @ivar name: C{message}, C{permission}, C{group}, C{enabled}, C{members}, C{subscription}, C{filter}, C{position},
        C{retry}, C{dead}; in this order.
    @ivar outcome: C{bad} keeps the message from the group; C{note} is worth to be known.
    @ivar detail: one sentence.
    @ivar facts: what was found, by name.
    """

    name: str
    outcome: Outcome
    detail: str
    facts: dict[str, Any]


class Explanation(msgspec.Struct, rename="camel"):
    """
    Why a message did, or did not, reach a group.

    @ivar verdict: C{consumed}: the group is past it; C{waiting}: it is before it; C{filtered}: the group's
        subscription leaves it out; C{retrying}: it was given back and will come again; C{dead}: it was given back too
        often; C{skipped}: the group is past it, but never had it; C{offline}, C{not-subscribed}, C{disabled},
        C{no-permission}: so the group gets nothing.
    @ivar summary: the same in one sentence.
    @ivar message: null where it was not found.
    """

    verdict: Verdict
    summary: str
    message: MessageRow | None
    checks: list[Check]
