"""Resource about the integrity of this process's log: the damaged regions that are known, and the scrub."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.ops.interfaces import ILocalNode, IntegrityReport
from smartgo.ops.problems import Problem
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route

_NO_BROKER: Final = {404: "There is no broker in this process, or it has not started."}


class ScrubOrder(msgspec.Struct, rename="camel"):
    """
    The wish that a scrub runs, or ends.

    @ivar running: true begins a scrub if none runs; false ends the one that runs.
    """

    running: bool


class IntegrityApi:
    """Damage in the log, and the scrub."""

    def __init__(self, node: ILocalNode | None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node

    @route(
        "GET", "/process/integrity", scope=READ, answer=IntegrityReport, remote=False, tag="process", refuses=_NO_BROKER
    )
    def integrity(self, call: RouteCall[None, None, None]) -> IntegrityReport:
        """Show the damaged regions of this broker's log, progress of the scrub, and the last result."""
        found = None if self._node is None else self._node.integrity()
        if found is None:
            raise Problem(404, "there is no broker in this process that has started", "no-broker")
        return found

    @route(
        "POST",
        "/process/scrub",
        scope=ADMIN,
        body=ScrubOrder,
        answer=IntegrityReport,
        remote=False,
        tag="process",
        refuses=_NO_BROKER,
    )
    def scrub(self, call: RouteCall[None, None, ScrubOrder]) -> IntegrityReport:
        """Begin a scrub of this broker's log, or end it; does nothing where that is so already."""
        found = None if self._node is None else self._node.scrub(call.body.running)
        if found is None:
            raise Problem(404, "there is no broker in this process that has started", "no-broker")
        return found
