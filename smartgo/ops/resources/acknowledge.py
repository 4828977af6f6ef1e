"""Resources that acknowledge dead letters without sending them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from smartgo.client.internal.deadletterjournal import LetterPlace
from smartgo.ops.problems import Problem
from smartgo.ops.reading.content import MessageId
from smartgo.ops.reading.deadletterreader import DeadLetters
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import GroupPath
from smartgo.ops.resources.send import Outbox
from smartgo.ops.web.partial import Missing
from smartgo.ops.web.routes import PUBLISH, RouteCall, route

_LIMIT: Final = 100_000

AckIds = Annotated[list[MessageId], Meta(min_length=1, max_length=1000)]
AckComment = Annotated[str, Meta(max_length=300, pattern="^[^\\x00-\\x1f\\x7f]*$")]


class AckOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """
    Dead letters to acknowledge: those in C{ids}, or, if that is null, all that are open: neither sent again nor
    acknowledged.

    @ivar comment: why, for others.
    @ivar reopen: take back that those in C{ids} were acknowledged or sent again: somebody has to see to them.
    """

    ids: AckIds | None = None
    comment: AckComment = ""
    reopen: bool = False
    dry_run: bool = False

    def __post_init__(self) -> None:
        """@raise ValueError: all are to be opened again."""
        if self.reopen and self.ids is None:
            raise ValueError("`reopen` needs `ids`")


class AckResult(msgspec.Struct, rename="camel"):
    """
    The result of acknowledging dead letters.

    @ivar count: how many were acknowledged, or opened again; of a dry run, how many would be.
    @ivar left: how many are open still because one request acknowledges at most 100000.
    @ivar not_found: ids without a dead letter.
    """

    count: int
    left: int
    not_found: list[str]
    dry_run: bool


class AcknowledgeApi:
    """Acknowledging of dead letters."""

    def __init__(self, view: ClusterView, outbox: Outbox) -> None:
        self._view = view
        self._outbox = outbox

    @route(
        "POST",
        "/dlq/{name}/acknowledge",
        scope=PUBLISH,
        path_type=GroupPath,
        body=AckOrder,
        answer=AckResult,
        refuses={404: "The group has no dead letters.", 409: "A broker refused."},
    )
    async def acknowledge(self, call: RouteCall[GroupPath, None, AckOrder]) -> AckResult:
        """
        Acknowledge dead letters that need not be sent again: they stay, but no longer count as open.

        Alerts and C{smartgo doctor} count those that are open, and resending all takes only those.
        """
        group, order = call.path.name, call.body
        places, left, missing = await self._places(group, order)
        count = sum(map(len, places.values()))
        if not order.dry_run:
            for broker, letters in places.items():
                await self._outbox.journal().acknowledged(
                    group, call.principal.name, broker, letters, order.comment, order.reopen
                )
        call.noted["count"] = count
        return AckResult(count, left, missing, order.dry_run)

    async def _places(self, group: str, order: AckOrder) -> tuple[dict[str, list[LetterPlace]], int, list[str]]:
        """Return what is meant by broker, how many are left out, and ids that are not there."""
        view = self._view.partial(Missing(), None)
        letters = DeadLetters(view)
        queues = await letters.queues(group)
        if order.ids is not None:
            places, missing = await self._named(letters, group, order.ids)
            return places, 0, missing
        reader = ClusterQueueReader(view)
        await view.journal.refresh(reader, {queue.broker_name for queue in queues})
        found = [
            (span.queue.broker_name, LetterPlace(span.queue.queue_id, offset))
            for span in await reader.spans(queues)
            for offset in view.journal.open_places(group, span)
        ]
        return _by_broker(found[:_LIMIT]), max(0, len(found) - _LIMIT), []

    async def _named(
        self, letters: DeadLetters, group: str, ids: Sequence[str]
    ) -> tuple[dict[str, list[LetterPlace]], list[str]]:
        found: list[tuple[str, LetterPlace]] = []
        missing: list[str] = []
        for name in dict.fromkeys(ids):
            try:
                one = await letters.letter(group, name)
            except Problem as problem:
                if problem.status != 404:
                    raise
                missing.append(name)
            else:
                found.append((one.broker, LetterPlace(one.stored.queue_id, one.stored.queue_offset)))
        return _by_broker(found), missing


def _by_broker(found: Sequence[tuple[str, LetterPlace]]) -> dict[str, list[LetterPlace]]:
    places: dict[str, list[LetterPlace]] = {}
    for broker, letter in found:
        places.setdefault(broker, []).append(letter)
    return places
