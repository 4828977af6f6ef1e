"""Plans of offset resets, kept in a file: a plan can be applied later, an applied plan can be undone."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from smartgo.client.administration.resetplan import Applied, ResetPlan
from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadBody
from smartgo.ops.problems import Problem, not_kept
from smartgo.tablefile import TableFile

PLANNED_MS: Final = 3_600_000
"""How long a plan can be applied."""
DONE_MS: Final = 7 * 86_400_000
"""How long it can be undone."""
KEPT: Final = 200
"""Plans at most; the oldest are forgotten."""
MOVES: Final = 100_000
"""Queues of all plans together, at most."""

State = Literal["planned", "applied", "undone", "failed"]


class Plan(msgspec.Struct):
    """
    One plan.

    @ivar to, value: where to, as it was asked for.
    @ivar who: the name of who made it.
    @ivar expires_ms: when it is forgotten, wall clock.
    @ivar written: brokers where positions were written, C{told} whose members were told.
    """

    id: str
    to: str
    value: int
    who: str
    plan: ResetPlan
    state: State
    expires_ms: int
    applied_ms: int | None = None
    undone_ms: int | None = None
    written: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    error: str | None = None


class _Content(msgspec.Struct):
    plans: list[Plan]


class PlanTable:
    """All plans. Called on the reactor thread."""

    def __init__(self, env: IEnvironment, file: TableFile) -> None:
        self._env = env
        self._file = file
        self._plans: dict[str, Plan] = {}
        self._busy: set[str] = set()

    def load(self) -> None:
        """Read the saved plans; blocking. @raise BrokenTable: the file cannot be read."""
        content = self._file.load(_read)
        if content is not None:
            self._plans = {one.id: one for one in content.plans}

    def all(self) -> list[Plan]:
        """Return all of them, the oldest first."""
        self._sweep()
        return list(self._plans.values())

    def get(self, id: str) -> Plan:
        """Return a plan. @raise Problem: 404, there is none, or it has expired."""
        self._sweep()
        found = self._plans.get(id)
        if found is None:
            raise Problem(404, f"there is no plan {id}, or it has expired", "plan-not-found")
        return found

    def take(self, id: str, *states: State) -> Plan:
        """
        Return one in a state, for something to be done with it; nobody else gets it until L{ended} or L{release}.

        @raise Problem: 404, there is none; 409, it is in another state, or being worked at.
        """
        found = self.get(id)
        if found.state not in states or id in self._busy:
            state = "being worked at" if id in self._busy else found.state
            raise Problem(409, f"plan {id} is {state}", "plan-state")
        self._busy.add(id)
        return found

    def release(self, kept: Plan) -> None:
        """Release a plan that L{take} reserved, unchanged."""
        self._busy.discard(kept.id)

    async def add(self, who: str, to: str, value: int, plan: ResetPlan) -> Plan:
        """
        Save a new plan.

        @raise Problem: 409, it moves too many queues to be kept; 507, it could not be written, and is not there.
        """
        if len(plan.moves) > MOVES:
            raise Problem(409, f"more than {MOVES} queues at once; name some of them", "too-many-queues")
        expires_ms = self._env.clock.wall_ms() + PLANNED_MS
        kept = Plan(self._env.random.token(8).hex(), to, value, who, plan, "planned", expires_ms)
        self._plans[kept.id] = kept
        self._sweep()
        try:
            await self._save()
        except OSError as error:
            self._plans.pop(kept.id, None)
            raise not_kept(error, self._file.path, "nothing was moved") from None
        return kept

    async def ended(self, kept: Plan, state: State, applied: Applied | None = None, error: str | None = None) -> None:
        """
        Record the outcome of a plan.

        @raise Problem: 507, that could not be written: it is known until the process ends alone.
        """
        self._busy.discard(kept.id)
        now = self._env.clock.wall_ms()
        kept.state = state
        kept.error = error
        kept.expires_ms = now + DONE_MS
        if state == "undone":
            kept.undone_ms = now
        else:
            kept.applied_ms = now
        if applied is not None:
            kept.written, kept.told = applied.written, applied.told
        try:
            await self._save()
        except OSError as failure:
            done = f"plan {kept.id} is {state}, which is known until the process ends alone"
            raise not_kept(failure, self._file.path, done) from None

    async def delete(self, id: str) -> None:
        """Forget one. @raise Problem: 404, there is none; 409, it is being worked at; 507, it could not be written."""
        found = self.get(id)
        if id in self._busy:
            raise Problem(409, f"plan {id} is being applied or undone", "plan-state")
        del self._plans[id]
        try:
            await self._save()
        except OSError as error:
            self._plans = dict(sorted({**self._plans, id: found}.items(), key=lambda one: one[1].plan.made_ms))
            raise not_kept(error, self._file.path) from None

    def _sweep(self) -> None:
        now = self._env.clock.wall_ms()
        moves = 0
        for number, one in enumerate(reversed(list(self._plans.values()))):
            moves += len(one.plan.moves)
            over = number >= KEPT or moves > MOVES or one.expires_ms <= now
            if over and one.id not in self._busy:
                del self._plans[one.id]

    async def _save(self) -> None:
        await self._file.save(_Content(list(self._plans.values())))


def _read(data: bytes) -> _Content:
    try:
        return msgspec.json.decode(data, type=_Content)
    except msgspec.MsgspecError as error:
        raise BadBody(f"it holds no plans: {error}") from None
