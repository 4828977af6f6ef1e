"""Resources that move consumer groups: planned first, then done, and undone from the plan that is kept."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from smartgo.ops.content import QueueId, QueueOffset
from smartgo.ops.names import BrokerName, GroupName, TopicName

State = Literal["planned", "applied", "undone", "failed"]


class QueueTarget(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One queue to be moved; C{offset} says where to, if C{to} is C{explicit}."""

    broker: BrokerName
    queue_id: QueueId
    offset: QueueOffset | None = None


class ResetOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Where to move a group in a topic.

    @ivar to: its C{earliest} or C{latest} message; the first one stored at a C{time} or later; an C{offset}, the same
        in each queue; C{shift}: so many messages on, or back if negative; C{explicit}: each queue's own offset.
    @ivar value: the time (wall clock, ms), the offset, or the shift.
    @ivar queues: these alone; null for all.
    @ivar dry_run: plan it, and do nothing; the plan can be applied later.
    """

    group: GroupName
    topic: TopicName
    to: Literal["earliest", "latest", "time", "offset", "shift", "explicit"]
    value: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)] = 0
    queues: Annotated[list[QueueTarget] | None, Meta(min_length=1, max_length=1024)] = None
    dry_run: bool = False


class MoveView(msgspec.Struct, rename="camel"):
    """
    One queue of a plan.

    @ivar before: where the group stands; null where it has no position.
    @ivar after: where it is to stand.
    @ivar minimum: the offset of the first message there, C{maximum} that of the next to come.
    @ivar skipped: messages that it will not get; C{repeated}: that it will get again.
    """

    broker: str
    queue_id: int
    before: int | None
    after: int
    minimum: int
    maximum: int
    skipped: int
    repeated: int


class PlanRow(msgspec.Struct, rename="camel"):
    """
    One plan.

    @ivar to, value: as in the order.
    @ivar state: C{failed}: a part of it may have been done.
    @ivar who: who made it.
    @ivar expires_ms: when it is forgotten: planned ones after an hour, others after seven days.
    @ivar members: clients that were connected for the group.
    @ivar queues: how many are moved.
    @ivar skipped, repeated: messages, over all queues.
    @ivar undoable: whether it can be undone: it was applied, and the group had positions.
    @ivar error: why it failed.
    """

    id: str
    group: str
    topic: str
    to: str
    value: int
    state: State
    who: str
    made_ms: int
    applied_ms: int | None
    undone_ms: int | None
    expires_ms: int
    members: int
    queues: int
    skipped: int
    repeated: int
    undoable: bool
    error: str | None


class PlanView(PlanRow):
    """
    One plan, whole.

    @ivar written: brokers where positions were written; C{told}: whose members were told.
    """

    moves: list[MoveView]
    written: list[str]
    told: list[str]


class PlanPath(msgspec.Struct):
    """One plan."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="The plan's id.")]
