"""The rights of an account of access control for one topic or one group, so that nobody has to try them."""

from __future__ import annotations

import msgspec

from smartgo.ops.resources.names import GroupName, TopicName
from smartgo.ops.security.requestguard import RequestGuard
from smartgo.ops.web.routes import RouteCall, route


class RightsQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A topic, a group, or both."""

    topic: TopicName | None = None
    group: GroupName | None = None


class RightView(msgspec.Struct):
    """
    One route.

    @ivar path: as the OpenAPI document has it.
    @ivar reason: why it is allowed or refused, in words.
    """

    method: str
    path: str
    allowed: bool
    reason: str


class RightsView(msgspec.Struct):
    """
    The rights of the sender.

    @ivar items: empty for a sender whose scopes say what is allowed.
    """

    items: list[RightView]


class RightsApi:
    """Rights."""

    def __init__(self, guard: RequestGuard) -> None:
        self._guard = guard

    @route("GET", "/session/rights", scope=None, query=RightsQuery, answer=RightsView, remote=False)
    def rights(self, call: RouteCall[None, RightsQuery, None]) -> RightsView:
        """Tell which routes the account of the request may use for a topic or a group, and why it may not."""
        query = call.query
        found = self._guard.rights(call.principal, query.topic or "", query.group or "", call.address)
        return RightsView([RightView(*one) for one in found] if call.principal.limited else [])
