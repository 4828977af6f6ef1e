"""Resources that reset the offsets of consumer groups: plan, apply, undo."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from twisted.internet.defer import CancelledError

from smartgo.client.administration.resetplan import Move, ResetPlan, ResetTarget
from smartgo.errors import CallFailed, SettingError
from smartgo.ops.problems import UNKEPT, Problem
from smartgo.ops.reading.content import QueueId, QueueOffset
from smartgo.ops.reading.plans import Plan, PlanTable, State
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerName, GroupName, TopicName
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.partial import MissingBroker
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route

_GONE: Final = {404: "There is no such plan, or it has expired."}
_UNKEPT: Final = {507: "The plan could not be written to disk; the detail says whether anything was moved."}


class QueueTarget(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """One queue to reset; C{offset} is the new offset if C{to} is C{explicit}."""

    broker: BrokerName
    queue_id: QueueId
    offset: QueueOffset | None = None


ResetOrderValue = Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]
ResetOrderQueues = Annotated[list[QueueTarget], Meta(min_length=1, max_length=1024)]


class ResetOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    New offsets of a group in a topic.

    @ivar to: its C{earliest} or C{latest} message; the first one stored at a C{time} or later; an C{offset}, the same
        in each queue; C{shift}: so many messages on, or back if negative; C{explicit}: each queue's own offset.
    @ivar value: the time (wall clock, ms), the offset, or the shift.
    @ivar queues: only these; null for all.
    @ivar dry_run: only make the plan; it can be applied later.
    """

    group: GroupName
    topic: TopicName
    to: Literal["earliest", "latest", "time", "offset", "shift", "explicit"]
    value: ResetOrderValue = 0
    queues: ResetOrderQueues | None = None
    dry_run: bool = False


class MoveView(msgspec.Struct, rename="camel"):
    """
    One queue of a plan.

    @ivar before: the group's offset before; null if it has none.
    @ivar after: the new offset.
    @ivar minimum: the offset of the oldest message, C{maximum} that of the next message.
    @ivar skipped: messages that the group will not receive; C{repeated}: messages that it will receive again.
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
    @ivar state: C{failed}: it may have been applied in part.
    @ivar who: who created it.
    @ivar expires_ms: when it expires: a plan that was not applied after an hour, others after seven days.
    @ivar members: clients that were connected for the group.
    @ivar queues: the number of queues.
    @ivar skipped, repeated: messages, over all queues.
    @ivar undoable: whether it can be undone: it was applied and the group had offsets before.
    @ivar error: why it failed.
    @ivar new_group: whether the group did not exist when the plan was made: the plan creates it.
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
    new_group: bool


class PlanView(PlanRow):
    """
    One plan with its queues.

    @ivar written: brokers where offsets were written; C{told}: brokers whose members were notified.
    @ivar missing: brokers whose queues are not in the plan, as none of their processes is registered.
    """

    moves: list[MoveView]
    written: list[str]
    told: list[str]
    missing: list[MissingBroker] = []


PlanId = Annotated[str, Meta(pattern="^[0-9a-f]{16}$", description="The plan's id.")]


class PlanPath(msgspec.Struct):
    """One plan."""

    id: PlanId


class OffsetsApi:
    """Offset resets and their plans."""

    def __init__(self, view: ClusterView, plans: PlanTable) -> None:
        self._view = view
        self._plans = plans

    @route(
        "POST",
        "/offsets/reset",
        scope=ADMIN,
        body=ResetOrder,
        answer=PlanView,
        refuses={
            404: "There is no such group, topic or queue.",
            409: "A broker refused, or does not support this.",
            **_UNKEPT,
        },
    )
    async def reset(self, call: RouteCall[None, None, ResetOrder]) -> PlanView:
        """
        Reset the offsets of a group in a topic; the plan is kept for an undo. With `dryRun` only the plan is made.

        Brokers notify connected members, which continue at the new offsets within seconds.
        """
        order = call.body
        _check(order)
        await self._view.group(order.group)
        await self._check_queues(order)
        only = None if order.queues is None else {one.broker for one in order.queues}
        await self._view.note_unreached(call.missing, only)
        plan = await self._planned(order)
        kept = await self._plans.add(call.principal.name, order.to, order.value, plan)
        call.noted["plan"] = kept.id
        if not order.dry_run:
            await self._run(self._plans.take(kept.id, "planned"), plan, "applied")
        return _view(kept)

    async def skip_all(self, group: str, topic: str, who: str | None) -> tuple[ResetPlan, str | None, str | None]:
        """
        Move a group behind the last message of each queue of a topic.

        @param who: who asked for it; C{None}: only make the plan, and keep nothing. Nor where it would skip nothing.
        @return: the plan; its id for an undo, C{None} where it is not kept; why it was not applied, or not in whole.
        @raise CallFailed: the plan could not be made. @raise Problem: it could not be kept.
        """
        plan: ResetPlan = await self._view.admin.positions.plan(group, topic, ResetTarget("latest"))
        if who is None or not any(one.change > 0 for one in plan.moves):
            return plan, None, None
        kept = await self._plans.add(who, "latest", 0, plan)
        try:
            await self._run(self._plans.take(kept.id, "planned"), plan, "applied")
        except (CallFailed, Problem) as error:
            return plan, kept.id, str(error)
        return plan, kept.id, None

    async def _check_queues(self, order: ResetOrder) -> None:
        there = {(one.broker_name, one.queue_id) for one in await ClusterQueueReader(self._view).queues(order.topic)}
        for one in order.queues or ():
            if (one.broker, one.queue_id) not in there:
                where = f"topic {order.topic} has no queue {one.queue_id} to read at broker {one.broker}"
                raise Problem(404, where, "queue-not-found")

    async def _planned(self, order: ResetOrder) -> ResetPlan:
        queues = None if order.queues is None else [(one.broker, one.queue_id) for one in order.queues]
        positions = self._view.admin.positions
        if order.to != "explicit":
            return await positions.plan(order.group, order.topic, ResetTarget(order.to, order.value), queues)
        offsets = {(one.broker, one.queue_id): one.offset or 0 for one in order.queues or ()}
        return await positions.plan_to(order.group, order.topic, offsets)

    async def _run(self, kept: Plan, plan: ResetPlan, state: State) -> None:
        """Apply a plan and record the outcome."""
        try:
            applied = await self._view.admin.positions.apply(plan)
        except (CallFailed, SettingError, CancelledError) as error:
            await self._plans.ended(kept, "failed", error=str(error) or "it took too long")
            if isinstance(error, SettingError):
                raise Problem(409, str(error), "queue-gone") from None
            if type(error) is CallFailed:  # it answers, and is too old for this
                raise Problem(409, str(error), "cannot-move") from None
            raise
        finally:
            self._view.forget()
        await self._plans.ended(kept, state, applied)

    # -- plans -------------------------------------------------------------------------------------------------

    @route("GET", "/offsets/plans", scope=READ, query=ListQuery, answer=Page[PlanRow], remote=False)
    def list(self, call: RouteCall[None, ListQuery, None]) -> Page[PlanRow]:
        """List offset plans, newest first; sorted by madeMs, group, topic or state."""
        rows = [PlanRow(**_members(one)) for one in self._plans.all()]
        return page_of(rows, call.query, _SORTS, lambda one: f"{one.group} {one.topic} {one.id}", "-madeMs")

    @route("GET", "/offsets/plans/{id}", scope=READ, path_type=PlanPath, answer=PlanView, remote=False, refuses=_GONE)
    def show(self, call: RouteCall[PlanPath, None, None]) -> PlanView:
        """Show a plan, queue by queue."""
        return _view(self._plans.get(call.path.id))

    @route(
        "POST",
        "/offsets/plans/{id}/apply",
        scope=ADMIN,
        path_type=PlanPath,
        answer=PlanView,
        refuses={**_GONE, 409: "The plan was applied already, or a broker refused.", **_UNKEPT},
    )
    async def apply(self, call: RouteCall[PlanPath, None, None]) -> PlanView:
        """
        Apply a plan: set the offset of each queue as planned.

        `before`, which an undo restores, is set to the offsets at the time of this call; they may be past those at
        planning.
        """
        kept = self._plans.take(call.path.id, "planned")
        try:
            if kept.plan.target is not None:  # it is about all queues of the topic
                await self._view.note_unreached(call.missing)
            kept.plan = await self._view.admin.positions.from_here(kept.plan)
        finally:
            self._plans.release(kept)
        await self._run(self._plans.take(kept.id, "planned"), kept.plan, "applied")
        return _view(kept)

    @route(
        "POST",
        "/offsets/plans/{id}/undo",
        scope=ADMIN,
        path_type=PlanPath,
        answer=PlanView,
        refuses={
            **_GONE,
            409: "The plan was not applied, the group had no offsets before, or a broker refused.",
            **_UNKEPT,
        },
    )
    async def undo(self, call: RouteCall[PlanPath, None, None]) -> PlanView:
        """
        Undo a plan: set the group's offsets back to those before the plan was applied.

        Queues where the group had no offset keep the new one.
        """
        kept = self._plans.take(call.path.id, "applied", "failed")
        offsets = _before(kept.plan)
        try:
            if not offsets:
                raise Problem(409, "the plan changed no offset that the group had before", "not-undoable")
            back = await self._view.admin.positions.plan_to(kept.plan.group, kept.plan.topic, offsets)
        except SettingError as error:
            raise Problem(409, str(error), "queue-gone") from None
        finally:
            self._plans.release(kept)
        await self._run(self._plans.take(kept.id, "applied", "failed"), back, "undone")
        return _view(kept)

    @route("DELETE", "/offsets/plans/{id}", scope=ADMIN, path_type=PlanPath, remote=False, refuses={**_GONE, **UNKEPT})
    async def delete(self, call: RouteCall[PlanPath, None, None]) -> None:
        """Delete a plan; its effects stay."""
        await self._plans.delete(call.path.id)


def _check(order: ResetOrder) -> None:
    """Check that an order gives a target. @raise Problem: 400."""
    if order.to in ("time", "offset") and order.value < 0:
        raise Problem(400, f"{order.to} must not be negative", "invalid-value")
    if order.to == "explicit" and (order.queues is None or any(one.offset is None for one in order.queues)):
        raise Problem(400, "list the queues, each with its offset", "invalid-value")
    if order.to != "explicit" and any(one.offset is not None for one in order.queues or ()):
        raise Problem(400, "give `offset` for a queue only if `to` is `explicit`", "invalid-value")
    queues = [(one.broker, one.queue_id) for one in order.queues or ()]
    if len(set(queues)) != len(queues):
        raise Problem(400, "a queue is listed twice", "invalid-value")


def _members(kept: Plan) -> dict[str, Any]:
    plan = kept.plan
    return {
        "id": kept.id,
        "group": plan.group,
        "topic": plan.topic,
        "to": kept.to,
        "value": kept.value,
        "state": kept.state,
        "who": kept.who,
        "made_ms": plan.made_ms,
        "applied_ms": kept.applied_ms,
        "undone_ms": kept.undone_ms,
        "expires_ms": kept.expires_ms,
        "members": plan.members,
        "queues": sum(one.before != one.after for one in plan.moves),
        "skipped": sum(max(0, _change(one)) for one in plan.moves),
        "repeated": sum(max(0, -_change(one)) for one in plan.moves),
        "undoable": kept.state in ("applied", "failed") and bool(_before(plan)),
        "error": kept.error,
        "new_group": plan.new_group,
    }


def _view(kept: Plan) -> PlanView:
    moves = [
        MoveView(
            one.broker,
            one.queue_id,
            one.before,
            one.after,
            one.minimum,
            one.maximum,
            max(0, _change(one)),
            max(0, -_change(one)),
        )
        for one in kept.plan.moves
    ]
    return PlanView(**_members(kept), moves=moves, written=[*kept.written], told=[*kept.told])


def _before(plan: ResetPlan) -> dict[tuple[str, int], int]:
    """Return the previous offsets of the queues that the plan changed."""
    return {
        (one.broker, one.queue_id): one.before
        for one in plan.moves
        if one.before is not None and one.before != one.after
    }


def _change(one: Move) -> int:
    return 0 if one.before == one.after else one.change


_SORTS: Final = {
    "madeMs": lambda one: one.made_ms,
    "group": lambda one: one.group,
    "topic": lambda one: one.topic,
    "state": lambda one: one.state,
}
