"""Resources of transactions: which are undecided, which were given up, and to have one checked back again."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from smartgo.client.administration.transactions import TransactionSelection
from smartgo.errors import NoSuchMessage, PeerRefused
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import TransactionEntry

LIMIT: Final = 1000
"""Transactions of one broker that a list is made of."""

State = Literal["pending", "givenUp", "committed", "rolledBack", "unknown"]
TransactionId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=255,
        pattern="^[!-.0-~]+$",
        description="A transaction's id (UNIQ_KEY), or the offset id of a half message.",
    ),
]
WantedState = Annotated[
    Literal["pending", "givenUp"],
    Meta(description="`givenUp`: what is in TRANS_CHECK_MAX_TIME_TOPIC, decided meanwhile or not."),
]
OfGroup = Annotated[str, Meta(max_length=255, description="Only those of one producer group.")]
OfTopic = Annotated[str, Meta(max_length=127, description="Only those for one topic.")]


class TransactionPath(msgspec.Struct):
    """One transaction."""

    id: TransactionId


class TransactionsQuery(ListQuery, kw_only=True):
    """Filters of transactions; C{q} is searched in id, group and topic."""

    state: WantedState = "pending"
    group: OfGroup = ""
    topic: OfTopic = ""


class TransactionRow(msgspec.Struct, rename="camel"):
    """
    One transaction.

    @ivar id: UNIQ_KEY of its message; empty without one.
    @ivar state: C{givenUp}: it is checked back no more, and can be resumed; C{unknown}: that is not remembered.
    @ivar group: of its producer; C{topic}: where a commit puts its message.
    @ivar offset_id: of the latest copy of its half message, or of the message in TRANS_CHECK_MAX_TIME_TOPIC.
    @ivar queue_offset: of that copy in its queue.
    @ivar born_ms: when its producer made it, by the producer's clock.
    @ivar given_up_ms: when it was given up, by the broker's clock; null: it was not.
    @ivar checks: check-backs so far; C{check_limit}: how many there are at most (transactionCheckMax).
    @ivar first_check_ms: age at which it is checked back first: its own immunity, or transactionTimeOut.
    @ivar producers: connected members of the group: without one nobody can be asked.
    """

    id: str
    state: State
    broker: str
    group: str
    topic: str
    offset_id: str
    queue_offset: int
    born_ms: int
    given_up_ms: int | None
    checks: int
    check_limit: int
    first_check_ms: int
    producers: int


class TransactionPage(Page[TransactionRow], rename="camel"):
    """
    One page of transactions.

    @ivar pending: undecided transactions of all groups and topics.
    @ivar given_up: messages in TRANS_CHECK_MAX_TIME_TOPIC.
    @ivar truncated: a broker has more than those that were read: C{total} counts what was read.
    """

    pending: int = 0
    given_up: int = 0
    truncated: bool = False


class ResumedTransaction(msgspec.Struct, rename="camel"):
    """A transaction that is checked back again from the beginning; C{offset_id}: by which that was asked for."""

    id: str
    broker: str
    offset_id: str


class TransactionsApi:
    """Transactions."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route("GET", "/transactions", scope=READ, query=TransactionsQuery, answer=TransactionPage)
    async def transactions(self, call: RouteCall[None, TransactionsQuery, None]) -> TransactionPage:
        """
        List transactions: undecided ones, or what was given up; sorted by bornMs, checks, group, topic, broker or id.

        Of each broker the first 1,000 are read: undecided ones with the oldest copy first, given up ones newest first.
        Brokers of RocketMQ do not tell them.
        """
        query = call.query
        wanted = TransactionSelection(query.state == "givenUp", query.group, query.topic, LIMIT)
        told = await self._view.partial(call.missing).admin.transactions.list(wanted)
        rows = [
            _row(name, one, broker.table.limit, broker.table.first)
            for name, broker in told.items()
            for one in broker.rows
        ]
        page = page_of(rows, query, _SORTS, lambda one: f"{one.id} {one.group} {one.topic} {one.offset_id}", "bornMs")
        return TransactionPage(
            page.items,
            page.total,
            page.next,
            pending=sum(one.table.pending for one in told.values()),
            given_up=sum(one.table.given_up for one in told.values()),
            truncated=any(one.more for one in told.values()),
        )

    @route(
        "GET",
        "/transactions/{id}",
        scope=READ,
        path_type=TransactionPath,
        answer=TransactionPage,
        refuses={404: "No broker knows such a transaction."},
    )
    async def transaction(self, call: RouteCall[TransactionPath, None, None]) -> TransactionPage:
        """Show a transaction by its id, or by the offset id of a half message; brokers may each have one of that id."""
        wanted = call.path.id
        try:
            found = await self._view.partial(call.missing).admin.transactions.find(wanted)
        except NoSuchMessage:
            raise call.missing.absent(f"transaction {wanted}", "transaction-not-found") from None
        rows = [_row(name, one, told.limit, told.first) for name, told in found.items() for one in told.rows]
        return TransactionPage(
            rows,
            len(rows),
            pending=sum(told.pending for told in found.values()),
            given_up=sum(told.given_up for told in found.values()),
        )

    @route(
        "POST",
        "/transactions/{id}/resume",
        scope=ADMIN,
        path_type=TransactionPath,
        answer=ResumedTransaction,
        refuses={
            404: "No broker knows such a transaction.",
            409: "It was not given up, or is decided or checked again meanwhile.",
        },
    )
    async def resume(self, call: RouteCall[TransactionPath, None, None]) -> ResumedTransaction:
        """Have a transaction that was given up checked back again, from the beginning."""
        wanted = call.path.id
        try:
            broker, row = await self._view.admin.transactions.resume(wanted)
        except NoSuchMessage:
            raise Problem(404, f"there is no transaction {wanted}", "transaction-not-found") from None
        except PeerRefused as error:
            raise Problem(409, error.remark, "not-given-up") from None
        call.noted["broker"] = broker
        return ResumedTransaction(row.id, broker, row.offset_id)


def _row(broker: str, one: TransactionEntry, limit: int, first: float) -> TransactionRow:
    state: State = one.state if one.state in _STATES else "unknown"  # type: ignore[assignment]
    return TransactionRow(
        one.id,
        state,
        broker,
        one.group,
        one.topic,
        one.offset_id,
        one.queue_offset,
        one.born,
        one.given_up or None,
        one.checks,
        limit,
        round(first * 1000) if one.immunity < 0 else one.immunity,
        one.producers,
    )


_STATES: Final = ("pending", "givenUp", "committed", "rolledBack", "unknown")
_SORTS: Final = {
    "bornMs": lambda one: one.born_ms,
    "checks": lambda one: one.checks,
    "group": lambda one: one.group,
    "topic": lambda one: one.topic,
    "broker": lambda one: one.broker,
    "id": lambda one: one.id,
}
