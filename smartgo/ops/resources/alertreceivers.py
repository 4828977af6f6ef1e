"""Resources about the receivers of alert notices: state of delivery, and a test."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from smartgo.config.receivers import ReceiverKind
from smartgo.env.interfaces import IClock
from smartgo.ops.alerts.notices import NoticeQueue
from smartgo.ops.alerts.notifier import AlertNotifier, TestResult
from smartgo.ops.alerts.rules import Severity
from smartgo.ops.problems import Problem
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route


class ReceiverRow(msgspec.Struct, rename="camel"):
    """
    One receiver of alert notices, without its secrets.

    @ivar severity: the least severity that it gets.
    @ivar resolved: whether it is told that an alert is resolved.
    @ivar state: of the last message: C{delivered}, C{failed}, or C{unused} if there was none.
    @ivar pending: notices that are not delivered yet.
    @ivar next_ms: when the next message is due; null: none waits.
    @ivar last_sent_ms: when it took a message for the last time; null: never.
    @ivar last_error: why the last attempt failed; empty after one that did not. C{last_error_ms} is when.
    @ivar sent: messages that it took since the start.
    @ivar failed: attempts that failed since the start.
    @ivar dropped: notices that were given up since the start.
    """

    name: str
    kind: ReceiverKind
    severity: Severity
    resolved: bool
    state: Literal["delivered", "failed", "unused"]
    pending: int
    next_ms: int | None
    last_sent_ms: int | None
    last_error: str
    last_error_ms: int | None
    sent: int
    failed: int
    dropped: int


ReceiverName = Annotated[
    str,
    Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="The receiver's name."),
]


class ReceiverPath(msgspec.Struct):
    """One receiver."""

    name: ReceiverName


class AlertReceiversApi:
    """Receivers of alert notices."""

    def __init__(self, clock: IClock, notifier: AlertNotifier) -> None:
        self._clock = clock
        self._notifier = notifier

    @route("GET", "/alerts/receivers", scope=READ, answer=list[ReceiverRow], remote=False)
    def receivers(self, call: RouteCall[None, None, None]) -> list[ReceiverRow]:
        """List the receivers of alert notices and the state of delivery, in the order of the settings."""
        return [self._row(name, queue) for name, queue in self._notifier.queues.items()]

    def _row(self, name: str, queue: NoticeQueue) -> ReceiverRow:
        receiver, counts, due = queue.receiver, queue.counts, queue.next_at
        wait = None if due is None else max(0.0, due - self._clock.seconds())
        return ReceiverRow(
            name,
            receiver.kind,
            receiver.severity,
            receiver.resolved,
            "failed" if queue.last_error else "unused" if queue.last_sent_ms is None else "delivered",
            queue.pending,
            None if wait is None else self._clock.wall_ms() + round(wait * 1000),
            queue.last_sent_ms,
            queue.last_error,
            queue.last_error_ms,
            counts.sent,
            counts.failed,
            counts.dropped,
        )

    @route(
        "POST",
        "/alerts/receivers/{name}/test",
        scope=ADMIN,
        path_type=ReceiverPath,
        answer=TestResult,
        remote=False,
        refuses={404: "There is no such receiver."},
    )
    async def test(self, call: RouteCall[ReceiverPath, None, None]) -> TestResult:
        """Send a test message to a receiver at once, and answer with what it said."""
        if call.path.name not in self._notifier.queues:
            raise Problem(404, f"there is no receiver {call.path.name}", "receiver-not-found")
        result = await self._notifier.test(call.path.name)
        call.noted["delivered"] = result.delivered
        return result
