"""The plan of a reset of a group's offsets: where each queue is moved, and how that is undone. Sans I/O."""

from __future__ import annotations

from typing import Literal

import msgspec

from smartgo.errors import BadBody


class ResetTarget(msgspec.Struct, frozen=True):
    """
    The place that the offsets of a group are reset to.

    @ivar kind: the C{earliest} or C{latest} message; the first one stored at a C{time} or after; an C{offset}, the same
        in each queue; or a C{shift} by a number of messages, backwards if negative.
    @ivar value: the time (wall clock, in ms), the offset, or the shift.
    """

    kind: Literal["earliest", "latest", "time", "offset", "shift"]
    value: int = 0


class Move(msgspec.Struct, frozen=True):
    """
    The change of one queue in a plan.

    @ivar before: the group's offset; C{None} if it has none.
    @ivar after: the new offset, which is within the bounds of the queue.
    @ivar minimum: the offset of the first message in the queue; C{maximum} is that of the next to come.
    """

    broker: str
    queue_id: int
    before: int | None
    after: int
    minimum: int
    maximum: int

    @property
    def change(self) -> int:
        """The number of messages that will be redelivered (negative) or skipped (positive)."""
        return self.after - (self.minimum if self.before is None else max(self.before, self.minimum))


class ResetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """
    A plan of an offset reset of a group in one topic; a plan alone changes nothing.

    @ivar target: the place; C{None} if each queue has its own.
    @ivar made_ms: when the plan was made, wall clock in ms; the bounds of the queues are of that moment.
    @ivar members: the number of clients that were connected for the group.
    @ivar moves: the change of each queue.
    @ivar new_group: whether no broker knew the group: the plan creates it.
    """

    group: str
    topic: str
    target: ResetTarget | None
    made_ms: int
    members: int
    moves: tuple[Move, ...]
    new_group: bool = False

    def undone(self) -> ResetPlan:
        """Return the plan that restores the previous offsets. Queues without a previous offset keep the new one."""
        moves = tuple(
            msgspec.structs.replace(one, before=one.after, after=one.before)
            for one in self.moves
            if one.before is not None
        )
        return msgspec.structs.replace(self, target=None, moves=moves)

    def encode(self) -> bytes:
        """Return the plan as JSON, to be saved for L{undone}."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> ResetPlan:
        """Read what L{encode} wrote. @raise BadBody: it is something else."""
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise BadBody(f"not a plan: {error}") from None


class Applied(msgspec.Struct, frozen=True):
    """
    The outcome of a plan, by broker name.

    @ivar written: the brokers that wrote the offsets themselves.
    @ivar told: the brokers that told the members, which continue at the new offsets within seconds (Java's wait ten).
    """

    written: tuple[str, ...]
    told: tuple[str, ...]
