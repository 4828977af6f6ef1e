"""The resource that takes members which are missing out of service."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from smartgo.ops.membership.members import ProcessState, Unreachable
from smartgo.ops.membership.memory import Forgotten
from smartgo.ops.problems import UNKEPT
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerId, BrokerPath
from smartgo.ops.web.routes import ADMIN, RouteCall, route

_REFUSES: Final = {
    404: "There is no such broker.",
    409: "The broker is registered: only one that is missing can be taken out of service.",
    **UNKEPT,
}
ForgetDryRun = Annotated[bool, Meta(description="Only show what would be forgotten.")]


class ForgetQuery(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    The processes of a broker that are taken out of service.

    @ivar id: only this process; null: all that are missing.
    """

    id: BrokerId = None
    dry_run: ForgetDryRun = False


class ForgottenMember(msgspec.Struct, rename="camel"):
    """
    One process that is no longer remembered.

    @ivar last_seen_ms: when it was last registered, answered, or unregistered, wall clock.
    """

    cluster: str
    name: str
    id: int
    address: str
    last_seen_ms: int


class StayingMember(msgspec.Struct, rename="camel"):
    """One process of the broker that stays in service."""

    cluster: str
    name: str
    id: int
    address: str
    state: ProcessState


class ForgottenMembers(msgspec.Struct, rename="camel"):
    """
    The members that were taken out of service, or would be.

    @ivar unreachable: what was called unreachable, and is no longer mentioned anywhere; null if a part of the broker
        is still there.
    @ivar staying: the processes of the broker that stay in service. If no master is among them the broker has none and
        stores nothing: its C{brokerState} is C{no-master}, and the alert C{master-missing} goes on.
    """

    dry_run: bool
    members: list[ForgottenMember]
    unreachable: Unreachable | None
    staying: list[StayingMember] = []


class MembersApi:
    """Members that are missing."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route(
        "DELETE",
        "/brokers/{name}",
        scope=ADMIN,
        path_type=BrokerPath,
        query=ForgetQuery,
        answer=ForgottenMembers,
        refuses=_REFUSES,
    )
    async def forget(self, call: RouteCall[BrokerPath, ForgetQuery, None]) -> ForgottenMembers:
        """
        Take a missing broker out of service: it is no longer expected, and nobody is told any more that it is missing.

        Its files are not touched. One that registers again is a member again. With C{dryRun} nothing is changed; the
        answer shows what would be forgotten.
        """
        self._view.brokers.forget()
        await self._view.brokers.get()
        memory, name = self._view.membership, call.path.name
        if call.query.dry_run:
            found = memory.missing_of(name, call.query.id)
        else:
            found = await memory.forget(name, call.query.id)
        answer = _answer(call.query.dry_run, found)
        call.noted["before"] = msgspec.to_builtins(answer)
        if not call.query.dry_run:
            self._view.forget()
        return answer


def _answer(dry_run: bool, found: Forgotten) -> ForgottenMembers:
    rows = [ForgottenMember(one.cluster, one.name, one.id, one.address, one.last_seen_ms) for one in found.members]
    staying = [
        StayingMember(one.member.cluster, one.member.name, one.member.id, one.member.address, one.state)
        for one in found.staying
    ]
    return ForgottenMembers(dry_run, rows, found.unreachable, staying)
